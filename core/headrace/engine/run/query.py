"""The handle of a running pipeline: the same for native and ranged sources."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from headrace.checkpoint.layout import Checkpoint
from headrace.checkpoint.progress_log import KEPT_BATCHES
from headrace.engine.batch.batch_runner import BatchRunner
from headrace.engine.batch.credential_rotation import wait_for_rotated_credentials
from headrace.engine.batch.maintainer import Maintainer, Report
from headrace.engine.batch.run_state import RunState
from headrace.engine.plan.error_translation import SparkDiedError, spark_stopped, translate
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.retry import Backoff
from headrace.engine.run.run_warnings import find_warnings
from headrace.engine.write.sink_writer import SinkPoller
from headrace.errors import HeadraceError, LoginError, RetriableError
from headrace.progress.model import BatchProgress
from headrace.progress.rates import TableFailure, TableInSink
from headrace.progress.status import Status, describe_end, describe_run
from headrace.sdk.source import Offset
from headrace.spark.error_text import causes
from headrace.spark.sessions import Sessions, is_stopped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Seconds before a source that does not answer is asked again: the first pause, and the longest.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0


@dataclass(frozen=True)
class RunOptions:
    """How a plan is run.

    ``pause``: seconds between two looks at the source, None: what is there now is applied, and it ends; ``names_checked``: the
    columns that transforms name were found before the start.
    """

    pause: float | None = None
    on_progress: Callable[[BatchProgress], None] | None = None
    on_maintenance: Report | None = None
    names_checked: bool = False

    @property
    def is_continuous(self) -> bool:
        return self.pause is not None


class Query(ABC):
    """A started pipeline."""

    def __init__(self, plan: Plan, spark: SparkSession, options: RunOptions) -> None:
        self._plan, self._spark, self._options = plan, spark, options
        #: The one that it reads from: when logins were refused, the plan has another.
        self._source = plan.source
        self._state = RunState(plan.redact)
        self._progress: deque[BatchProgress] = deque(maxlen=KEPT_BATCHES)
        self._in_batch, self._settling, self._is_settled = threading.Lock(), threading.Lock(), False
        self._wake = threading.Event()
        self.checkpoint = Checkpoint(spark, plan.checkpoint, plan.name, partial(plan.open_schema_log, spark))
        #: What its user should know before anything else; ``headrace run`` says it.
        self.warnings = find_warnings(plan, self.checkpoint.folder, self.checkpoint.next_batch, remember=True)
        self._sessions = Sessions(spark, plan.sql_conf)
        self._tender = SinkPoller(plan, self.checkpoint.id, self._sessions)
        self._maintainer = Maintainer(plan, self._sessions, options.on_maintenance or (lambda _: None))
        self._runner = BatchRunner(
            plan,
            self.checkpoint,
            self._sessions,
            self._record,
            maintainer=self._maintainer,
            fail=self._fail,
            names_checked=options.names_checked,
            state=self._state,
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
            error = self.exception
            return describe_end(self.recent_progress, self._failures(), error)
        batch = self._state.batch if self._state.is_applying else None
        return describe_run(self.recent_progress, self._failures(), batch, self._state.source_error)

    @property
    def exception(self) -> HeadraceError | None:
        """Why it ended, when it failed."""
        if not self.is_active:
            self._settle()
        return self._state.error

    def stop(self) -> None:
        """Ends the run after the batch that is under way and returns then; inside ``on_progress`` it returns at once."""
        self._state.ask_stop()
        if self._state.is_own_thread:
            self._stop_from_another_thread()
            return
        self._maintainer.stop()  # a batch may wait for it
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
        if self._state.error is not None:
            raise self._state.error
        return True

    def _run(self) -> None:
        pauses = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        if not self._tend():
            return None
        while True:
            try:
                return self._follow()
            except StopRequestedError:
                return None
            except Exception as raised:  # noqa: BLE001 - await_termination raises it
                if self._state.is_stopping() and self._state.error is None:
                    return None
                error = self._state.error or self._translate(raised)
            if not self._can_go_on(error, pauses):
                return None

    def _can_go_on(self, error: HeadraceError, pauses: Backoff) -> bool:
        """Whether it is worth another try, for which it has waited; else why the run ends is noted."""
        # A source that never answered is more likely named wrongly than away: the user looks at the screen then.
        can_wait = self._options.is_continuous and self._state.has_answered
        if can_wait and isinstance(error, RetriableError):
            if self._state.source_error is None:
                pauses.reset()
            self._state.note_source_error(error)
            self._rest(pauses.next(), self._wake.wait)
            return not self._wake.is_set()
        if isinstance(error, LoginError):
            self._state.note_source_error(error)
            if self._has_rotated_credentials(error, is_patient=can_wait):
                return True
            if self._wake.is_set():  # told to end before it was known
                return False
        self._state.fail(error)
        return False

    def _has_rotated_credentials(self, refused: LoginError, *, is_patient: bool) -> bool:
        if self._source is not self._plan.source:  # a table was refused as well, and has them
            return True
        session = self._sessions.of("ranged")
        return wait_for_rotated_credentials(self._plan, session, refused, self._wake.wait, is_patient=is_patient)

    def _translate(self, raised: BaseException) -> HeadraceError:
        """An error as one of ours. Whatever is raised once Spark was stopped says that, and no more."""
        error = translate(raised, self._plan)
        return error if isinstance(error, SparkDiedError) or not is_stopped(self._spark) else spark_stopped()

    def _check_spark(self) -> None:
        """Raises when Spark was stopped: a stream of Spark's then ends without a word, and a source need not notice."""
        if is_stopped(self._spark):
            raise spark_stopped()

    def _rest(self, seconds: float, wait: Callable[[float], bool]) -> None:
        """Waits so long, at most until Spark is stopped; ``wait`` waits a part of it, and says whether that is enough."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not wait(min(left, 1.0)) and not is_stopped(self._spark):
            pass

    def _tend(self) -> bool:
        """Lets sinks do what is due, and again later where the run goes on; False when that failed."""
        try:
            with self._in_batch:
                pause = self._tender.on_idle()
        except HeadraceError as error:
            self._state.fail(self._translate(error))
            return False
        if self._options.is_continuous and pause is not None:
            threading.Thread(target=self._keep_tending, args=(pause,), name="headrace-on_idle", daemon=True).start()
        return True

    def _keep_tending(self, pause: float | None) -> None:
        while pause is not None and not self._wake.wait(pause) and self.is_active:
            try:
                with self._in_batch:
                    if self._state.is_stopping():
                        return
                    pause = self._tender.on_idle()
            except RetriableError:  # the next time, then
                continue
            except HeadraceError as error:
                self._fail(error)
                return

    def _fail(self, error: HeadraceError) -> None:
        """Ends the run from a thread of its own, which the run's end waits for."""
        self._state.fail(self._translate(error))
        self._stop_from_another_thread()

    def _stop_from_another_thread(self) -> None:
        threading.Thread(target=self.stop, name=f"headrace-stop-{self._plan.name}", daemon=True).start()

    def _failures(self) -> dict[TableInSink, TableFailure]:
        """The tables that wait for batches, for each sink."""
        failures = self._runner.catch_up.failures
        return {(table, sink.name): failure for table, failure in failures.items() for sink in self._plan.sinks}

    def _settle(self) -> None:
        """Ends the work on tables that are set aside. Of all that is there now, each catches up, or the run fails."""
        with self._settling:
            if self._is_settled:
                return
            self._is_settled = True
            catch_up = self._runner.catch_up
            if not (self._options.is_continuous or self._state.error or self._state.is_stopping()):
                error = catch_up.finish()
                if error is not None:
                    self._state.fail(error)
                else:
                    self._maintainer.finish()
            catch_up.stop()
            self._maintainer.stop()

    def _apply(self, frame: DataFrame, batch: int, span: tuple[Offset, Offset] | None = None) -> None:
        with self._in_batch:
            if self._state.is_stopping():
                raise StopRequestedError
            self._state.begin_batch(batch)
            began = time.monotonic()
            try:
                self._runner.apply(frame, batch, span)
                self._state.note_answer()
            except BaseException as raised:
                error = self._translate(raised)
                if error not in causes(raised):
                    error.__cause__ = raised
                self._state.fail(error)
                if error is raised:
                    raise
                raise error from error.__cause__  # Spark writes it into its log
            finally:
                self._state.end_batch()
            # Before the source plans the next batch, so that what comes meanwhile is in it.
            interval = self._plan.settings.min_sync_seconds if self._options.is_continuous else 0.0
            self._rest(interval - (time.monotonic() - began), self._state.wait_for_stop)

    def _record(self, progress: BatchProgress) -> None:
        self._progress.append(progress)
        if self._options.on_progress:
            self._options.on_progress(progress)


class StopRequestedError(Exception):
    """Keeps a batch from starting after stop(): it stays unread in the source."""
