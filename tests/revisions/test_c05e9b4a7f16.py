import psycopg
import pytest

from tests.support.history import Database


def test_bootstrap_script_revisions(database: Database) -> None:
    database.upgrade("27d8f5b0a9e3")
    before = database.catalog()
    database.upgrade("c05e9b4a7f16")
    insert = "INSERT INTO bootstrap_script_revisions (digest, script) VALUES (encode(sha256('x'), 'hex'), 'x')"
    database.run(insert)
    with pytest.raises(psycopg.errors.UniqueViolation, match="uq_bootstrap_script_revisions_digest"):
        database.run(insert)
    assert database.value("SELECT length(digest) FROM bootstrap_script_revisions WHERE created_at <= now()") == 64
    database.downgrade("27d8f5b0a9e3")
    assert database.catalog() == before
