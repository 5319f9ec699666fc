"""What the backfill's commands print: runs, plans, findings and progress, for people and as JSON."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from schema.cli.context import Result
from schema.errors import ExitCode, SchemaError

if TYPE_CHECKING:
    from schema.backfill.engine import Outcome
    from schema.backfill.job import Finding
    from schema.backfill.partition import Partition
    from schema.backfill.rehearsal import Sample
    from schema.backfill.report import Progress, Worker
    from schema.backfill.space import FreeSpace
    from schema.backfill.survey import Survey

FINDINGS_SHOWN = 20
"""Findings of each check that the text output lists; JSON has more."""

AGAIN = "`schemactl backfill` goes on from there."

_LABELS = {
    "sessions": "sessions",
    "sessions_with_kernels": "  with kernels",
    "kernels": "kernels",
    "unlinked": "  to link",
    "roles": "session roles",
    "groups": "kernel groups",
    "slots": "resource slots",
    "environ": "environment variables",
    "rejects": "rejects",
    "divergent": "divergent roles",
    "linked": "kernels linked",
    "deferred": "sessions left for the sweep, locked",
    "quarantined": "sessions set aside",
    "mismatches": "sessions that fail verification",
}

_CHECKS = {
    "unlinked": "kernels without a group",
    "mislinked": "kernels linked to another session's or role's group",
    "empty": "groups without a kernel",
    "spec": "backfilled groups that hold something else than the rules give",
    "differs": "groups of the application, or changed since, that hold something else than the rules give",
    "divergent": "roles whose kernels differ from each other",
}


def outcome_result(outcome: "Outcome") -> Result:
    """How a run ended, with its exit code."""
    rate = outcome.parents / outcome.seconds if outcome.seconds else 0.0
    dry = outcome.run is None
    heading = {
        "complete": "Dry run, nothing is written: " if dry else "Backfill complete: ",
        "time": "Out of time: ",
        "paused": "Paused: ",
        "interrupted": "Interrupted: ",
        "mismatch": "Done, but not as it should be: ",
    }[outcome.end] + f"{outcome.parents:,} sessions in {outcome.seconds:.1f} s, {rate:,.0f}/s."
    lines = [heading, *table(outcome.totals)]
    code = ExitCode.OK
    if outcome.end == "mismatch":
        code = ExitCode.MISMATCH
        lines.append(f"{outcome.totals['mismatches']:,} sessions fail; `schemactl backfill verify` lists what differs.")
    elif outcome.end != "complete":
        code = ExitCode.INTERRUPTED if outcome.end == "interrupted" else ExitCode.MORE_WORK
        if not dry:
            lines += [f"Held by {hold}." for hold in outcome.holds]
            lines.append("`schemactl backfill resume`, then run it again." if outcome.end == "paused" else AGAIN)
    elif outcome.totals.get("rejects") and not dry:
        code = ExitCode.REJECTS
        lines.append("`schemactl backfill rejects` lists what could not be carried over.")
    data = {
        "run": outcome.run and str(outcome.run.id),
        "end": outcome.end,
        "dry_run": dry,
        "sessions": outcome.parents,
        "seconds": round(outcome.seconds, 3),
        "sessions_per_second": round(rate, 1),
        "phases": {name: round(seconds, 3) for name, seconds in outcome.phases.items()},
        "held": [str(hold) for hold in outcome.holds],
        "totals": dict(outcome.totals),
    }
    return Result(data, "\n".join(lines), code)


def progress_data(progress: "Progress | None") -> dict[str, Any] | None:
    """A run's progress as JSON."""
    if progress is None:
        return None
    return {
        "run": str(progress.run_id),
        "job": progress.job,
        "state": progress.state,
        "phase": progress.phase,
        "percent": round(progress.percent, 1),
        "done": progress.done,
        "expected": progress.expected,
        "rate": progress.rate and round(progress.rate, 1),
        "eta_seconds": progress.eta_s and round(progress.eta_s),
        "held": list(progress.held),
        "chunks": progress.chunks,
        "chunks_done": progress.chunks_done,
        "totals": dict(progress.totals),
        "workers": [
            {
                "owner": worker.owner,
                "lease_expires_at": worker.lease_expires_at,
                "batch_size": worker.batch_size,
                "rate": worker.rate and round(worker.rate, 1),
                "held": worker.held,
            }
            for worker in progress.workers
        ],
        "last_error": progress.last_error,
        "created_at": progress.created_at,
        "updated_at": progress.updated_at,
        "finished_at": progress.finished_at,
    }


def progress_text(progress: "Progress | None") -> str:
    """A run's progress for people."""
    if progress is None:
        return "No backfill has been run."
    lines = [
        f"Backfill {progress.state}: {progress.percent:.1f}%, {progress.done:,} of {progress.expected:,} sessions.",
        f"Begun {progress.created_at:%Y-%m-%d %H:%M:%S %Z}, last batch {progress.updated_at:%Y-%m-%d %H:%M:%S %Z}.",
    ]
    if progress.finished_at is None:
        lines.append(f"Phase {progress.phase}: {progress.chunks_done:,} of {progress.chunks:,} key ranges done.")
        if progress.rate is not None:
            left = "" if progress.eta_s is None else f", about {duration(progress.eta_s)} left"
            lines.append(f"{progress.rate:,.0f} sessions/s{left}.")
        lines += [f"Held by {reason}." for reason in progress.held]
        lines += [_worker(worker) for worker in progress.workers] or ["At work: nobody."]
    if progress.last_error:
        lines.append(f"Last error: {progress.last_error}.")
    return "\n".join([*lines, *table(progress.totals)])


def _worker(worker: "Worker") -> str:
    size = f", {worker.batch_size:,} sessions a batch" if worker.batch_size is not None else ""
    return f"At work: {worker.owner}{size}."


def plan_result(
    found: "Survey", parts: "Partition", sample: "Sample | None", failure: SchemaError | None, free: "FreeSpace"
) -> Result:
    """What a run would do and take."""
    tried = estimate = None
    lines = [*table(found.counts), f"{len(parts.bounds):,} key ranges ({parts.kind})."]
    if sample is None:
        lines.append(f"No batch was tried: {failure.message if failure else 'unknown'}.")
    elif not sample.parents:
        lines.append("Nothing is left to write.")
    else:
        factor = found.counts["unlinked"] / max(sample.written["linked"], 1)
        wal, disk = round(sample.wal_bytes * factor), round(sample.disk_bytes * factor)
        lines += [
            f"One batch of {sample.parents:,} sessions, written and rolled back: {sample.seconds * 1000:,.0f} ms,"
            f" {sample.wal_bytes / 1024:,.0f} KiB of WAL.",
            f"All of it: about {_mib(wal)} of WAL, {_mib(disk)} of tables and indexes. Pages that are written for the"
            " first time after a checkpoint can make the WAL several times that.",
            free.text,
        ]
        estimate = {"wal_bytes": wal, "disk_bytes": disk, "free_bytes": free.bytes, "free": free.text}
        tried = {
            "sessions": sample.parents,
            "seconds": round(sample.seconds, 4),
            "wal_bytes": sample.wal_bytes,
            "disk_bytes": sample.disk_bytes,
        }
        if free.bytes is not None and wal + disk > free.bytes:
            lines.append("That is more than is free.")
    plans = list(sample.plans) if sample else []
    bounds = [{"lower": lower, "upper": upper} for lower, upper in parts.bounds]
    data = {
        "counts": dict(found.counts),
        "findings": findings_data(found.findings),
        "chunks": {"count": len(bounds), "kind": parts.kind, "bounds": bounds},
        "sample": tried,
        "estimate": estimate,
        "explain": plans,
    }
    return Result(data, "\n".join([*lines, *findings_text(found), *plans]))


def duration(seconds: float) -> str:
    """A time span for people: `1:02:03`."""
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}"


def _mib(size: int) -> str:
    return f"{size / 1024**2:,.1f} MiB"


def table(counts: Mapping[str, int]) -> list[str]:
    """Counts, one a line, those that have a label."""
    return [f"{label:<22} {counts[name]:>14,}" for name, label in _LABELS.items() if name in counts]


def findings_data(findings: "Iterable[Finding]") -> list[dict[str, Any]]:
    """Findings as JSON."""
    return [
        {
            "check": finding.check,
            "session": str(finding.key),
            "role": finding.role,
            "detail": finding.detail,
            "fails": finding.fails,
        }
        for finding in findings
    ]


def findings_text(survey: "Survey") -> Iterator[str]:
    """Findings for people, the first of each check."""
    for check, label in _CHECKS.items():
        if count := survey.checks[check]:
            yield f"{count:,} {label}:"
            shown = [finding for finding in survey.findings if finding.check == check][:FINDINGS_SHOWN]
            yield from (f"  session {finding.key} role {finding.role!r}: {finding.detail}" for finding in shown)
            if count > len(shown):
                yield f"  and {count - len(shown):,} more; --format json lists up to 1,000"
