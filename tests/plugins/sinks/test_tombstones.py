"""Tombstones of envelopes whose delete was compacted away, from records into tables."""

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
from tests.support.tiers import nightly_after

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
    """Has an accident before the next write of what tombstones remove."""

    name = "interrupted"
    accidents = 1

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        if "tombstones" in batch.pipeline and self.accidents:
            type(self).accidents -= 1
            raise RuntimeError("an accident")
        return super().write(table, rows, batch)


@dataclass
class Shop:
    """A topic, and a pipeline that applies what is added to it, in one batch."""

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
        """Applies the records as one batch; what came of it, per sink."""
        with (self.folder / "log.jsonl").open("a") as file:
            for record in records:
                self.lines += 1
                # A null that is no text is read as the text "null", which the format takes for a tombstone as well.
                print(json.dumps({"line": self.lines, "topic": topic, **record}), file=file)
        found: list[TableProgress] = []
        self.pipeline.run(self.spark, on_progress=lambda batch: found.extend(batch.tables))
        return found

    def names(self) -> dict[int, str]:
        """The rows of each sink's table, which are the same."""
        tables = [
            {row["id"]: row["name"] for row in sink.read_back(self.spark, Table(TABLE)).collect()}
            for sink in self.sinks
        ]
        assert all(table == tables[0] for table in tables)
        return tables[0]


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path, [MemorySink(store=str(tmp_path))])


@pytest.mark.parametrize("kind", nightly_after(1, pipelines.TABLE_SINKS))
def test_a_tombstone_is_what_is_left_of_a_delete(spark: SparkSession, tmp_path: Path, kind: str) -> None:
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


def test_a_tombstone_removes_the_row_that_lies_before_it_in_its_partition_alone(shop: Shop) -> None:
    shop.apply(
        change("c", 1, "a", lsn=10, partition=0),
        change("c", 2, "b", lsn=11, partition=16),
        change("c", 3, "c", lsn=12),
        change("c", 4, "d", lsn=100),
    )
    (progress,) = shop.apply(
        tombstone(1, partition=1),
        tombstone(2, partition=0),  # written as positions are, 16 ends as 0 does
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


def test_a_tombstone_that_is_read_again_leaves_the_row_that_was_made_anew(shop: Shop) -> None:
    shop.apply(change("c", 1, "a", lsn=10))
    shop.apply(tombstone(1))
    first, second = (shop.folder / "log.jsonl").read_text().splitlines(keepends=True)
    shop.apply(change("c", 1, "anew", lsn=20))
    for lines in (
        first,
        first + second,
    ):  # from the beginning, by another pipeline that has not come to the new row yet
        (shop.folder / "log.jsonl").write_text(lines)
        Shop(shop.spark, shop.folder, shop.sinks, checkpoint="another").apply()
        assert shop.names() == {1: "anew"}


@pytest.mark.nightly
@pytest.mark.parametrize("count", [1, 2])  # one that is skipped is not read, and what it has is not counted
def test_a_batch_that_was_interrupted_before_its_tombstones_is_repeated(
    spark: SparkSession, tmp_path: Path, count: int
) -> None:
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
def test_where_a_deleted_row_stays_a_tombstone_removes_none(shop: Shop) -> None:
    shop.options["transforms"] = [Unwrap({"delete.tombstone.handling.mode": "rewrite"})]
    shop.apply(change("c", 1, "a", lsn=10))
    (progress,) = shop.apply(tombstone(1))
    assert shop.names() == {1: "a"}
    assert (progress.rows_in, progress.applied, progress.dead_letters) == (0, 0, 0)


def test_a_changelog_beside_the_table_has_no_tombstones(spark: SparkSession, tmp_path: Path) -> None:
    log, table = MemorySink(store=f"{tmp_path}/log", mode="changelog"), MemorySink(store=f"{tmp_path}/table")
    shop = Shop(spark, tmp_path, [log, table])
    shop.apply(change("c", 1, "a", lsn=10))
    shop.apply(tombstone(1), change("c", 2, "b", lsn=11))
    rows = log.read_back(spark, Table(TABLE)).collect()
    assert sorted((row["id"], row["__op"]) for row in rows) == [(1, "c"), (2, "c")]
    assert [row["id"] for row in table.read_back(spark, Table(TABLE)).collect()] == [2]


@pytest.mark.nightly
def test_envelopes_that_stay_envelopes_have_no_tombstones(shop: Shop) -> None:
    shop.options["transforms"] = []
    shop.apply(change("c", 1, "a", lsn=10), tombstone(1))
    (sink,) = shop.sinks
    assert [row["op"] for row in sink.read_back(shop.spark, Table(TABLE)).collect()] == ["c"]


@pytest.mark.nightly
def test_of_a_table_with_two_topics_nobody_knows_whose_row_a_tombstone_means(shop: Shop) -> None:
    shop.apply(change("c", 1, "a", lsn=10), topic="north")
    shop.apply(change("c", 2, "b", lsn=11), topic="south")
    shop.apply(tombstone(1), change("c", 3, "c", lsn=12), topic="south")
    assert shop.names() == {1: "a", 2: "b", 3: "c"}


def test_a_tombstone_of_another_table_in_the_topic_removes_no_row(shop: Shop) -> None:
    orders, others = {"schema": "shop", "table": "orders"}, {"schema": "shop", "table": "others"}
    shop.apply(change("c", 1, "a", lsn=10, source=orders), change("c", 2, "b", lsn=11, source=orders))
    (progress,) = shop.apply(change("d", 1, "x", lsn=12, source=others), tombstone(1))
    assert (shop.names(), progress.dead_letters) == ({1: "a", 2: "b"}, 1)
    shop.apply(tombstone(2), change("c", 3, "c", lsn=13, source=orders))  # another batch's
    assert shop.names() == {1: "a", 2: "b", 3: "c"}


def test_flat_rows_that_say_what_was_deleted_may_have_nothing_left_but_a_tombstone(shop: Shop) -> None:
    def row(id_: int, lsn: int, deleted: str = "false") -> Record:
        return {"key": {"id": id_}, "value": {"id": id_, "name": "a", "__lsn": lsn, "__deleted": deleted}}

    shop.apply(row(1, 10), row(2, 11))
    shop.apply(tombstone(1), row(2, 12, "true"), tombstone(2), row(3, 13))
    assert shop.names() == {3: "a"}
    shop.apply(row(1, 9))
    assert shop.names() == {3: "a"}
