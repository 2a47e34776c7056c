"""Sink ``kinesis`` on kinesis-local, in complete pipelines from stream to stream."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.plugins.sources.kinesis.test_kinesis_source import change, job as table_job
from tests.support.executors import Environment

from headrace import ConfigError, DataError, Pipeline
from headrace_sinks.kinesis.target_stream import TargetStream
from headrace_stack import Kinesis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dist, pytest.mark.one_spark]


@pytest.fixture(autouse=True)
def _login(kinesis: Kinesis, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    Environment(spark, monkeypatch).set(kinesis.environment)


@pytest.fixture
def stream(kinesis: Kinesis) -> str:
    """Create a stream of two shards, and its replica."""
    name = f"shop{uuid.uuid4().hex[:8]}.orders"
    kinesis.create_stream(name, shards=2)
    kinesis.create_stream(f"replica.{name}", shards=3)
    return name


def config(kinesis: Kinesis, folder: Path, stream: str, /, **sink: Any) -> dict[str, Any]:
    block = {"stream": stream, "endpoint.url": kinesis.endpoint_url}
    return {
        "name": "replica",
        "source": {"kinesis": block, "value": {"json": {}}},
        "transforms": [{"unwrap": {}}, {"rename": {"columns": {"name": "title"}}}],
        "sink": {"kinesis": {**block, "stream": "replica.{name}", **sink}},
        "checkpoint": str(folder / "checkpoint"),
    }


def read(kinesis: Kinesis, stream: str) -> dict[str, list[tuple[str, bytes]]]:
    """Return the shard and the data of the records of each partition key, in the order of the shard."""
    client, found = kinesis.client(), dict[str, list[tuple[str, bytes]]]()
    for shard in kinesis.shards(stream):
        start = {"StreamName": stream, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
        iterator, behind = client.get_shard_iterator(**start)["ShardIterator"], 1
        while behind:
            page = client.get_records(ShardIterator=iterator)
            iterator, behind = page["NextShardIterator"], page["MillisBehindLatest"]
            for record in page["Records"]:
                found.setdefault(record["PartitionKey"], []).append((shard["ShardId"], record["Data"]))
    return found


def test_rows_are_replicated_in_the_order_of_their_key_and_read_back(
    kinesis: Kinesis, stream: str, tmp_path: Path, spark: SparkSession
) -> None:
    updates = [change("u", id_, f"v{lsn}", lsn=lsn) for lsn in range(10, 40) for id_ in (3, 4, 5)]
    kinesis.put(stream, change("c", 1, "arp", lsn=1), change("c", 2, "klee", lsn=2), *updates)
    kinesis.put(stream, change("d", 3, "v39", lsn=70), (json.dumps({"id": 3}), b""))
    plain = config(kinesis, tmp_path, stream, **{"value.converter.schemas.enable": False})
    pipeline = Pipeline.from_dict(plain)
    (summary,) = pipeline.run(spark).tables
    assert (summary.rows_in, summary.dead_letters) == (93, 0)  # tombstones are not counted
    found = read(kinesis, f"replica.{stream}")
    assert [json.loads(data) for _, data in found['{"id":1}']] == [{"id": 1, "title": "arp"}]
    titles = [json.loads(data)["title"] if data else None for _, data in found['{"id":3}']]
    assert titles == [*(f"v{lsn}" for lsn in range(10, 40)), None, None]
    assert all(len({shard for shard, _ in records}) == 1 for records in found.values())
    kinesis.put(stream, change("u", 1, "hans", lsn=80))
    pipeline.run(spark)
    table = table_job(kinesis, f"replica.{stream}", tmp_path / "table")
    table.run(spark)
    read_back = {row["id"]: row["title"] for row in table.read(f"replica.{stream}", spark=spark).collect()}
    assert read_back == {1: "hans", 2: "klee", 4: "v39", 5: "v39"}


@pytest.mark.nightly
def test_raised_limit_of_a_stream_is_used_in_the_same_run(
    kinesis: Kinesis, stream: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinesis.put(stream, change("c", 1, "secret" * 100_000, lsn=1))
    pipeline = Pipeline.from_dict(config(kinesis, tmp_path, stream))
    with monkeypatch.context() as patch:  # kinesis-local has one limit for all streams.
        patch.setattr(TargetStream, "read_summary", lambda _: {"MaxRecordSizeInKiB": 500})
        with pytest.raises(DataError, match="the stream allows 512,000"):
            pipeline.run(spark)
    pipeline.run(spark)
    assert list(read(kinesis, f"replica.{stream}")) == ['{"id":1}']


@pytest.mark.nightly
def test_wrong_input_is_reported(kinesis: Kinesis, stream: str, tmp_path: Path, spark: SparkSession) -> None:
    kinesis.put(stream, change("c", 1, "secret" * 100_000, lsn=1))
    with pytest.raises(ConfigError, match="no such stream") as missing:
        Pipeline.from_dict(config(kinesis, tmp_path / "missing", stream, stream="missing")).run(spark)
    assert "Kinesis stream missing" in str(missing.value)
    larger = config(kinesis, tmp_path / "large", stream)
    larger["transforms"].append({"compute": {"columns": {"copy": "concat(title, title)"}}})
    with pytest.raises(DataError, match="bytes with its key, and the stream allows 1,048,576") as large:
        Pipeline.from_dict(larger).run(spark)
    assert f"Kinesis stream replica.{stream}" in str(large.value)
    assert "secret" not in str(large.value)
    assert not read(kinesis, f"replica.{stream}")
    # The names of the options differ, and the stream is one.
    region = kinesis.region
    loop = config(kinesis, tmp_path / "loop", stream, stream=stream, region=region)
    with pytest.raises(ConfigError, match=f"the source reads the stream {stream}"):
        Pipeline.from_dict(loop).run(spark)
