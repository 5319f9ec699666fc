"""Reviews made by hand: what the page shows of them is known beforehand."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from schema.migrate.project import Revision
from schema.pg.catalog import Snapshot
from schema.review.accept import Acceptance
from schema.review.facts import Lock, LockMode, Relation, Statement, Trace, Written
from schema.review.finding import Finding, Outcome, Severity, Size
from schema.review.review import Review, Reviewed
from schema.review.rows import Unfilled
from schema.review.rules import RULES

EMPTY = Snapshot("scratch", 180001, {})
RULE = {rule.id: rule for rule in RULES}


def table(oid: int, name: str, kind: str = "r", of: int | None = None) -> Relation:
    """A relation that existed before."""
    return Relation(oid, name, kind, oid, of, True, 100.0, "1 id")


SESSIONS, KERNELS, AGENTS = table(1, "public.sessions"), table(2, "public.kernels"), table(3, "public.agents")
INDEX = table(4, "public.ix_kernels_status", "i", 2)
RELATIONS = {each.oid: each for each in (SESSIONS, KERNELS, AGENTS, INDEX)}


def statement(
    number: int,
    text: str,
    *locks: tuple[Relation, LockMode],
    transaction: int = 1,
    path: Path = Path("migrations/versions/revision.py"),
    **more: object,
) -> Statement:
    """A statement that takes these locks."""
    taken = tuple(Lock(relation, mode) for relation, mode in locks)
    options: dict[str, object] = {
        "line": 20 + number,
        "alone": False,
        "seconds": 0.002,
        "rows": None,
        "lock_timeout_ms": 2000,
        "statement_timeout_ms": 600_000,
        "locks": taken,
        "relations": RELATIONS,
        **more,
    }
    return Statement(number=number, text=text, path=path, transaction=transaction, **options)  # type: ignore[arg-type]


def trace(
    revision: str,
    title: str,
    *statements: Statement,
    parents: Sequence[str] = (),
    path: Path | None = None,
    error: str | None = None,
    relations: Mapping[int, Relation] = RELATIONS,
) -> Trace:
    """A revision that ran."""
    return Trace(
        Revision(revision, title, path or Path.cwd() / f"migrations/versions/{revision}.py"),
        statements,
        EMPTY,
        EMPTY,
        frozenset(relations),
        relations,
        {1: 50, 2: 120, 3: 3},
        0.01,
        error,
        tuple(parents),
    )


def finding(
    of: Trace,
    rule: str,
    message: str,
    severity: Severity | None = None,
    statement: int | None = None,
    relation: str | None = None,
) -> Finding:
    """A finding of a rule that there is."""
    found = RULE[rule]
    line = None if statement is None else of.statements[statement - 1].line
    return Finding(
        found, message, severity or found.severity, of.revision.id, of.revision.path, line, statement, relation
    )


def reviewed(
    of: Trace,
    *findings: Finding,
    accepted: Sequence[tuple[Finding, str]] = (),
    outcome: Outcome | None = Outcome(),  # noqa: B008 - frozen
) -> Reviewed:
    """What is said of a revision."""
    entries = tuple((each, Acceptance(each.rule.id, reason, 1, 0, 0, True)) for each, reason in accepted)
    return Reviewed(of, outcome, findings, entries)


def review(*parts: Reviewed, sizes: Mapping[str, Size] | None = None) -> Review:
    """A review on PostgreSQL 18."""
    return Review(False, sizes, 180001, list(parts))


SIZES = {"public.sessions": Size(1_250_000, 3 * 1024**3), "public.kernels": Size(4_000_000, 9 * 1024**3)}


def sample() -> Review:
    """Six revisions: a branch and its merge, every severity, an accepted finding, one that failed, one that never ran.

    b1 has an error on sessions and a note without a table; b2 a warning on kernels; c3 nothing; d4, the merge, nothing;
    e5 an accepted finding on kernels; f6 fails; the last could not be begun.
    """
    exclusive, share, weak = LockMode.ACCESS_EXCLUSIVE, LockMode.SHARE, LockMode.ROW_EXCLUSIVE
    b1 = trace(
        "b1",
        "Sessions know when they were asked for",
        statement(1, "SET LOCAL lock_timeout = '2s'"),
        statement(2, "UPDATE sessions SET priority = 10 WHERE priority IS NULL", (SESSIONS, weak), rows=50,
                  scanned={1: 50}, written={1: Written(0, 50, 0)}),
        statement(3, "ALTER TABLE sessions ALTER COLUMN priority TYPE bigint", (SESSIONS, exclusive),
                  rewritten=(SESSIONS,), notices=('rewriting table "sessions"',), seconds=0.01),
        statement(4, "ALTER TABLE kernels\n    ADD COLUMN asked_at timestamptz,\n    ADD COLUMN why text,\n"
                  "    ADD CONSTRAINT why_given CHECK (why <> '')", (KERNELS, exclusive), scanned={2: 120}),
        statement(5, "CREATE INDEX CONCURRENTLY ix_sessions_priority ON sessions (priority)",
                  (SESSIONS, LockMode.SHARE_UPDATE_EXCLUSIVE), transaction=2, alone=True, lock_timeout_ms=0),
    )  # fmt: skip
    b2 = trace(
        "b2",
        "An index for the scheduler, under a title that is much too long for the narrow column of the history",
        statement(1, "CREATE INDEX ix_kernels_status ON kernels (status, agent) WHERE status = 'RUNNING'",
                  (KERNELS, share), scanned={2: 120}),
        parents=("b1",),
    )  # fmt: skip
    c3 = trace("c3", "Agents say where they are", statement(1, "ALTER TABLE agents ADD COLUMN region text",
               (AGENTS, exclusive)), parents=("b1",))  # fmt: skip
    d4 = trace("d4", "Join the two", parents=("b2", "c3"))
    e5 = trace(
        "e5",
        "Kernels lose a column",
        statement(1, "ALTER TABLE kernels DROP COLUMN last_stat", (KERNELS, exclusive)),
        parents=("d4",),
    )
    f6 = trace(
        "f6",
        "Divide",
        statement(1, "SELECT 1 / 0", error="division by zero", sqlstate="22012"),
        parents=("e5",),
        error="statement 1 at line 21 failed: division by zero",
    )
    result = review(
        reviewed(
            b1,
            finding(b1, "column-rewrite", "sessions is rewritten", statement=3, relation="public.sessions"),
            finding(b1, "no-lock-timeout", "statement 5 waits for its lock without limit", Severity.NOTE, statement=5),
            outcome=Outcome(lost=(("public.kernels.why", 120), ("public.agents.region", 3))),
        ),
        reviewed(
            b2,
            finding(b2, "index-blocking", "ix_kernels_status is built while writes wait", Severity.WARNING, 1,
                    "public.kernels"),
        ),
        reviewed(c3, outcome=Outcome(downgrade_error="RuntimeError: regions cannot be told again", refuses=True)),
        reviewed(d4, outcome=None),
        reviewed(
            e5,
            accepted=[
                (
                    finding(e5, "object-dropped", "last_stat is dropped", statement=1, relation="public.kernels"),
                    "nothing has read it since release 25.3",
                )
            ],
            outcome=Outcome(leftovers=("column public.kernels.last_stat is missing",), second_error="it is there"),
        ),
        reviewed(f6, outcome=None),
        sizes=SIZES,
    )  # fmt: skip
    result.faults = [
        (f6.revision, f6.error or ""),
        (Revision("g7", "On top of it", Path.cwd() / "migrations/versions/g7.py"), "its parents cannot be run: f6"),
    ]
    result.unfilled = [Unfilled("public.images", "its CHECK refuses whatever was tried")]
    result.notes = ["the role reader was made on the scratch server"]
    return result


ATTACK = "</script></style>\"'><img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


def hostile(path: Path) -> Review:
    """Everything that a revision can name holds markup; `path` gets a revision file whose docstring does too."""
    path.write_text(f"'''Title\n\n{ATTACK.replace(chr(39), chr(96))}\n'''\n", encoding="utf-8")
    victim = table(9, f'public."{ATTACK}"')
    one = trace(
        ATTACK,
        ATTACK,
        statement(1, f"SELECT '{ATTACK}'", (victim, LockMode.ACCESS_EXCLUSIVE), relations={9: victim},
                  rewritten=(victim,), notices=(ATTACK,), error=ATTACK, sqlstate=ATTACK, scanned={9: 1}),
        parents=(ATTACK + "parent",),
        path=path,
        error=ATTACK,
        relations={9: victim},
    )  # fmt: skip
    found = finding(one, "column-rewrite", ATTACK, statement=1, relation=victim.name)
    result = review(
        reviewed(one, found, accepted=[(found, ATTACK)], outcome=Outcome(downgrade_error=ATTACK)),
        sizes={victim.name: Size(1, 1)},
    )
    result.faults = [(Revision(ATTACK + "2", ATTACK, path.with_name("x<b>.py")), ATTACK)]
    result.unfilled = [Unfilled(ATTACK, ATTACK)]
    result.notes = [ATTACK]
    return result


def long(number: int) -> Review:
    """A chain of so many revisions; every tenth has a warning, every twenty-fifth branches off and is merged."""
    parts: list[Reviewed] = []
    before: tuple[str, ...] = ()
    for count in range(number):
        name = f"{count:012x}"
        statements = [
            statement(n, f"ALTER TABLE kernels ADD COLUMN c{count}_{n} text" + ", ADD CHECK (true)" * 8,
                      (KERNELS if count % 3 else SESSIONS, LockMode.ACCESS_EXCLUSIVE))
            for n in range(1, 7)
        ]  # fmt: skip
        one = trace(name, f"Change number {count} of the chain", *statements, parents=before)
        found = [finding(one, "index-blocking", "built while writes wait", Severity.WARNING, 1, "public.kernels")]
        parts.append(reviewed(one, *(found if count % 10 == 0 else [])))
        arms = count % 25
        before = (f"{count - 1:012x}",) if arms == 1 else (name, f"{count - 1:012x}") if arms == 2 else (name,)
    return review(*parts)


def wide() -> Review:
    """Thirty arms side by side, and a revision of sixty statements in thirty transactions, with long names."""
    name = "public." + "x" * 63
    relation = table(7, name)
    statements = [
        statement(n, f"SELECT '{'y' * 400}'", (relation, LockMode.EXCLUSIVE), transaction=(n + 1) // 2)
        for n in range(1, 61)
    ]
    root = trace("root", "z" * 200, *statements, relations={7: relation})
    arms = [trace("arm" * 15 + str(n), f"Arm {n}", parents=["root"]) for n in range(30)]
    merge = trace("merge", "Join them", parents=[each.revision.id for each in arms])
    one = finding(root, "index-blocking", f"{name} is built while writes wait", None, 60, name)
    return review(reviewed(root, one), *map(reviewed, arms), reviewed(merge, outcome=None))
