"""Time of a batch of 200 updates in the Hudi sink, by the log files and commits in the table's history.

    python -m benchmarks.versions --work FOLDER [--commits 0 900 3600] [--rows 100000] [--batches 25] [--in-timeline]

The history is simulated: log files of the table are copied under the instants of older commits, one second apart, as if the commits
were archived. With ``--in-timeline`` the commits are in the timeline, as before archival.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.runtime.session.session_builder import build_session
from headrace.sdk import Batch, MaintenancePolicy, Sink, Table
from headrace.sdk.changes import DELETED, POSITION
from headrace.spark.sessions import Sessions
from headrace_sinks.hudi import HudiSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UPDATES = 200
TABLE = Table("shop.orders", ("id",))
ALL = MaintenancePolicy(history_seconds=0, files=1)


class Orders:
    """Table written in batches."""

    def __init__(self, spark: SparkSession, folder: Path, rows: int) -> None:
        self._sink: Sink = HudiSink({"path": str(folder)})
        self._spark, self._rows, self._batch = spark, rows, 0
        self.folder = folder / "shop" / "orders"
        self._write(self._make(rows, step=1))

    def update(self) -> float:
        """Write a batch; return its seconds."""
        rows, began = self._make(UPDATES, step=499), time.monotonic()
        self._write(rows)
        return time.monotonic() - began

    def maintain(self) -> None:
        for step in self._sink.plan_maintenance(self._spark, TABLE, ALL):
            step.run()

    def _make(self, count: int, step: int) -> DataFrame:
        from pyspark.sql import functions as F

        turn = self._batch
        return self._spark.range(count).select(
            ((F.col("id") * step + turn) % self._rows).alias("id"),
            F.lit(turn).alias("turn"),
            F.sha2(F.col("id").cast("string"), 256).alias("note"),
            F.lit(False).alias(DELETED),
            F.lit(f"{turn:010d}").alias(POSITION),
        )

    def _write(self, rows: DataFrame) -> None:
        self._sink.write(TABLE, rows, Batch("benchmark", self._batch, "upsert", is_maintained=True))
        self._batch += 1


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the median of each size of history."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--commits", type=int, nargs="+", default=[0, 900, 3600])
    cli.add_argument("--rows", type=int, default=100_000)
    cli.add_argument("--batches", type=int, default=25)
    cli.add_argument("--in-timeline", action="store_true")
    options = cli.parse_args(arguments)
    for commits, seconds in measure(options):
        print(f"{commits:,} commits: {seconds:.2f} s")


def measure(options: argparse.Namespace) -> Iterator[tuple[int, float]]:
    """Yield the number of commits and the median seconds of a batch."""
    shutil.rmtree(options.work, ignore_errors=True)
    sink = HudiSink({"path": str(options.work)})
    session = build_session([sink], {"spark.master": "local[2]", "spark.driver.memory": "2g"})
    orders = Orders(Sessions(session, dict(sink.sql_conf)).of("benchmark"), options.work, options.rows)
    for _ in range(2 * options.batches):  # warm-up of the JVM
        orders.update()
    orders.maintain()
    played = 0
    for commits in options.commits:
        orders.update()
        play_commits(orders.folder, range(played, commits), in_timeline=options.in_timeline)
        played = commits
        yield commits, statistics.median(orders.update() for _ in range(options.batches))
    session.stop()


def play_commits(table: Path, numbers: Sequence[int], *, in_timeline: bool) -> None:
    """Write the commits of batches that changed rows of every file; the first one on 1 January 2026."""
    logs = {file.name[1:].split("_")[0]: file for file in table.glob(".*.log.*") if file.suffix != ".crc"}
    timeline = table / ".hoodie" / "timeline"
    done = max(timeline.glob("2*.deltacommit"))
    requested = done.name.split("_")[0]
    for number in numbers:
        began = datetime(2026, 1, 1) + timedelta(seconds=number)  # noqa: DTZ001 - as the table's instants
        instant, ended = (f"{began:%Y%m%d%H%M%S}{millis}" for millis in ("000", "500"))
        for file_id, file in logs.items():
            _copy(file, table / f".{file_id}_{instant}.log.1_0-1-1")
        if in_timeline:
            _copy(done, timeline / f"{instant}_{ended}.deltacommit")
            for state in ("deltacommit.requested", "deltacommit.inflight"):
                _copy(timeline / f"{requested}.{state}", timeline / f"{instant}.{state}")


def _copy(file: Path, copy: Path) -> None:
    shutil.copy(file, copy)
    checksum = file.with_name(f".{file.name}.crc")
    if checksum.exists():
        shutil.copy(checksum, copy.with_name(f".{copy.name}.crc"))


if __name__ == "__main__":
    main()
