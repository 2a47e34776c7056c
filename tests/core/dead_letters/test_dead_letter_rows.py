"""Dead letters as rows, and as records of a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.tiers import nightly_after

from headrace.dead_letters.rows import dead_letter_rows
from headrace.engine.commands import replay
from headrace.sdk.changes import Changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps, pytest.mark.one_spark]

_COLUMNS = """'undecodable' AS _headrace_error, 'orders' AS _headrace_topic, 0 AS _headrace_partition,
    7L AS _headrace_offset, CAST(null AS string) AS _headrace_file, '7' AS _headrace_place, binary('raw') AS _headrace_raw"""


@pytest.mark.parametrize(
    ("timestamp", "replayed"),
    nightly_after(1, [(", timestamp'2024-02-29T12:30:00Z' AS _headrace_timestamp", "timestamp"), ("", "seen")]),
    ids=["broker", "without timestamps"],
)
def test_replay_keeps_the_timestamp_of_a_record(spark: SparkSession, timestamp: str, replayed: str) -> None:
    changes = Changes(spark.sql(f"SELECT {_COLUMNS} {timestamp}"), envelope=False)
    rows = dead_letter_rows(changes, batch=3, table="shop.orders", hide=False, plugins={}).localCheckpoint()
    (record,) = replay._load_records(rows, spark).collect()
    assert (record["topic"], record["offset"], record["value"]) == ("orders", 7, b"raw")
    assert record["timestamp"] == rows.collect()[0][replayed]
    assert record["timestamp"].year == (2024 if timestamp else record["timestamp"].year)
    (older,) = replay._load_records(rows.drop("timestamp"), spark).collect()
    assert older["timestamp"] == rows.collect()[0]["seen"]
