"""Tables whose changes get another ordering: they continue, and the progress notes report it."""

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


def run_and_collect_notes(pipeline: Pipeline, spark: SparkSession) -> list[str]:
    """Run the pipeline to the end of its input; return the notes of all tables."""
    batches: list[BatchProgress] = []
    pipeline.run(spark, on_progress=batches.append)
    return [table.note for batch in batches for table in batch.tables if table.note]


def read_names(pipeline: Pipeline, spark: SparkSession, table: str) -> dict[int, str]:
    return {row["id"]: row["name"] for row in pipelines.rows(pipeline, spark, table, key="id")}


@pytest.mark.nightly
@pytest.mark.parametrize("sink", pipelines.TABLE_SINKS)
def test_position_fields_added_later_do_not_freeze_table(tmp_path: Path, spark: SparkSession, sink: str) -> None:
    folder = tmp_path / "bronze/topics/shop.orders/partition=0"
    config: dict[str, Any] = {
        "source": {"files": {"path": str(tmp_path / "bronze"), "format": "json"}},
        "tables": [{"source": "shop.orders", "key": ["id"]}, {"source": "shop.lines", "key": ["id"]}],
        "transforms": [],
    }
    pipeline = pipelines.pipeline(tmp_path, sink, **config)
    lines = tmp_path / "bronze/topics/shop.lines/partition=0"
    write_lines(folder / "shop.orders+0+0000000500.json", [{"id": 1, "name": "old"}, {"id": 2, "name": "two"}])
    write_lines(lines / "shop.lines+0+0000000000.json", [{"id": 1, "name": "line"}])
    assert run_and_collect_notes(pipeline, spark) == []
    binlog = {"__file": "binlog.000003", "__pos": 157, "__row": 0}
    write_lines(folder / "shop.orders+0+0000000502.json", [{"id": 1, "name": "new", **binlog}])
    write_lines(lines / "shop.lines+0+0000000001.json", [{"id": 1, "name": "next"}])
    notes = run_and_collect_notes(pipeline, spark)
    note = "topic shop.orders was ordered by the record's offset and is now ordered by MySQL's binlog"
    assert set(notes) == {f"{note}. From this batch on (epoch 1) every change is newer than all earlier ones"}
    assert read_names(pipeline, spark, "shop.orders") == {1: "new", 2: "two"}
    assert read_names(pipeline, spark, "shop.lines") == {1: "next"}
    write_lines(folder / "shop.orders+0+0000000503.json", [{"id": 1, "name": "late", **binlog, "__pos": 4}])
    assert run_and_collect_notes(pipeline, spark) == []
    assert read_names(pipeline, spark, "shop.orders") == {1: "new", 2: "two"}
    # The fields go away within a file, and come back.
    rows = [{"id": 1, "name": "newer", **binlog, "__pos": 200}, {"id": 1, "name": "gone"}, {"id": 2, "name": "gone"}]
    write_lines(folder / "shop.orders+0+0000000504.json", rows)
    note = "topic shop.orders was ordered by MySQL's binlog and is now ordered by the record's offset"
    notes = run_and_collect_notes(pipeline, spark)
    assert set(notes) == {f"{note}. From this batch on (epoch 2) every change is newer than all earlier ones"}
    assert read_names(pipeline, spark, "shop.orders") == {1: "gone", 2: "gone"}
    write_lines(folder / "shop.orders+0+0000000507.json", [{"id": 1, "name": "back", **binlog, "__pos": 4}])
    assert run_and_collect_notes(pipeline, spark) == []
    assert read_names(pipeline, spark, "shop.orders") == {1: "back", 2: "gone"}


@pytest.mark.nightly
def test_changes_without_a_binlog_position_are_applied(tmp_path: Path, spark: SparkSession) -> None:
    """MariaDB from 11.4 on logs no positions of rows. Debezium computes minus the length of the event instead."""
    folder = tmp_path / "bronze/topics/shop.orders/partition=0"

    def event(op: str, pos: int, name: str) -> dict[str, Any]:
        source = {"connector": "mariadb", "file": "bin.000009", "pos": pos, "row": 0}
        return {"op": op, "before": None, "after": {"id": 1, "name": name}, "source": source}

    source = {"files": {"path": str(tmp_path / "bronze"), "format": "json"}}
    tables = [{"source": "shop.orders", "key": ["id"]}]
    pipeline = pipelines.pipeline(tmp_path, "iceberg", source=source, tables=tables)
    write_lines(folder / "shop.orders+0+0000000000.json", [event("r", 4000, "read")])
    assert run_and_collect_notes(pipeline, spark) == []
    write_lines(folder / "shop.orders+0+0000000001.json", [event("u", -80, "a")])
    (note,) = run_and_collect_notes(pipeline, spark)
    assert note.startswith("topic shop.orders was ordered by MySQL's binlog and is now ordered by the record's offset.")
    write_lines(folder / "shop.orders+0+0000000002.json", [event("u", -300, "a longer name")])
    assert run_and_collect_notes(pipeline, spark) == []
    assert read_names(pipeline, spark, "shop.orders") == {1: "a longer name"}


def flat_record(number: int, name: str, partition: int) -> Record:
    row = json.dumps({"id": number, "name": name, "__deleted": "false"})
    return Record(row.encode(), key=json.dumps({"id": number}).encode(), partition=partition)


def test_table_continues_after_topic_gets_partitions_or_is_recreated(
    kafka: Kafka, tmp_path: Path, spark: SparkSession
) -> None:
    topic = f"shop{uuid.uuid4().hex[:8]}.orders"
    block = {"bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic, "failOnDataLoss": False}
    source = {"kafka": block, "value": {"json": {}}}
    pipeline = pipelines.pipeline(tmp_path, "iceberg", source=source, tables=[], transforms=[])
    kafka.create_topic(topic)
    kafka.produce(topic, *[flat_record(n, "first", 0) for n in range(20)])
    assert run_and_collect_notes(pipeline, spark) == []
    kafka.add_partitions(topic, 2)
    kafka.produce(topic, flat_record(7, "moved", 1))
    (note,) = run_and_collect_notes(pipeline, spark)
    assert "1 partition; now " in note
    assert "2 partitions" in note
    assert read_names(pipeline, spark, topic)[7] == "moved"
    kafka.delete_topic(topic)
    kafka.create_topic(topic, partitions=2)
    kafka.produce(topic, flat_record(3, "anew", 0), flat_record(7, "anew", 1), flat_record(7, "anew", 1))
    (note,) = run_and_collect_notes(pipeline, spark)
    assert "topic id" in note
    found = read_names(pipeline, spark, topic)
    assert (found[3], found[7], found[5]) == ("anew", "anew", "first")
