"""Proof that a pipeline has applied all changes that the database had committed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError, RetriableError
from headrace_verify.source_table import SourceDatabase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace import Pipeline

#: Seconds between two questions.
_PAUSE = 0.5


class AppliedChanges:
    """Wait for the changes that are committed now: first for the connector, then for the pipeline.

    A marker in the database's log follows them. When the connector has committed an offset after the marker, the broker has all of them;
    when the pipeline has applied all records that the broker has then, the tables have them.
    """

    def __init__(self, database: SourceDatabase, pipeline: Pipeline, spark: SparkSession, timeout: float) -> None:
        self._database, self._pipeline, self._spark, self._timeout = database, pipeline, spark, timeout

    def wait(self) -> None:
        """Return when the tables have the changes. RetriableError after the timeout; it names the part that does not run."""
        deadline = time.monotonic() + self._timeout
        mark = self._database.mark()
        what = f"the connector has not delivered the changes of the last {self._timeout:g} seconds"
        fix = "check that it runs: `headrace connect status FILE`. Kafka Connect commits offsets each minute: raise --timeout"
        _wait_until(lambda: self._database.has_delivered(mark), deadline, what, fix)
        end = self._pipeline.find_end(self._spark)
        if end is None:
            what = "it is unknown which records the pipeline has applied: only the source kafka reports it, after the first batch"
            raise ConfigError(what, fix="run the pipeline")
        what = f"the pipeline has not applied the changes of the last {self._timeout:g} seconds"
        fix = "start it: `headrace run FILE --continuous`; if it is far behind, raise --timeout"
        _wait_until(lambda: self._pipeline.has_applied(end, self._spark), deadline, what, fix)


def _wait_until(is_done: Callable[[], bool], deadline: float, what: str, fix: str) -> None:
    while not is_done():
        if time.monotonic() > deadline:
            raise RetriableError(what, fix=fix)
        time.sleep(_PAUSE)
