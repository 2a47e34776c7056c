"""The handle of a running pipeline: the same for native and ranged sources."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

from headrace.config.interval import seconds_of
from headrace.contracts.source import NativeSource, Offset, RangedSource, Source
from headrace.engine.batch import BatchRunner
from headrace.engine.checkpoint import Checkpoint
from headrace.engine.plan import Plan
from headrace.engine.ranged import RangedLog
from headrace.engine.storage import qualified
from headrace.engine.table import PAUSE, TRIES
from headrace.engine.trouble import explained
from headrace.errors import ConfigError, HeadraceError, RetriableError
from headrace.spark.sessions import Sessions
from headrace_progress.flow import TableStatus, flow
from headrace_progress.progress import KEEP, BatchProgress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: Continuous mode looks for new data this often when the pipeline says nothing.
DEFAULT_TRIGGER = "500 milliseconds"
#: Seconds that a ranged source is left alone at least when it had nothing, as Spark does it.
_REST = 0.01

_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Status:
    """What the pipeline does now; ``behind_ms``: the newest applied change's age when it became readable."""

    active: bool
    message: str
    batch: int | None
    behind_ms: int | None
    tables: tuple[TableStatus, ...] = ()


class Query(ABC):
    """A started pipeline."""

    def __init__(
        self,
        plan: Plan,
        spark: SparkSession,
        on_progress: Callable[[BatchProgress], None] | None,
        *,
        continuous: bool,
        names_checked: bool,
    ) -> None:
        self._plan, self._spark = plan, spark
        self._interval = seconds_of(plan.min_sync_interval) if continuous and plan.min_sync_interval else 0.0
        self._on_progress = on_progress
        self._progress: deque[BatchProgress] = deque(maxlen=KEEP)
        self._stopping = threading.Event()
        self._in_batch = threading.Lock()
        self._batch_thread: int | None = None
        self._error: HeadraceError | None = None
        self._batch_id: int | None = None
        self.checkpoint = Checkpoint(spark, plan.checkpoint, plan.name)
        plan.tell(self.checkpoint.schemas, spark)
        self._continuous, self._settling, self._settled = continuous, threading.Lock(), False
        self._runner = BatchRunner(
            plan, self.checkpoint, Sessions(spark, plan.sql_conf), self._record, names_checked=names_checked
        )

    @property
    @abstractmethod
    def is_active(self) -> bool:
        """Whether it still runs."""

    @abstractmethod
    def _wait(self, timeout: float | None) -> bool:
        """Waits for the end, at most ``timeout`` seconds; whether it came."""

    @abstractmethod
    def _end(self) -> None:
        """Ends it; no batch is under way."""

    @property
    def last_progress(self) -> BatchProgress | None:
        """The newest batch of this run."""
        return self._progress[-1] if self._progress else None

    @property
    def recent_progress(self) -> list[BatchProgress]:
        """The batches of this run, at most the last hundred."""
        return list(self._progress)

    @property
    def status(self) -> Status:
        last = self.last_progress
        latencies = [t.latency_ms for t in last.tables if t.latency_ms is not None] if last else []
        if not self.is_active:
            message = f"stopped: {self.exception.what}" if self.exception else "stopped"
        else:
            message = f"applying batch {self._batch_id}" if self._batch_thread else "waiting for data"
        tables = flow(self.recent_progress)
        return Status(self.is_active, message, last.batch if last else None, max(latencies, default=None), tables)

    @property
    def exception(self) -> HeadraceError | None:
        """Why it ended, when it failed."""
        if not self.is_active and self._wait(0):
            self._settle()
        return self._error

    def stop(self) -> None:
        """Ends the run after the batch that is under way and returns then; inside ``on_progress`` it returns at once."""
        self._stopping.set()
        if threading.get_ident() == self._batch_thread:
            threading.Thread(target=self.stop, name=f"headrace-stop-{self._plan.name}", daemon=True).start()
            return
        with self._in_batch:  # the batch under way ends; the next one is refused, so nobody may wait for the lock below
            pass
        self._end()
        self._settle()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Waits for the end, at most ``timeout`` seconds. Raises when the pipeline failed; else whether it ended."""
        ended = self._wait(timeout)
        if ended:
            self._settle()
        if ended and self._error is not None:
            raise self._error
        return ended

    def _settle(self) -> None:
        """Ends the work on tables that are behind. Of all that is there now, each is given what it missed, or the run fails."""
        with self._settling:
            if self._settled:
                return
            self._settled = True
            behind = self._runner.behind
            if not (self._continuous or self._error or self._stopping.is_set()):
                self._error = behind.settle()
            behind.stop()

    def _apply(self, frame: DataFrame, batch_id: int, span: tuple[Offset, Offset] | None = None) -> None:
        with self._in_batch:
            if self._stopping.is_set():
                raise _StopRequestedError
            self._batch_id, self._batch_thread = batch_id, threading.get_ident()
            began = time.monotonic()
            try:
                self._runner(frame, batch_id, span)
            except HeadraceError as error:
                self._error = error
                raise
            except BaseException as error:
                self._error = explained(error, self._plan)
                raise
            finally:
                self._batch_thread = None
            # Before the source plans the next batch, so that what comes meanwhile is in it.
            self._stopping.wait(max(0.0, self._interval - (time.monotonic() - began)))

    def _record(self, progress: BatchProgress) -> None:
        self._progress.append(progress)
        if self._on_progress:
            self._on_progress(progress)


class _StopRequestedError(Exception):
    """Keeps a batch from starting after stop(): it stays unread in the source."""


class NativeQuery(Query):
    """A source that Spark streams by itself; Spark's StreamingQuery is ``streaming_query``."""

    def __init__(
        self,
        plan: Plan,
        spark: SparkSession,
        pause: float | None,
        on_progress: Callable[[BatchProgress], None] | None,
        *,
        names_checked: bool,
    ) -> None:
        super().__init__(plan, spark, on_progress, continuous=pause is not None, names_checked=names_checked)
        assert isinstance(plan.source, NativeSource)
        try:
            writer = plan.source.stream(spark).writeStream.queryName(plan.name).foreachBatch(self._apply)
            writer = writer.option("checkpointLocation", self.checkpoint.stream.path)
            if pause is None:
                writer = writer.trigger(availableNow=True)
            else:
                writer = writer.trigger(processingTime=f"{round(pause * 1000)} milliseconds")
            self.streaming_query: StreamingQuery = writer.start()
        except Exception as error:
            self._runner.behind.stop()
            raise explained(error, plan) from error

    @property
    def is_active(self) -> bool:
        return bool(self.streaming_query.isActive)

    def _wait(self, timeout: float | None) -> bool:
        from pyspark.errors import PySparkException

        try:
            if timeout is None:
                self.streaming_query.awaitTermination()
                return True
            # Spark takes fractions of a second, whatever its types say, and no zero.
            return bool(self.streaming_query.awaitTermination(max(timeout, 0.001)))  # type: ignore[arg-type]
        except PySparkException as error:
            if self._error is None and not self._stopping.is_set():
                self._error = explained(error, self._plan)
            return True

    def _end(self) -> None:
        self._await_commit()
        self.streaming_query.stop()

    def _await_commit(self) -> None:
        """Spark notes a batch as done just after our part of it ends; stopping before would repeat the batch."""
        commits = self.checkpoint.stream.folder("commits")
        deadline = time.monotonic() + 5
        while self._batch_id is not None and self._error is None and self.is_active and time.monotonic() < deadline:
            if str(self._batch_id) in commits.names():
                return
            time.sleep(0.02)


class RangedQuery(Query):
    """A source whose ranges the core plans, writes down, reads and commits, in a thread of its own."""

    def __init__(
        self,
        plan: Plan,
        spark: SparkSession,
        pause: float | None,
        on_progress: Callable[[BatchProgress], None] | None,
        *,
        names_checked: bool,
    ) -> None:
        super().__init__(plan, spark, on_progress, continuous=pause is not None, names_checked=names_checked)
        assert isinstance(plan.source, RangedSource)
        self._source = plan.source
        self._log = RangedLog(self.checkpoint.folder.folder("ranged"))
        self._pause = pause
        self._wake = threading.Event()
        self._session = Sessions(spark, plan.sql_conf).of("ranged")
        self._thread = threading.Thread(target=self._run, name=f"headrace-{plan.name}", daemon=True)
        self._thread.start()

    @property
    def is_active(self) -> bool:
        return self._thread.is_alive()

    def _wait(self, timeout: float | None) -> bool:
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _end(self) -> None:
        self._wake.set()
        self._thread.join(timeout=60)

    def _run(self) -> None:
        try:
            self._loop()
        except _StopRequestedError:
            return
        except Exception as error:  # noqa: BLE001 - await_termination raises it
            self._error = self._error or explained(error, self._plan)

    def _loop(self) -> None:
        source, log, limit = self._source, self._log, getattr(self._source.config, "limit", None)
        if self._pause is None:
            self._ask(source.prepare_for_trigger_available_now)
        if (
            applied := log.applied
        ) is not None and not self._runner.behind.errors:  # a crash may have come before the source heard of it
            self._ask(partial(source.commit, applied))
        while not self._stopping.is_set():
            began = time.monotonic()
            batch = log.next(
                lambda: self._ask(source.initial), lambda start: self._ask(partial(source.latest, start, limit))
            )
            if batch is not None:
                span = batch.start, batch.end
                self._apply(self._ask(partial(source.read, self._session, *span)), batch.id, span)
                log.commit(batch)
                if not self._runner.behind.errors:  # a table that is behind reads it again
                    self._ask(partial(source.commit, batch.end))
            elif self._pause is None:
                return
            if self._pause is not None:
                rest = self._pause - (time.monotonic() - began)
                self._wake.wait(max(rest, 0 if batch else _REST))

    def _ask(self, question: Callable[[], _Answer]) -> _Answer:
        """What the source answers; it is asked again when it says that this is worth a try."""
        for attempt in range(1, TRIES + 1):
            try:
                return question()
            except Exception as raised:
                error = explained(raised, self._plan)
                error.where = error.where or f"source {self._source.name}"
                if attempt == TRIES or not isinstance(error, RetriableError):
                    raise error from raised
            if self._wake.wait(PAUSE * 2 ** (attempt - 1)):
                raise _StopRequestedError
        raise AssertionError("unreachable")


#: Checkpoint → the last query that this process started on it.
_STARTED: WeakValueDictionary[str, Query] = WeakValueDictionary()
_STARTING = threading.Lock()


def start(
    plan: Plan,
    spark: SparkSession,
    trigger: str | None,
    on_progress: Callable[[BatchProgress], None] | None = None,
    *,
    names_checked: bool = False,
) -> Query:
    """Starts a plan. ``trigger``: an interval for continuous mode, None for all that is there now.

    ``names_checked``: the columns that transforms name were found before the start.
    """
    pause = None if trigger is None else seconds_of(trigger)
    path = qualified(spark, plan.checkpoint)
    kinds: dict[type[Source], type[NativeQuery | RangedQuery]] = {NativeSource: NativeQuery, RangedSource: RangedQuery}
    for kind, query in kinds.items():
        if isinstance(plan.source, kind):
            with _STARTING:
                running = _STARTED.get(path)
                if running is not None and running.is_active:
                    raise ConfigError(
                        "is in use by a run that goes on", where=f"checkpoint {path}", fix="stop that one first"
                    )
                _STARTED[path] = started = query(plan, spark, pause, on_progress, names_checked=names_checked)
            return started
    raise ConfigError(f"the source {plan.source.name!r} is neither native nor ranged", fix="derive it from one of them")
