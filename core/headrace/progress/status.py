"""What a pipeline does now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.errors import HeadraceError
from headrace.progress.model import BatchProgress
from headrace.progress.rates import TableStatus, flow


@dataclass(frozen=True)
class Status:
    """``behind_ms``: the newest applied change's age when it became readable."""

    active: bool
    message: str
    batch: int | None
    behind_ms: int | None
    tables: tuple[TableStatus, ...] = ()
    #: Why nothing arrives, while the source does not answer.
    error: str | None = None


def running(batches: Sequence[BatchProgress], applying: int | None, away: HeadraceError | None) -> Status:
    """``applying``: the batch under way; ``away``: why the source does not answer."""
    message = "waiting for data" if applying is None else f"applying batch {applying}"
    if away:
        return _status(batches, f"trying again: {away.what}", active=True, error=str(away))
    return _status(batches, message, active=True)


def ended(batches: Sequence[BatchProgress], error: HeadraceError | None) -> Status:
    """``error``: why it ended, when it failed."""
    return _status(batches, f"stopped: {error.what}" if error else "stopped", active=False)


def _status(batches: Sequence[BatchProgress], message: str, *, active: bool, error: str | None = None) -> Status:
    last = batches[-1] if batches else None
    latencies = [table.latency_ms for table in last.tables if table.latency_ms is not None] if last else []
    return Status(active, message, last.batch if last else None, max(latencies, default=None), flow(batches), error)
