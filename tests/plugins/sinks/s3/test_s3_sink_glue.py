"""Objects of the sink ``s3`` as tables of AWS Glue, emulated by moto. Spark's read path is tested with Spark; Athena is not tested."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.glue import Glue, column_types, read_table
from tests.support.s3_records import TOPIC, Orders, Record, frame, order
from tests.support.tiers import nightly_after

from headrace import ConfigError, DataError, RetriableError
from headrace.sdk.sink import Batch, Table
from headrace.spark.sessions import Sessions
from headrace.testing.tables import plain
from headrace_sinks.catalogs.glue import glue_client
from headrace_sinks.s3.s3_sink import S3Sink

pytestmark = [pytest.mark.spark, pytest.mark.one_spark, pytest.mark.usefixtures("aws_credentials")]

NAME = "orders"
#: 2015-07-18T00:00:00Z and an hour, in milliseconds.
DAY, HOUR = 1_437_177_600_000, 3_600_000


class Bucket(Orders):
    """Orders with one sink for all batches, as in a run."""

    _sink: S3Sink | None = None

    @property
    def sink(self) -> S3Sink:
        self._sink = self._sink or super().sink
        return self._sink


OpenBucket = Callable[..., Bucket]


@pytest.fixture
def bucket(glue: Glue, database: str, tmp_path: Path, sessions: Sessions) -> OpenBucket:
    def make(schema: str = "id int, name string", *, pipeline: str = "checkpoint", **options: Any) -> Bucket:
        sync = {"glue": {"endpoint": glue.endpoint_url, "database": database}}
        return Bucket(tmp_path, sessions.of("s3"), {"flush.size": 2, "sync": sync, **options}, schema, pipeline)

    return make


def rows_of(bucket: Bucket, table: dict[str, Any], *columns: str) -> list[tuple[Any, ...]]:
    found = read_table(bucket.session, table).select(*columns).collect()
    return sorted(tuple(plain(value) for value in row) for row in found)


@pytest.mark.nightly
@pytest.mark.parametrize("format", ["parquet", "avro", "json"])
def test_topic_becomes_a_table_with_folders_as_partitions(
    bucket: OpenBucket,
    glue: Glue,
    database: str,
    glue_operations: list[str],
    format: str,  # noqa: A002
) -> None:
    orders = bucket(format=format)
    orders.write(order(0), order(1, None), order(2), order(0, partition=1), order(1, partition=1))
    table = glue.tables(database)[NAME]
    root = f"file:{orders.folder}/topics/{TOPIC}"
    assert table["StorageDescriptor"]["Location"] == root
    assert column_types(table) == {"id": "int", "name": "string"}
    assert [key["Name"] for key in table["PartitionKeys"]] == ["partition"]
    assert glue.places(database, NAME) == {(n,): f"{root}/partition={n}" for n in ("0", "1")}
    assert rows_of(orders, table, "id", "partition") == [(0, "0"), (0, "1"), (1, "0"), (1, "1")]
    # Batches without a catalog change send no request: waiting rows, and another object of a known partition.
    glue_operations.clear()
    orders.write(order(3), order(4))
    assert len(orders.objects()) == 3
    assert glue_operations == []
    # A new column is one table version, and its partitions get it too.
    orders.schema = "id int, name string, note string"
    orders.write(Record(5, {"id": 5, "name": "b", "note": "x"}), Record(6, {"id": 6, "name": "b", "note": "y"}))
    table = glue.tables(database)[NAME]
    assert glue.count_versions(database, NAME) == 2
    assert column_types(table)["note"] == "string"
    assert {column_types(one)["note"] for one in glue.partitions(database, NAME).values()} == {"string"}
    assert rows_of(orders, table, "id", "note")[-2:] == [(5, "x"), (6, "y")]


@pytest.mark.nightly
def test_hours_are_partitions(bucket: OpenBucket, glue: Glue, database: str) -> None:
    orders = bucket(**{"partitioner": "hourly", "timestamp.extractor": "Record", "flush.size": 3})
    orders.write(order(0, time=DAY), order(1, time=DAY + HOUR), order(2, time=DAY))
    root = f"file:{orders.folder}/topics/{TOPIC}/year=2015/month=07/day=18"
    assert glue.places(database, NAME) == {("2015", "07", "18", hour): f"{root}/hour={hour}" for hour in ("00", "01")}
    table = glue.tables(database)[NAME]
    assert rows_of(orders, table, "id", "day", "hour") == [(0, "18", "00"), (1, "18", "01"), (2, "18", "00")]


@pytest.mark.nightly
def test_field_partitions_are_strings(bucket: OpenBucket, glue: Glue, database: str) -> None:
    orders = bucket(
        "id int, name string, number int",
        **{"partitioner": "field", "partition.field.name": "name,number", "flush.size": 3, "format": "parquet"},
    )
    rows = [{"id": n, "name": name, "number": n} for n, name in enumerate(("a/b", None, "c"))]
    orders.write(*(Record(n, row) for n, row in enumerate(rows)))
    assert glue.partitions(database, NAME).keys() == {("a/b", "0"), ("null", "1"), ("c", "2")}
    table = glue.tables(database)[NAME]
    assert column_types(table) == {"id": "int"}
    assert {(key["Name"], key["Type"]) for key in table["PartitionKeys"]} == {("name", "string"), ("number", "string")}
    assert rows_of(orders, table, "id", "name", "number") == [(0, "a/b", "0"), (1, "null", "1"), (2, "c", "2")]


@pytest.mark.nightly
def test_time_pattern_names_the_partitions(bucket: OpenBucket, glue: Glue, database: str) -> None:
    pattern = {"path.format": "'dt'=YYYY-MM-dd/'of'='h'HH", "partition.duration.ms": HOUR}
    orders = bucket(**{"partitioner": "time-based", "timestamp.extractor": "Record", **pattern})
    orders.write(order(0, time=DAY), order(1, time=DAY))
    assert glue.partitions(database, NAME).keys() == {("2015-07-18", "h00")}


@pytest.mark.nightly
def test_objects_written_by_the_timer_are_registered(bucket: OpenBucket, glue: Glue, database: str) -> None:
    orders = bucket(**{"rotate.schedule.interval.ms": 1})
    orders.write(order(0))
    assert glue.partitions(database, NAME) == {}
    orders.on_idle()
    assert glue.partitions(database, NAME).keys() == {("0",)}


@pytest.mark.parametrize("trigger", nightly_after(1, ["batch", "clock"]))
def test_rejected_registration_is_repeated_later(
    bucket: OpenBucket, glue: Glue, database: str, monkeypatch: pytest.MonkeyPatch, trigger: str
) -> None:
    orders = bucket()
    orders.write(order(0), order(1))
    records = [order(0, partition=1), order(1, partition=1)]

    def refuse(*_: Any, **__: Any) -> None:
        raise RetriableError("AWS Glue is busy")

    with monkeypatch.context() as context:
        context.setattr(glue_client.GlueClient, "create_partitions", refuse)
        with pytest.raises(RetriableError):
            orders.write(*records)
    assert glue.partitions(database, NAME).keys() == {("0",)}
    if trigger == "batch":
        assert orders.write(*records).skipped
    else:
        orders.on_idle()
    assert glue.partitions(database, NAME).keys() == {("0",), ("1",)}


@pytest.mark.nightly
def test_rejected_registration_does_not_affect_other_tables(
    bucket: OpenBucket, glue: Glue, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = bucket(**{"rotate.schedule.interval.ms": 1})
    for name in ("items", NAME):
        rows = frame(orders.session, orders.schema, [order(0, topic=f"shop.{name}")], orders.sink)
        orders.sink.write(Table(name), rows, Batch(orders.pipeline, 0, "append"))
    create = glue_client.GlueClient.create_partitions

    def refuse_items(client: glue_client.GlueClient, database: str, table: str, *rest: Any) -> None:
        if table == "items":
            raise ConfigError("permission denied: glue:BatchCreatePartition")
        create(client, database, table, *rest)

    with monkeypatch.context() as context:
        context.setattr(glue_client.GlueClient, "create_partitions", refuse_items)
        with pytest.raises(RetriableError, match="permission denied"):
            orders.on_idle()
    assert [list(glue.partitions(database, name)) for name in ("items", NAME)] == [[], [("0",)]]
    orders.on_idle()
    assert list(glue.partitions(database, "items")) == [("0",)]


@pytest.mark.nightly
def test_new_run_registers_missing_partitions(bucket: OpenBucket, glue: Glue, database: str) -> None:
    orders = bucket()
    orders.write(order(0), order(1), order(0, partition=1), order(1, partition=1))
    glue.client().delete_table(DatabaseName=database, Name=NAME)
    shutil.rmtree(orders.folder / f"topics/{TOPIC}/partition=1")
    bucket().on_idle()
    assert glue.partitions(database, NAME).keys() == {("0",)}


@pytest.mark.nightly
def test_columns_of_another_pipeline_or_replay_are_added(bucket: OpenBucket, glue: Glue, database: str) -> None:
    one, other = bucket("id int, name string, note string"), bucket(pipeline="checkpoint/replay-1")
    one.write(Record(0, {"id": 0, "name": "a", "note": "x"}), Record(1, {"id": 1, "name": "a", "note": "y"}))
    other.write(order(2))
    assert list(column_types(glue.tables(database)[NAME])) == ["id", "name", "note"]
    assert glue.count_versions(database, NAME) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "bytes"}, "`format: bytes` has none"),
        ({"store.kafka.keys": True}, "remove `store.kafka.keys`"),
        ({"store.kafka.headers": True}, "remove `store.kafka.keys` and `store.kafka.headers`"),
        ({"partitioner": "field", "partition.field.name": "source.table"}, "'source.table' is not a column name"),
        (
            {"partitioner": "time-based", "path.format": "'y'=YYYY/MM", "partition.duration.ms": 1},
            "'<MM>' is not a column name",
        ),
    ],
)
def test_options_without_a_valid_table_are_rejected(bucket: OpenBucket, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        bucket(**options).on_idle()


def test_column_named_like_a_partition_is_rejected_before_writes(bucket: OpenBucket, glue: Glue, database: str) -> None:
    orders = bucket("id int, Partition string")
    with pytest.raises(DataError, match="column 'Partition' has the name of a partition"):
        orders.write(Record(0, {"id": 0, "Partition": "x"}))
    orders.schema = "id int, part string"
    orders.write(Record(0, {"id": 0, "part": "x"}), Record(1, {"id": 1, "part": "x"}))
    assert [row["part"] for rows in orders.objects().values() for row in rows] == ["x", "x"]
    assert column_types(glue.tables(database)[NAME]) == {"id": "int", "part": "string"}


def test_table_of_two_topics_is_rejected(bucket: OpenBucket) -> None:
    orders = bucket()
    with pytest.raises(DataError, match=rf"has the folders of 2 topics: other, {TOPIC}"):
        orders.write(order(0), order(0, topic="other"))
    assert orders.objects() == {}
