"""Malformed records, and topics that changed or were deleted."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.plugins.sources.transports.test_kafka_source import change, job, names, prefix
from tests.support import pipelines

from headrace import ConfigError, DataError, Pipeline
from headrace.dead_letters.table_store import DeadLetterTable
from headrace.engine.commands.replay import ReplayResult, replay
from headrace.progress.model import BatchProgress
from headrace.sdk.events import KEPT_BYTES
from headrace.spark.storage import Folder
from headrace_stack.servers.kafka import Kafka, Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dist, pytest.mark.one_spark]

__all__ = ["prefix"]
MB = 1 << 20


def reasons(pipeline: Pipeline, spark: SparkSession) -> list[str]:
    return [row["reason"] for row in pipeline.read("dead_letters", spark=spark).collect()]


def test_missing_topic(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="no such topic") as caught:
        job(kafka, tmp_path, {"subscribe": f"{prefix}.nothing"}).run(spark)
    assert f"{prefix}.nothing" in str(caught.value)
    kafka.produce(f"{prefix}.orders", change("c", 1, "a", lsn=1))
    with pytest.raises(ConfigError, match="no such topic") as caught:
        job(kafka, tmp_path, {"subscribe": f"{prefix}.order"}).run(spark)
    assert str(caught.value.fix).endswith(f"; did you mean '{prefix}.orders'?")
    with pytest.raises(ConfigError, match="no topic matches subscribePattern"):
        job(kafka, tmp_path, {"subscribePattern": f"{prefix}[.]none.*"}).run(spark)


@pytest.mark.nightly
def test_deleted_topic(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    for name in ("kept", "gone"):
        kafka.produce(f"{prefix}.{name}", change("c", 1, "a", lsn=1))
    pipeline = job(kafka, tmp_path, {"subscribePattern": f"{prefix}[.].*"})
    pipeline.run(spark)
    kafka.delete_topic(f"{prefix}.gone")
    kafka.produce(f"{prefix}.kept", change("c", 2, "b", lsn=2))
    with pytest.raises(DataError, match="a topic was deleted") as caught:
        pipeline.run(spark)
    assert f"{prefix}.gone-0" in str(caught.value)
    tolerant_pipeline = job(kafka, tmp_path, {"subscribePattern": f"{prefix}[.].*", "failOnDataLoss": False})
    tolerant_pipeline.run(spark)
    assert names(tolerant_pipeline, spark, f"{prefix}.kept") == {1: "a", 2: "b"}
    assert names(tolerant_pipeline, spark, f"{prefix}.gone") == {1: "a"}


def test_missing_starting_offset(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    topic = f"{prefix}.orders"
    kafka.produce(topic, change("c", 1, "a", lsn=1))
    with pytest.raises(DataError, match="records were deleted before they were read") as caught:
        job(kafka, tmp_path, {"subscribe": topic, "startingOffsets": {topic: {"0": 999}}}).run(spark)
    assert "999" in str(caught.value)


@pytest.mark.nightly
def test_dead_letter_keeps_the_original_record(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    topic = f"{prefix}.orders"
    good = change("c", 1, "a", lsn=1)
    kafka.produce(topic, good, Record(b"{cut", key=b'{"id": 2}', headers=(("trace", b"\x00\x01"), ("trace", None))))
    pipeline = job(kafka, tmp_path, {"subscribe": topic})
    pipeline.run(spark)
    (dead_letter,) = pipeline.read("dead_letters", spark=spark).collect()
    assert (bytes(dead_letter["key"]), bytes(dead_letter["value"])) == (b'{"id": 2}', b"{cut")
    assert [(h["key"], h["value"] and bytes(h["value"])) for h in dead_letter["headers"]] == [
        ("trace", b"\x00\x01"),
        ("trace", None),
    ]
    assert (dead_letter["topic"], dead_letter["partition"], dead_letter["offset"], dead_letter["plugin"]) == (
        topic,
        0,
        1,
        "json",
    )


def price_record(number: int, price: float, *, lsn: int) -> Record:
    event_value = json.loads(change("c", number, f"lsn {lsn}", lsn=lsn).value or b"")
    event_value["after"]["price"] = price
    return Record(json.dumps(event_value).encode(), key=json.dumps({"id": number}).encode())


#: Options that keep dead letters in a table; the default is files.
IN_TABLE = {"dead.letters.table": "ops.dead_letters"}


def changelog(kafka: Kafka, topic: str, folder: Path, kept: dict[str, str], price: str) -> Pipeline:
    """Return a pipeline that appends every change, with prices of the given type. Repeated changes are visible as rows."""
    rule = {"source": topic, "columns": {"price": price}}
    sink = pipelines.sink_block("iceberg", folder, mode="changelog")
    return job(kafka, folder, {"subscribe": topic}, tables=[rule], sinks=[sink], **kept)


@pytest.mark.nightly
@pytest.mark.parametrize("kept", [{}, IN_TABLE])
def test_dead_letters_are_replayed_once_and_in_order(
    kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession, kept: dict[str, str]
) -> None:
    topic = f"{prefix}.orders"

    def pipeline(price: str) -> Pipeline:
        rule = {"source": topic, "columns": {"price": price}}
        return job(kafka, tmp_path, {"subscribe": topic}, tables=[rule], **kept)

    kafka.produce(
        topic,
        price_record(1, 1.5, lsn=10),
        price_record(2, 1234.5, lsn=11),
        price_record(1, 1234.5, lsn=5),
        Record(b"{cut"),
    )
    narrow, wide = pipeline("decimal(5,2)"), pipeline("decimal(9,2)")
    narrow.run(spark)
    assert names(narrow, spark, topic) == {1: "lsn 10"}
    assert reasons(narrow, spark) == ["undecodable"] * 3
    assert list(replay(wide.plan, spark, table="others")) == []
    assert list(replay(wide.plan, spark, reason="undecodable")) == [ReplayResult(topic, 3, 1)]
    # The older change lost against the row, as it would have without the replay.
    assert names(wide, spark, topic) == {1: "lsn 10", 2: "lsn 11"}
    (remaining,) = wide.read("dead_letters", spark=spark).collect()
    assert bytes(remaining["value"]) == b"{cut"
    assert list(replay(wide.plan, spark)) == [ReplayResult(topic, 1, 1)]
    assert [bytes(row["value"]) for row in wide.read("dead_letters", spark=spark).collect()] == [b"{cut"]


@pytest.mark.nightly
@pytest.mark.parametrize("kept", [{}, IN_TABLE])
def test_interrupted_replay_resumes(
    kafka: Kafka,
    prefix: str,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    kept: dict[str, str],
) -> None:
    topic = f"{prefix}.orders"
    pipeline = partial(changelog, kafka, topic, tmp_path, kept)
    kafka.produce(topic, price_record(1, 1.5, lsn=10), price_record(2, 1234.5, lsn=11))
    pipeline("decimal(5,2)").run(spark)
    wide = pipeline("decimal(9,2)")
    delete = Folder.delete
    with monkeypatch.context() as patched:
        # The process is killed after the table is written and before the replay is recorded.
        patched.setattr(Folder, "delete", lambda f, n: pytest.fail("killed") if "+" in n else delete(f, n))
        with pytest.raises(BaseException, match="killed"):
            list(replay(wide.plan, spark))
    assert sorted(row["id"] for row in wide.read(topic, spark=spark).collect()) == [1, 2]
    assert [done.replayed for done in replay(wide.plan, spark)] == [1]
    assert sorted(row["id"] for row in wide.read(topic, spark=spark).collect()) == [1, 2]
    with pytest.raises(ConfigError, match="there are no dead letters"):
        wide.read("dead_letters", spark=spark)


@pytest.mark.nightly
def test_replay_interrupted_before_dead_letters_are_removed(
    kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"{prefix}.orders"
    pipeline = partial(changelog, kafka, topic, tmp_path, IN_TABLE)
    kafka.produce(topic, price_record(1, 1234.5, lsn=10), Record(b"{cut"))
    pipeline("decimal(5,2)").run(spark)
    wide = pipeline("decimal(9,2)")
    with monkeypatch.context() as patched:
        patched.setattr(DeadLetterTable, "remove", lambda *_: pytest.fail("killed"))
        with pytest.raises(BaseException, match="killed"):
            list(replay(wide.plan, spark))
    assert list(replay(wide.plan, spark)) == [ReplayResult(topic, 2, 1)]
    assert [row["id"] for row in wide.read(topic, spark=spark).collect()] == [1]
    assert [bytes(row["value"]) for row in wide.read("ops.dead_letters", spark=spark).collect()] == [b"{cut"]


@pytest.mark.nightly
def test_values_in_other_formats(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    topic = f"{prefix}.orders"
    good = change("c", 1, "a", lsn=1)
    body = good.value or b""
    bodies = [b"\x00\x00\x00\x00\x07\x02\x02a", gzip.compress(gzip.compress(body)), body[:-1], b"\xff\xfe", b"[1]"]
    key = json.dumps({"id": 9}).encode()
    kafka.produce(topic, good, *[Record(bad, key=key) for bad in bodies], change("c", 2, "b", lsn=2))
    pipeline = job(kafka, tmp_path, {"subscribe": topic})
    (summary,) = pipeline.run(spark).tables
    assert (summary.rows_in, summary.applied, summary.dead_letters) == (7, 2, 5)
    assert names(pipeline, spark, topic) == {1: "a", 2: "b"}
    assert reasons(pipeline, spark) == ["undecodable"] * 5


def event(source: dict[str, Any], number: int) -> Record:
    value = {"before": None, "after": {"id": number, "name": "a"}, "source": source, "op": "c"}
    return Record(json.dumps(value).encode(), key=json.dumps({"id": number}).encode())


@pytest.mark.nightly
def test_two_databases_in_one_topic(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    topic = f"{prefix}.orders"
    kafka.produce(
        topic,
        event({"connector": "postgresql", "ts_ms": 1, "lsn": 5}, 1),
        event({"connector": "mysql", "ts_ms": 1, "file": "binlog.000001", "pos": 4, "row": 0}, 1),
    )
    with pytest.raises(
        DataError, match="different databases, ordered by MySQL's binlog and by PostgreSQL's LSNs"
    ) as caught:
        job(kafka, tmp_path, {"subscribe": topic}).run(spark)
    assert f"topic {topic}" in str(caught.value)
    assert not (tmp_path / "lake/iceberg" / prefix.replace(".", "/")).exists()


@pytest.mark.nightly
def test_events_of_unknown_connector_are_applied_in_topic_order(
    kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession
) -> None:
    topic = f"{prefix}.orders"
    source = {"connector": "acme", "ts_ms": 1, "cursor": "x"}
    first, second = event(source, 1), event({**source, "cursor": "a"}, 1)
    kafka.produce(topic, first, Record((second.value or b"").replace(b'"name": "a"', b'"name": "b"'), key=second.key))
    pipeline = job(kafka, tmp_path, {"subscribe": topic})
    pipeline.run(spark)
    assert names(pipeline, spark, topic) == {1: "b"}


@pytest.mark.nightly
def test_value_of_fifty_megabytes(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    """Run the pipeline in a new process with default memory, because the test process holds data of other tests."""
    topic = f"{prefix}.orders"
    kafka.create_topic(topic, config={"max.message.bytes": str(60 * MB)})
    kafka.produce(topic, change("c", 1, "a", lsn=1), change("c", 2, "x" * (50 * MB), lsn=2), change("c", 3, "c", lsn=3))
    file = tmp_path / "orders.yaml"
    config = {
        "name": "orders",
        "source": {"kafka": {"bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic}, "value": "json"},
        "transforms": ["unwrap"],
        "sink": pipelines.sink_block("iceberg", tmp_path),
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    file.write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "headrace", "run", str(file), "--available-now"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "3 rows in, 2 applied, 0 late, 1 dead letter" in done.stdout
    assert names(Pipeline.from_file(file), spark, topic) == {1: "a", 3: "c"}
    (dead_letter,) = Pipeline.from_file(file).read("dead_letters", spark=spark).collect()
    assert (dead_letter["reason"], dead_letter["offset"], len(dead_letter["value"])) == ("too-large", 1, KEPT_BYTES)


@pytest.mark.nightly
def test_database_clock_is_ahead(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    topic = f"{prefix}.orders"
    ahead = {"connector": "postgresql", "ts_ms": 4_102_444_800_000, "lsn": 5}
    kafka.produce(topic, event(ahead, 1))
    batches: list[BatchProgress] = []
    pipeline = job(kafka, tmp_path, {"subscribe": topic})
    pipeline.run(spark, on_progress=batches.append)
    assert (batches[0].tables[0].latency_ms or 0) < 0
    assert names(pipeline, spark, topic) == {1: "a"}
