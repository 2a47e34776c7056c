"""The handle of a running pipeline: the same for native and ranged sources."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

from headrace.checkpoint.layout import Checkpoint
from headrace.checkpoint.offset_log import OffsetLog
from headrace.engine.batch import BatchRunner
from headrace.engine.error_translation import translate
from headrace.engine.plan import Plan
from headrace.engine.table import PAUSE, TRIES
from headrace.errors import ConfigError, HeadraceError, RetriableError
from headrace.progress.model import KEEP, BatchProgress
from headrace.progress.status import Status, ended, running
from headrace.sdk.interval import seconds_of
from headrace.sdk.source import NativeSource, Offset, RangedSource, Source
from headrace.spark.sessions import Sessions
from headrace.spark.storage import qualify_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: Continuous mode looks for new data this often when the pipeline says nothing.
DEFAULT_TRIGGER = "500 milliseconds"
#: Seconds before the next try while the source is away: the first pause, and the longest.
AWAY = (1.0, 60.0)
#: Seconds that a ranged source is left alone at least when it had nothing, as Spark does it.
_REST = 0.01

_Answer = TypeVar("_Answer")


class Query(ABC):
    """A started pipeline."""

    def __init__(
        self,
        plan: Plan,
        spark: SparkSession,
        pause: float | None,
        on_progress: Callable[[BatchProgress], None] | None,
        *,
        names_checked: bool,
    ) -> None:
        """``pause``: seconds between two looks at the source; None: what is there now is applied, and it ends."""
        self._plan, self._spark, self._pause, self._continuous = plan, spark, pause, pause is not None
        self._interval = seconds_of(plan.min_sync_interval) if self._continuous and plan.min_sync_interval else 0.0
        self._on_progress = on_progress
        self._progress: deque[BatchProgress] = deque(maxlen=KEEP)
        self._stopping = threading.Event()
        self._in_batch = threading.Lock()
        self._batch_thread: int | None = None
        self._error: HeadraceError | None = None
        self._batch_id: int | None = None
        self.checkpoint = Checkpoint(spark, plan.checkpoint, plan.name)
        plan.tell(self.checkpoint.schemas, spark)
        self._settling, self._settled = threading.Lock(), False
        self._wake = threading.Event()
        #: Whether the source ever answered in this run, and why it does not now.
        self._answered = False
        self._away: HeadraceError | None = None
        self._runner = BatchRunner(
            plan,
            self.checkpoint,
            Sessions(spark, plan.sql_conf),
            self._record,
            fail=self._fail,
            names_checked=names_checked,
        )
        self._thread = threading.Thread(target=self._run, name=f"headrace-{plan.name}", daemon=True)

    @abstractmethod
    def _follow(self) -> None:
        """Batch after batch, until all is applied or the run is told to end; raises when it cannot go on."""

    def _end(self) -> None:
        """Ends ``_follow``; no batch is under way."""
        self._wake.set()

    @property
    def is_active(self) -> bool:
        """Whether it still runs."""
        return self._thread.is_alive()

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
        """What it does now."""
        if not self.is_active:
            return ended(self.recent_progress, self.exception)
        return running(self.recent_progress, self._batch_id if self._batch_thread else None, self._away)

    @property
    def exception(self) -> HeadraceError | None:
        """Why it ended, when it failed."""
        if not self.is_active:
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
        self._thread.join(timeout=60)
        self._settle()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Waits for the end, at most ``timeout`` seconds. Raises when the pipeline failed; else whether it ended."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        self._settle()
        if self._error is not None:
            raise self._error
        return True

    def _run(self) -> None:
        pause, longest = AWAY
        while True:
            try:
                return self._follow()
            except _StopRequestedError:
                return None
            except Exception as raised:  # noqa: BLE001 - await_termination raises it
                if self._stopping.is_set() and self._error is None:
                    return None
                error = self._error or translate(raised, self._plan)
            # A source that never answered is more likely named wrongly than away: the user looks at the screen then.
            if not (self._continuous and self._answered and isinstance(error, RetriableError)):
                self._error = error
                return None
            pause = pause if self._away else AWAY[0]
            self._error, self._away = None, error
            if self._wake.wait(pause):
                return None
            pause = min(2 * pause, longest)

    def _source_answered(self) -> None:
        self._answered, self._away = True, None

    def _fail(self, error: HeadraceError) -> None:
        """Ends the run from a thread of its own, which the run's end waits for."""
        self._error = self._error or error
        threading.Thread(target=self.stop, name=f"headrace-stop-{self._plan.name}", daemon=True).start()

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
                self._source_answered()
            except HeadraceError as error:
                self._error = error
                raise
            except BaseException as error:
                self._error = translate(error, self._plan)
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
        super().__init__(plan, spark, pause, on_progress, names_checked=names_checked)
        self._stream: StreamingQuery | None = None
        try:
            self._stream = self.streaming_query = self._begun()
        except Exception as error:
            self._runner.behind.stop()
            raise translate(error, plan) from error
        self._thread.start()

    def _begun(self) -> StreamingQuery:
        source = self._plan.source
        assert isinstance(source, NativeSource)
        writer = source.stream(self._spark).writeStream.queryName(self._plan.name).foreachBatch(self._apply)
        writer = writer.option("checkpointLocation", self.checkpoint.stream.path)
        if self._pause is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{round(self._pause * 1000)} milliseconds").start()

    def _follow(self) -> None:
        stream, self._stream = self._stream or self._begun(), None
        self.streaming_query = stream
        if self._stopping.is_set():  # it came while the new one began
            stream.stop()
        while self._continuous and (self._away or not self._answered):
            if stream.awaitTermination(0.2):  # type: ignore[arg-type]  # whatever its types say, it takes fractions
                return
            if stream.status["message"].startswith("Waiting"):
                self._source_answered()
        stream.awaitTermination()

    def _end(self) -> None:
        super()._end()
        self._await_commit()
        self.streaming_query.stop()

    def _await_commit(self) -> None:
        """Spark notes a batch as done just after our part of it ends; stopping before would repeat the batch."""
        commits = self.checkpoint.stream.folder("commits")
        deadline = time.monotonic() + 5
        while self._batch_id is not None and self._error is None and time.monotonic() < deadline:
            if not self.streaming_query.isActive or str(self._batch_id) in commits.names():
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
        super().__init__(plan, spark, pause, on_progress, names_checked=names_checked)
        assert isinstance(plan.source, RangedSource)
        self._source = plan.source
        self._log = OffsetLog(self.checkpoint.folder.folder("ranged"))
        self._session = Sessions(spark, plan.sql_conf).of("ranged")
        self._thread.start()

    def _follow(self) -> None:
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
            self._source_answered()
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
                error = translate(raised, self._plan)
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
    path = qualify_path(spark, plan.checkpoint)
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
