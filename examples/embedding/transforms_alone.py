"""Two transforms of headrace on DataFrames of an application, without a pipeline, a checkpoint or a sink.

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
    """Unwrap Debezium envelopes into rows with the operation and the commit time; keep deleted rows."""
    unwrap = Unwrap({"delete.tombstone.handling.mode": "rewrite", "add.fields": "op,source.ts_ms"})
    return unwrap(events)


def hide_people(rows: DataFrame) -> DataFrame:
    """Mask personal data in rows."""
    mask = Mask(columns={"name": {"sha256": {"salt": os.environ["SALT"]}}, "email": {"characters": 3}})
    return mask(rows)


def main() -> None:
    """Apply the transforms to events and to plain rows, and show the results."""
    spark = SparkSession.builder.getOrCreate()
    events = spark.read.json(str(EVENTS))
    hide_people(make_rows(events)).show()
    guests = spark.createDataFrame([("Emmy Hennings", "emmy@example.org")], "name STRING, email STRING")
    hide_people(guests).show()


if __name__ == "__main__":
    main()
