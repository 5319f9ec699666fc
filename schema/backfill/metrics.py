"""A run's progress as Prometheus text, for a node exporter's folder of text files."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from schema.backfill.report import Progress
from schema.models.status import RunPhase, RunState

PREFIX = "schemactl_backfill_"


def render(progress: Progress) -> str:
    """Return the progress in the text format of Prometheus, version 0.0.4."""
    return "".join(f"{line}\n" for line in _lines(progress))


def write(path: Path, progress: Progress) -> None:
    """Put the progress into a file, which a reader sees as it was or as it is, never in part.

    Raises:
        OSError: it cannot be written.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(render(progress))
        # The scraper is another account.
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _lines(progress: Progress) -> Iterator[str]:
    job = _label(job=progress.job)
    yield from _gauge("parents_done", "Parent rows done in the run.", {job: progress.done})
    yield from _gauge("parents_expected", "Parent rows when the run began.", {job: progress.expected})
    yield from _gauge("percent", "Share of the batches that is done, 0 to 100.", {job: round(progress.percent, 2)})
    yield from _gauge("rate", "Parent rows per second lately, of all workers.", {job: progress.rate})
    yield from _gauge("eta_seconds", "Seconds that the batches take yet.", {job: progress.eta_s})
    yield from _gauge("workers", "Workers that hold a chunk.", {job: len(progress.workers)})
    yield from _gauge("held", "1 when a signal holds every worker.", {job: int(_is_held(progress))})
    yield from _gauge("chunks", "Key ranges of the run.", {job: progress.chunks})
    yield from _gauge("chunks_done", "Key ranges done in the phase.", {job: progress.chunks_done})
    sizes = [worker.batch_size for worker in progress.workers if worker.batch_size is not None]
    yield from _gauge("batch_size", "Parent rows of the newest batches, on average.", {job: _mean(sizes)})
    yield from _gauge(
        "state",
        "1 for the state of the run.",
        {_label(job=progress.job, state=s): int(s == progress.state) for s in RunState},
    )
    yield from _gauge(
        "phase",
        "1 for the phase of the run.",
        {_label(job=progress.job, phase=p): int(p == progress.phase) for p in RunPhase},
    )
    yield from _gauge(
        "written",
        "Rows of the run by what they are.",
        {_label(job=progress.job, what=n): c for n, c in progress.totals.items()},
    )
    yield from _gauge(
        "last_batch_timestamp_seconds", "When the newest batch was committed.", {job: progress.updated_at.timestamp()}
    )


def _gauge(name: str, about: str, values: dict[str, float | None]) -> Iterator[str]:
    known = {labels: value for labels, value in values.items() if value is not None}
    if known:
        yield f"# HELP {PREFIX}{name} {about}"
        yield f"# TYPE {PREFIX}{name} gauge"
        yield from (f"{PREFIX}{name}{labels} {value}" for labels, value in known.items())


def _label(**labels: str) -> str:
    quoted = (value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for value in labels.values())
    return "{" + ",".join(f'{name}="{value}"' for name, value in zip(labels, quoted, strict=True)) + "}"


def _is_held(progress: Progress) -> bool:
    return bool(progress.workers) and all(worker.held for worker in progress.workers)


def _mean(sizes: list[int]) -> float | None:
    return sum(sizes) / len(sizes) if sizes else None
