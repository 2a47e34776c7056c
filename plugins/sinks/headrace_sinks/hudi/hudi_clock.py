"""Comparison of a table's instants with the clock of this machine.

Hudi orders commits by instants, which are local times by default. Rows of a commit with an earlier instant than the commits before it
would be lost.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headrace.sdk import RetriableError
from headrace_sinks.hudi.hudi_timeline import format_instant, parse_instant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Java option with which all machines, in summer and in winter, create instants of one time zone.
UTC = "-Duser.timezone=UTC"
#: Clocks of several machines differ by a few seconds.
_LONGEST_WAIT_SECONDS = 5.0


def wait_for_instants(spark: SparkSession, table: Any) -> None:
    """Wait until the clock is later than all instants of a table. RetriableError if that takes more than a few seconds."""
    timeline = table.getActiveTimeline()
    last, completed = timeline.lastInstant(), timeline.getLatestCompletionTime()
    requested = str(last.get().requestedTime()) if last.isPresent() else ""
    newest = max(requested, str(completed.orElse("")))
    now = round(time.time() * 1000)
    if newest <= format_instant(spark, table, now):
        return
    seconds = (parse_instant(spark, table, newest[:17]) - now) / 1000
    if seconds > _LONGEST_WAIT_SECONDS:
        raise RetriableError(
            f"the table's newest instant, {newest}, is {timedelta(seconds=round(seconds))} later than the clock of this machine: "
            "rows of a new commit would be lost",
            where=str(table.getBasePath()),
            fix="correct the clock; if the table was written in another time zone, set `spark.driver.extraJavaOptions: "
            "-Duser.timezone=…` of that time zone under `spark:`, or wait until the instant has passed: the batch is retried",
        )
    time.sleep(max(0.0, seconds))
