"""A table whose changes are ordered by something else than before: it goes on, and says so."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines
from tests.support.bronze import write_lines

from headrace import Pipeline
from headrace.progress.model import BatchProgress
from headrace_stack.servers.kafka import Kafka, Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark, pytest.mark.dist]


def run(pipeline: Pipeline, spark: SparkSession) -> list[str]:
    """Applies what is there; what is said of the tables."""
    batches: list[BatchProgress] = []
    pipeline.run(spark, on_progress=batches.append)
    return [table.note for batch in batches for table in batch.tables if table.note]


def names(pipeline: Pipeline, spark: SparkSession, table: str) -> dict[int, str]:
    return {row["id"]: row["name"] for row in pipelines.rows(pipeline, spark, table, key="id")}


def test_position_fields_that_are_added_later_do_not_freeze_a_table(tmp_path: Path, spark: SparkSession) -> None:
    folder = tmp_path / "bronze/topics/shop.orders/partition=0"
    config: dict[str, Any] = {
        "source": {"files": {"path": str(tmp_path / "bronze"), "format": "json"}},
        "tables": [{"source": "shop.orders", "key": ["id"]}, {"source": "shop.lines", "key": ["id"]}],
        "transforms": [],
    }
    pipeline = pipelines.pipeline(tmp_path, *pipelines.TABLE_SINKS, **config)
    lines = tmp_path / "bronze/topics/shop.lines/partition=0"
    write_lines(folder / "shop.orders+0+0000000500.json", [{"id": 1, "name": "old"}, {"id": 2, "name": "two"}])
    write_lines(lines / "shop.lines+0+0000000000.json", [{"id": 1, "name": "line"}])
    assert run(pipeline, spark) == []
    log = {"__file": "binlog.000003", "__pos": 157, "__row": 0}
    write_lines(folder / "shop.orders+0+0000000502.json", [{"id": 1, "name": "new", **log}])
    write_lines(lines / "shop.lines+0+0000000001.json", [{"id": 1, "name": "next"}])
    said = run(pipeline, spark)
    change = "topic shop.orders was ordered by the record's place and is now ordered by MySQL's binlog"
    assert set(said) == {f"{change}. From this batch on (epoch 1) every change is newer than all earlier ones"}
    assert names(pipeline, spark, "shop.orders") == {1: "new", 2: "two"}
    assert names(pipeline, spark, "shop.lines") == {1: "next"}
    write_lines(folder / "shop.orders+0+0000000503.json", [{"id": 1, "name": "late", **log, "__pos": 4}])
    assert run(pipeline, spark) == []
    assert names(pipeline, spark, "shop.orders") == {1: "new", 2: "two"}


def flat(number: int, name: str, partition: int) -> Record:
    row = json.dumps({"id": number, "name": name, "__deleted": "false"})
    return Record(row.encode(), key=json.dumps({"id": number}).encode(), partition=partition)


def test_a_topic_that_gets_partitions_or_is_made_anew(kafka: Kafka, tmp_path: Path, spark: SparkSession) -> None:
    topic = f"shop{uuid.uuid4().hex[:8]}.orders"
    block = {"bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic, "failOnDataLoss": False}
    source = {"kafka": block, "value": {"json": {}}}
    pipeline = pipelines.pipeline(tmp_path, "iceberg", source=source, tables=[], transforms=[])
    kafka.create_topic(topic)
    kafka.produce(topic, *[flat(n, "first", 0) for n in range(20)])
    assert run(pipeline, spark) == []
    kafka.add_partitions(topic, 2)
    kafka.produce(topic, flat(7, "moved", 1))
    (said,) = run(pipeline, spark)
    assert "1 partition; now " in said
    assert "2 partitions" in said
    assert names(pipeline, spark, topic)[7] == "moved"
    kafka.delete_topic(topic)
    kafka.create_topic(topic, partitions=2)
    kafka.produce(topic, flat(3, "anew", 0), flat(7, "anew", 1), flat(7, "anew", 1))
    (said,) = run(pipeline, spark)
    assert "topic id" in said
    made = names(pipeline, spark, topic)
    assert (made[3], made[7], made[5]) == ("anew", "anew", "first")
