"""Newest snapshot of a table, and its start position in the log of the database."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.records import make_changes, record, rows_of, samples

from headrace.engine.write.row_metrics import RowCounter, origin_aggregates
from headrace.sdk.changes import POSITION, SNAPSHOT
from headrace.spark.storage import Folder
from headrace.upsert.snapshots import NewestSnapshot, SeenSnapshot
from headrace_sources.dialects.flat import FlatDialect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps, pytest.mark.one_spark]

KEY = ("id",)


def test_only_a_newer_snapshot_replaces_the_recorded_one(spark: SparkSession, tmp_path: Path) -> None:
    def newest() -> NewestSnapshot:
        return NewestSnapshot(Folder(spark, str(tmp_path)), "shop.orders")

    newest().note(None, 1, KEY)
    assert newest().value is None
    newest().note(SeenSnapshot("0B", has_ended=False), 2, KEY)
    newest().note(None, 3, KEY)
    newest().note(SeenSnapshot("0B", has_ended=True), 4, KEY)
    newest().note(SeenSnapshot("0A", has_ended=False), 5, KEY)
    recorded = newest().value
    assert recorded is not None
    assert (recorded.position, recorded.batch, recorded.has_ended, recorded.key) == ("0B", 2, True, KEY)
    newest().note(SeenSnapshot("0C", has_ended=False), 6, KEY)
    recorded = newest().value
    assert recorded is not None
    assert (recorded.position, recorded.batch, recorded.has_ended) == ("0C", 6, False)
    # Earlier versions stored the topics, too.
    file = tmp_path / "shop.orders"
    file.write_text(json.dumps({**json.loads(file.read_text()), "topics": ["shop.orders"]}))
    assert newest().value == recorded


def test_batch_records_the_sources_of_its_rows_and_the_snapshot_in_its_epoch(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [
            (("0A", True), None, "b", False),
            (("0B", False), None, "c", False),
            (("0C", True), "key-missing", "z", False),
            (None, "truncated", "e", False),
            (None, None, "a", True),
        ],
        "_headrace_snapshot struct<began: string, is_last: boolean>, _headrace_error string, _headrace_source string, "
        "_headrace_deleted boolean",
    ).selectExpr("*", "1L _headrace_committed_ms")
    for epoch, position in ((0, "0B"), (3, "13B")):
        counter = RowCounter(origins=origin_aggregates(epoch, has_snapshots=True))
        counter.count_arrivals(rows).write.format("noop").mode("overwrite").save()
        counts = counter.collect(was_read=True)
        assert counts.snapshot == SeenSnapshot(position, has_ended=False)
        assert counts.sources == {"b", "c"}


#: Snapshot and position fields of real source blocks, in the order of their topics.
POSTGRES = [
    {"snapshot": "first_in_data_collection", "sequence": '[null,"70075312"]', "lsn": 70075312},
    {"snapshot": "last_in_data_collection", "sequence": '[null,"70075312"]', "lsn": 70075312},
    {"snapshot": "false", "sequence": '[null,"70102768"]', "lsn": 70102768},
    {"snapshot": "incremental", "sequence": '["70143856","70143856"]', "lsn": None},
]
MYSQL = [
    {"snapshot": "first", "file": "binlog.000002", "pos": 76616, "row": 0},
    {"snapshot": "true", "file": "binlog.000002", "pos": 76616, "row": 0},
    {"snapshot": "last", "file": "binlog.000002", "pos": 76616, "row": 0},
    {"snapshot": "false", "file": "binlog.000002", "pos": 110092, "row": 0},
]


@pytest.mark.parametrize("blocks", [POSTGRES, MYSQL, "sqlserver_envelope"])
def test_snapshot_starts_before_its_rows_and_after_earlier_changes(spark: SparkSession, blocks: Any) -> None:
    if isinstance(blocks, str):
        events = [r for r in samples(blocks) if r["topic"].endswith(".customers")]
    else:
        values = [{"after": {"id": n}, "source": {"connector": None, **b}, "op": "r"} for n, b in enumerate(blocks)]
        events = [record(value, key={"id": n}, offset=n) for n, value in enumerate(values)]
    [found] = make_changes(spark, events).values()
    rows = rows_of(found, POSITION, SNAPSHOT, "source")
    positions = [row[POSITION] for row in rows]
    is_read = [row["source"]["snapshot"] not in ("false", "incremental") for row in rows]
    assert [bool(row[SNAPSHOT]) for row in rows] == is_read
    ends = [row[SNAPSHOT]["is_last"] for row in rows if row[SNAPSHOT]]
    assert ends == [False] * (len(ends) - 1) + [True]
    [began] = {row[SNAPSHOT]["began"] for row in rows if row[SNAPSHOT]}
    assert all(position > began for position in positions)
    assert all(position.startswith(began) == read for position, read in zip(positions, is_read, strict=True))


@pytest.mark.nightly
def test_snapshot_is_read_from_the_added_field_of_flat_rows(spark: SparkSession) -> None:
    def flat(**fields: Any) -> list[Any]:
        value = {"id": 1, "__lsn": 256, "__deleted": "false", **fields}
        [found] = make_changes(spark, [record(value)], dialect=FlatDialect()).values()
        return [row[SNAPSHOT] for row in rows_of(found, SNAPSHOT)] if SNAPSHOT in found.frame.columns else []

    assert flat() == []
    assert flat(__source_snapshot="false") == [None]
    assert flat(__snapshot="last") == [{"began": "03100", "is_last": True}]
    assert flat(__snapshot="true") == [{"began": "03100", "is_last": False}]
