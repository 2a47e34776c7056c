"""Status of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.errors import HeadraceError
from headrace.progress.model import BatchProgress
from headrace.progress.rates import TableFailure, TableInSink, TableStatus, measure_tables
from headrace.progress.summary import Summary

#: Seconds without an answer of the source after which its lag is unknown. An answer takes milliseconds.
SILENT_SECONDS = 10.0
#: Begin of the message while a sink's work between batches is retried.
SINK_ERROR = "retrying a sink"


@dataclass(frozen=True)
class Status:
    """Status of a run. ``latency_ms``: age of the newest applied change when it became readable."""

    active: bool
    message: str
    batch: int | None
    latency_ms: int | None
    tables: tuple[TableStatus, ...] = ()
    #: Error of an unreachable source, or of a sink's work between batches. It is retried.
    error: str | None = None
    #: The batch in progress, and its current step: tables, sinks and records.
    applying: int | None = None
    step: str | None = None
    #: Seconds since the last answer of a source that does not answer. Lags are then unknown.
    silent_seconds: float | None = None
    #: Whether the source has answered in this run.
    has_answered: bool = False

    def find_delay(self, table: TableStatus) -> float | None:
        """Return the delay of a table in seconds; None if it is unknown."""
        has_lag = table.lag_seconds is not None or table.lag is not None
        if not has_lag and self.applying is not None and table.latency_ms is not None:
            # The source reports no lag, and more records are being applied: the last batch is the best estimate.
            return table.latency_ms / 1000
        return table.lag_seconds


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
    answer_age: float = 0.0,
    step: str | None = None,
    sink_error: HeadraceError | None = None,
    *,
    has_answered: bool = False,
) -> Status:
    """Return the status of an active run.

    ``applying`` and ``step``: the current batch and its step; ``away``: why the source is unreachable; ``answer_age``: seconds
    since its last answer; ``sink_error``: error of a sink between batches; ``has_answered``: the source has answered in this run.
    """
    message = "waiting for data" if applying is None else f"applying batch {applying}"
    is_silent = away is not None or (applying is None and answer_age > SILENT_SECONDS)
    if away:
        status = _status(batches, failures, f"retrying: {away.what}", active=True, error=str(away))
    elif sink_error:
        text = f"{SINK_ERROR}: {sink_error.what}"
        status = _status(batches, failures, text, active=True, error=str(sink_error))
    else:
        status = _status(
            batches, failures, "waiting for an answer of the source" if is_silent else message, active=True
        )
    status = replace(status, has_answered=has_answered)
    if not is_silent:
        return replace(status, applying=applying, step=None if applying is None else step)
    tables = tuple(replace(table, lag=None, lag_seconds=None) for table in status.tables)
    return replace(status, tables=tables, silent_seconds=answer_age)


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
