"""Parallel processing of tables."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

from headrace.errors import HeadraceError, RetriableError
from headrace.progress.activity import BatchActivity
from headrace.progress.model import TableProgress
from headrace.sdk.format import UnknownSchemaError

#: Tables of one batch that are processed at the same time.
PARALLEL_TABLES = 8


class Named(Protocol):
    """Table with the events of a batch, or a view."""

    @property
    def name(self) -> str: ...


Part = TypeVar("Part", bound=Named)


@dataclass(frozen=True)
class TableOutcome:
    """Result of processing one table. ``seconds``: its duration; ``error``: why it failed."""

    progress: tuple[TableProgress, ...] = ()
    error: HeadraceError | None = None
    seconds: float = 0.0

    @property
    def has_unknown_schema(self) -> bool:
        return isinstance(self.error, UnknownSchemaError)


class TablePool:
    """Pool that processes tables in parallel, and stops waiting for a table that takes too long."""

    def __init__(self, cancel: Callable[[str], None], timeout: float, activity: BatchActivity | None = None) -> None:
        """``cancel``: cancels a table's Spark jobs; ``timeout``: seconds that a table may take; ``activity``: notes the tables."""
        self._cancel, self._timeout = cancel, timeout
        self._activity = activity or BatchActivity()
        self._lock = threading.Lock()
        #: Start time of each table, and tables that are no longer waited for.
        self._start_times: dict[str, float] = {}
        self._timed_out: dict[str, Future[TableOutcome]] = {}

    def process(
        self, targets: Sequence[Part], process_table: Callable[[Part], TableOutcome]
    ) -> dict[str, TableOutcome]:
        """Process each table and return the outcomes. ``process_table`` raises nothing."""
        with self._lock:  # A table that waits for a thread has not started.
            for target in targets:
                self._start_times.pop(target.name, None)
        self._activity.begin_tables(len(targets))
        pool = ThreadPoolExecutor(PARALLEL_TABLES, thread_name_prefix="headrace-table")
        parts = {target.name: pool.submit(self._start, target, process_table) for target in targets}
        pool.shutdown(wait=False)
        return {name: self._wait(name, part) for name, part in parts.items()}

    def check_free(self, table: str) -> None:
        """Raise RetriableError while a write of the table that timed out has not ended."""
        with self._lock:
            part = self._timed_out.get(table)
        if part is not None and not part.done():
            raise RetriableError("its last write has not ended yet", where=f"table {table}")

    def _start(self, target: Part, process_table: Callable[[Part], TableOutcome]) -> TableOutcome:
        with self._lock:
            self._start_times[target.name] = time.monotonic()
        self._activity.begin_table(target.name)
        outcome = process_table(target)
        self._activity.end_table(target.name, max((table.rows_in or 0 for table in outcome.progress), default=0))
        return outcome

    def _wait(self, table: str, part: Future[TableOutcome]) -> TableOutcome:
        while True:
            try:
                return part.result(timeout=1.0)
            except TimeoutError:
                with self._lock:
                    start = self._start_times.get(table)
                    if start is None or time.monotonic() - start < self._timeout:
                        continue
                    self._timed_out[table] = part
            self._cancel(table)
            error = RetriableError(
                f"was not written within {self._timeout:g} seconds",
                where=f"table {table}",
                fix="find out why the sink is slow or blocked, or raise `table.timeout`",
            )
            return TableOutcome(error=error, seconds=self._timeout)
