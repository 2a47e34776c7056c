"""What a pipeline does now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.errors import HeadraceError
from headrace.progress.model import BatchProgress
from headrace.progress.rates import TableFailure, TableInSink, TableStatus, measure_tables
from headrace.progress.summary import Summary


@dataclass(frozen=True)
class Status:
    """What a pipeline does now. ``latency_ms``: the newest applied change's age when it became readable."""

    active: bool
    message: str
    batch: int | None
    latency_ms: int | None
    tables: tuple[TableStatus, ...] = ()
    #: Why nothing arrives, while the source does not answer.
    error: str | None = None


@dataclass(frozen=True)
class CheckpointStatus:
    """Status of a pipeline's tables as its checkpoint has it, whether or not a run is active."""

    #: Sorted by table and sink.
    tables: tuple[TableStatus, ...]
    #: Sums of the batches whose progress is kept.
    summary: Summary


def describe_checkpoint(
    pipeline: str, batches: Sequence[BatchProgress], failures: Mapping[TableInSink, TableFailure]
) -> CheckpointStatus:
    """Return the status from the progress of the last batches and from the tables that wait for a retry."""
    tables = sorted(measure_tables(batches, failures), key=lambda status: (status.table, status.sink))
    return CheckpointStatus(tuple(tables), Summary.of(pipeline, batches))


def describe_run(
    batches: Sequence[BatchProgress],
    failures: Mapping[TableInSink, TableFailure],
    applying: int | None,
    away: HeadraceError | None,
) -> Status:
    """Return the status of an active run. ``applying``: the current batch; ``away``: why the source is unreachable."""
    message = "waiting for data" if applying is None else f"applying batch {applying}"
    if away:
        return _status(batches, failures, f"trying again: {away.what}", active=True, error=str(away))
    return _status(batches, failures, message, active=True)


def describe_end(
    batches: Sequence[BatchProgress], failures: Mapping[TableInSink, TableFailure], error: HeadraceError | None
) -> Status:
    """Return the status of a run that has ended. ``error``: its error, when it failed."""
    return _status(batches, failures, f"stopped: {error.what}" if error else "stopped", active=False)


def _status(
    batches: Sequence[BatchProgress],
    failures: Mapping[TableInSink, TableFailure],
    message: str,
    *,
    active: bool,
    error: str | None = None,
) -> Status:
    last = batches[-1] if batches else None
    latencies = [table.latency_ms for table in last.tables if table.latency_ms is not None] if last else []
    tables = measure_tables(batches, failures)
    return Status(active, message, last.batch if last else None, max(latencies, default=None), tables, error)
