"""Two of headrace's transforms on an application's own DataFrames: no pipeline, no checkpoint, no sink.

::

    SALT=pepper spark-submit transforms_alone.py
"""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headrace_transforms import Mask, Unwrap

EVENTS = Path(__file__).parent / "events/museum.public.artists"


def make_rows(events: DataFrame) -> DataFrame:
    """Debezium's envelopes as rows, deleted ones among them, with what was done and when."""
    unwrap = Unwrap({"delete.tombstone.handling.mode": "rewrite", "add.fields": "op,source.ts_ms"})
    return unwrap(events)


def hide_people(rows: DataFrame) -> DataFrame:
    """Rows of anything, without who it was."""
    mask = Mask(columns={"name": {"sha256": {"salt": os.environ["SALT"]}}, "email": {"characters": 3}})
    return mask(rows)


def main() -> None:
    """Show both: transforms on events, and on plain rows."""
    spark = SparkSession.builder.getOrCreate()
    events = spark.read.json(str(EVENTS))
    hide_people(make_rows(events)).show()
    guests = spark.createDataFrame([("Emmy Hennings", "emmy@example.org")], "name STRING, email STRING")
    hide_people(guests).show()


if __name__ == "__main__":
    main()
