"""Kafka source with a real broker, in complete pipelines."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import py4j.clientserver
import pytest
from tests.plugins.sources.formats.test_avro_records import ROW, FakeRegistry, body, encode, fake_registry
from tests.support import pipelines
from tests.support.tiers import nightly_after
from tests.support.waiting import until

from headrace import ConfigError, DataError, HeadraceError, Pipeline, RetriableError
from headrace.engine.commands.replay import replay
from headrace.progress.model import BatchProgress
from headrace.spark.storage import Folder
from headrace.spark.stream_files import find_damaged_file
from headrace.testing.sources import SourceConformance, SourceHarness
from headrace_kafka.kafka_admin import KafkaAdmin
from headrace_sources.transports.kafka import KafkaSource
from headrace_stack.servers.kafka import Kafka, Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dist]

__all__ = ["fake_registry"]


@pytest.fixture
def prefix() -> str:
    """Return a topic prefix that is unique to the test, because tests share the broker."""
    return f"shop{uuid.uuid4().hex[:8]}.public"


class TestKit(SourceConformance):
    """Conformance kit of sources, with one topic per folder."""

    plugin_class = KafkaSource

    @pytest.fixture(autouse=True)
    def _broker(self, kafka: Kafka) -> None:
        self.kafka = kafka

    @pytest.mark.one_spark  # the kit's own stream ends with SPARK-55271; a run does not: test_repeated_batch_has_the_same_records
    def test_interrupted_range_is_read_again(self, harness: SourceHarness) -> None:
        super().test_interrupted_range_is_read_again(harness)

    def config(self, folder: Path) -> dict[str, Any]:
        self.kafka.create_topic(topic := _topic_of(folder), partitions=1)
        return {"bootstrap.servers": self.kafka.bootstrap_servers, "subscribe": topic}

    def add(self, folder: Path, texts: Sequence[str]) -> None:
        self.kafka.produce(_topic_of(folder), *[Record(text.encode()) for text in texts])

    def cut(self, folder: Path, count: int) -> None:
        self.kafka.delete_records(_topic_of(folder), count)


def _topic_of(folder: Path) -> str:
    return f"kit-{crc32(str(folder).encode()):x}"


def change(op: str, id: int, name: str | None = None, *, lsn: int) -> Record:  # noqa: A002
    """Return a change event in the format of Debezium's PostgreSQL connector and the JSON converter without schemas."""
    row = {"id": id, "name": name}
    source = {"connector": "postgresql", "ts_ms": 1_700_000_000_000, "lsn": lsn, "sequence": f'["{lsn}","{lsn}"]'}
    images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    return Record(_bytes({**images, "source": source, "op": op}), key=_bytes({"id": id}))


def tombstone(id: int) -> Record:  # noqa: A002
    return Record(None, key=_bytes({"id": id}))


def _bytes(value: Any) -> bytes:
    return json.dumps(value).encode()


def job(kafka: Kafka, folder: Path, source: dict[str, Any], **changed: Any) -> Pipeline:
    block = {"bootstrap.servers": kafka.bootstrap_servers, **source}
    config = {"source": {"kafka": block, "value": {"json": {}}}, "tables": [], **changed}
    return pipelines.pipeline(folder, "iceberg", **config)


def names(pipeline: Pipeline, spark: SparkSession, table: str) -> dict[int, str]:
    return {row["id"]: row["name"] for row in pipelines.rows(pipeline, spark, table, key="id")}


def test_changes_reach_the_table_and_the_next_run_resumes(
    kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession
) -> None:
    topic = f"{prefix}.orders"
    kafka.produce(topic, change("r", 1, "a", lsn=1), change("c", 2, "b", lsn=2), change("u", 1, "A", lsn=3))
    pipeline = job(kafka, tmp_path, {"subscribe": topic})
    (summary,) = pipeline.run(spark).tables
    assert (summary.rows_in, summary.applied, summary.dead_letters) == (3, 2, 0)
    assert names(pipeline, spark, topic) == {1: "A", 2: "b"}
    assert find_damaged_file(Folder(spark, f"{pipeline.checkpoint}/stream")) is None
    assert pipeline.run(spark).batches == 0
    kafka.produce(topic, change("d", 2, "b", lsn=4), tombstone(2), change("c", 3, "c", lsn=5))
    pipeline.run(spark)
    assert names(pipeline, spark, topic) == {1: "A", 3: "c"}


@pytest.mark.nightly
@pytest.mark.one_spark
def test_delete_is_applied_when_compaction_left_only_the_tombstone(
    kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession
) -> None:
    topic = f"{prefix}.orders"
    compaction = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}
    kafka.create_topic(topic, config=compaction)
    kafka.produce(topic, change("c", 1, "a", lsn=1), change("c", 2, "b", lsn=2))
    pipeline = job(kafka, tmp_path, {"subscribe": topic})
    pipeline.run(spark)
    kafka.produce(topic, change("d", 1, "a", lsn=3), tombstone(1))
    time.sleep(0.2)  # the next record starts a segment, and earlier segments are compacted
    kafka.produce(topic, change("c", 3, "c", lsn=4))
    until(lambda: [record.offset for record in kafka.read(topic)] == [1, 3, 4], "the compaction")
    (summary,) = pipeline.run(spark).tables
    assert (summary.rows_in, summary.applied, summary.dead_letters) == (2, 2, 0)
    assert names(pipeline, spark, topic) == {2: "b", 3: "c"}


@pytest.mark.one_spark
def test_partitions_limits_and_late_events(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    topic = f"{prefix}.orders"
    kafka.create_topic(topic, partitions=3)
    kafka.produce(topic, *[change("c", number, "first", lsn=number) for number in range(30)])
    kafka.produce(topic, *[change("u", number, "newer", lsn=1000 + number) for number in range(30)])
    kafka.produce(topic, *[change("u", number, "late", lsn=500 + number) for number in range(30)])
    batches: list[BatchProgress] = []
    pipeline = job(kafka, tmp_path, {"subscribe": topic, "maxOffsetsPerTrigger": 45})
    pipeline.run(spark, on_progress=batches.append)
    assert len(batches) >= 2
    assert sum(batch.tables[0].rows_in or 0 for batch in batches) == 90
    assert names(pipeline, spark, topic) == dict.fromkeys(range(30), "newer")


@pytest.mark.one_spark
def test_new_topic_joins_a_running_pipeline(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    kafka.produce(f"{prefix}.one", change("c", 1, "a", lsn=1))
    rule = {"source": f"/{prefix}[.].*/", "target": "shop.{table}"}
    source = {"subscribePattern": f"{prefix}[.].*", "kafka.metadata.max.age.ms": 500}
    pipeline = job(kafka, tmp_path, source, tables=[rule])
    query = pipeline.start(spark, "200 ms")
    try:
        until(lambda: query.last_progress is not None, "a batch")
        kafka.produce(f"{prefix}.two", change("c", 7, "later", lsn=1))
        until(lambda: "shop.two" in {t.table for batch in query.recent_progress for t in batch.tables}, "the table")
    finally:
        query.stop()
    assert names(pipeline, spark, "shop.one") == {1: "a"}
    assert names(pipeline, spark, "shop.two") == {7: "later"}


@pytest.mark.nightly
@pytest.mark.one_spark
def test_quiet_topic_is_read_despite_backlog_of_another(
    kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession
) -> None:
    hot, quiet, idle = (f"{prefix}.{name}" for name in ("hot", "quiet", "idle"))
    for topic in (hot, quiet, idle):
        kafka.create_topic(topic, partitions=2)
    kafka.produce(hot, *[change("c", number, "a", lsn=number + 1) for number in range(400)])
    kafka.produce(quiet, *[change("c", number, "a", lsn=number + 1) for number in range(20)])
    batches: list[BatchProgress] = []
    pipeline = job(kafka, tmp_path, {"subscribe": [hot, quiet, idle], "maxOffsetsPerTrigger": 200})
    pipeline.run(spark, on_progress=batches.append)
    read = [{t.table: t.rows_in or 0 for t in batch.tables} for batch in batches]
    assert read[0][quiet] == 20
    assert all(sum(tables.values()) <= 200 for tables in read)
    assert sum(tables.get(hot, 0) for tables in read) == 400
    lags = [{t.table: t.lag for t in batch.tables} for batch in batches]
    assert (lags[0][hot], lags[0][quiet]) == (400 - read[0][hot], 0)
    assert (len(names(pipeline, spark, hot)), len(names(pipeline, spark, quiet))) == (400, 20)


@pytest.mark.nightly
@pytest.mark.one_spark
def test_pipeline_without_checkpoint_reads_everything_again(
    kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession
) -> None:
    one, two = f"{prefix}.one", f"{prefix}.two"
    for topic in (one, two):
        kafka.produce(topic, *[change("c", number, "a", lsn=number + 1) for number in range(5)])
    pipeline = job(kafka, tmp_path, {"subscribe": [one, two]})
    pipeline.run(spark)
    kafka.produce(two, *[change("c", number, "a", lsn=number + 1) for number in range(5, 30)])
    shutil.rmtree(pipeline.checkpoint)
    # The same object continues: its state of earlier batches belongs to the deleted checkpoint.
    assert {t.table: t.rows_in for t in pipeline.run(spark).tables} == {one: 5, two: 30}
    assert (len(names(pipeline, spark, one)), len(names(pipeline, spark, two))) == (5, 30)


@pytest.mark.nightly
@pytest.mark.one_spark
def test_two_tables_of_one_batch_read_their_own_topics(
    kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession
) -> None:
    for table in ("one", "two"):
        kafka.produce(f"{prefix}.{table}", change("c", 1, table, lsn=1))
    batches: list[BatchProgress] = []
    pipeline = job(kafka, tmp_path, {"subscribe": [f"{prefix}.one", f"{prefix}.two"]})
    pipeline.run(spark, on_progress=batches.append)
    assert [(t.table, t.rows_in) for t in batches[0].tables] == [(f"{prefix}.one", 1), (f"{prefix}.two", 1)]


@pytest.mark.nightly
@pytest.mark.one_spark
def test_failed_table_catches_up(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    good, bad = f"{prefix}.good", f"{prefix}.bad"
    for topic in (good, bad):
        kafka.create_topic(topic, partitions=2)
    blocking_file = tmp_path.joinpath("lake/iceberg", *bad.split("."))
    blocking_file.parent.mkdir(parents=True)
    blocking_file.write_text("a file, and no table")
    pipeline = job(kafka, tmp_path, {"subscribePattern": f"{prefix}[.].*", "maxOffsetsPerTrigger": 6})
    for first in (0, 10):
        for topic in (good, bad):
            kafka.produce(topic, *[change("c", first + n, topic, lsn=first + n + 1) for n in range(10)])
        with pytest.raises(HeadraceError, match="bad"):
            pipeline.run(spark)
        assert sorted(names(pipeline, spark, good)) == list(range(first + 10))
    blocking_file.unlink()
    kafka.produce(bad, change("u", 3, "newer", lsn=100))
    pipeline.run(spark)
    assert names(pipeline, spark, bad) == {n: "newer" if n == 3 else bad for n in range(20)}


@pytest.mark.nightly
@pytest.mark.one_spark
def test_backlog_of_a_deleted_topic_is_not_read_from_the_new_one(
    kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = f"{prefix}.good", f"{prefix}.bad"
    blocking_file = tmp_path.joinpath("lake/iceberg", *bad.split("."))
    blocking_file.parent.mkdir(parents=True)
    blocking_file.write_text("a file, and no table")
    source = {"subscribePattern": f"{prefix}[.].*", "failOnDataLoss": False}
    sink = {"iceberg": {"warehouse": f"{tmp_path}/lake/iceberg", "mode": "append"}}
    unwrap = {"unwrap": {"delete.tombstone.handling.mode": "drop"}}
    pipeline = job(kafka, tmp_path, source, sinks=[sink], transforms=[unwrap])
    for topic in (good, bad):
        kafka.produce(topic, *[change("c", n, "old", lsn=n) for n in range(3)])
    with pytest.raises(HeadraceError, match="bad"):
        pipeline.run(spark)
    kafka.delete_topic(bad)
    kafka.produce(bad, *[change("c", n, "new", lsn=n) for n in range(10, 15)])
    blocking_file.unlink()
    pipeline.run(spark)
    found = pipeline.read(bad, spark=spark).select("id", "name").orderBy("id").collect()
    assert [tuple(row) for row in found] == [(n, "new") for n in range(10, 15)]
    assert f"the topic {bad} was deleted and created again before a table caught up" in caplog.text


@pytest.mark.one_spark
@pytest.mark.parametrize(
    ("start", "seen"), nightly_after(1, [("offsets", [2, 3]), ("earliest", [1, 2, 3]), ("latest", [])]), ids=str
)
def test_stream_start(
    kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession, start: str, seen: list[int]
) -> None:
    topic = f"{prefix}.orders"
    kafka.produce(topic, *[change("c", number, "x", lsn=number) for number in (1, 2, 3)])
    starting_offsets: Any = {topic: {"0": 1}} if start == "offsets" else start
    pipeline = job(kafka, tmp_path, {"subscribe": topic, "startingOffsets": starting_offsets})
    pipeline.run(spark)
    kafka.produce(topic, change("c", 9, "new", lsn=9))
    pipeline.run(spark)
    assert list(names(pipeline, spark, topic)) == [*seen, 9]


@pytest.mark.nightly
@pytest.mark.one_spark
@pytest.mark.parametrize("option", ["startingTimestamp", "startingOffsetsByTimestamp"])
def test_stream_starts_at_a_timestamp(
    kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession, option: str
) -> None:
    topic = f"{prefix}.orders"
    records = {millis: change("c", millis, "x", lsn=millis) for millis in (1000, 2000, 3000)}
    kafka.produce(topic, *[Record(r.value, key=r.key, timestamp=millis) for millis, r in records.items()])
    starting_offsets: Any = 2000 if option == "startingTimestamp" else {topic: {"0": 2000}}
    pipeline = job(kafka, tmp_path, {"subscribe": topic, option: starting_offsets})
    pipeline.run(spark)
    assert list(names(pipeline, spark, topic)) == [2000, 3000]


@pytest.mark.nightly
@pytest.mark.one_spark
def test_assigned_partitions(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    topic = f"{prefix}.orders"
    kafka.create_topic(topic, partitions=2)
    records = [change("c", number, "x", lsn=number) for number in (1, 2)]
    kafka.produce(topic, *[Record(r.value, key=r.key, partition=number) for number, r in enumerate(records)])
    pipeline = job(kafka, tmp_path, {"assign": {topic: [1]}})
    pipeline.run(spark)
    assert list(names(pipeline, spark, topic)) == [2]


def test_aborted_transaction_is_not_read(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    topic = f"{prefix}.orders"
    with kafka.transaction() as kept:
        kept.produce(topic, change("c", 1, "kept", lsn=1))
    with kafka.transaction() as aborted:
        aborted.produce(topic, change("u", 1, "given up", lsn=2), change("c", 2, "given up", lsn=3))
        aborted.abort()
    with kafka.transaction() as kept:
        kept.produce(topic, change("c", 3, "kept", lsn=4))
    pipeline = job(kafka, tmp_path, {"subscribe": topic})
    pipeline.run(spark)
    assert names(pipeline, spark, topic) == {1: "kept", 3: "kept"}


@pytest.mark.nightly
@pytest.mark.one_spark
def test_record_without_key_becomes_a_dead_letter(
    kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession
) -> None:
    topic = f"{prefix}.orders"
    kafka.produce(topic, change("c", 1, "a", lsn=1), Record(change("c", 2, "b", lsn=2).value))
    pipeline = job(kafka, tmp_path, {"subscribe": topic})
    (summary,) = pipeline.run(spark).tables
    assert (summary.rows_in, summary.dead_letters) == (2, 1)
    assert names(pipeline, spark, topic) == {1: "a"}


def test_repeated_batch_has_the_same_records(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    topic = f"{prefix}.orders"
    kafka.produce(topic, change("c", 1, "a", lsn=1))
    pipeline = job(
        kafka,
        tmp_path,
        {"subscribe": topic},
        sinks=[pipelines.sink_block("files", tmp_path, format="json", mode="append")],
        transforms=[{"unwrap": {"delete.tombstone.handling.mode": "drop"}}],
    )
    pipeline.run(spark)
    for commit in (tmp_path / "checkpoint/stream/commits").iterdir():
        commit.unlink()
    kafka.produce(topic, change("c", 2, "b", lsn=2))
    batches: list[BatchProgress] = []
    pipeline.run(spark, on_progress=batches.append)
    assert [(batch.batch, batch.tables[0].rows_in) for batch in batches] == [(0, 1), (1, 1)]
    assert names(pipeline, spark, topic) == {1: "a", 2: "b"}


#: Records of `schema.history.internal.kafka.topic`, as written by the connectors of MySQL and SQL Server.
HISTORIES = (
    b"""{
  "source" : {
    "server" : "my"
  },
  "position" : {
    "ts_sec" : 1795320625,
    "file" : "binlog.000001",
    "pos" : 748,
    "snapshot" : "INITIAL"
  },
  "ts_ms" : 1795320625905,
  "databaseName" : "test",
  "ddl" : "DROP DATABASE IF EXISTS `test`",
  "tableChanges" : [ ]
}""",
    b"""{
  "source" : {
    "server" : "ss",
    "database" : "test"
  },
  "position" : {
    "event_serial_no" : 1,
    "commit_lsn" : "00000027:00000100:0002",
    "change_lsn" : "NULL",
    "snapshot" : "INITIAL",
    "snapshot_completed" : false
  },
  "ts_ms" : 1795320692448,
  "databaseName" : "test",
  "schemaName" : "dbo",
  "tableChanges" : [ {
    "type" : "DROP",
    "id" : "\\"test\\".\\"dbo\\".\\"artists\\""
  } ]
}""",
)


@pytest.mark.nightly
@pytest.mark.one_spark
def test_tables_of_one_topic_have_separate_keys(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    def item(op: str, number: int, lsn: int, text: str) -> Record:
        row = {"order_id": 1, "number": number, "text": text}
        source = {"connector": "postgresql", "table": "items", "lsn": lsn, "sequence": f'["{lsn}","{lsn}"]'}
        images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
        return Record(_bytes({**images, "source": source, "op": op}), key=_bytes({"order_id": 1, "number": number}))

    def order(name: str, lsn: int) -> Record:
        source = {"connector": "postgresql", "table": "orders", "lsn": lsn, "sequence": f'["{lsn}","{lsn}"]'}
        value = {"before": None, "after": {"id": 1, "name": name}, "source": source, "op": "c"}
        return Record(_bytes(value), key=_bytes({"id": 1}))

    topic = f"{prefix}.all"
    rule = {"source": topic, "route.by.field": "source.table", "target": "shop.{table}"}
    pipeline = job(kafka, tmp_path, {"subscribe": topic}, tables=[rule])
    kafka.produce(topic, order("a", 1), item("c", 1, 2, "x"), item("c", 2, 3, "y"))
    pipeline.run(spark)
    kafka.produce(topic, item("u", 1, 4, "X"), item("d", 2, 5, "y"), Record(None, key=b'{"order_id": 1, "number": 2}'))
    pipeline.run(spark)
    assert pipelines.rows(pipeline, spark, "shop.orders", key="id") == [{"id": 1, "name": "a"}]
    assert pipelines.rows(pipeline, spark, "shop.items", key="number") == [{"order_id": 1, "number": 1, "text": "X"}]


@pytest.mark.nightly
@pytest.mark.one_spark
def test_metadata_topics_become_no_tables(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    server = prefix.split(".", 1)[0]
    kafka.produce(f"{prefix}.orders", change("c", 1, "a", lsn=1))
    kafka.produce(f"__debezium-heartbeat.{server}", Record(b'{"ts_ms": 1}', key=_bytes({"serverName": server})))
    begin = {"status": "BEGIN", "id": "571:53195829", "ts_ms": 1}
    kafka.produce(f"{server}.transaction", Record(_bytes(begin), key=b'{"id": "571:53195829"}'))
    ddl = {"source": {"connector": "mysql"}, "databaseName": "shop", "ddl": "DROP TABLE a", "tableChanges": []}
    kafka.produce(server, Record(_bytes(ddl), key=b'{"databaseName": "shop"}'))
    for number, history in enumerate(HISTORIES):
        kafka.produce(f"{server}.history{number}", Record(history))
    message = {"op": "m", "source": {"connector": "postgresql"}, "message": {"prefix": "p", "content": "eA=="}}
    kafka.produce(f"{server}.message", Record(_bytes(message), key=b'{"prefix": "p"}'))
    batches: list[BatchProgress] = []
    pipeline = job(kafka, tmp_path, {"subscribePattern": f".*{server}.*"})
    summary = pipeline.run(spark, on_progress=batches.append)
    assert [(table.table, table.rows_in) for table in summary.tables] == [(f"{prefix}.orders", 1)]
    assert batches[0].notices == {
        f"__debezium-heartbeat.{server}": "Debezium's heartbeats",
        server: "schema changes",
        f"{server}.history0": "schema changes",
        f"{server}.history1": "schema changes",
        f"{server}.message": "logical messages",
        f"{server}.transaction": "transaction boundaries",
    }
    assert batches[0].left_out == dict.fromkeys(batches[0].notices, 1)


@pytest.mark.nightly
@pytest.mark.one_spark
def test_json_schema_history_among_avro_topics(
    kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession, fake_registry: FakeRegistry
) -> None:
    fake_registry.answers |= {"/schemas/ids/7": {"schema": json.dumps(ROW)}, "/subjects": ["rows"]}
    server = prefix.split(".", 1)[0]
    kafka.produce(f"{prefix}.orders", Record(b"\0\0\0\0\7" + body(1, "a")))
    kafka.produce(f"{server}.schema-history", *map(Record, HISTORIES))
    topics = {"bootstrap.servers": kafka.bootstrap_servers, "subscribePattern": f"{server}[.].*"}
    source = {"kafka": topics, "value": {"avro": {"registry": fake_registry.url}}}
    tables = [{"source": f"{prefix}.orders", "key": ["id"]}]
    pipeline = pipelines.pipeline(tmp_path, "iceberg", source=source, tables=tables)
    batches: list[BatchProgress] = []
    pipeline.run(spark, on_progress=batches.append)
    assert names(pipeline, spark, f"{prefix}.orders") == {1: "a"}
    assert batches[0].notices == {f"{server}.schema-history": "schema changes"}
    assert batches[0].left_out == {f"{server}.schema-history": len(HISTORIES)}
    assert batches[0].unrouted == ()
    found = {item.what: item.found for item in pipeline.check(spark, connect=True)}
    assert found[f"topic {server}.schema-history"] == "schema changes: no table"


@pytest.mark.nightly
@pytest.mark.one_spark
def test_schema_missing_in_registry(
    kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession, fake_registry: FakeRegistry
) -> None:
    topic = f"{prefix}.orders"
    fake_registry.answers["/schemas/ids/7"] = {"schema": json.dumps(ROW)}
    one, three, four = (Record(b"\0\0\0\0\7" + body(number, "a")) for number in (1, 3, 4))
    lost = Record(b"\0\0\0\0\x09" + body(2, "b"))
    kafka.produce(topic, one, lost, three)
    block = {"bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic}
    source = {"kafka": block, "value": {"avro": {"registry": fake_registry.url}}}
    tables = [{"source": topic, "key": ["id"]}]
    with pytest.raises(DataError, match="returned 404 Not Found"):
        pipelines.pipeline(tmp_path, "iceberg", source=source, tables=tables).run(spark)
    policy: dict[str, Any] = {"dead.letters": {"schema-unknown": "dead-letter"}}
    pipeline = pipelines.pipeline(tmp_path, "iceberg", source=source, tables=tables, **policy)
    pipeline.run(spark)
    assert names(pipeline, spark, topic) == {1: "a", 3: "a"}
    (dead_letter,) = pipeline.read("dead_letters", spark=spark).collect()
    assert (dead_letter["reason"], dead_letter["plugin"], bytes(dead_letter["value"])) == (
        "schema-unknown",
        "avro",
        lost.value,
    )
    kafka.produce(topic, four, lost)
    pipeline.run(spark)
    assert names(pipeline, spark, topic) == {1: "a", 3: "a", 4: "a"}
    fake_registry.answers["/schemas/ids/9"] = {"schema": json.dumps(ROW)}
    assert [done.failed_again for done in replay(pipeline.plan, spark)] == [0, 0]
    assert names(pipeline, spark, topic) == {1: "a", 2: "b", 3: "a", 4: "a"}


def avro_of(kind: str, value: Any, number: int) -> bytes:
    schema = {**ROW, "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": kind}]}
    return (b"\0\0\0\0\7" if kind == "string" else b"\0\0\0\0\x08") + encode(schema, {"id": number, "name": value})


def json_of(kind: str, value: Any, number: int) -> bytes:
    fields = [{"field": "id", "type": "int32"}, {"field": "name", "type": "int32" if kind == "int" else kind}]
    return _bytes({"schema": {"type": "struct", "fields": fields}, "payload": {"id": number, "name": value}})


@pytest.mark.nightly
@pytest.mark.one_spark
@pytest.mark.parametrize("wire", ["avro", "json"])
def test_changed_type_stops_its_table_or_becomes_dead_letters(
    wire: str, kafka: Kafka, prefix: str, fake_registry: FakeRegistry, tmp_path: Path, spark: SparkSession
) -> None:
    topic = f"{prefix}.orders"
    for id_, kind in ((7, "string"), (8, "int")):
        fields = [{"name": "id", "type": "int"}, {"name": "name", "type": kind}]
        fake_registry.answers[f"/schemas/ids/{id_}"] = {"schema": json.dumps({**ROW, "fields": fields})}
    of = avro_of if wire == "avro" else json_of
    changed = Record(of("int", 2, 2))
    kafka.produce(topic, Record(of("string", "a", 1)))
    block = {"bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic}
    source = {"kafka": block, "value": {"avro": {"registry": fake_registry.url}} if wire == "avro" else "json"}
    config: dict[str, Any] = {"source": source, "tables": [{"source": topic, "key": ["id"]}]}
    pipelines.pipeline(tmp_path, "iceberg", **config).run(spark)
    kafka.produce(topic, changed, Record(of("string", "c", 3)))
    with pytest.raises(DataError, match="the column 'name' is string in some records and int in others"):
        pipelines.pipeline(tmp_path, "iceberg", **config).run(spark)
    pipeline = pipelines.pipeline(
        tmp_path, "iceberg", **config, **{"dead.letters": {"schema-incompatible": "dead-letter"}}
    )
    for _ in range(2):  # the second run plans when the conflicting types are already known
        pipeline.run(spark)
        kafka.produce(topic, Record(of("string", "d", 4)), changed)
    assert names(pipeline, spark, topic) == {1: "a", 3: "c", 4: "d"}
    dead_letters = pipeline.read("dead_letters", spark=spark).collect()
    assert [
        (dead_letter["reason"], dead_letter["plugin"], bytes(dead_letter["value"])) for dead_letter in dead_letters
    ] == [("schema-incompatible", wire, changed.value)] * 2


@pytest.mark.nightly
def test_lag_counts_unread_records(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    topic = f"{prefix}.orders"
    kafka.produce(topic, *[change("c", number, "a", lsn=number) for number in range(5)])
    batches: list[BatchProgress] = []
    job(kafka, tmp_path, {"subscribe": topic, "maxOffsetsPerTrigger": 2}).run(spark, on_progress=batches.append)
    assert [batch.tables[0].lag for batch in batches] == [3, 1, 0]


# Checks before a run


@pytest.mark.nightly
@pytest.mark.one_spark
def test_masked_column_is_missing_in_all_topics(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    kafka.produce(f"{prefix}.orders", change("c", 1, "a", lsn=1))
    mask = {"mask": {"columns": {"email": {"nullify": True}}}}
    source = {"subscribePattern": f"{prefix}[.].*"}
    pipeline = job(kafka, tmp_path, source, transforms=[{"unwrap": {}}, mask])
    for _ in range(2):
        with pytest.raises(ConfigError, match="no table has the column 'email'"):
            pipeline.run(spark)
    row = {"id": 1, "email": "a@example.com"}
    envelope = {"before": None, "after": row, "source": {"connector": "postgresql", "ts_ms": 1, "lsn": 2}, "op": "c"}
    kafka.produce(f"{prefix}.customers", Record(_bytes(envelope), key=_bytes({"id": 1})))
    pipeline.run(spark)
    assert names(pipeline, spark, f"{prefix}.orders") == {1: "a"}
    (customer,) = pipelines.rows(pipeline, spark, f"{prefix}.customers", key="id")
    assert customer == {"id": 1, "email": None}


def test_check_reports_findings(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    kafka.produce(f"{prefix}.orders", change("c", 1, "a", lsn=1), change("d", 1, "a", lsn=2), tombstone(1))
    kafka.create_topic(f"{prefix}.empty", partitions=2)
    kafka.produce(f"{prefix}.broken", Record(b"no JSON", key=_bytes({"id": 1})))
    tables = [{"source": f"/{prefix}[.].*/", "target": "shop.{table}"}]
    source = {"subscribePattern": f"{prefix}[.].*", **sasl(kafka, kafka.sasl.password)}
    items = {item.what: item for item in job(kafka, tmp_path, source, tables=tables).check(spark, connect=True)}
    assert items["source kafka"].found.endswith("1 broker, SASL_SSL, SCRAM-SHA-512: authentication succeeded")
    assert items["sink iceberg"].found.endswith(": writable")
    assert items["checkpoint"].found.endswith(": writable")
    assert list(tmp_path.iterdir()) == []
    assert items[f"topic {prefix}.empty"].found == "2 partitions, 0 records"
    assert items[f"topic {prefix}.orders"].found == "table shop.orders, key id, columns id, name"
    assert items[f"topic {prefix}.broken"].found == "none of the records is a JSON object"


def test_check_reports_errors(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    kafka.produce(f"{prefix}.orders", change("c", 1, "a", lsn=1))
    (tmp_path / "lake").write_text("a file where the folder would be")
    pipeline = job(kafka, tmp_path, {"subscribe": f"{prefix}.order"})
    errors = {item.what: item.error for item in pipeline.check(spark, connect=True) if item.error}
    assert f"no such topic: '{prefix}.order'" in str(errors["kafka"])
    assert f"did you mean '{prefix}.orders'?" in str(errors["kafka"])
    assert "lake" in str(errors["iceberg"])
    failing = job(kafka, tmp_path, {"subscribePattern": "none[.].*", **sasl(kafka, "not-the-password")})
    errors = {item.what: item.error for item in failing.check(spark, connect=True) if item.error}
    assert "authentication failed" in str(errors["kafka"])
    assert "not-the-password" not in str(errors["kafka"])
    (found,) = [
        i.found
        for i in job(kafka, tmp_path, {"subscribePattern": "none[.].*"}).check(spark, connect=True)
        if i.what == "topics"
    ]
    assert found.startswith("none matches none[.].*: the stream waits for a topic; the cluster has ")


# Errors


@pytest.mark.nightly
@pytest.mark.parametrize("count", [1, 5, 9])  # The old topic has five records.
def test_recreated_topic(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession, count: int) -> None:
    topic = f"{prefix}.orders"
    kafka.produce(topic, *[change("c", number, "old", lsn=number) for number in range(5)])
    pipeline = job(kafka, tmp_path, {"subscribe": topic})
    pipeline.run(spark)
    kafka.delete_topic(topic)
    new = range(10, 10 + count)
    kafka.produce(topic, *[change("c", number, "new", lsn=number) for number in new])
    for query in (pipeline.start_available_now(spark), pipeline.start(spark, "1 second")):
        with pytest.raises(DataError, match=f"a topic was deleted and created again since it was last read: {topic}"):
            query.await_termination(60)
    tolerant_pipeline = job(kafka, tmp_path, {"subscribe": topic, "failOnDataLoss": False})
    tolerant_pipeline.run(spark)
    if count == 5:  # Spark starts no batch before the next record.
        kafka.produce(topic, change("u", 10, "new", lsn=20))
        tolerant_pipeline.run(spark)
    assert names(tolerant_pipeline, spark, topic) == {**dict.fromkeys(range(5), "old"), **dict.fromkeys(new, "new")}


@pytest.mark.one_spark
def test_unreachable_broker(tmp_path: Path, spark: SparkSession) -> None:
    source = {
        "bootstrap.servers": "127.0.0.1:1",
        "subscribe": "orders",
        "kafka.default.api.timeout.ms": 2000,
        "kafka.request.timeout.ms": 1000,
        "fetchOffset.numRetries": 1,
    }
    pipeline = pipelines.pipeline(tmp_path, source={"kafka": source, "value": {"json": {}}}, tables=[])
    with pytest.raises(RetriableError, match="no broker responds") as caught:
        pipeline.run(spark)
    assert "source kafka, 127.0.0.1:1" in str(caught.value)
    assert "Exception" not in str(caught.value)


@pytest.mark.nightly
@pytest.mark.one_spark
def test_unreachable_broker_is_reported_within_a_minute(tmp_path: Path, spark: SparkSession) -> None:
    source = {"bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"}
    pipeline = pipelines.pipeline(tmp_path, source={"kafka": source, "value": {"json": {}}}, tables=[])
    clock = time.monotonic()
    with pytest.raises(RetriableError, match="no broker responds"):
        pipeline.run(spark)
    assert time.monotonic() - clock < 60


_LOGINS = {
    "SCRAM-SHA-512": 'scram.ScramLoginModule required username="{}" password="{}";',
    "PLAIN": 'plain.PlainLoginModule required username="{}" password="{}";',
    # An unsigned token.
    "OAUTHBEARER": 'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{}";',
}


def sasl(kafka: Kafka, password: str, mechanism: str = "SCRAM-SHA-512") -> dict[str, Any]:
    login = _LOGINS[mechanism].format(kafka.sasl.username, password)
    return {
        "bootstrap.servers": kafka.sasl.bootstrap_servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": f"org.apache.kafka.common.security.{login}",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(kafka.sasl.ca),
    }


@pytest.mark.nightly
@pytest.mark.one_spark
@pytest.mark.parametrize("mechanism", _LOGINS)
def test_sasl_over_tls(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession, mechanism: str) -> None:
    topic = f"{prefix}.orders"
    kafka.produce(topic, change("c", 1, "a", lsn=1))
    pipeline = job(kafka, tmp_path, {"subscribe": topic, **sasl(kafka, kafka.sasl.password, mechanism)})
    pipeline.run(spark)
    assert names(pipeline, spark, topic) == {1: "a"}


@pytest.mark.one_spark
@pytest.mark.parametrize("mechanism", nightly_after(1, ["SCRAM-SHA-512", "PLAIN"]))
def test_wrong_password(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession, mechanism: str) -> None:
    kafka.produce(f"{prefix}.orders", change("c", 1, "a", lsn=1))
    source = {"subscribe": f"{prefix}.orders", **sasl(kafka, "not-the-password", mechanism)}
    pipeline = job(kafka, tmp_path, source)
    with pytest.raises(ConfigError, match="authentication failed") as caught:
        pipeline.run(spark)
    assert "not-the-password" not in str(caught.value)


@pytest.mark.nightly
@pytest.mark.one_spark
def test_plaintext_to_a_tls_port(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    source = {
        "bootstrap.servers": kafka.sasl.bootstrap_servers,
        "subscribe": f"{prefix}.orders",
        "kafka.default.api.timeout.ms": 2000,
        "kafka.request.timeout.ms": 1000,
        "fetchOffset.numRetries": 1,
    }
    with pytest.raises(RetriableError, match=r"that the port uses the pipeline's `kafka.security.protocol`"):
        job(kafka, tmp_path, source).run(spark)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "needs one of subscribe, subscribePattern, assign, and has none"),
        ({"subscribe": "a", "subscribePattern": "b"}, "has subscribe and subscribePattern"),
        ({"subscribe": "a", "startingOffset": "latest"}, "unknown key 'startingOffset'"),
    ],
)
def test_invalid_options(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        KafkaSource({"bootstrap.servers": "localhost", **options})


def test_admin_client_collected_during_a_java_call_keeps_the_call_intact(
    kafka: Kafka, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admins = [KafkaAdmin(spark, {"bootstrap.servers": kafka.bootstrap_servers, "client.id": "forgotten"})]
    assert admins[0].cluster()[1] == 1
    assert "forgotten" in _java_threads(spark)
    read = py4j.clientserver.get_return_value

    def forget(*args: Any) -> Any:
        admins.clear()  # as Python's garbage collector may do at any time
        return read(*args)

    monkeypatch.setattr(py4j.clientserver, "get_return_value", forget)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "lines.txt").write_text("a\n")
    batches: list[tuple[int, int]] = []
    stream = spark.readStream.text(str(tmp_path / "in")).writeStream.trigger(availableNow=True)
    stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert stream.foreachBatch(lambda rows, batch: batches.append((batch, rows.count()))).start().awaitTermination(60)
    assert batches == [(0, 1)]
    assert not admins
    until(lambda: "forgotten" not in _java_threads(spark), "the end of the client's thread")


def _java_threads(spark: SparkSession) -> str:
    jvm: Any = spark._jvm
    return " ".join(thread.getName() for thread in jvm.Thread.getAllStackTraces().keySet())
