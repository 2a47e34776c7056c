"""Several tables in one topic: apart where a rule says so, and never mixed where none does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines
from tests.support.bronze import write_lines

from headrace import ConfigError, Pipeline
from headrace.engine.commands.replay import replay
from headrace.progress.model import BatchProgress
from headrace.sdk.sink import Batch, Table, WriteResult
from headrace_sinks.files import FilesSink
from headrace_sources.transports.files import FilesSource
from headrace_transforms import Unwrap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

TOPIC = "shop.all"
ROUTED = {"source": TOPIC, "route.by.field": "source.table", "target": "shop.{table}", "key": ["id"]}


def event(op: str, table: str, lsn: int, **row: Any) -> dict[str, Any]:
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": table, "lsn": lsn, "ts_ms": lsn}
    images = {"before": row or None, "after": None} if op in "dt" else {"before": None, "after": row}
    return {**images, "source": source, "op": op}


FIRST = (
    event("c", "people", 10, id=1, name="Arp"),
    event("c", "orders", 20, id=1, total=7),
    event("c", "people", 30, id=2, name="Höch"),
)
SECOND = (
    event("u", "orders", 40, id=1, total=8),
    event("d", "people", 50, id=2),
    event("c", "orders", 60, id=2, total=9),
)
PEOPLE, ORDERS = [{"id": 1, "name": "Arp"}], [{"id": 1, "total": 8}, {"id": 2, "total": 9}]


def deliver(folder: Path, offset: int, *events: Any) -> None:
    write_lines(folder / "bronze/topics" / TOPIC / f"partition=0/{TOPIC}+0+{offset:010d}.json", events)


def job(folder: Path, rule: dict[str, Any]) -> Pipeline:
    source = {"files": {"path": str(folder / "bronze"), "format": "json"}}
    return pipelines.pipeline(folder, "iceberg", source=source, tables=[rule])


def run(pipeline: Pipeline, spark: SparkSession) -> list[BatchProgress]:
    batches: list[BatchProgress] = []
    pipeline.run(spark, on_progress=batches.append)
    return batches


def rows(pipeline: Pipeline, spark: SparkSession, table: str) -> list[dict[str, Any]]:
    return pipelines.rows(pipeline, spark, table, key="id")


def letters(pipeline: Pipeline, spark: SparkSession) -> list[tuple[Any, ...]]:
    found = pipeline.read("dead_letters", spark=spark).select("table", "reason", "offset").orderBy("table", "offset")
    return [tuple(row) for row in found.collect()]


def test_a_second_table_in_a_topic_is_no_part_of_the_first_one_when_no_rule_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = job(tmp_path, {"source": TOPIC, "target": "shop.people", "key": ["id"]})
    deliver(tmp_path, 0, *FIRST)
    run(pipeline, spark)
    # Which table it is stays so, in later runs, and a truncate of the other one empties nothing.
    deliver(tmp_path, 100, *SECOND, event("t", "orders", 70))
    run(pipeline, spark)
    assert [(row["id"], row["name"]) for row in rows(pipeline, spark, "shop.people")] == [(1, "Arp")]
    assert letters(pipeline, spark) == [("shop.people", "other-table", n) for n in (1, 100, 102, 103)]


def test_two_tables_in_one_topic_are_two_tables_with_columns_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = job(tmp_path, ROUTED)
    deliver(tmp_path, 0, *FIRST)
    deliver(tmp_path, 3, b"no json", event("t", "people", 5))
    [batch] = run(pipeline, spark)
    assert {(t.table, t.rows_in) for t in batch.tables} == {("shop.people", 3), ("shop.orders", 1), ("shop.all", 1)}
    deliver(tmp_path, 100, *SECOND)
    run(pipeline, spark)
    assert rows(pipeline, spark, "shop.people") == PEOPLE
    assert rows(pipeline, spark, "shop.orders") == ORDERS
    assert letters(pipeline, spark) == [("shop.all", "undecodable", 3)]


def test_what_was_a_dead_letter_reaches_its_own_table_once_a_rule_routes_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    deliver(tmp_path, 0, *FIRST)
    deliver(tmp_path, 100, *SECOND)
    run(job(tmp_path, {"source": TOPIC, "target": "shop.people", "key": ["id"]}), spark)
    pipeline = job(tmp_path, ROUTED)
    assert len(letters(pipeline, spark)) == 3
    list(replay(pipeline.plan, spark))
    assert pipeline.read_dead_letters(spark) is None
    assert rows(pipeline, spark, "shop.orders") == ORDERS
    assert [row["id"] for row in rows(pipeline, spark, "shop.people")] == [1]


def test_shards_are_one_table_where_the_rule_says_so(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = job(tmp_path, {"source": TOPIC, "target": "shop.people", "key": ["id"], "logical.table": True})
    deliver(tmp_path, 0, event("c", "people_1", 10, id=1, name="Arp"), event("c", "people_2", 5, id=2, name="Höch"))
    run(pipeline, spark)
    assert rows(pipeline, spark, "shop.people") == [{"id": 1, "name": "Arp"}, {"id": 2, "name": "Höch"}]
    assert pipeline.read_dead_letters(spark) is None


class BrokenSink(FilesSink):
    """Refuses the orders while a file is there."""

    name = "broken"

    def __init__(self, broken: Path, **options: Any) -> None:
        super().__init__(**options)
        self.broken = broken

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        if table.name == "shop.orders" and self.broken.exists():
            raise ConfigError("the disk is full")
        return super().write(table, rows, batch)


def test_a_table_that_fails_alone_catches_up_alone(spark: SparkSession, tmp_path: Path) -> None:
    def start() -> None:
        source = FilesSource(path=str(tmp_path / "bronze"), format="json")
        sink = BrokenSink(tmp_path / "broken", path=str(tmp_path / "out"), mode="changelog")
        pipeline = Pipeline("shop", source, [sink], str(tmp_path / "checkpoint"), [ROUTED], [Unwrap()])
        pipeline.run(spark)

    def ops(table: str) -> list[str]:
        found = (tmp_path / "out/shop" / table).glob("_headrace_batch=*/part-*.json")
        return sorted(json.loads(line)["__op"] for file in found for line in file.read_text().splitlines())

    (tmp_path / "broken").touch()
    for offset, events in ((0, FIRST), (100, SECOND)):
        deliver(tmp_path, offset, *events)
        with pytest.raises(ConfigError, match="the disk is full"):
            start()
    assert (ops("people"), ops("orders")) == (["c", "c", "d"], [])
    (tmp_path / "broken").unlink()
    start()
    assert (ops("people"), ops("orders")) == (["c", "c", "d"], ["c", "c", "u"])


def test_a_field_that_events_do_not_have_sets_its_topic_aside_with_the_name_that_is_meant(
    spark: SparkSession, tmp_path: Path
) -> None:
    deliver(tmp_path, 0, *FIRST)
    with pytest.raises(Exception, match=r"names 'source\.tabel'.*\n?.*did you mean 'source\.table'"):
        run(job(tmp_path, {**ROUTED, "route.by.field": "source.tabel"}), spark)
