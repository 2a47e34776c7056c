"""Pipelines that read several streams of kinesis-local."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.plugins.sources.kinesis.test_kinesis_source import _login, row  # noqa: F401 - a fixture
from tests.support import pipelines
from tests.support.waiting import stop_at_end, until, until_tables

from headrace import DataError, Pipeline
from headrace_stack import Kinesis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dist]

SAMPLES = Path("tests/data/debezium/pg_envelope.jsonl")


@pytest.fixture
def prefix(kinesis: Kinesis) -> Iterator[str]:
    """Return a prefix of streams, which are deleted at the end."""
    prefix = f"srv{uuid.uuid4().hex[:8]}.inventory."
    yield prefix
    client = kinesis.client()
    for name in client.list_streams()["StreamNames"]:
        if name.startswith(prefix):
            client.delete_stream(StreamName=name)


def read_samples(table: str) -> list[tuple[str, bytes]]:
    """Return partition keys and data of changes as Debezium Server sends them: a stream per table."""
    records = [json.loads(line) for line in SAMPLES.read_text(encoding="utf-8").splitlines()]
    return [
        (json.dumps(one["key"]), b"" if one["value"] is None else json.dumps(one["value"]).encode())
        for one in records
        if one["topic"].endswith(f".{table}")
    ]


def create(kinesis: Kinesis, stream: str, records: Sequence[tuple[str, bytes]]) -> None:
    kinesis.create_stream(stream)
    kinesis.put(stream, *records)


def make_job(kinesis: Kinesis, prefix: str, folder: Path, **options: Any) -> Pipeline:
    pattern = {"subscribePattern": f"{prefix}.*", "stream.poll.interval.ms": 300}
    block = {"endpoint.url": kinesis.endpoint_url, **(pattern if "subscribe" not in options else {}), **options}
    return pipelines.pipeline(folder, "iceberg", source={"kinesis": block, "value": {"json": {}}}, tables=[])


def read(pipeline: Pipeline, spark: SparkSession, table: str, column: str) -> dict[int, Any]:
    return {row["id"]: row[column] for row in pipelines.rows(pipeline, spark, table, key="id")}


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.one_spark
def test_streams_of_debezium_server_join_and_fail_alone(
    kinesis: Kinesis, prefix: str, tmp_path: Path, spark: SparkSession
) -> None:
    customers, docs, lines = (f"{prefix}{name}" for name in ("customers", "docs", "lines"))
    create(kinesis, customers, read_samples("customers"))
    create(kinesis, docs, read_samples("docs"))
    pipeline = make_job(kinesis, prefix, tmp_path)
    found = {item.what: item.found for item in pipeline.check(spark, connect=True)}
    assert found["source kinesis"] == f"Kinesis, {kinesis.endpoint_url}: 2 streams"
    assert found[f"topic {docs}"] == "ACTIVE, 1 open shard, records kept for 24 hours"
    with stop_at_end(pipeline.start(spark, "100 milliseconds")) as query:
        until(lambda: query.last_progress or not query.is_active, "the first batch")
        until_tables(query, lambda: (read(pipeline, spark, customers, "first_name"), {8: "New", 9: "Dropped"}), "rows")
        until_tables(query, lambda: (read(pipeline, spark, docs, "body"), {2: "tiny"}), "rows")
        create(kinesis, lines, [row(1, "a")])

        def names() -> set[str]:
            return {table.table for table in query.status.tables if table.lag_seconds == 0}

        until(lambda: lines in names() or not query.is_active, "the stream that joins")
        assert read(pipeline, spark, lines, "name") == {1: "a"}
        kinesis.client().delete_stream(StreamName=docs)

        def errors() -> dict[str, str]:
            return {table.table: table.error for table in query.status.tables if table.error}

        until(lambda: errors() or not query.is_active, "the deletion")
        assert list(errors()) == [docs]
        assert f"Kinesis stream {docs}, {kinesis.endpoint_url}: the stream was deleted" in errors()[docs]
        kinesis.put(lines, row(1, "b"))
        until_tables(query, lambda: (read(pipeline, spark, lines, "name"), {1: "b"}), "a stream that did not fail")
    kinesis.put(lines, row(1, "c"))
    with pytest.raises(DataError, match="the stream was deleted: its unread records are lost"):
        pipeline.run(spark)
    assert read(pipeline, spark, lines, "name") == {1: "c"}
    accepting = make_job(kinesis, prefix, tmp_path, **{"fail.on.data.loss": False})
    accepting.run(spark)
    assert read(accepting, spark, docs, "body") == {2: "tiny"}


@pytest.mark.nightly
@pytest.mark.one_spark
def test_batch_of_several_streams_is_repeated_after_a_crash(
    kinesis: Kinesis, prefix: str, tmp_path: Path, spark: SparkSession
) -> None:
    first, second = f"{prefix}a", f"{prefix}b"
    for name in (first, second):
        create(kinesis, name, [row(number, "old") for number in range(4)])
    streams = {"subscribe": [first, second]}
    pipeline = make_job(kinesis, prefix, tmp_path, **streams)
    assert pipeline.run(spark).batches == 1
    # State after a kill: the batch is planned, possibly written, and not committed.
    for file in [*(tmp_path / "checkpoint/ranged/commits").iterdir()]:
        file.unlink()
    kinesis.put(first, row(0, "new"))
    kinesis.client().delete_stream(StreamName=second)
    until(lambda: second not in kinesis.client().list_streams()["StreamNames"], "the deletion")
    with pytest.raises(DataError, match=f"Kinesis stream {second}, .*: the stream was deleted"):
        pipeline.run(spark)
    assert read(pipeline, spark, first, "name") == {0: "new", 1: "old", 2: "old", 3: "old"}
