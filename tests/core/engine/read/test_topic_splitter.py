"""Topics that contain several tables. A rule splits them; without a rule, their rows are never mixed."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from tests.support import pipelines
from tests.support.bronze import write_lines
from tests.support.record_log import LogRecord, RecordLog, append
from tests.support.tiers import nightly_after
from tests.support.unreachable_format import UnreachableFormat

from headrace import ConfigError, DataError, Pipeline, RetriableError
from headrace.engine.commands.replay import replay
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.routing import Routes
from headrace.engine.read.topic_splitter import SplitRules, keep_known_types
from headrace.progress.model import BatchProgress
from headrace.sdk.events import Events
from headrace.sdk.schema_log import SchemaLog, part_subject
from headrace.sdk.sink import Batch, Table, WriteResult
from headrace_sinks.files import FilesSink
from headrace_sinks.iceberg.iceberg_sink import IcebergSink
from headrace_sources.formats.json.json_format import JsonFormat
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


def build(folder: Path, rule: dict[str, Any]) -> Pipeline:
    source = {"files": {"path": str(folder / "bronze"), "format": "json"}}
    return pipelines.pipeline(folder, "iceberg", source=source, tables=[rule])


def run(pipeline: Pipeline, spark: SparkSession) -> list[BatchProgress]:
    batches: list[BatchProgress] = []
    pipeline.run(spark, on_progress=batches.append)
    return batches


def rows(pipeline: Pipeline, spark: SparkSession, table: str) -> list[dict[str, Any]]:
    return pipelines.rows(pipeline, spark, table, key="id")


def list_dead_letters(pipeline: Pipeline, spark: SparkSession) -> list[tuple[Any, ...]]:
    found = pipeline.read("dead_letters", spark=spark).select("table", "reason", "offset").orderBy("table", "offset")
    return [tuple(row) for row in found.collect()]


def list_errors(pipeline: Pipeline, spark: SparkSession) -> list[tuple[Any, ...]]:
    found = pipeline.read("dead_letters", spark=spark).select("table", "offset", "error").orderBy("table", "offset")
    return [tuple(row) for row in found.collect()]


@pytest.mark.nightly
def test_second_table_of_a_topic_is_not_mixed_with_the_first_without_a_rule(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = build(tmp_path, {"source": TOPIC, "target": "shop.people", "key": ["id"]})
    deliver(tmp_path, 0, *FIRST)
    run(pipeline, spark)
    # Later runs use the same table, and a truncate of the other table has no effect.
    deliver(tmp_path, 100, *SECOND, event("t", "orders", 70))
    run(pipeline, spark)
    assert [(row["id"], row["name"]) for row in rows(pipeline, spark, "shop.people")] == [(1, "Arp")]
    assert list_dead_letters(pipeline, spark) == [("shop.people", "other-table", n) for n in (1, 100, 102, 103)]


def test_several_tables_in_the_first_batch_are_an_error_that_names_the_option(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In place of dead letters for all tables but the first one."""
    deliver(tmp_path, 0, FIRST[0], *[event("c", "orders", 20 + n, id=n, total=n) for n in range(20)])
    with pytest.raises(DataError, match=r"changes of several tables: .*people, .*orders") as raised:
        run(build(tmp_path, {"source": TOPIC, "target": "shop.people", "key": ["id"]}), spark)
    assert "`route.by.field: source.table`" in str(raised.value)
    routed = build(tmp_path, ROUTED)
    run(routed, spark)
    assert rows(routed, spark, "shop.people") == PEOPLE
    assert len(rows(routed, spark, "shop.orders")) == 20


@pytest.mark.nightly
def test_two_tables_of_a_topic_have_their_own_columns(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = build(tmp_path, ROUTED)
    deliver(tmp_path, 0, *FIRST)
    deliver(tmp_path, 3, b"no json", event("t", "people", 5))
    [batch] = run(pipeline, spark)
    assert {(t.table, t.rows_in) for t in batch.tables} == {("shop.people", 3), ("shop.orders", 1), ("shop.all", 1)}
    deliver(tmp_path, 100, *SECOND)
    run(pipeline, spark)
    assert rows(pipeline, spark, "shop.people") == PEOPLE
    assert rows(pipeline, spark, "shop.orders") == ORDERS
    assert list_dead_letters(pipeline, spark) == [("shop.all", "undecodable", 3)]


@pytest.mark.nightly
def test_dead_letters_are_replayed_into_their_tables_after_a_rule_is_added(spark: SparkSession, tmp_path: Path) -> None:
    deliver(tmp_path, 0, event("c", "items", 1, id=1), *FIRST)
    deliver(tmp_path, 100, *SECOND[:2])
    run(build(tmp_path, {"source": TOPIC, "target": "shop.items", "key": ["id"]}), spark)
    pipeline = build(tmp_path, ROUTED)
    assert len(list_dead_letters(pipeline, spark)) == 5
    replayed = {(done.table, done.replayed, done.failed_again) for done in replay(pipeline.plan, spark)}
    assert replayed == {("shop.people", 3, 0), ("shop.orders", 2, 0)}
    assert pipeline.read_dead_letters(spark) is None
    assert rows(pipeline, spark, "shop.orders") == ORDERS[:1]
    assert [row["id"] for row in rows(pipeline, spark, "shop.people")] == [1]


def test_shards_are_merged_into_one_table_by_a_rule(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = build(tmp_path, {"source": TOPIC, "target": "shop.people", "key": ["id"], "logical.table": True})
    deliver(tmp_path, 0, event("c", "people_1", 10, id=1, name="Arp"), event("c", "people_2", 5, id=2, name="Höch"))
    run(pipeline, spark)
    assert rows(pipeline, spark, "shop.people") == [{"id": 1, "name": "Arp"}, {"id": 2, "name": "Höch"}]
    assert pipeline.read_dead_letters(spark) is None


def dms(table: str, second: int, **row: Any) -> dict[str, Any]:
    """Return a record of AWS DMS."""
    metadata = {"record-type": "data", "operation": "load", "schema-name": "shop", "table-name": table}
    return {"data": row, "metadata": {**metadata, "timestamp": f"2026-01-01T00:00:{second:02d}.000001Z"}}


@pytest.mark.parametrize("column", nightly_after(1, ["id", "status"]))
@pytest.mark.parametrize("dialect", nightly_after(1, ["debezium", "dms"]))
def test_tables_of_a_topic_have_their_own_types(spark: SparkSession, tmp_path: Path, dialect: str, column: str) -> None:
    """A column is a number in one table and a string in the other, in later files and in one file."""
    make: Any = dms if dialect == "dms" else partial(event, "c")
    transforms: list[Any] = [] if dialect == "dms" else [{"unwrap": {}}]
    by = "metadata.table-name" if dialect == "dms" else "source.table"
    source = {"files": {"path": str(tmp_path / "bronze"), "format": "json"}}
    rule = {**ROUTED, "route.by.field": by}
    pipeline = pipelines.pipeline(tmp_path, "iceberg", source=source, tables=[rule], transforms=transforms)
    numbers = [{"id": n, "status": 3} for n in (1, 2, 3)]
    texts = [{"id": f"k{n}" if column == "id" else n, "status": "new"} for n in (7, 8)]
    deliver(tmp_path, 0, make("numbers", 10, **numbers[0]))
    run(pipeline, spark)
    deliver(tmp_path, 100, make("texts", 20, **texts[0]))
    run(pipeline, spark)
    more = [make("numbers", 30 + n, **numbers[n]) for n in (1, 2)]
    deliver(tmp_path, 200, *more, make("texts", 40, **texts[1]), make("numbers", 41, id="x", status=3))
    run(pipeline, spark)
    assert rows(pipeline, spark, "shop.numbers") == numbers
    assert rows(pipeline, spark, "shop.texts") == texts
    error = f"the field `{'data' if dialect == 'dms' else 'after'}.id` does not fit its type bigint"
    assert list_errors(pipeline, spark) == [("shop.numbers", 203, error)]


@pytest.mark.nightly
def test_tables_of_a_topic_with_writer_schemas_have_their_own_types(spark: SparkSession, tmp_path: Path) -> None:
    """The tables' types conflict, in values and in keys."""

    def schema(kind: str, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"type": kind, "fields": [{**type_, "field": name} for name, type_ in fields.items()], **more}

    def make(table: str, offset: int, id_: Any) -> LogRecord:
        key = schema("struct", {"id": {"type": "int64" if isinstance(id_, int) else "string"}})
        text = {"type": "string", "optional": True}
        source = schema("struct", {"connector": text, "table": text, "lsn": {"type": "int64"}})
        images = {"before": {**key, "optional": True}, "after": {**key, "optional": True}}
        envelope = schema("struct", {**images, "source": source, "op": text})
        block = {"connector": "postgresql", "table": table, "lsn": offset}
        payload = {"before": None, "after": {"id": id_}, "source": block, "op": "c"}
        return LogRecord(
            TOPIC, offset, {"schema": key, "payload": {"id": id_}}, {"schema": envelope, "payload": payload}
        )

    log, plain = tmp_path / "log.jsonl", JsonFormat()
    sink = IcebergSink(warehouse=str(tmp_path / "lake"))
    rule = {name: value for name, value in ROUTED.items() if name != "key"}
    pipeline = Pipeline(
        "shop",
        RecordLog(path=str(log)),
        [sink],
        str(tmp_path / "checkpoint"),
        [rule],
        [Unwrap()],
        value=plain,
        key=plain,
    )
    append(log, [make("numbers", 1, 1), make("texts", 2, "a")])
    run(pipeline, spark)
    bad = make("numbers", 5, 3)
    bad.value["payload"]["after"]["id"] = "x"
    append(log, [make("numbers", 3, 2), make("texts", 4, "b"), bad])
    run(pipeline, spark)
    assert rows(pipeline, spark, "shop.numbers") == [{"id": 1}, {"id": 2}]
    assert rows(pipeline, spark, "shop.texts") == [{"id": "a"}, {"id": "b"}]
    assert list_errors(pipeline, spark) == [("shop.numbers", 5, "the field `after.id` does not fit its type bigint")]


def write_typed(folder: Path, offset: int, kind: str, name: str, row: dict[str, Any]) -> None:
    """Write a flat row whose schema has a name."""
    path = folder / f"bronze/topics/{TOPIC}/partition=0/{TOPIC}+0+{offset:010d}.{kind}"
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "avro":
        fields = [{"name": column, "type": "int" if column == "id" else "string"} for column in row]
        with path.open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": name, "namespace": "shop", "fields": fields}, [row])
        return
    columns = [{"field": column, "type": "int32" if column == "id" else "string"} for column in row]
    write_lines(path, [{"schema": {"type": "struct", "name": f"shop.{name}", "fields": columns}, "payload": row}])


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["json", "avro"])
def test_record_types_of_a_topic_are_not_mixed(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    source = {"files": {"path": str(tmp_path / "bronze"), "format": kind}}
    rule: dict[str, Any] = {"source": TOPIC, "target": "shop.orders", "key": ["id"]}
    options: dict[str, Any] = {"source": source, "transforms": []}
    pipeline = pipelines.pipeline(tmp_path, "iceberg", tables=[rule], **options)
    placed = {"id": 1, "item": "chair"}
    write_typed(tmp_path, 0, kind, "OrderPlaced", placed)
    run(pipeline, spark)
    write_typed(tmp_path, 100, kind, "OrderShipped", {"id": 1, "carrier": "rail"})
    write_typed(tmp_path, 200, kind, "OrderPlaced", {"id": 2, "item": "table"})
    run(pipeline, spark)
    found = [(row["id"], row["item"]) for row in rows(pipeline, spark, "shop.orders")]
    assert found == [(1, "chair"), (2, "table")]
    assert list_dead_letters(pipeline, spark) == [("shop.orders", "other-table", 100)]
    routed = {"source": TOPIC, "route.by.field": "record.name", "target": "{schema}.{table}", "key": ["id"]}
    checkpoint = str(tmp_path / "routed")
    pipeline = pipelines.pipeline(tmp_path, "iceberg", tables=[routed], checkpoint=checkpoint, **options)
    run(pipeline, spark)
    assert rows(pipeline, spark, "shop.OrderPlaced") == [placed, {"id": 2, "item": "table"}]
    assert rows(pipeline, spark, "shop.OrderShipped") == [{"id": 1, "carrier": "rail"}]


def test_types_of_an_existing_checkpoint_are_kept(spark: SparkSession) -> None:
    """An earlier release saved the columns of each table. Their types were those of the topic."""
    log, topic = (
        SchemaLog(),
        spark.createDataFrame([], "after struct<id: bigint, status: string, name: string>, op string").schema,
    )
    log.remember(f"{TOPIC}/orders-value", spark.createDataFrame([], "id string, status string").schema)
    keep_known_types(log, Events(TOPIC, topic, lambda session, _: session.range(0)), "orders", ["after"])
    kept = log.get(part_subject(TOPIC, "orders", "value"))
    assert kept is not None
    assert kept.simpleString() == "struct<after:struct<id:bigint,status:string>,op:string>"


@pytest.mark.nightly
def test_record_with_an_invalid_table_name_is_a_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = build(tmp_path, ROUTED)
    names = ["a b", "../people", "x" * 300]
    deliver(tmp_path, 0, *FIRST[:2], *[event("c", name, 30 + n, id=n) for n, name in enumerate(names)])
    run(pipeline, spark)
    assert rows(pipeline, spark, "shop.people") == PEOPLE
    assert rows(pipeline, spark, "shop.orders") == [{"id": 1, "total": 7}]
    assert list_dead_letters(pipeline, spark) == [("shop.all", "table-name", n) for n in (2, 3, 4)]


def test_record_without_the_name_of_a_table_is_a_row_of_the_topic(spark: SparkSession, tmp_path: Path) -> None:
    """As with Debezium's option, whose topic stays if the value is null or blank."""
    source = {"files": {"path": str(tmp_path / "bronze"), "format": "json"}}
    insert = {"static.field": "kind", "static.value": "person", "tables": ["shop.people"]}
    pipeline = pipelines.pipeline(
        tmp_path, "iceberg", source=source, tables=[ROUTED], transforms=[{"unwrap": {}}, {"insert": insert}]
    )
    found = [event("c", name, n, id=n) for n, name in enumerate(("people", "", " \t", "x"), 1)]
    found[3]["source"]["table"] = None
    deliver(tmp_path, 0, *found)
    run(pipeline, spark)
    assert rows(pipeline, spark, "shop.people") == [{"id": 1, "kind": "person"}]
    assert rows(pipeline, spark, "shop.all") == [{"id": 2}, {"id": 3}, {"id": 4}]


class BrokenSink(FilesSink):
    """Sink that rejects the orders while a file exists."""

    name = "broken"

    def __init__(self, broken: Path, **options: Any) -> None:
        super().__init__(**options)
        self.broken = broken

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        if table.name == "shop.orders" and self.broken.exists():
            raise ConfigError("the disk is full")
        return super().write(table, rows, batch)


@pytest.mark.nightly
def test_failed_table_of_a_split_topic_catches_up_separately(spark: SparkSession, tmp_path: Path) -> None:
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


def test_unknown_routing_field_fails_the_topic_with_a_suggestion(spark: SparkSession, tmp_path: Path) -> None:
    deliver(tmp_path, 0, *FIRST)
    with pytest.raises(Exception, match=r"names 'source\.tabel'.*\n?.*did you mean 'source\.table'"):
        run(build(tmp_path, {**ROUTED, "route.by.field": "source.tabel"}), spark)


@pytest.mark.nightly
def test_part_is_ordered_by_offset_from_the_first_record_without_a_position_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = build(tmp_path, ROUTED)
    deliver(tmp_path, 0, *FIRST)
    run(pipeline, spark)
    update = event("u", "people", 0, id=1, name="Hans Arp")
    del update["source"]["lsn"]
    deliver(tmp_path, 100, update, event("u", "orders", 40, id=1, total=8))
    (progress,) = run(pipeline, spark)
    assert all("and is now ordered by" in (table.note or "") for table in progress.tables)
    assert rows(pipeline, spark, "shop.people") == [{"id": 1, "name": "Hans Arp"}, {"id": 2, "name": "Höch"}]
    assert rows(pipeline, spark, "shop.orders") == [{"id": 1, "total": 8}]


@pytest.mark.nightly
def test_tables_of_a_topic_that_failed_as_a_whole_catch_up_in_order(spark: SparkSession, tmp_path: Path) -> None:
    """Later batches of the topic wait, because appended files are in the order of their batches. A table may fail alone."""
    log, down, broken = tmp_path / "log.jsonl", tmp_path / "down", tmp_path / "broken"
    rule = {key: value for key, value in ROUTED.items() if key != "key"}

    def start(*events: dict[str, Any], offset: int = 0) -> None:
        append(log, [LogRecord(TOPIC, offset + n, {"id": 1}, body) for n, body in enumerate(events)])
        sink, value = BrokenSink(broken, path=str(tmp_path / "out"), mode="changelog"), UnreachableFormat(down)
        source = RecordLog(path=str(log))
        Pipeline("shop", source, [sink], str(tmp_path / "c"), [rule], [Unwrap()], value=value, key="none").run(spark)

    def ops(table: str) -> list[str]:
        found = sorted((tmp_path / "out/shop" / table).glob("_headrace_batch=*/part-*.json"))
        return [json.loads(line)["__op"] for file in found for line in file.read_text().splitlines()]

    start(*FIRST)
    down.touch()
    with pytest.raises(RetriableError, match="the registry is down"):
        start(SECOND[0], offset=3)
    down.unlink()
    broken.touch()
    with pytest.raises(ConfigError, match="the disk is full"):
        start(*SECOND[1:], offset=4)
    assert (ops("people"), ops("orders")) == (["c", "c", "d"], ["c"])
    broken.unlink()
    start()
    assert (ops("people"), ops("orders")) == (["c", "c", "d"], ["c", "u", "c"])


@pytest.mark.nightly
def test_resync_waits_for_records_that_do_not_name_their_table(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = build(tmp_path, ROUTED)
    found = [event("r", "orders", 100 + number, id=number, total=number) for number in range(3)]
    for row, marker in zip(found, ("true", "true", "last"), strict=True):
        row["source"] |= {"snapshot": marker, "sequence": '[null,"100"]'}
    deliver(tmp_path, 0, found[0], b"{cut", found[2])
    run(pipeline, spark)
    with pytest.raises(ConfigError, match="1 of its records since the snapshot started are dead letters"):
        pipeline.resync("shop.orders", spark=spark)


class ComparedSource(FilesSource):
    """Source that finds missing rows by their keys."""

    finds_missing_rows = True


def test_topic_whose_keys_are_compared_is_not_split() -> None:
    """A part without records in a batch would not be compared."""
    source, sink = ComparedSource(path="x", format="json"), FilesSink(path="lake")
    plan = Plan("shop", source, (sink,), "checkpoint", Routes([]), ())
    with pytest.raises(
        DataError, match=r"topic shop: the source compares the keys of whole topics .* `route\.by\.field`"
    ):
        SplitRules.of_topic(plan, Events.of_failure("shop", RuntimeError()), ("row.region",))
