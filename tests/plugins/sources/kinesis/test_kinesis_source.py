"""Complete pipelines on kinesis-local, with shards that split and merge."""

from __future__ import annotations

import io
import json
import threading
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import fastavro
import pytest
from tests.plugins.sources.kinesis.test_kinesis_ranges import aggregate
from tests.support import pipelines
from tests.support.executors import Environment
from tests.support.tiers import nightly_tests
from tests.support.waiting import stop_at_end, until, until_tables

from headrace import ConfigError, Pipeline
from headrace.testing.sources import SourceConformance
from headrace_sources.kinesis.kinesis_source import KinesisSource
from headrace_stack import Kinesis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dist]

FIRST = "shardId-000000000000"


@pytest.fixture(autouse=True)
def _login(kinesis: Kinesis, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    Environment(spark, monkeypatch).set(kinesis.environment)


@pytest.fixture
def stream(kinesis: Kinesis) -> str:
    """Create a stream of one shard."""
    name = f"shop{uuid.uuid4().hex[:8]}.public.orders"
    kinesis.create_stream(name)
    return name


@pytest.mark.one_spark
@nightly_tests(
    "test_commit_is_idempotent",
    "test_latest_offset_never_decreases",
    "test_limit_bounds_a_batch",
    "test_reading_resumes_from_every_offset",
)
class TestKit(SourceConformance):
    """Kit of every source; each folder has its own stream."""

    plugin_class = KinesisSource

    @pytest.fixture(autouse=True)
    def _server(self, kinesis: Kinesis, _login: None) -> None:
        self.kinesis = kinesis

    def config(self, folder: Path) -> dict[str, Any]:
        self.kinesis.create_stream(stream := _stream_of(folder))
        return {"stream": stream, "endpoint.url": self.kinesis.endpoint_url}

    def add(self, folder: Path, texts: Sequence[str]) -> None:
        self.kinesis.put(_stream_of(folder), *[("key", text.encode()) for text in texts])


def _stream_of(folder: Path) -> str:
    return f"kit-{crc32(str(folder).encode()):x}"


def job(kinesis: Kinesis, stream: str, folder: Path, options: dict[str, Any] | None = None, **changed: Any) -> Pipeline:
    block = {"stream": stream, "endpoint.url": kinesis.endpoint_url, **(options or {})}
    config = {"source": {"kinesis": block, "value": {"json": {}}}, "tables": [], **changed}
    return pipelines.pipeline(folder, "iceberg", **config)


def rows(pipeline: Pipeline, spark: SparkSession, stream: str) -> dict[int, Any]:
    return {row["id"]: row["name"] for row in pipelines.rows(pipeline, spark, stream, key="id")}


def row(id: int, name: Any) -> tuple[str, bytes]:  # noqa: A002
    """Return key and row in the flat format of Debezium Server; only the offsets order them."""
    return json.dumps({"id": id}), b"" if name is None else json.dumps({"id": id, "name": name}).encode()


def change(op: str, id: int, name: str, *, lsn: int) -> tuple[str, bytes]:  # noqa: A002
    """Return an envelope of Debezium Server."""
    image = {"id": id, "name": name}
    source = {"connector": "postgresql", "ts_ms": 1_700_000_000_000, "lsn": lsn, "sequence": f'["{lsn}","{lsn}"]'}
    images = {"before": image, "after": None} if op == "d" else {"before": None, "after": image}
    return json.dumps({"id": id}), json.dumps({**images, "source": source, "op": op}).encode()


@pytest.mark.nightly
def test_debezium_server_changes_reach_the_table(
    kinesis: Kinesis, stream: str, tmp_path: Path, spark: SparkSession
) -> None:
    kinesis.put(stream, change("r", 1, "a", lsn=1), change("c", 2, "b", lsn=2), change("u", 1, "A", lsn=3))
    pipeline = job(kinesis, stream, tmp_path)
    (summary,) = pipeline.run(spark).tables
    assert (summary.rows_in, summary.applied, summary.dead_letters) == (3, 2, 0)
    assert rows(pipeline, spark, stream) == {1: "A", 2: "b"}
    assert pipeline.run(spark).batches == 0
    # Debezium Server sends a tombstone as an empty record.
    kinesis.put(stream, change("d", 2, "b", lsn=4), (json.dumps({"id": 2}), b""), change("c", 3, "c", lsn=5))
    pipeline.run(spark)
    assert rows(pipeline, spark, stream) == {1: "A", 3: "c"}


@pytest.mark.nightly
@pytest.mark.one_spark
def test_flat_rows_follow_shard_order_and_tombstones_delete(
    kinesis: Kinesis, stream: str, tmp_path: Path, spark: SparkSession
) -> None:
    kinesis.put(stream, *[row(1, f"version {n}") for n in range(30)], row(2, "b"))
    pipeline = job(kinesis, stream, tmp_path, {"max.fetch.records.per.shard": 7})
    assert pipeline.run(spark).batches == 5
    assert rows(pipeline, spark, stream) == {1: "version 29", 2: "b"}
    kinesis.put(stream, row(1, None), row(2, None), row(2, "again"))
    pipeline.run(spark)
    assert rows(pipeline, spark, stream) == {2: "again"}


@pytest.mark.nightly
@pytest.mark.one_spark
def test_dms_rows_and_changes_in_different_shards(
    kinesis: Kinesis, stream: str, tmp_path: Path, spark: SparkSession
) -> None:
    """The records follow DMS's default settings: partition keys are not JSON, and each record spans many lines."""

    def dms(key: str, operation: str, second: int, kind: str = "data", **row: Any) -> tuple[str, bytes]:
        fields = {"timestamp": f"2026-11-24T08:12:{second:02}.000001Z", "record-type": kind, "operation": operation}
        metadata = {**fields, "schema-name": "public", "table-name": "orders"}
        return key, f"{json.dumps({'data': row, 'metadata': metadata}, indent=chr(9))}\n".encode()

    kinesis.split(stream, FIRST)
    loaded = [dms(str(id_), "load", 0, id=id_, name="loaded") for id_ in range(1, 9)]
    kinesis.put(stream, dms("TASK.public.orders", "create-table", 0, "control"), *loaded)
    changes = [dms("public.orders", "update", second, id=1, name=f"version {second}") for second in (1, 3, 2)]
    kinesis.put(stream, *changes, dms("public.orders", "delete", 4, id=2))
    block = {"stream": stream, "endpoint.url": kinesis.endpoint_url}
    source = {"kinesis": block, "value": {"json": {}}, "key": "none"}
    pipeline = job(kinesis, stream, tmp_path, source=source, tables=[{"source": stream, "key": "id"}], transforms=[])
    (summary,) = pipeline.run(spark).tables
    assert (summary.rows_in, summary.dead_letters) == (13, 1)
    assert rows(pipeline, spark, stream) == {1: "version 3", **dict.fromkeys(range(3, 9), "loaded")}


class Writer:
    """Writer of versions of twenty rows that keeps splitting and merging shards."""

    def __init__(self, kinesis: Kinesis, stream: str) -> None:
        self.kinesis, self.stream = kinesis, stream
        self.versions: dict[int, int] = {}

    def write(self) -> None:
        for id_ in range(20):
            self.versions[id_] = self.versions.get(id_, 0) + 1
        self.kinesis.put(self.stream, *[row(id_, version) for id_, version in self.versions.items()])

    def open_shards(self) -> list[str]:
        shards = self.kinesis.shards(self.stream)
        shards = [shard for shard in shards if "EndingSequenceNumber" not in shard["SequenceNumberRange"]]
        shards.sort(key=lambda shard: int(shard["HashKeyRange"]["StartingHashKey"]))
        return [shard["ShardId"] for shard in shards]

    def reshard(self) -> None:
        """Split a shard, split one half, and merge the other half with its neighbor: each key moves two or three times."""
        first, *_ = self.open_shards()
        self.kinesis.split(self.stream, first)
        self.write()
        self.kinesis.split(self.stream, self.open_shards()[1])
        self.write()
        self.kinesis.merge(self.stream, *self.open_shards()[:2])
        self.write()


@pytest.mark.nightly
@pytest.mark.one_spark
def test_shards_split_and_merge_during_and_between_runs(
    kinesis: Kinesis, stream: str, tmp_path: Path, spark: SparkSession
) -> None:
    writer = Writer(kinesis, stream)
    writer.write()
    pipeline = job(kinesis, stream, tmp_path)
    with stop_at_end(pipeline.start(trigger="100 milliseconds", spark=spark)) as query:
        until(lambda: query.last_progress or not query.is_active, "the first batch")
        for _ in range(2):
            writer.reshard()
        until_tables(query, lambda: (rows(pipeline, spark, stream), writer.versions), "while it runs")
    for _ in range(2):
        writer.reshard()
    pipeline.run(spark)
    assert rows(pipeline, spark, stream) == writer.versions
    shards = kinesis.shards(stream)
    assert len(shards) == 1 + 4 * 5
    # All closed shards were read to their ends.
    done = [
        shard for shard, position in offset_of(tmp_path)["streams"][stream]["shards"].items() if position.get("is_done")
    ]
    assert sorted(done) == sorted({shard["ShardId"] for shard in shards} - set(writer.open_shards()))


def offset_of(folder: Path) -> Any:
    """Return the end of the newest range in the checkpoint."""
    offsets = [file for file in (folder / "checkpoint/ranged/offsets").iterdir() if file.name.isdigit()]
    return json.loads(max(offsets, key=lambda file: int(file.name)).read_text())["end"]


@pytest.mark.nightly
@pytest.mark.one_spark
def test_repeated_batch_has_the_same_records(
    kinesis: Kinesis, stream: str, tmp_path: Path, spark: SparkSession
) -> None:
    writer = Writer(kinesis, stream)
    writer.write()
    append_options: dict[str, Any] = {"sinks": [{"files": {"path": str(tmp_path / "out")}}]}
    append_options["transforms"] = [{"unwrap": {"delete.tombstone.handling.mode": "drop"}}]
    pipeline = job(kinesis, stream, tmp_path, **append_options)
    pipeline.run(spark)

    def lines() -> list[str]:
        files = [file for file in (tmp_path / "out").rglob("*.json") if not file.name.startswith((".", "_"))]
        return sorted(line for file in files for line in file.read_text().splitlines() if line.startswith('{"id"'))

    before = lines()
    assert len(before) == 20
    # State after a kill: the batch is planned, possibly written, and not committed.
    commits = tmp_path / "checkpoint/ranged/commits"
    for file in [*commits.iterdir()]:
        file.unlink()
    writer.reshard()
    pipeline.run(spark)
    assert [line for line in lines() if line in before] == before
    assert len(lines()) == 20 * 4


@pytest.mark.nightly
@pytest.mark.one_spark
def test_second_read_equals_cached_rows(kinesis: Kinesis, stream: str, spark: SparkSession) -> None:
    writer = Writer(kinesis, stream)
    writer.write()
    kinesis.put(
        stream,
        ("outer", aggregate([("a", b"1"), ("b", b""), ("a", b"2")])),
        ("damaged", b"\xf3\x89\x9a\xc2" + b"?" * 20),
    )
    source = KinesisSource(stream=stream, **{"endpoint.url": kinesis.endpoint_url, "max.fetch.records.per.shard": 9})
    source.open(spark)
    start, records = source.initial(), 0
    while (end := source.latest(start, None)) != start:
        if records == 18:  # after two batches that ended at the limit
            kinesis.put(stream, ("later", b"{}"))
            kinesis.split(stream, FIRST)
            # Spark reads again, as after the loss of an executor, and finds more records.
            spark.catalog.clearCache()
        cached = source.read(spark, start, end)
        other = KinesisSource(stream=stream, **{"endpoint.url": kinesis.endpoint_url})
        uncached = other.read(spark, start, end)
        assert uncached.columns == ["key", "value", "headers", "topic", "partition", "offset", "timestamp"]
        first, second = (frame.orderBy("partition", "offset").collect() for frame in (cached, uncached))
        assert first == second
        records += len(first)
        start = end
    assert records == 20 + 3 + 1 + 1


@pytest.mark.nightly
@pytest.mark.one_spark
def test_next_run_in_the_same_session_reads_new_records(kinesis: Kinesis, stream: str, spark: SparkSession) -> None:
    """Spark caches rows by plan, and the first read of the next run has the same plan as the last read of this one."""
    options = {"stream": stream, "endpoint.url": kinesis.endpoint_url}
    first, second = (KinesisSource(options) for _ in range(2))
    first.open(spark)
    start = first.initial()
    first.latest(start, None)
    kinesis.put(stream, ("1", b"{}"))
    second.open(spark)
    end = second.latest(start, None)
    assert second.read(spark, start, end).count() == 1


@pytest.mark.nightly
@pytest.mark.one_spark
def test_aggregated_records_are_split(kinesis: Kinesis, stream: str, tmp_path: Path, spark: SparkSession) -> None:
    damaged = b"\xf3\x89\x9a\xc2" + b"?" * 20
    kinesis.put(stream, ("outer", aggregate([row(1, "a"), row(2, "b"), row(1, "A")])), (json.dumps({"id": 3}), damaged))
    pipeline = job(kinesis, stream, tmp_path)
    pipeline.run(spark)
    assert rows(pipeline, spark, stream) == {1: "A", 2: "b"}
    dead_letters = pipeline.read_dead_letters(spark)
    assert dead_letters is not None
    (dead_letter,) = dead_letters.collect()
    assert bytes(dead_letter["value"]) == damaged
    (header,) = dead_letter["headers"]
    assert (header["key"], len(header["value"])) == ("kinesis.sequence.number", 56)


@pytest.mark.nightly
@pytest.mark.one_spark
def test_avro(kinesis: Kinesis, stream: str, tmp_path: Path, spark: SparkSession) -> None:
    fields = [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}]
    schema = {"type": "record", "name": "order", "fields": fields}
    (tmp_path / "order.avsc").write_text(json.dumps(schema))
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), {"id": 1, "name": "a"})
    kinesis.put(stream, ("1", body.getvalue()))
    avro = {"avro": {"schema.file": str(tmp_path / "order.avsc")}}
    source = {"kinesis": {"stream": stream, "endpoint.url": kinesis.endpoint_url}, "value": avro, "key": "none"}
    pipeline = job(kinesis, stream, tmp_path, source=source, tables=[{"source": stream, "key": ["id"]}])
    pipeline.run(spark)
    assert rows(pipeline, spark, stream) == {1: "a"}


@pytest.mark.nightly
@pytest.mark.one_spark
def test_starting_positions(kinesis: Kinesis, stream: str, tmp_path: Path, spark: SparkSession) -> None:
    kinesis.put(stream, row(1, "old"))
    time.sleep(1.2)
    between = datetime.now(UTC).isoformat()
    latest = job(kinesis, stream, tmp_path / "latest", {"starting.position": "LATEST"})
    latest.run(spark)
    kinesis.put(stream, row(2, "new"))
    kinesis.split(stream, FIRST)
    kinesis.put(stream, row(3, "newest"))
    at = {"starting.position": "AT_TIMESTAMP", "starting.timestamp": between}
    for pipeline in (latest, job(kinesis, stream, tmp_path / "at", at)):
        pipeline.run(spark)
        assert rows(pipeline, spark, stream) == {2: "new", 3: "newest"}


@pytest.mark.nightly
@pytest.mark.one_spark
def test_lag_is_a_duration_and_ends_with_the_backlog(
    kinesis: Kinesis, stream: str, tmp_path: Path, spark: SparkSession
) -> None:
    for number in range(4):
        kinesis.put(stream, row(number, "a"))
        time.sleep(0.4)
    lags: list[int | None] = []
    pipeline = job(kinesis, stream, tmp_path, {"max.fetch.records.per.shard": 1})
    with stop_at_end(
        pipeline.start(spark, "50 milliseconds", on_progress=lambda p: lags.append(p.tables[0].lag_ms))
    ) as query:
        until(lambda: len(lags) == 4 or not query.is_active, "four batches")
        (table,) = query.status.tables
    assert None not in lags
    assert lags == sorted(lags, key=lambda lag: -(lag or 0))
    assert (lags[0] or 0) >= 1200
    assert lags[-1] == 0
    assert (table.lag, table.lag_seconds) == (None, 0.0)


@pytest.mark.nightly
@pytest.mark.one_spark
def test_idle_stream_writes_nothing(kinesis: Kinesis, stream: str, tmp_path: Path, spark: SparkSession) -> None:
    kinesis.put(stream, row(1, "a"))
    pipeline = job(kinesis, stream, tmp_path)
    with stop_at_end(pipeline.start(trigger="50 milliseconds", spark=spark)) as query:
        until(lambda: query.last_progress or not query.is_active, "the first batch")
        time.sleep(2.5)
    assert [file.name for file in (tmp_path / "checkpoint/ranged/offsets").iterdir() if file.name.isdigit()] == ["0"]


def config_error(pipeline: Pipeline, spark: SparkSession) -> str:
    with pytest.raises(ConfigError) as caught:
        pipeline.run(spark)
    return str(caught.value)


@pytest.mark.one_spark
def test_configuration_errors(
    kinesis: Kinesis, stream: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = f"{kinesis.endpoint_url}: no such stream\n  fix: correct `stream` or `region`"
    assert config_error(job(kinesis, "nothing", tmp_path), spark) == f"Kinesis stream nothing, {where}"
    found = {item.what: item.found for item in job(kinesis, stream, tmp_path).check(spark, connect=True)}
    assert found["source kinesis"] == f"Kinesis, {kinesis.endpoint_url}: 1 stream"
    assert found[f"topic {stream}"] == "ACTIVE, 1 open shard, records kept for 24 hours"
    with HtmlServer() as address:
        message = config_error(job(kinesis, stream, tmp_path / "html", {"endpoint.url": address}), spark)
        assert "the response is not from AWS\n  fix: check the endpoint" in message
    message = config_error(job(kinesis, stream, tmp_path / "url", {"endpoint.url": "kinesis"}), spark)
    assert "the endpoint is not a URL: kinesis" in message
    monkeypatch.delenv("AWS_REGION")
    assert "no region is set\n  fix: set AWS_REGION" in config_error(job(kinesis, stream, tmp_path / "region"), spark)
    monkeypatch.setenv("AWS_REGION", kinesis.region)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    assert "no AWS credentials found" in config_error(job(kinesis, stream, tmp_path / "login"), spark)


@pytest.mark.nightly
@pytest.mark.one_spark
def test_missing_credentials_on_executors(
    kinesis: Kinesis, stream: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver has credentials, and the executors have none."""
    kinesis.put(stream, row(1, "a"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delitem(spark.sparkContext.environment, name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setitem(spark.sparkContext.environment, name, str(tmp_path / "none"))
    message = config_error(job(kinesis, stream, tmp_path), spark)
    place = f"Kinesis, {kinesis.endpoint_url}, on an executor"
    assert message.startswith(f"{place}: no AWS credentials found: Unable to locate credentials\n")
    assert "\n  fix: set a role, a profile or keys; the sources are AWS_ACCESS_KEY_ID and" in message


class HtmlServer:
    """Server that is not AWS."""

    def __enter__(self) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"<html>welcome</html>")

            def log_message(self, *_: Any) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_port}"

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
