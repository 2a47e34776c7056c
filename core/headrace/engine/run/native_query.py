"""Run of a native source, which Spark streams."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.engine.plan.error_translation import SparkDiedError
from headrace.engine.run.query import Query
from headrace.errors import ConfigError, FatalError, HeadraceError, RetriableError
from headrace.sdk.source import NativeSource, SourceContext
from headrace.spark.sessions import is_stopped
from headrace.spark.stream_files import choose_file_manager, find_damaged_file

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

#: Spark's status of a stream that waits for the end offsets of its source.
_ASKS_SOURCE = "Getting offsets"


class NativeQuery(Query):
    """Run of a native source. Spark's StreamingQuery is ``streaming_query``."""

    streaming_query: StreamingQuery
    _watches_answers = True
    #: The stream that the next ``_run_batches`` follows, if it has started already.
    _stream: StreamingQuery | None = None
    #: Error of the last acknowledgement.
    _commit_error: str | None = None

    def _open_source(self) -> None:
        self._stream = self.streaming_query = self._start_stream()

    def _translate(self, raised: BaseException) -> HeadraceError:
        error = super()._translate(raised)
        if type(error) is FatalError and (file := self._find_damaged_file()):
            return ConfigError("is damaged", where=file, fix="restore it, or use a new checkpoint folder")
        return error

    def _find_damaged_file(self) -> str | None:
        with suppress(Exception):  # The file system may be the cause of the error.
            return find_damaged_file(self.checkpoint.stream)
        return None

    def _start_stream(self) -> StreamingQuery:
        source, pause = self._plan.source, self._options.pause
        assert isinstance(source, NativeSource)
        source.check_stream(SourceContext(self._spark, self.checkpoint.schemas, stream=self.checkpoint.stream))
        if pause is None:
            source.prepare_for_trigger_available_now(self._spark)
        writer = source.stream(self._spark).writeStream.queryName(self._plan.name).foreachBatch(self._run_batch)
        writer = writer.option("checkpointLocation", self.checkpoint.stream.path)
        with choose_file_manager(self._spark, self.checkpoint.stream):
            if pause is None:
                return writer.trigger(availableNow=True).start()
            return writer.trigger(processingTime=f"{round(pause * 1000)} milliseconds").start()

    def _run_batches(self) -> None:
        while True:
            try:
                return self._follow_stream()
            except Exception as error:
                if self._state.error is not None or self._state.is_stopping() or not self._repair_plan(error):
                    raise

    def _repair_plan(self, error: Exception) -> bool:
        source, checkpoint = self._plan.source, self.checkpoint
        assert isinstance(source, NativeSource)
        return source.repair_plan(SourceContext(self._spark, checkpoint.schemas, stream=checkpoint.stream), error)

    def _follow_stream(self) -> None:
        stream, self._stream = self._stream or self._start_stream(), None
        self.streaming_query = stream
        if self._state.is_stopping():  # The request came while the stream started.
            stream.stop()
        while self._options.is_continuous and (self._state.source_error or not self._state.has_responded):
            if stream.awaitTermination(0.2):  # type: ignore[arg-type]  # it accepts fractions
                return
            self._check_spark()
            if stream.status["message"].startswith("Waiting"):
                self._note_login()
        while not stream.awaitTermination(1):
            self._check_spark()
            if self._options.is_continuous:
                self._poll_source()
            if self._state.is_applying or not stream.status["message"].startswith(_ASKS_SOURCE):
                self._state.note_answer()

    def _acknowledge(self, batch: int) -> None:
        """Acknowledge a batch, unless a table that was set aside must read its backlog again. Each new error is a warning."""
        source, checkpoint = self._plan.source, self.checkpoint
        assert isinstance(source, NativeSource)
        if self._runner.backlogs.errors:
            return
        try:
            source.commit(SourceContext(self._spark, checkpoint.schemas, batch, checkpoint.stream))
        except Exception as raised:  # noqa: BLE001 - the tables have the records
            error = self._translate(raised)
            if self._commit_error != error.what:
                text = self._plan.redact(str(error))
                self.warnings.append(f"batch {batch} is applied, but the source was not told so: {text}")
            self._commit_error = error.what
        else:
            self._commit_error = None

    def _poll_source(self) -> None:
        """Poll the source. While it does not respond, the stream continues, and the status shows the error."""
        source = self._plan.source
        assert isinstance(source, NativeSource)
        try:
            source.poll()
        except Exception as raised:
            error = self._translate(raised)
            if not isinstance(error, RetriableError):
                raise error from raised
            self._state.note_source_error(error)
        else:
            if self._state.source_error is not None:
                self._state.note_response()

    def _shutdown(self) -> None:
        super()._shutdown()
        self._await_commit()
        self._stop_stream()

    def _close_source(self) -> None:
        super()._close_source()
        with suppress(Exception):  # Its JVM may have ended.
            self._stop_stream()

    def _check_spark(self) -> None:
        try:
            super()._check_spark()
        except SparkDiedError:
            self._stop_stream()  # Otherwise it would read its source until the JVM ends.
            raise

    def _stop_stream(self) -> None:
        if not hasattr(self, "streaming_query"):  # The source could not be opened.
            return
        try:
            self.streaming_query.stop()
        except Exception:
            if not is_stopped(self._spark):  # Otherwise Spark raises although the stream ends.
                raise

    def _await_commit(self) -> None:
        """Wait until Spark has committed the batch, after ``_run_batch``. Stopping earlier would repeat the batch."""
        commits, state = self.checkpoint.stream.folder("commits"), self._state
        deadline = time.monotonic() + 5
        while state.batch is not None and state.error is None and time.monotonic() < deadline:
            if not self.streaming_query.isActive or str(state.batch) in commits.names():
                return
            time.sleep(0.02)
