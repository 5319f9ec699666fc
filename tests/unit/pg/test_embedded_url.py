"""The URL of the embedded server, as it is printed for people."""

from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from schema.pg import embedded


def test_psql_reads_the_url_of_a_folder_with_blanks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "ROOT_STATE", tmp_path / "a +b")
    monkeypatch.setattr(embedded, "_SOCKET_PATH_BYTES", 500)
    server = embedded.EmbeddedServer(tmp_path / "a +b")
    assert " +b" in str(server.socket)
    assert conninfo_to_dict(server.status().url)["host"] == str(server.socket)
