"""Pipelines with the sink ``s3``: objects equal to Confluent's, keys and headers, deletes, masks, and rejected options."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from tests.support.record_log import LogRecord, RecordLog, append
from tests.support.s3_records import read_object, read_objects
from tests.support.tiers import nightly_after

from headrace import ConfigError, DataError, Pipeline
from headrace_sinks.s3.path_limits import find_unsupported
from headrace_sinks.s3.s3_sink import S3Sink
from headrace_sources.formats.json.json_format import JsonFormat
from headrace_sources.transports.files import FilesSource
from headrace_transforms import Mask, Unwrap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

REAL = Path(__file__).parents[3] / "data/msk_demo"
TOPIC = "shop.public.people"
#: Avro types → Connect types in JsonConverter's schemas.
CONNECT = {"int": "int32", "long": "int64", "string": "string", "boolean": "boolean", "double": "double"}
NAMES = ("Ada", "Grac", "Edsger")


def pipeline(folder: Path, *, limit: Any = None, transforms: Any = (), tables: Any = (), **options: Any) -> Pipeline:
    """Return a pipeline from ``folder/log.jsonl`` to ``folder/bucket``."""
    sink = S3Sink({"path": str(folder / "bucket"), "flush.size": 2, **options})
    source = RecordLog(path=str(folder / "log.jsonl"), limit=limit)
    plugins: Any = {"value": JsonFormat(), "transforms": transforms, "tables": tables}
    return Pipeline("bronze", source, [sink], str(folder / "checkpoint"), **plugins)


def envelope(offset: int, op: str, name: str | None, before: str | None = None) -> LogRecord:
    """Return a change event of a person whose id is ``offset // 10``."""
    images = {
        image: message and {"id": offset // 10, "name": message}
        for image, message in (("before", before), ("after", name))
    }
    source = {"connector": "postgresql", "lsn": offset, "ts_ms": 1000 + offset, "table": "people"}
    value = {**images, "source": source, "op": op, "ts_ms": 2000 + offset}
    return LogRecord(TOPIC, offset, {"id": offset // 10}, value, time=offset, headers={"trace": b"t%d" % offset})


def tombstone(offset: int) -> LogRecord:
    return LogRecord(TOPIC, offset, {"id": offset // 10}, None, time=offset)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """Write a log of two inserts, an update, and a delete with its tombstone, and return its folder."""
    changes = [envelope(0, "c", "Ada"), envelope(10, "u", "Grace", "Gracie"), envelope(20, "c", "Edsger")]
    append(tmp_path / "log.jsonl", [*changes, envelope(21, "d", None, "Edsger"), tombstone(22)])
    return tmp_path


def connect_schema(schema: Any, field: str | None = None) -> dict[str, Any]:
    """Return Connect's JSON schema of an Avro schema."""
    optional = isinstance(schema, list)
    schema = next(kind for kind in schema if kind != "null") if isinstance(schema, list) else schema
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        fields = [connect_schema(f["type"], f["name"]) for f in schema["fields"]]
        made: dict[str, Any] = {"type": "struct", "fields": fields, "name": schema["name"]}
    else:
        made = {"type": CONNECT[kind]}
    return {**made, "optional": optional, **({"field": field} if field else {})}


def types_of(schema: Any) -> Any:
    """Return names and types of an Avro schema, without nullability and record names."""
    if isinstance(schema, list):
        return types_of(next(kind for kind in schema if kind != "null"))
    if isinstance(schema, dict) and schema["type"] == "record":
        return {field["name"]: types_of(field["type"]) for field in schema["fields"]}
    return schema["type"] if isinstance(schema, dict) else schema


@pytest.mark.nightly
@pytest.mark.parametrize("shape", ["flat", "envelope"])
def test_objects_equal_those_of_the_connector(shape: str, tmp_path: Path, spark: SparkSession) -> None:
    files = sorted((REAL / shape / "topics").rglob("*.avro"))
    topics = {file.parents[1].name: 0 for file in files}
    records = []
    for file in files:
        topic = file.parents[1].name
        with file.open("rb") as opened:
            reader = fastavro.reader(opened)
            schema = connect_schema(fastavro.schema.expand_schema(reader.writer_schema))
            for row in reader:
                records.append(LogRecord(topic, topics[topic], None, {"schema": schema, "payload": row}))
                topics[topic] += 1
    append(tmp_path / "log.jsonl", records)
    pipeline(tmp_path, limit=1000, **{"flush.size": 300}).run(spark)
    theirs = {str(file.relative_to(REAL / shape)): file for file in files}
    root = tmp_path / "bucket"
    ours = {str(f.relative_to(root)): f for f in (root / "topics").rglob("*") if f.is_file() and f.suffix == ".avro"}
    assert ours.keys() == theirs.keys()
    for name, file in theirs.items():
        assert read_object(ours[name]) == read_object(file)
        with file.open("rb") as one, ours[name].open("rb") as other:
            expected, found = fastavro.reader(one), fastavro.reader(other)
            assert types_of(fastavro.schema.expand_schema(found.writer_schema)) == types_of(
                fastavro.schema.expand_schema(expected.writer_schema)
            )
            assert found.metadata["avro.codec"] == expected.metadata["avro.codec"]


@pytest.mark.nightly
def test_tombstones_are_omitted(people: Path, spark: SparkSession) -> None:
    pipeline(people).run(spark)
    objects = read_objects(people / "bucket")
    assert [[row["op"] for row in rows] for rows in objects.values()] == [["c", "u"], ["c", "d"]]
    assert objects[f"{TOPIC}/partition=0/{TOPIC}+0+0000000020.avro"][1]["before"] == {"id": 2, "name": "Edsger"}


@pytest.mark.nightly
def test_keys_headers_and_tombstones_are_objects(people: Path, spark: SparkSession) -> None:
    options = {"store.kafka.keys": True, "store.kafka.headers": True, "keys.format": "json", "headers.format": "json"}
    pipeline(people, **options, **{"behavior.on.null.values": "write", "flush.size": 5}).run(spark)
    objects = read_objects(people / "bucket")
    value_prefix, tombstone_prefix = (
        f"{TOPIC}/partition=0/{TOPIC}+0+0000000000",
        f"{TOPIC}/tombstone/{TOPIC}+0+0000000022",
    )
    assert objects.keys() == {
        *(f"{value_prefix}{ending}" for ending in (".avro", ".keys.json", ".headers.json")),
        *(f"{tombstone_prefix}{ending}" for ending in (".keys.json", ".headers.json")),
    }
    assert objects[f"{value_prefix}.keys.json"] == [{"id": 0}, {"id": 1}, {"id": 2}, {"id": 2}]
    assert objects[f"{value_prefix}.headers.json"] == [[{"key": "trace", "value": f"t{n}"}] for n in (0, 10, 20, 21)]
    assert objects[f"{tombstone_prefix}.keys.json"] == [{"id": 2}]
    assert objects[f"{tombstone_prefix}.headers.json"] == [[]]
    assert [row["op"] for row in objects[f"{value_prefix}.avro"]] == ["c", "u", "c", "d"]
    read = pipeline(people).read(TOPIC, spark=spark)
    assert read.count() == 4


@pytest.mark.nightly
def test_tables_of_a_topic_have_their_own_folders(tmp_path: Path, spark: SparkSession) -> None:
    values = [{"id": 0, "of": {"table": "a"}}, {"id": "x", "of": {"table": "b"}}, {"id": 2, "of": {"table": "a"}}]
    append(tmp_path / "log.jsonl", [LogRecord("all", offset, None, value) for offset, value in enumerate(values)])
    rule = {"source": "all", "route.by.field": "of.table", "target": "shop.{table}"}
    split = pipeline(tmp_path, tables=[rule], **{"flush.size": 1})
    split.run(spark)
    assert sorted(read_objects(tmp_path / "bucket")) == [
        "all+a/partition=0/all+a+0+0000000000.avro",
        "all+a/partition=0/all+a+0+0000000002.avro",
        "all+b/partition=0/all+b+0+0000000001.avro",
    ]
    found = {table: [row["id"] for row in split.read(table, spark=spark).collect()] for table in ("shop.a", "shop.b")}
    assert found == {"shop.a": [0, 2], "shop.b": ["x"]}


@pytest.mark.nightly
def test_partition_values_that_no_path_holds_are_dead_letters(tmp_path: Path, spark: SparkSession) -> None:
    longest = ["č" * 125, "%2F" * 50]  # 250 bytes, and five more for `name=`; `%2F` becomes `%252F`
    names = ["Ada", *longest, *(f"{name}x" for name in longest), "a\0b"]
    values = [{"id": number, "name": name, "City": "x" * 250} for number, name in enumerate(names)]
    append(tmp_path / "log.jsonl", [LogRecord(TOPIC, offset, None, value) for offset, value in enumerate(values)])
    by_field = {"partitioner": "field", "partition.field.name": "name,city", "flush.size": 1, "format": "json"}
    job = pipeline(tmp_path, **by_field)
    (progress,) = job.run(spark).tables
    assert (progress.applied, progress.dead_letters) == (3, 3)
    folders = ["name=Ada", f"name={longest[0]}", "name=" + "%252F" * 50]
    assert read_objects(tmp_path / "bucket") == {
        f"{TOPIC}/{folder}/city={'x' * 250}/{TOPIC}+0+{number:010d}.json": [values[number]]
        for number, folder in enumerate(folders)
    }
    dead_letters = job.read_dead_letters(spark)
    assert dead_letters is not None
    found = {(row["reason"], json.loads(row["value"])["name"]) for row in dead_letters.collect()}
    assert found == {("unsupported-value", name) for name in names[3:]}


def test_keys_of_objects_have_1024_bytes(spark: SparkSession) -> None:
    sink = S3Sink({"path": "s3a://b/lake", "flush.size": 1, "partitioner": "field", "partition.field.name": "a,b.c"})
    fixed = len("lake/topics/t/a=/b.c=/t+2147483647+9223372036854775807.avro")
    rows = spark.range(2000).selectExpr(
        "CAST(id AS int) AS id", "repeat('x', CAST(id AS int)) AS a", "struct('č' AS c) AS b", "'t' AS _headrace_topic"
    )
    store: Any = SimpleNamespace(path="s3a://b/lake", is_in_store=True)
    condition = find_unsupported(rows.schema, sink.config, store)
    assert condition is not None
    ((shortest,),) = rows.where(condition).agg({"id": "min"}).collect()
    assert shortest == 1024 - fixed - 2 + 1


@pytest.mark.nightly
def test_topic_with_the_longest_name_of_kafka_is_written_to_a_disk(tmp_path: Path, spark: SparkSession) -> None:
    topic = "t" * 249
    append(tmp_path / "log.jsonl", [LogRecord(topic, n, {"id": n}, {"id": n}) for n in range(2)])
    job = pipeline(tmp_path, tables=[{"source": "t*", "target": "shop.long"}], format="json")
    job.run(spark)
    (file,) = (tmp_path / "bucket/topics" / topic).rglob("*.json")
    assert [json.loads(line) for line in file.read_text().splitlines()] == [{"id": 0}, {"id": 1}]
    assert sorted(job.read("shop.long", spark=spark).collect()) == [(0,), (1,)]


@pytest.mark.nightly
def test_tombstones_can_be_errors(people: Path, spark: SparkSession) -> None:
    with pytest.raises(DataError, match=rf"topic {TOPIC}, partition 0, offset 22: the record has no value"):
        pipeline(people, **{"behavior.on.null.values": "fail"}).run(spark)


def test_missing_key_is_an_error(tmp_path: Path, spark: SparkSession) -> None:
    append(tmp_path / "log.jsonl", [LogRecord(TOPIC, 0, None, {"id": 1})])
    with pytest.raises(DataError, match=r"no (decoded )?key"):
        pipeline(tmp_path, **{"store.kafka.keys": True}).run(spark)


@pytest.mark.nightly
def test_values_as_bytes(tmp_path: Path, spark: SparkSession) -> None:
    values = [b'{"id": 1,  "name": "a"}', b'{"name": null, "id": 2}', '{"id": 3, "name": "ž"}'.encode()]
    append(tmp_path / "log.jsonl", [LogRecord(TOPIC, n, b'{"k": %d}' % n, v) for n, v in enumerate(values)])
    options = {"format": "bytes", "s3.compression.type": "gzip", "store.kafka.keys": True, "keys.format": "bytes"}
    pipeline(tmp_path, **options, **{"flush.size": 3}).run(spark)
    value_prefix = f"{TOPIC}/partition=0/{TOPIC}+0+0000000000"
    objects = read_objects(tmp_path / "bucket")
    assert objects == {
        f"{value_prefix}.bin.gz": values,
        f"{value_prefix}.keys.bin.gz": [b'{"k": %d}' % n for n in range(3)],
    }
    rows = pipeline(tmp_path, **options).read(TOPIC, spark=spark).collect()
    assert [bytes(row["value"]) for row in rows] == values


@pytest.mark.parametrize("flatten", nightly_after(1, [False, True]), ids=["envelopes", "rows"])
def test_masked_values_are_stored_nowhere(people: Path, spark: SparkSession, flatten: bool) -> None:
    mask = Mask(columns={"name": {"replacement": "***"}})
    transforms = [*([Unwrap({"delete.tombstone.handling.mode": "rewrite"})] if flatten else []), mask]
    pipeline(people, transforms=transforms, **{"flush.size": 3, "store.kafka.keys": True}).run(spark)
    objects = read_objects(people / "bucket")
    assert len(objects) == 2, "an object of values, and one of keys; the fourth record waits"
    (rows,) = [rows for name, rows in objects.items() if ".keys" not in name]
    assert [(row if flatten else row["after"])["name"] for row in rows] == ["***"] * 3
    for file in (people / "bucket").rglob("*"):
        if file.is_file():
            assert not [name for name in NAMES if name.encode() in file.read_bytes()], file


@pytest.mark.parametrize(
    ("options", "transforms", "message"),
    [
        ({"store.kafka.headers": True}, [Mask(columns={"name": {"nullify": True}})], "raw keys or headers"),
        (
            {"store.kafka.keys": True, "keys.format": "bytes"},
            [Mask(columns={"name": {"nullify": True}})],
            "which masks do not change",
        ),
        ({"format": "bytes"}, [Unwrap({"delete.tombstone.handling.mode": "drop"})], "which transforms do not change"),
        ({}, [Unwrap()], "cannot remove rows that the database deletes"),
    ],
)
def test_data_beyond_transforms_is_rejected(
    people: Path, spark: SparkSession, options: dict[str, Any], transforms: list[Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        pipeline(people, transforms=transforms, **options).check(spark)


@pytest.mark.parametrize("format", ["bytes", "avro"])
def test_records_of_files_are_rejected(tmp_path: Path, spark: SparkSession, format: str) -> None:  # noqa: A002
    sink = S3Sink({"path": str(tmp_path / "bucket"), "flush.size": 1, "format": format})
    source = FilesSource(path=str(REAL / "flat"), format="avro")
    with pytest.raises(ConfigError, match="the source 'files' reads files, whose records have no offsets"):
        Pipeline("bronze", source, [sink], str(tmp_path / "checkpoint")).check(spark)


@pytest.mark.nightly
def test_timer_writes_objects_of_idle_topics(people: Path, spark: SparkSession) -> None:
    run = pipeline(people, **{"flush.size": 100, "rotate.schedule.interval.ms": 500})
    query = run.start(spark, "1 second")
    try:
        deadline = time.monotonic() + 60
        while not (objects := read_objects(people / "bucket")) and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        query.stop()
    assert query.exception is None
    assert [row["op"] for rows in objects.values() for row in rows] == ["c", "u", "c", "d"]
    assert len(query.recent_progress) == 1, "no batch came after the first"


def test_waiting_records_survive_a_restart(people: Path, spark: SparkSession) -> None:
    options = {"flush.size": 3, "format": "json"}
    pipeline(people, limit=2, **options).run(spark)
    append(people / "log.jsonl", [envelope(30, "c", "Barbara"), envelope(40, "c", "Leslie")])
    pipeline(people, limit=1, **options).run(spark)
    objects = read_objects(people / "bucket")
    assert [[row["source"]["lsn"] for row in rows] for rows in objects.values()] == [
        [0, 10, 20],
        [21, 30, 40],
    ]
