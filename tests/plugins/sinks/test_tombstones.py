"""Tombstones of envelopes whose delete event was compacted away, from records to tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines
from tests.support.memory_sink import MemorySink
from tests.support.ranged import LinesSource

from headrace import HeadraceError, Pipeline
from headrace.progress.model import TableProgress
from headrace.sdk.sink import Batch, Sink, Table, WriteResult
from headrace_sinks import HudiSink, IcebergSink
from headrace_sources.formats.json.json_format import JsonFormat
from headrace_transforms.unwrap import Unwrap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

TABLE, TOPIC = "shop.orders", "pg.shop.orders"
SINKS: dict[str, type[Sink]] = {"iceberg": IcebergSink, "hudi": HudiSink}
BY_CITY: dict[str, dict[str, Any]] = {
    "iceberg": {"partition.by": {"*": ["city"]}},
    "hudi": {"hoodie.datasource.write.partitionpath.field": "city"},
}
Record = Mapping[str, Any]


def change(op: str, id_: int, name: str, *, lsn: int, partition: int = 0, source: Record | None = None) -> Record:
    row = {"id": id_, "name": name, "city": "Basel"}
    block = {"connector": "postgresql", "ts_ms": 1, "lsn": lsn, "sequence": f'["{lsn}","{lsn}"]', **(source or {})}
    images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    return {"key": {"id": id_}, "value": {**images, "source": block, "op": op}, "partition": partition}


def tombstone(id_: int, partition: int = 0) -> Record:
    return {"key": {"id": id_}, "value": None, "partition": partition}


class InterruptedSink(MemorySink):
    """Sink that fails before it writes the deletes of tombstones."""

    name = "interrupted"
    accidents = 1

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        if "tombstones" in batch.pipeline and self.accidents:
            type(self).accidents -= 1
            raise RuntimeError("an accident")
        return super().write(table, rows, batch)


@dataclass
class Shop:
    """Topic with a pipeline that applies new records in one batch."""

    spark: SparkSession
    folder: Path
    sinks: Iterable[Sink]
    options: dict[str, Any] = field(default_factory=dict)
    checkpoint: str = "checkpoint"
    lines: int = 0

    @property
    def pipeline(self) -> Pipeline:
        config = {"tables": [{"source": "*", "target": TABLE}], "transforms": [Unwrap()], **self.options}
        source, checkpoint = LinesSource(path=str(self.folder / "log.jsonl")), str(self.folder / self.checkpoint)
        return Pipeline("orders", source, list(self.sinks), checkpoint, value=JsonFormat(), key=JsonFormat(), **config)

    def apply(self, *records: Record, topic: str = TOPIC) -> list[TableProgress]:
        """Apply the records as one batch, and return the progress per sink."""
        with (self.folder / "log.jsonl").open("a") as file:
            for record in records:
                self.lines += 1
                # A null that is not a string is read as the string "null", which the format also treats as a tombstone.
                print(json.dumps({"line": self.lines, "topic": topic, **record}), file=file)
        found: list[TableProgress] = []
        self.pipeline.run(self.spark, on_progress=lambda batch: found.extend(batch.tables))
        return found

    def names(self) -> dict[int, str]:
        """Return the rows, which are the same in each sink's table."""
        tables = [
            {row["id"]: row["name"] for row in sink.read_back(self.spark, Table(TABLE)).collect()}
            for sink in self.sinks
        ]
        assert all(table == tables[0] for table in tables)
        return tables[0]


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path, [MemorySink(store=str(tmp_path))])


@pytest.mark.nightly
@pytest.mark.parametrize("kind", pipelines.TABLE_SINKS)
def test_tombstone_deletes_the_row_after_compaction(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    (config,) = pipelines.sink_block(kind, tmp_path, **BY_CITY[kind]).values()
    shop = Shop(spark, tmp_path, [SINKS[kind](config)])
    shop.apply(change("c", 1, "a", lsn=10), change("c", 2, "b", lsn=11))
    (progress,) = shop.apply(tombstone(1), tombstone(9))
    assert shop.names() == {2: "b"}
    assert (progress.rows_in, progress.applied, progress.superseded, progress.dead_letters) == (1, 1, 0, 0)
    shop.apply(change("u", 1, "older", lsn=9))
    assert shop.names() == {2: "b"}
    (progress,) = shop.apply(change("c", 1, "anew", lsn=20), change("u", 2, "B", lsn=21), tombstone(2))
    assert (progress.rows_in, progress.applied) == (2, 2)
    assert shop.names() == {1: "anew", 2: "B"}


@pytest.mark.nightly
def test_tombstone_deletes_only_earlier_rows_of_its_partition(shop: Shop) -> None:
    shop.apply(
        change("c", 1, "a", lsn=10, partition=0),
        change("c", 2, "b", lsn=11, partition=16),
        change("c", 3, "c", lsn=12),
        change("c", 4, "d", lsn=100),
    )
    (progress,) = shop.apply(
        tombstone(1, partition=1),
        tombstone(2, partition=0),  # the encoded partition 16 ends like the encoded partition 0
        change("d", 3, "c", lsn=20),
        tombstone(3),
        change("d", 4, "d", lsn=50),  # late
    )
    assert shop.names() == {1: "a", 2: "b", 4: "d"}
    assert (progress.rows_in, progress.superseded) == (2, 0)
    (progress,) = shop.apply(tombstone(2, partition=16), tombstone(4), change("c", 3, "anew", lsn=30))
    assert shop.names() == {1: "a", 3: "anew", 4: "d"}
    assert (progress.rows_in, progress.applied) == (2, 2)
    shop.apply(tombstone(3))
    assert shop.names() == {1: "a", 4: "d"}


def test_repeated_tombstone_keeps_a_reinserted_row(shop: Shop) -> None:
    shop.apply(change("c", 1, "a", lsn=10))
    shop.apply(tombstone(1))
    first, second = (shop.folder / "log.jsonl").read_text().splitlines(keepends=True)
    shop.apply(change("c", 1, "anew", lsn=20))
    for lines in (
        first,
        first + second,
    ):  # another pipeline reads from the start and has not reached the new row yet
        (shop.folder / "log.jsonl").write_text(lines)
        Shop(shop.spark, shop.folder, shop.sinks, checkpoint="another").apply()
        assert shop.names() == {1: "anew"}


@pytest.mark.nightly
@pytest.mark.parametrize("count", [1, 2])  # a skipped batch is not read, so its rows are not counted
def test_batch_interrupted_before_its_tombstones_is_repeated(spark: SparkSession, tmp_path: Path, count: int) -> None:
    sinks = [MemorySink(store=f"{tmp_path}/one"), InterruptedSink(store=f"{tmp_path}/two")]
    InterruptedSink.accidents = 1
    shop = Shop(spark, tmp_path, sinks[-count:])
    shop.apply(change("c", 1, "a", lsn=10), change("c", 2, "b", lsn=11))
    with pytest.raises(HeadraceError):
        shop.apply(tombstone(1), change("u", 2, "B", lsn=12))
    shop.apply()
    assert shop.names() == {2: "B"}
    shop.apply(change("u", 1, "older", lsn=9))
    assert shop.names() == {2: "B"}


@pytest.mark.nightly
def test_tombstone_deletes_no_row_when_deleted_rows_stay(shop: Shop) -> None:
    shop.options["transforms"] = [Unwrap({"delete.tombstone.handling.mode": "rewrite"})]
    shop.apply(change("c", 1, "a", lsn=10))
    (progress,) = shop.apply(tombstone(1))
    assert shop.names() == {1: "a"}
    assert (progress.rows_in, progress.applied, progress.dead_letters) == (0, 0, 0)


@pytest.mark.nightly
def test_changelog_has_no_tombstones(spark: SparkSession, tmp_path: Path) -> None:
    log, table = MemorySink(store=f"{tmp_path}/log", mode="changelog"), MemorySink(store=f"{tmp_path}/table")
    shop = Shop(spark, tmp_path, [log, table])
    shop.apply(change("c", 1, "a", lsn=10))
    shop.apply(tombstone(1), change("c", 2, "b", lsn=11))
    rows = log.read_back(spark, Table(TABLE)).collect()
    assert sorted((row["id"], row["__op"]) for row in rows) == [(1, "c"), (2, "c")]
    assert [row["id"] for row in table.read_back(spark, Table(TABLE)).collect()] == [2]


@pytest.mark.nightly
def test_kept_envelopes_have_no_tombstones(shop: Shop) -> None:
    shop.options["transforms"] = []
    shop.apply(change("c", 1, "a", lsn=10), tombstone(1))
    (sink,) = shop.sinks
    assert [row["op"] for row in sink.read_back(shop.spark, Table(TABLE)).collect()] == ["c"]


@pytest.mark.nightly
def test_tombstones_are_ignored_in_a_table_of_two_topics(shop: Shop) -> None:
    shop.apply(change("c", 1, "a", lsn=10), topic="north")
    shop.apply(change("c", 2, "b", lsn=11), topic="south")
    shop.apply(tombstone(1), change("c", 3, "c", lsn=12), topic="south")
    assert shop.names() == {1: "a", 2: "b", 3: "c"}


@pytest.mark.nightly
def test_tombstone_of_another_table_in_the_topic_deletes_no_row(shop: Shop) -> None:
    orders, others = {"schema": "shop", "table": "orders"}, {"schema": "shop", "table": "others"}
    shop.apply(change("c", 1, "a", lsn=10, source=orders), change("c", 2, "b", lsn=11, source=orders))
    (progress,) = shop.apply(change("d", 1, "x", lsn=12, source=others), tombstone(1))
    assert (shop.names(), progress.dead_letters) == ({1: "a", 2: "b"}, 1)
    shop.apply(tombstone(2), change("c", 3, "c", lsn=13, source=orders))  # of a later batch
    assert shop.names() == {1: "a", 2: "b", 3: "c"}


@pytest.mark.nightly
def test_tombstone_deletes_flat_rows_after_compaction(shop: Shop) -> None:
    def row(id_: int, lsn: int, deleted: str = "false") -> Record:
        return {"key": {"id": id_}, "value": {"id": id_, "name": "a", "__lsn": lsn, "__deleted": deleted}}

    shop.apply(row(1, 10), row(2, 11))
    shop.apply(tombstone(1), row(2, 12, "true"), tombstone(2), row(3, 13))
    assert shop.names() == {3: "a"}
    shop.apply(row(1, 9))
    assert shop.names() == {3: "a"}
