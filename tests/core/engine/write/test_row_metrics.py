"""Counts of the rows of a table, and the progress that is computed from them."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pytest

from headrace.engine.write.rejects import Rejected
from headrace.engine.write.row_metrics import Counts, RowCounter, table_progress
from headrace.sdk.sink import TableMode, WriteResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGES = "id int, _headrace_deleted boolean, _headrace_error string, _headrace_committed_ms bigint"


@pytest.mark.spark
@pytest.mark.steps
@pytest.mark.one_spark
class TestRowCounter:
    """Counter that observes rows while another step reads them."""

    def test_input_rows_and_remaining_rows_per_key_are_counted(self, spark: SparkSession) -> None:
        changes = spark.createDataFrame(
            [(1, False, None, 500), (1, True, None, 700), (None, False, "key-missing", 900)], CHANGES
        )
        counter = RowCounter()
        arrived = counter.count_arrivals(changes).where("_headrace_error is null")
        assert counter.count_upserts(arrived.where("_headrace_deleted")).count() == 1
        assert counter.collect(was_read=True) == Counts(
            rows_in=3, errors=1, newest_ms=700, oldest_ms=500, upserts=1, upsert_deletes=1
        )

    def test_tombstone_is_counted_only_without_another_change_of_its_key(self, spark: SparkSession) -> None:
        rows = [(1, True, None, None, "!1"), (2, True, None, None, "!2"), (2, True, None, 7, "0A")]
        changes = spark.createDataFrame(rows, f"{CHANGES}, _headrace_position string")
        counter = RowCounter(has_tombstones=True)
        assert counter.count_upserts(counter.count_arrivals(changes).where("_headrace_position <> '!2'")).count() == 2
        counts = counter.collect(was_read=True)
        assert (counts.rows_in, counts.upserts, counts.upsert_deletes) == (1, 1, 1)
        assert counts.tombstones == 1
        removed = counts.with_removed(1)
        assert (removed.rows_in, removed.upserts, removed.upsert_deletes, removed.rows_accepted) == (2, 2, 2, 2)

    def test_time_of_the_newest_record_that_is_accepted(self, spark: SparkSession) -> None:
        times = "timestamp_millis(_headrace_committed_ms + 250) AS _headrace_timestamp"
        rows = [(1, False, None, 500), (1, True, None, 700), (None, False, "key-missing", 900)]
        changes = spark.createDataFrame(rows, CHANGES).selectExpr("*", times)
        counter = RowCounter()
        assert counter.count_arrivals(changes).count() == 3
        assert counter.collect(was_read=True).arrived_ms == 950

    def test_partial_updates_are_not_counted_as_rows(self, spark: SparkSession) -> None:
        rows = spark.createDataFrame(
            [(1, False, False), (2, False, True)], "id int, _headrace_deleted boolean, _headrace_partial boolean"
        )
        counter = RowCounter()
        counter.count_arrivals(spark.createDataFrame([], CHANGES)).count()
        assert counter.count_upserts(rows).count() == 2
        assert counter.collect(was_read=True).upserts == 1


def test_latency_has_stages_if_records_have_times() -> None:
    counts = Counts(rows_in=1, errors=0, newest_ms=9_000, oldest_ms=4_000, arrived_ms=9_250)
    stages = progress("append", WriteResult(), counts)["stages_ms"]
    assert stages == {"transport": 250, "read": 350, "write": 400}
    assert progress("append", WriteResult(), replace(counts, arrived_ms=None))["stages_ms"] == {}
    assert progress("append", WriteResult(), replace(counts, newest_ms=None))["stages_ms"] == {}


def test_counts_are_unknown_before_the_rows_are_read() -> None:
    assert Counts().rows_accepted is None
    assert Counts(rows_in=5, errors=2).rows_accepted == 3


def progress(mode: TableMode, result: WriteResult, counts: Counts) -> dict[str, Any]:
    rejected = Rejected(1, 2, reasons={"key-missing": 1}).counts
    made = table_progress(
        "shop.orders", "memory", mode, result, counts, **rejected, began=9.6, readable=10.0, seconds=1.23456
    )
    return {name: value for name, value in asdict(made).items() if value is not None}


COUNTS = Counts(rows_in=9, errors=3, newest_ms=9_000, oldest_ms=4_000, upserts=4, upsert_deletes=1, filtered=3)


@pytest.mark.parametrize(
    ("mode", "result", "expected"),
    [
        ("upsert", WriteResult(upserted=2), {"applied": 3, "late": 1, "superseded": 2}),
        ("upsert", WriteResult(), {"applied": 4, "superseded": 2}),
        # All accepted changes are rows, also the delete.
        ("append", WriteResult(upserted=6), {"applied": 6, "late": 0, "superseded": 0}),
        ("upsert", WriteResult(skipped=True), {"applied": 0, "superseded": 2, "skipped": True}),
    ],
)
def test_progress_of_a_write(mode: TableMode, result: WriteResult, expected: dict[str, Any]) -> None:
    same: dict[str, Any] = {
        "table": "shop.orders",
        "sink": "memory",
        "rows_in": 12,
        "stages_ms": {},
        "dead_letters": 1,
        "dropped": 2,
        "filtered": 3,
    }
    same |= {"seconds": 1.235, "reasons": {"key-missing": 1}}
    latencies = {"latency_ms": 1_000, "latency_max_ms": 6_000, "skipped": False}
    assert progress(mode, result, COUNTS) == same | latencies | expected


def test_progress_of_a_batch_that_was_already_applied() -> None:
    made = progress("upsert", WriteResult(skipped=True), Counts())
    assert "rows_in" not in made
    assert (made["applied"], made["skipped"]) == (0, True)
