"""Detection of a topic's content by the shape of its events, not by its name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import types as T
from tests.support import pipelines
from tests.support.bronze import write_lines
from tests.support.records import make_changes, record, rows_of
from tests.support.tiers import nightly_after

from headrace.progress.model import BatchProgress
from headrace.sdk.changes import COMMITTED, DELETED, ERROR, KEY, OP, POSITION
from headrace.sdk.dialect import Dialect
from headrace_sources.dialects.debezium import DebeziumDialect
from headrace_sources.dialects.dms import DmsDialect
from headrace_sources.dialects.flat import FlatDialect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = "source struct<connector: string>"
FLINK = (
    {"before": None, "after": {"id": 1, "name": "a"}, "op": "c"},
    {"before": None, "after": {"id": 2, "name": "b"}, "op": "c"},
    # An update is a delete and an insert.
    {"before": {"id": 1, "name": "a"}, "after": None, "op": "d"},
    {"before": None, "after": {"id": 1, "name": "A"}, "op": "c"},
    {"before": {"id": 2, "name": "b"}, "after": None, "op": "d"},
)
BLOCK = {"db": "shop", "table": "people"}


def schema_of(spark: SparkSession, columns: str) -> T.StructType:
    return spark.createDataFrame([], columns).schema


def write_events(folder: Path, topic: str, *events: Any) -> None:
    """Write one more file of a topic."""
    target = folder / "bronze/topics" / topic / "partition=0"
    write_lines(target / f"{topic}+0+{len(list(target.glob('*'))) * 100:010d}.json", events)


def pipeline_of(folder: Path, **changed: Any) -> Any:
    source = {"files": {"path": str(folder / "bronze"), "format": "json"}}
    return pipelines.pipeline(folder, "iceberg", **{"source": source, "tables": [], **changed})


@pytest.mark.spark
@pytest.mark.one_spark
class TestMetadataTopics:
    @pytest.mark.parametrize(
        ("topic", "columns"),
        [
            ("shop.public.transaction", "id int, status string"),
            ("shop.public.transaction", "id string, status string"),
            ("shop.public.transaction", "id int, status string, ts_ms bigint"),
            ("shop.public.transaction", "id string, status string, ts_ms bigint, amount int"),
            ("shop.public.outbox", "id int, op string, message string"),
            ("shop.public.outbox", "op string, message struct<prefix: string, content: string>"),
            ("shop.public.outbox", "op string, message string, source string"),
            ("shop.public.migrations", "id int, ddl string, databaseName string"),
            ("shop.public.migrations", "source string, position int, databaseName string, tableChanges string"),
            ("__debezium-heartbeat.public.people", "id int"),
        ],
    )
    def test_flat_rows_are_a_table_under_any_topic_name(self, spark: SparkSession, topic: str, columns: str) -> None:
        assert DebeziumDialect().metadata_topic(topic, schema_of(spark, columns)) is None

    @pytest.mark.parametrize(
        ("topic", "columns", "content"),
        [
            ("__debezium-heartbeat.shop", "ts_ms bigint", "Debezium's heartbeats"),
            (
                "shop.transaction",
                "status string, id string, event_count bigint, ts_ms bigint",
                "transaction boundaries",
            ),
            ("shop.transaction", "status string, id string, data_collections array<string>", "transaction boundaries"),
            (
                "shop.transaction",
                "status string, id string, ts_ms bigint",
                "transaction boundaries",
            ),  # the fields of BEGIN events only
            ("shop", f"{SOURCE}, ddl string, ts_ms bigint", "schema changes"),
            ("shop", f"{SOURCE}, tableChanges array<string>, databaseName string", "schema changes"),
            ("history", "source struct<server: string>, position struct<pos: int>, ddl string", "schema changes"),
            ("shop.message", f"{SOURCE}, op string, message struct<prefix: string>", "logical messages"),
        ],
    )
    def test_metadata_topics_are_detected_by_fields(
        self, spark: SparkSession, topic: str, columns: str, content: str
    ) -> None:
        about = DebeziumDialect().metadata_topic(topic, schema_of(spark, columns))
        assert (about or "").startswith(content)

    def test_field_names_suffice_when_types_are_unknown(self) -> None:
        def names(text: str) -> T.StructType:
            return T.StructType([T.StructField(name, T.NullType()) for name in text.split()])

        dialect = DebeziumDialect()
        assert dialect.metadata_topic("shop", names("source ts_ms databaseName ddl tableChanges")) == "schema changes"
        assert dialect.metadata_topic("shop.message", names("op ts_ms source message")) == "logical messages"
        assert dialect.metadata_topic("shop.public.outbox", names("id op message")) is None

    @pytest.mark.parametrize(
        ("topic", "names"),
        [
            ("shop", "before after source op ts_ms ddl tableChanges databaseName"),
            ("shop", "id name __op source ts_ms ddl tableChanges databaseName"),
            ("shop.transaction", "before after source op ts_ms status id event_count"),
            ("shop.public.transaction", "id status event_count amount"),
        ],
    )
    def test_topic_of_rows_and_metadata_is_a_table(self, topic: str, names: str) -> None:
        schema = T.StructType([T.StructField(name, T.NullType()) for name in names.split()])
        assert DebeziumDialect().metadata_topic(topic, schema) is None

    @pytest.mark.nightly
    @pytest.mark.parametrize("is_flat", [False, True], ids=["envelopes", "flat"])
    @pytest.mark.parametrize("is_first", [False, True], ids=["later", "first"])
    def test_metadata_among_rows_leaves_out_no_row(
        self, spark: SparkSession, tmp_path: Path, is_flat: bool, is_first: bool
    ) -> None:
        def source(lsn: int, table: str = "people") -> dict[str, Any]:
            return {"connector": "postgresql", "db": "shop", "schema": "public", "table": table, "lsn": lsn}

        def row(lsn: int, **columns: Any) -> dict[str, Any]:
            if is_flat:
                return {**columns, "__op": "c", "__lsn": lsn, "__deleted": "false"}
            return {"before": None, "after": columns, "op": "c", "ts_ms": lsn, "source": source(lsn)}

        change = {
            "source": source(3, ""),
            "ts_ms": 3,
            "databaseName": "shop",
            "ddl": "ALTER TABLE people",
            "tableChanges": [],
        }
        others = [] if is_flat else [{"ts_ms": 4}, {"status": "BEGIN", "id": "571", "ts_ms": 5}]
        rules = [{"source": "shop", "key": ["id"]}]
        pipeline = pipeline_of(tmp_path, tables=rules)
        if is_first:
            write_events(tmp_path, "shop", change)
            pipeline.run(spark)
        write_events(tmp_path, "shop", row(10, id=1, name="Arp"))
        pipeline.run(spark)
        write_events(tmp_path, "shop", change, row(20, id=1, name="Hans Arp"), *others)
        write_events(tmp_path, "shop", row(30, id=2, name="Loos"))
        pipeline.run(spark)
        found = pipelines.rows(pipeline, spark, "shop", "id")
        assert [(each["id"], each["name"]) for each in found] == [(1, "Hans Arp"), (2, "Loos")]
        dead_letters = pipeline.read("dead_letters", spark=spark).collect()
        assert [each["reason"] for each in dead_letters] == ["op-not-a-row"] * (1 + len(others))

    def test_transaction_table_is_written_and_metadata_is_counted(self, spark: SparkSession, tmp_path: Path) -> None:
        rows = [{"id": 1, "op": "sale", "status": "paid"}, {"id": 2, "op": "refund", "status": "open"}]
        write_events(tmp_path, "shop.public.transaction", *rows)
        begin = {"status": "BEGIN", "id": "571:1", "event_count": None, "data_collections": None, "ts_ms": 1}
        end = {**begin, "status": "END", "event_count": 2}
        write_events(tmp_path, "shop.transaction", begin, end, begin)
        batches: list[BatchProgress] = []
        rule = {"source": "shop.public.*", "key": ["id"]}
        pipeline = pipeline_of(tmp_path, tables=[rule, {"source": "*"}])
        pipeline.run(spark, on_progress=batches.append)
        assert pipelines.rows(pipeline, spark, "shop.public.transaction", key="id") == rows
        assert [batch.notices for batch in batches] == [{"shop.transaction": "transaction boundaries"}]
        assert [batch.left_out for batch in batches] == [{"shop.transaction": 3}]


@pytest.mark.spark
@pytest.mark.one_spark
class TestEnvelopesWithoutConnector:
    """Flink's debezium-json has before, after and op. Flink CDC's Kafka sink adds a small source block."""

    @pytest.mark.parametrize(
        ("columns", "is_envelope"),
        [
            ("before struct<id: int>, after struct<id: int>, op string", True),
            ("after struct<id: int>, op string, source struct<db: string, table: string>, ts_ms bigint", True),
            ("before struct<id: int>, op string", True),
            ("before string, after string, op string", False),
            ("id int, before struct<id: int>, after struct<id: int>, op string", False),  # a business log
            ("before struct<id: int>, after struct<id: int>", False),
            ("after struct<id: int>, op string, source string", False),
        ],
    )
    def test_envelopes_without_connector_are_detected(
        self, spark: SparkSession, columns: str, *, is_envelope: bool
    ) -> None:
        assert DebeziumDialect.matches(schema_of(spark, columns)) is is_envelope

    @pytest.mark.parametrize("block", nightly_after(1, [{}, {"source": BLOCK}, {"source": {**BLOCK, "ts_ms": 1700}}]))
    def test_events_sort_by_offset(self, spark: SparkSession, block: dict[str, Any]) -> None:
        records = [record({**event, **block}, key={"id": 0}, offset=n) for n, event in enumerate(FLINK)]
        [changes] = make_changes(spark, records).values()
        assert changes.envelope
        rows = rows_of(changes, OP, DELETED, ERROR, KEY, POSITION, COMMITTED)
        assert [row[OP] for row in rows] == ["c", "c", "d", "c", "d"]
        assert [row[DELETED] for row in rows] == [False, False, True, False, True]
        assert {row[ERROR] for row in rows} == {None}
        assert {row[COMMITTED] for row in rows} == {block.get("source", {}).get("ts_ms")}
        positions = [row[POSITION] for row in rows]
        assert positions == sorted(set(positions))

    @pytest.mark.parametrize("block", nightly_after(1, [{}, {"source": BLOCK}]))
    def test_tables_equal_the_database(self, spark: SparkSession, tmp_path: Path, block: dict[str, Any]) -> None:
        write_events(tmp_path, "people", *[{**event, **block} for event in FLINK])
        pipeline = pipeline_of(tmp_path, tables=[{"source": "people", "key": ["id"]}])
        pipeline.run(spark)
        assert pipelines.rows(pipeline, spark, "people", key="id") == [{"id": 1, "name": "A"}]

    def test_schema_of_the_images_alone(self, spark: SparkSession) -> None:
        """Flink CDC's Kafka sink names neither op nor source in the schema of its records."""
        row = [{"type": "int32", "field": "id"}, {"type": "string", "optional": True, "field": "name"}]
        fields = [{"type": "struct", "fields": row, "optional": True, "field": image} for image in ("before", "after")]
        schema = {"type": "struct", "fields": fields, "optional": False}
        events = [{"schema": schema, "payload": {**event, "source": BLOCK}} for event in FLINK]
        [changes] = make_changes(spark, [record(e, key={"id": 0}, offset=n) for n, e in enumerate(events)]).values()
        rows = rows_of(changes, OP, "source", ERROR)
        assert [row[OP] for row in rows] == ["c", "c", "d", "c", "d"]
        assert {(row["source"]["table"], row[ERROR]) for row in rows} == {("people", None)}


@pytest.mark.spark
@pytest.mark.one_spark
@pytest.mark.parametrize(
    ("dialect", "columns", "value", "path"),
    nightly_after(
        3,
        [
            (
                DebeziumDialect(),
                "source struct<name: string, db: string, schema: string, table: string>",
                {"before": None, "after": {"id": 1}, "op": "c", "source": {"name": "eu", "schema": "public", **BLOCK}},
                "eu/shop/public/people",
            ),
            (DebeziumDialect(), "op string", {"before": None, "after": {"id": 1}, "op": "c"}, None),
            (
                FlatDialect(),
                "__source_name string, __table string",
                {"id": 1, "__source_name": "eu", "__table": "people"},
                "eu/people",
            ),
            (FlatDialect(), "id int, name string", {"id": 1, "name": "a"}, None),
            (
                DmsDialect(),
                "data struct<id: int>",
                {
                    "data": {"id": 1},
                    "metadata": {
                        "record-type": "data",
                        "operation": "insert",
                        "schema-name": "shop",
                        "table-name": "people",
                    },
                },
                "shop.people",
            ),
        ],
    ),
)
def test_source_of_a_change(spark: SparkSession, dialect: Dialect, columns: str, value: Any, path: str | None) -> None:
    [changes] = make_changes(spark, [record(value)], dialect=dialect, keyed=False, key=("id",)).values()
    column = dialect.source_path(schema_of(spark, columns))
    assert (None if column is None else [row[0] for row in changes.frame.select(column).collect()]) == (path and [path])
