"""A backfill job as docs/backfill.md shows it: tags that an article has in one text get a table of their own."""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from psycopg import Connection

from schema.backfill.job import Finding, Key, Parent, Preview, Row

TABLES = """
CREATE TABLE articles (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tags text, tags_moved boolean);
CREATE TABLE article_tags (
    article_id bigint REFERENCES articles, tag text CHECK (length(tag) <= 20), PRIMARY KEY (article_id, tag));
"""

# What the tags of some articles should be; every statement below starts from it.
_WANTED = """
    WITH wanted AS MATERIALIZED (
        SELECT DISTINCT a.id, trim(t.tag) AS tag, length(trim(t.tag)) > 20 AS too_long
        FROM articles AS a, string_to_table(a.tags, ',') AS t (tag)
        WHERE a.id = ANY(%(keys)s::bigint[]) AND trim(t.tag) <> ''
    )"""

_WRITE = f"""{_WANTED},
    moving AS (
        UPDATE articles SET tags_moved = true WHERE id = ANY(%(keys)s::bigint[]) AND tags_moved IS NOT TRUE RETURNING id
    ),
    new_tag AS (
        INSERT INTO article_tags (article_id, tag)
        SELECT id, tag FROM wanted JOIN moving USING (id) WHERE NOT too_long ORDER BY id, tag
        ON CONFLICT DO NOTHING RETURNING 1
    ),
    new_reject AS (
        INSERT INTO backfill_rejects (run_id, parent_key, field, reason, raw)
        SELECT %(run)s, id::text, 'tags', 'the tag is longer than 20 characters', tag
        FROM wanted JOIN moving USING (id) WHERE too_long RETURNING 1
    )
SELECT (SELECT count(*) FROM moving), (SELECT count(*) FROM new_tag), (SELECT count(*) FROM new_reject)
"""

_PENDING = """
    SELECT id FROM articles
    WHERE tags_moved IS NOT TRUE AND id > coalesce(%(after)s::bigint, -1)
      AND (%(upto)s::bigint IS NULL OR id <= %(upto)s::bigint)
    ORDER BY id LIMIT %(size)s
"""

_VERIFY = f"""{_WANTED},
    found AS (SELECT article_id, tag FROM article_tags WHERE article_id = ANY(%(keys)s::bigint[])),
    fitting AS (SELECT id, tag FROM wanted WHERE NOT too_long)
SELECT 'unmoved', id, NULL, 'tags_moved', true
FROM articles WHERE id = ANY(%(keys)s::bigint[]) AND tags_moved IS NOT TRUE
UNION ALL
SELECT 'tags', id, NULL, 'tag ' || tag, true
FROM ((TABLE fitting EXCEPT TABLE found) UNION (TABLE found EXCEPT TABLE fitting)) AS d
"""


class ArticleTags:
    """One row per article and tag."""

    name: Final = "article_tags"
    parent: Final = Parent(table="articles", key="id", key_type="int8")
    new_tables: Final = ("article_tags",)
    updated_tables: Final = ("articles",)

    def write(self, connection: Connection[Row], run_id: UUID, keys: Sequence[Key]) -> Mapping[str, int]:
        """The engine holds the articles FOR KEY SHARE; their UPDATE locks them, in the same transaction, for more."""
        row = connection.execute(_WRITE, {"keys": keys, "run": run_id}).fetchone()
        assert row is not None
        return dict(zip(("moved", "tags", "rejects"), row, strict=True))

    def pending(self, connection: Connection[Row], after: str | None, upto: str | None, size: int) -> Sequence[Key]:
        return [row[0] for row in connection.execute(_PENDING, {"after": after, "upto": upto, "size": size})]

    def verify(self, connection: Connection[Row], keys: Sequence[Key]) -> Sequence[Finding]:
        return [Finding(*row) for row in connection.execute(_VERIFY, {"keys": keys})]

    def preview(self, connection: Connection[Row], keys: Sequence[Key]) -> Preview:
        counts = "SELECT count(*) FILTER (WHERE NOT too_long), count(*) FILTER (WHERE too_long) FROM wanted"
        row = connection.execute(f"{_WANTED} {counts}", {"keys": keys}).fetchone()
        assert row is not None
        return Preview({"tags": row[0], "rejects": row[1]}, [])

    def explain(self, connection: Connection[Row], run_id: UUID, keys: Sequence[Key]) -> Sequence[str]:
        return [row[0] for row in connection.execute(f"EXPLAIN {_WRITE}", {"keys": keys, "run": run_id})]
