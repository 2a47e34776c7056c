"""A pipeline whose source Spark streams by itself."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headrace.engine.plan.error_translation import SparkDiedError, translate
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.run.query import Query, RunOptions
from headrace.sdk.source import NativeSource
from headrace.spark.sessions import is_stopped
from headrace.spark.stream_files import choose_file_manager

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class NativeQuery(Query):
    """A run of a native source; Spark's StreamingQuery is ``streaming_query``."""

    def __init__(self, plan: Plan, spark: SparkSession, options: RunOptions) -> None:
        super().__init__(plan, spark, options)
        self._stream: StreamingQuery | None = None
        try:
            self._stream = self.streaming_query = self._start_stream()
        except Exception as error:
            self._runner.catch_up.stop()
            raise translate(error, plan) from error
        self._thread.start()

    def _start_stream(self) -> StreamingQuery:
        source, pause = self._plan.source, self._options.pause
        self._source = source
        assert isinstance(source, NativeSource)
        if pause is None:
            source.prepare_for_trigger_available_now(self._spark)
        writer = source.stream(self._spark).writeStream.queryName(self._plan.name).foreachBatch(self._apply)
        writer = writer.option("checkpointLocation", self.checkpoint.stream.path)
        with choose_file_manager(self._spark, self.checkpoint.stream):
            if pause is None:
                return writer.trigger(availableNow=True).start()
            return writer.trigger(processingTime=f"{round(pause * 1000)} milliseconds").start()

    def _follow(self) -> None:
        stream, self._stream = self._stream or self._start_stream(), None
        self.streaming_query = stream
        if self._state.is_stopping():  # it came while the new one began
            stream.stop()
        while self._options.is_continuous and (self._state.source_error or not self._state.has_answered):
            if stream.awaitTermination(0.2):  # type: ignore[arg-type]  # whatever its types say, it takes fractions
                return
            self._check_spark()
            if stream.status["message"].startswith("Waiting"):
                self._state.note_answer()
        while not stream.awaitTermination(1):
            self._check_spark()

    def _end(self) -> None:
        super()._end()
        self._await_commit()
        self._stop_stream()

    def _check_spark(self) -> None:
        try:
            super()._check_spark()
        except SparkDiedError:
            self._stop_stream()  # it would look at its source until the JVM ends
            raise

    def _stop_stream(self) -> None:
        try:
            self.streaming_query.stop()
        except Exception:
            if not is_stopped(self._spark):  # then it ends, and Spark complains all the same
                raise

    def _await_commit(self) -> None:
        """Spark notes a batch as done just after our part of it ends; stopping before would repeat the batch."""
        commits, state = self.checkpoint.stream.folder("commits"), self._state
        deadline = time.monotonic() + 5
        while state.batch is not None and state.error is None and time.monotonic() < deadline:
            if not self.streaming_query.isActive or str(state.batch) in commits.names():
                return
            time.sleep(0.02)
