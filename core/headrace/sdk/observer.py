"""Contract of observers: they follow the events of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from headrace.progress.lineage import ColumnSource, LineageInput, TableLineage
from headrace.progress.maintained import Maintained
from headrace.progress.model import BatchProgress, TableProgress
from headrace.progress.rates import TableStatus
from headrace.progress.status import Status
from headrace.sdk.config import Config
from headrace.sdk.plugin import Plugin

__all__ = [
    "BatchProgress",
    "ColumnSource",
    "LineageInput",
    "Maintained",
    "ObservedRun",
    "Observer",
    "RunEvent",
    "RunEventKind",
    "Status",
    "TableLineage",
    "TableProgress",
    "TableStatus",
]


class RunEventKind(StrEnum):
    """Kind of an event, and the fields that it has besides ``time``."""

    #: The source is opened next.
    RUN_STARTED = "run started"
    #: ``error``: why it failed; None after a regular end. It is the last event.
    RUN_STOPPED = "run stopped"
    #: The source is read again after an ``error`` that may be temporary.
    RUN_RESTARTED = "run restarted"
    #: ``batch``
    BATCH_STARTED = "batch started"
    #: ``batch`` and ``progress``: also for a table that catches up, with the number of the batch that it repeats.
    BATCH_COMMITTED = "batch committed"
    #: ``batch``, ``error``, and the ``progress`` if the tables were processed: those without an error are committed.
    BATCH_FAILED = "batch failed"
    #: ``table``, ``batch`` and ``error``: the table catches up later.
    TABLE_SET_ASIDE = "table set aside"
    #: ``table``
    TABLE_CAUGHT_UP = "table caught up"
    #: ``table``, ``batch``, and ``counts`` by reject reason.
    DEAD_LETTERS_WRITTEN = "dead letters written"
    #: ``topic``: its stored schema was replaced.
    SCHEMA_CHANGED = "schema changed"
    #: ``maintained``
    MAINTENANCE_DONE = "maintenance done"
    #: The references of the file have other values than before.
    SECRETS_RENEWED = "secrets renewed"


@dataclass(frozen=True, kw_only=True)
class RunEvent:
    """Event of a run. Texts contain no secrets. ``time``: seconds since 1970, of a clock that may jump."""

    kind: RunEventKind
    time: float
    batch: int | None = None
    progress: BatchProgress | None = None
    table: str | None = None
    topic: str | None = None
    #: What failed, where, and the fix.
    error: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    maintained: Maintained | None = None


@dataclass(frozen=True)
class ObservedRun:
    """Run of a pipeline. Any thread may call ``status``, ``lineage``, ``warn``, and ``count_dropped``: the events that this observer has missed.

    ``warn`` adds a warning to those of the run, which ``headrace run`` prints.
    """

    pipeline: str
    status: Callable[[], Status]
    count_dropped: Callable[[], int]
    warn: Callable[[str], None]
    #: Table or view → its lineage, of those that the run has read so far.
    lineage: Callable[[], Mapping[str, TableLineage]] = dict


class Observer(Plugin, ABC):
    """Observer of runs. Its block is a key of the pipeline file, with the name under which it is registered.

    It never slows down or fails a batch: it has a thread and a bounded queue of its own, and misses events while the queue is full.
    An exception of ``observe`` is reported once.
    """

    name: ClassVar[str]
    Config: ClassVar[type[Config]] = Config

    def open(self, run: ObservedRun) -> None:
        """Acquire resources before the first event. An error, such as ConfigError, stops the start of the run."""

    @abstractmethod
    def observe(self, event: RunEvent) -> None:
        """Receive an event, one at a time and in order."""

    def close(self) -> None:
        """Release resources at the end of the run. The run waits for a few seconds only."""
