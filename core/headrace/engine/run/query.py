"""Handle of a running pipeline, for native and ranged sources."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headrace.checkpoint.layout import Checkpoint
from headrace.checkpoint.progress_log import KEPT_BATCHES
from headrace.checkpoint.run_note import InUseError, RunNote
from headrace.engine.plan.error_translation import SparkDiedError, spark_stopped, translate
from headrace.engine.plan.retry import Backoff
from headrace.engine.run.batch_runner import BatchRunner
from headrace.engine.run.credential_rotation import wait_for_rotated_credentials
from headrace.engine.run.current_plan import CurrentPlan
from headrace.engine.run.maintainer import Maintainer
from headrace.engine.run.observers import Observers
from headrace.engine.run.run_options import RunOptions, call_back
from headrace.engine.run.run_state import RunState, StopRequestedError
from headrace.engine.run.run_warnings import find_warnings
from headrace.engine.write.sink_writer import SinkPoller
from headrace.errors import DataError, FatalError, HeadraceError, LoginError, RetriableError
from headrace.progress.maintained import Maintained
from headrace.progress.model import BatchProgress
from headrace.progress.rates import TableFailure, TableInSink
from headrace.progress.status import Status, describe_end, describe_run
from headrace.registry.plugin_errors import describe_error
from headrace.sdk.observer import RunEventKind
from headrace.sdk.source import Offset
from headrace.spark.error_text import causes, full_text
from headrace.spark.sessions import Sessions, is_stopped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Spark's error for a batch that another run has planned.
_CONCURRENT = "CONCURRENT_STREAM_LOG_UPDATE"
#: Seconds before a source that does not respond is read again: the first pause, and the longest.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0


class Query(ABC):
    """Started pipeline."""

    #: Whether each answer of the source is recorded. If so, missing answers indicate an outage.
    _watches_answers = False

    def __init__(self, current: CurrentPlan, spark: SparkSession, options: RunOptions) -> None:
        self._current, self._spark, self._options = current, spark, options
        #: The plan with which the source is read. Tables may have a newer one, if their credentials were rotated first.
        self._plan = plan = current.plan
        self._state = RunState(plan.redact)
        self._progress: deque[BatchProgress] = deque(maxlen=KEPT_BATCHES)
        self._in_batch, self._finishing = threading.Lock(), threading.Lock()
        self._is_finished = self._is_closed = False
        self._wake, self._must_repeat_poll = threading.Event(), False
        schemas = partial(current.open_schema_log, spark)
        checkpoint = self.checkpoint = Checkpoint(spark, plan.checkpoint, plan.name, schemas)
        plan.learn_tables(checkpoint.folder)
        #: Warnings for the user, which ``headrace run`` prints.
        self.warnings = find_warnings(plan, checkpoint.folder, checkpoint.next_batch, spark.version, remember=True)
        self._observers = Observers(plan.observers, plan.redact, self.warnings.append)
        self._written: BatchProgress | None = None  # by the batch in progress
        self._note, self._sessions = RunNote(checkpoint.folder), Sessions(spark, plan.sql_conf)
        self._poller = SinkPoller(checkpoint.id, self._sessions, self._state.note_sink_error)
        self._maintainer = Maintainer(current, self._sessions, self._report_maintenance)
        self._runner = BatchRunner(
            current,
            self.checkpoint,
            self._sessions,
            self._record,
            maintainer=self._maintainer,
            on_rule_error=self._fail,
            names_checked=options.names_checked,
            state=self._state,
        )
        self._thread = threading.Thread(target=self._run_to_end, name=f"headrace-{plan.name}", daemon=True)
        self._observers.watch(self._runner.backlogs, self.checkpoint.schemas, current)

    def start(self) -> None:
        """Start the run, once. Raises if the source cannot be opened; but an error of the data ends the run, as in a batch."""
        try:
            self._note.write()
        except Exception as error:
            raise self._translate(error) from error
        try:
            self._observers.open(self._plan.name, self._observe_status, self._runner.describe_lineage)
            self._observers.emit(RunEventKind.RUN_STARTED)
            self._open()
            self._thread.start()
        except BaseException as error:
            self._observers.end(error)
            self._note.delete()
            raise

    def _open(self) -> None:
        """Open the source. An error of the data is recorded; other errors are raised."""
        if self._options.error is not None:
            return self._state.fail(self._options.error)
        try:
            return self._open_source()
        except Exception as raised:
            error = self._translate(raised)
            if not isinstance(error, DataError):
                raise error from raised
            return self._state.fail(error)

    @abstractmethod
    def _open_source(self) -> None:
        """Open the source of the plan."""

    @abstractmethod
    def _run_batches(self) -> None:
        """Run batches until all are processed or the run is stopped; raise if it cannot continue."""

    def _close_source(self) -> None:
        """Close the source at the end of the run, also after an error before the first batch."""
        self._wake.set()

    def _shutdown(self) -> None:
        """End ``_run_batches``; no batch is in progress."""
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
        """The last batches of this run, at most a hundred."""
        return list(self._progress)

    @property
    def status(self) -> Status:
        """Current status."""
        if not self.is_active:
            self._finish()
        return self._describe_status(is_active=self.is_active)

    def _observe_status(self) -> Status:
        """Return the status for observers, whose threads must not finish the run. It is active until it is finished."""
        is_finishing = not (self._options.is_continuous or self._state.error or self._is_closed)
        return self._describe_status(is_active=self._thread.ident is None or self.is_active or is_finishing)

    def _describe_status(self, *, is_active: bool) -> Status:
        state = self._state
        if not is_active:
            return describe_end(self.recent_progress, self._failures(), state.error)
        batch, age = state.batch if state.is_applying else None, state.answer_age if self._watches_answers else 0.0
        step = None if batch is None else self._runner.step
        away, sink_error = state.source_error, state.sink_error
        progress, failures, has_answered = self.recent_progress, self._failures(), state.has_responded
        return describe_run(progress, failures, batch, away, age, step, sink_error, has_answered=has_answered)

    @property
    def exception(self) -> HeadraceError | None:
        """The error that ended it, if it failed."""
        if not self.is_active:
            self._finish()
        return self._state.error

    def stop(self) -> None:
        """Stop the run after the batch in progress, and wait for it. Inside ``on_progress``, return immediately."""
        self._state.request_stop()
        if self._state.is_own_thread:
            self._stop_from_another_thread()
            return
        self._maintainer.stop()  # A batch may wait for it.
        with self._in_batch:  # The batch in progress ends; the next one is refused.
            pass
        self._shutdown()
        self._thread.join(timeout=60)
        self._finish()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the end, at most ``timeout`` seconds; return whether it has ended. Raises if the pipeline failed."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        self._finish()
        if self._state.error is not None:
            raise self._state.error
        return True

    def _run_to_end(self) -> None:
        """Run, and note every error: a thread that ends without one would look like a run without new records."""
        try:
            if self._state.error is None:  # The source is open.
                self._runner.start()
                self._run()
        except BaseException as raised:  # noqa: BLE001 - await_termination raises it
            self._note_unexpected(raised)
        finally:
            self._close_source()
            if self._options.is_continuous or self._state.error:  # Otherwise tables catch up in `_finish`.
                self._observers.emit(RunEventKind.RUN_STOPPED, error=self._state.error)

    def _note_unexpected(self, raised: BaseException) -> None:
        error = FatalError(describe_error(raised), fix="run again with --traceback for the full error, and report it")
        error.__cause__ = raised
        self._state.fail(raised if isinstance(raised, HeadraceError) else error)

    def _run(self) -> None:
        pauses = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        if not self._poll_sinks():
            return None
        while True:
            try:
                self._run_batches()
                return self._repeat_poll()
            except StopRequestedError:
                return None
            except Exception as raised:  # noqa: BLE001 - await_termination raises it
                if self._state.is_stopping() and self._state.error is None:
                    return None
                error = self._state.error or self._translate(raised)
            if not self._should_retry(error, pauses):
                return None
            self._plan = self._current.plan
            self._observers.emit(RunEventKind.RUN_RESTARTED, error=error)

    def _should_retry(self, error: HeadraceError, pauses: Backoff) -> bool:
        """Wait and return True after an error that may be temporary; otherwise note it as the end of the run."""
        # Before its first response a source is more likely misconfigured than unreachable, and the user is watching.
        can_wait = self._options.is_continuous and self._state.has_responded
        if can_wait and isinstance(error, RetriableError):
            if self._state.source_error is None:
                pauses.reset()
            self._state.note_source_error(error)
            self._sleep(pauses.next(), self._wake.wait)
            return not self._wake.is_set()
        if isinstance(error, LoginError):
            self._state.note_source_error(error)
            session, wait = self._sessions.of("ranged"), self._wake.wait
            end = wait_for_rotated_credentials(self._current, self._plan, session, error, wait, is_patient=can_wait)
            if end is None:
                return True
            if self._wake.is_set():  # The run was stopped meanwhile.
                return False
            error = end
        self._state.fail(error)
        return False

    def _translate(self, raised: BaseException) -> HeadraceError:
        """Return an error as a HeadraceError. After Spark was stopped, every error has that cause."""
        error = translate(raised, self._plan)
        if isinstance(error, InUseError) or _CONCURRENT in full_text(raised):
            return self._note.error()
        return error if isinstance(error, SparkDiedError) or not is_stopped(self._spark) else spark_stopped()

    def _check_spark(self) -> None:
        """Raise if Spark was stopped: Spark's stream then ends without an error, and a source may not notice."""
        if is_stopped(self._spark):
            raise spark_stopped()

    def _sleep(self, seconds: float, wait: Callable[[float], bool]) -> None:
        """Sleep, at most until Spark is stopped. ``wait`` sleeps for a part of the time, and returns True to end early."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not wait(min(left, 1.0)) and not is_stopped(self._spark):
            pass

    def _poll_sinks(self) -> bool:
        """Poll the sinks now, and periodically in a continuous run; return False if that failed."""
        try:
            with self._in_batch:
                pause = self._poller.poll(self._plan)
        except RetriableError:  # A batch or a later poll may succeed.
            self._must_repeat_poll, pause = True, LONGEST_PAUSE_SECONDS
        except HeadraceError as error:
            self._state.fail(self._translate(error))
            return False
        if self._options.is_continuous and pause is not None:
            threading.Thread(target=self._keep_polling, args=(pause,), name="headrace-sink-poller", daemon=True).start()
        return True

    def _repeat_poll(self) -> None:
        """Poll the sinks at the end of the available data if the first poll failed; raise if it fails again."""
        if self._must_repeat_poll and not (self._options.is_continuous or self._state.is_stopping()):
            with self._in_batch:
                self._poller.poll(self._current.plan)

    def _keep_polling(self, pause: float | None) -> None:
        while pause is not None and not self._wake.wait(pause) and self.is_active:
            try:
                with self._in_batch:
                    if self._state.is_stopping():
                        return
                    pause = self._poller.poll(self._current.plan)
            except RetriableError:  # The next poll may succeed.
                continue
            except HeadraceError as error:
                self._fail(error)
                return
            except Exception as raised:  # noqa: BLE001 - the run ends with it
                self._note_unexpected(raised)
                self._stop_from_another_thread()
                return

    def _fail(self, error: HeadraceError) -> None:
        """End the run with an error, from a thread that the end of the run waits for."""
        self._state.fail(self._translate(error))
        self._stop_from_another_thread()

    def _stop_from_another_thread(self) -> None:
        threading.Thread(target=self.stop, name=f"headrace-stop-{self._plan.name}", daemon=True).start()

    def _failures(self) -> dict[TableInSink, TableFailure]:
        """Return the failures of tables that were set aside, for each sink."""
        failures = self._runner.backlogs.failures
        return {
            (table, name): failure
            for table, failure in failures.items()
            for name in self._plan.for_table(table).sink_names.values()
        }

    def _finish(self) -> None:
        """Finish the catch-up and maintenance.

        At the end of the available data every table catches up, or the run fails.
        """
        with self._finishing:
            if self._is_finished:
                return
            self._is_finished = True
            catch_up = self._runner.catch_up
            if not (self._options.is_continuous or self._state.error or self._state.is_stopping()):
                error = self._runner.finish()
                if error is not None:
                    self._state.fail(error)
                else:
                    self._maintainer.finish()
            catch_up.stop()
            self._maintainer.stop()
            self._is_closed = True
            self._observers.end(self._state.error)
            self._note.delete()

    def _run_batch(self, frame: DataFrame, batch: int, span: tuple[Offset, Offset] | None = None) -> None:
        with self._in_batch:
            if self._state.is_stopping():
                raise StopRequestedError
            self._state.begin_batch(batch)
            self._written = None
            self._observers.emit(RunEventKind.BATCH_STARTED, batch=batch)
            start = time.monotonic()
            try:
                self._runner.run_batch(frame, batch, span)
                self._note_login()
            except BaseException as raised:
                error = self._translate(raised)
                if error not in causes(raised):
                    error.__cause__ = raised
                self._state.fail(error)
                self._observers.emit_batch(batch, self._written, error)
                if error is raised:
                    raise
                raise error from error.__cause__  # Spark logs it.
            else:
                self._acknowledge(batch)
                self._observers.emit_batch(batch, self._written)
            finally:
                self._state.end_batch()
            # Before the source plans the next batch, so that it includes the records that arrive meanwhile.
            interval = self._plan.settings.min_sync_seconds if self._options.is_continuous else 0.0
            self._sleep(interval - (time.monotonic() - start), self._state.wait_for_stop)

    def _acknowledge(self, batch: int) -> None:
        """Tell a native source that a batch is applied. The log of a ranged source tells its source."""
        return

    def _note_login(self) -> None:
        """Record that the source, and the sinks of the last batch, accepted the credentials."""
        self._state.note_response()
        self._current.note_accepted()

    def _record(self, progress: BatchProgress) -> None:
        self._progress.append(progress)
        if self._state.is_own_thread:
            self._written = progress
        else:  # of a table that catches up, or of views
            self._observers.emit_batch(progress.batch, progress)
        call_back("on_progress", self._options.on_progress, progress)

    def _report_maintenance(self, done: Maintained) -> None:
        self._observers.emit(RunEventKind.MAINTENANCE_DONE, table=done.table, maintained=done)
        try:
            call_back("on_maintenance", self._options.on_maintenance, done)
        except HeadraceError as error:
            self._fail(error)
