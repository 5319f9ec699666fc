"""A seeded cluster, backfilled and verified by the commands: the rejects are the mistakes that the seed planted."""

import json

import pytest

from schema.cli import run


@pytest.mark.parametrize(("profile", "sessions", "code"), [("eras", 5000, 5), ("clean", 2000, 0)])
def test_rejects_are_the_planted_mistakes(
    head_database: str, capsys: pytest.CaptureFixture[str], profile: str, sessions: int, code: int
) -> None:
    def schemactl(*words: str) -> tuple[int, dict[str, object]]:
        capsys.readouterr()
        ended = run(["-q", "--url", head_database, "--format", "json", *words])
        return ended, json.loads(capsys.readouterr().out)

    assert schemactl("seed", "--sessions", str(sessions), "--profile", profile)[0] == 0
    planted = sessions // 1000 if profile == "eras" else 0

    ended, data = schemactl("backfill")
    totals = data["totals"]
    assert isinstance(totals, dict)
    assert (ended, data["end"], totals["sessions"], totals["rejects"]) == (code, "complete", sessions, planted)
    assert (totals["divergent"] > 0) == (profile == "eras")

    ended, data = schemactl("backfill", "verify")
    assert (ended, data["mismatches"], data["rejects"]) == (code, 0, planted)
