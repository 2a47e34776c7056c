"""Cost of the deleted keys in a checkpoint for a batch of 10,000 changes, by the number of keys.

    python -m benchmarks.deleted_keys --work FOLDER [--repeat 5]

Measures the seconds of the search for changes that are older than a delete, with headrace's settings of Spark.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.runtime.session.session_builder import build_session
from headrace.sdk.changes import DELETED, POSITION
from headrace.spark.storage import Folder
from headrace.upsert.deleted_keys import DeletedKeys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANGES = 10_000
KEYS = (0, 10_000, 100_000, 1_000_000, 5_000_000)
DAY = 86_400.0


def main() -> None:
    """Print a line of JSON for each size."""
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--repeat", type=int, default=5)
    arguments = cli.parse_args()
    shutil.rmtree(arguments.work, ignore_errors=True)
    spark = build_session([], {"spark.master": "local[2]"})
    changes = rows(spark, CHANGES, 500, deleted=False, position=_position("B")).localCheckpoint()
    for count in KEYS:
        folder = Folder(spark, str(arguments.work / str(count)))
        if count:
            deleted = rows(spark, count, 1, deleted=True, position=_position("A"))
            DeletedKeys(folder, 7 * DAY).remember(deleted, ["key"], 1)
        times = []
        for _ in range(arguments.repeat + 1):
            keys, began = DeletedKeys(folder, 7 * DAY), time.monotonic()
            with keys.drop_late(changes, ["key"]) as left:
                assert left.count() == CHANGES
            times.append(time.monotonic() - began)
        result = {"keys": count, "seconds": round(statistics.median(times[1:]), 2), "first": round(times[0], 2)}
        print(json.dumps(result), flush=True)
    spark.stop()


def rows(spark: SparkSession, count: int, step: int, *, deleted: bool, position: str) -> DataFrame:
    """Make changes of a number of keys; a position is as long as PostgreSQL's."""
    from pyspark.sql import functions as F

    place = F.concat(F.lit(position), F.lpad(F.col("id").cast("string"), 12, "0"))
    columns = [F.col("id").alias("key"), F.lit(deleted).alias(DELETED), place.alias(POSITION)]
    return spark.range(0, count * step, step).select(*columns)


def _position(first: str) -> str:
    return first + "0" * 20


if __name__ == "__main__":
    main()
