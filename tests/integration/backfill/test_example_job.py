"""Another job on the same engine: a table with whole numbers as keys, which docs/backfill.md explains."""

import pytest

from schema.backfill import rehearsal, report, survey
from tests.support.article_tags import TABLES, ArticleTags

JOB = ArticleTags()


@pytest.fixture
def articles(cluster):
    cluster.connection.execute(TABLES)
    cluster.connection.execute(
        "INSERT INTO articles (tags) SELECT CASE n % 3 WHEN 0 THEN NULL WHEN 1 THEN 'a, b,a' ELSE 'c,' || n END"
        " FROM generate_series(1, 500) AS n"
    )
    cluster.connection.execute("UPDATE articles SET tags = repeat('x', 21) || ',ok' WHERE id = 100")
    return cluster


def tags(cluster, article):
    rows = cluster.connection.execute("SELECT tag FROM article_tags WHERE article_id = %s ORDER BY 1", (article,))
    return [tag for (tag,) in rows]


def test_run(articles):
    dry = rehearsal.dry_run(articles.connection, JOB)
    assert tags(articles, 1) == []
    outcome = articles.run(JOB, workers=2, chunk_size=100, batch_size=30)
    assert outcome.end == "complete"
    assert outcome.totals == {**dry.totals, "articles": 500}
    assert (outcome.totals["moved"], outcome.totals["rejects"]) == (500, 1)
    assert (tags(articles, 1), tags(articles, 2), tags(articles, 3), tags(articles, 100)) == (
        ["a", "b"],
        ["2", "c"],
        [],
        ["ok"],
    )
    [reject] = report.rejects(articles.connection, JOB.name, show_values=True)
    assert (reject.parent_key, reject.field, reject.raw) == ("100", "tags", "x" * 21)
    assert survey.verify(articles.connection, JOB).failed == 0
    # Chunks of a table with growing keys are cut where the rows are, and the last is open for those that come.
    bounds = articles.connection.execute(
        "SELECT lower, upper, totals ->> 'articles' FROM backfill_chunks ORDER BY number"
    ).fetchall()
    assert bounds == [
        (None, "100", "100"),
        ("100", "200", "100"),
        ("200", "300", "100"),
        ("300", "400", "100"),
        ("400", None, "100"),
    ]


def test_verification_finds_a_difference(articles):
    articles.run(JOB)
    articles.connection.execute("DELETE FROM article_tags WHERE article_id = 1 AND tag = 'a'")
    outcome = articles.run(JOB)
    assert (outcome.end, outcome.totals["mismatches"]) == ("mismatch", 1)
    [finding] = survey.verify(articles.connection, JOB).findings
    assert (finding.check, finding.key, finding.detail) == ("tags", 1, "tag a")


def test_plan(articles):
    assert survey.plan(articles.connection, JOB).counts == {"articles": 500, "tags": 667, "rejects": 1}
    sample = rehearsal.sample(articles.connection, JOB)
    assert (sample.parents, sample.written["moved"]) == (500, 500)
    assert sample.wal_bytes > 10_000
    assert any("Insert on article_tags" in line for line in sample.plans)
    assert articles.connection.execute("SELECT count(*) FROM article_tags").fetchone() == (0,)
