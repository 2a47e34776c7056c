"""Sink ``kafka`` with Avro, a real broker and a real registry: headrace's own source reads the topic into an equal table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.plugins.sinks.kafka.test_kafka_sink import change, config, encode, produce, topic

from headrace import DataError, Pipeline
from headrace_stack.servers.apicurio import SchemaRegistry
from headrace_stack.servers.json_http import request
from headrace_stack.servers.kafka import Kafka, Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dist, pytest.mark.one_spark, pytest.mark.nightly]

__all__ = ["topic"]

TYPES = {"born": "date", "at": "timestamp", "fee": "decimal(10,2)"}
TRANSFORMS = [{"unwrap": {}}, {"cast": {"columns": TYPES}}]


def typed_change(op: str, id_: int, lsn: int, **columns: Any) -> Record:
    """Return a change with columns of several types."""
    record = change(op, id_, f"v{lsn}", lsn)
    event = json.loads(record.value or b"")
    for image in filter(None, (event["before"], event["after"])):
        image |= {
            "born": f"19{lsn % 90 + 10}-02-28",
            "at": f"2024-03-10T07:30:00.{lsn:06}Z",
            "fee": f"{lsn}.5",
            **columns,
        }
    return Record(encode(event), key=record.key)


def read_table(
    kafka: Kafka, folder: Path, topic: str, value: dict[str, Any], transforms: list[Any], spark: SparkSession
) -> list[dict[str, Any]]:
    """Return the rows of an Iceberg table that a pipeline makes of a topic."""
    pipeline = Pipeline.from_dict(
        {
            "name": "table",
            "source": {"kafka": {"bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic}, "value": value},
            "transforms": transforms,
            "tables": [{"source": topic, "target": "shop.customers"}],
            "sink": {"iceberg": {"warehouse": str(folder / "warehouse")}},
            "checkpoint": str(folder / "checkpoint"),
        }
    )
    pipeline.run(spark)
    return [row.asDict() for row in pipeline.read("shop.customers", spark=spark).orderBy("id").collect()]


def avro(registry: SchemaRegistry) -> dict[str, Any]:
    """Return the options of the sink for keys and values in Avro."""
    return {"keys.format": "avro", "value.format": "avro", "registry": registry.ccompat_url}


def set_compatibility(registry: SchemaRegistry, subject: str, level: str) -> None:
    """Set the compatibility of a subject that has a schema."""
    assert request("PUT", f"{registry.ccompat_url}/config/{subject}", {"compatibility": level})[0] == 200


def test_topic_is_read_into_an_equal_table_and_its_schema_evolves(
    kafka: Kafka, registry: SchemaRegistry, topic: str, tmp_path: Path, spark: SparkSession
) -> None:
    for name in topic, f"replica.{topic}":
        kafka.create_topic(name, partitions=2)
    replica = Pipeline.from_dict(config(kafka, tmp_path, topic, avro(registry), transforms=TRANSFORMS))
    updates = [typed_change("u", id_, lsn) for lsn in range(10, 30) for id_ in (3, 4, 5)]
    deletes = [typed_change("d", 3, 70), Record(None, key=encode({"id": 3}))]
    produce(kafka, topic, typed_change("c", 1, 1), typed_change("c", 2, 2), *updates, *deletes)
    replica.run(spark)
    for part in "key", "value":
        set_compatibility(registry, f"replica.{topic}-{part}", "FULL_TRANSITIVE")
    produce(kafka, topic, typed_change("u", 1, 80, level=7), typed_change("u", 4, 81, level=None))
    replica.run(spark)
    subjects = f"{registry.ccompat_url}/subjects/replica.{topic}"
    assert request("GET", f"{subjects}-value/versions") == (200, [1, 2])
    assert request("GET", f"{subjects}-key/versions") == (200, [1])
    source = read_table(kafka, tmp_path / "source", topic, {"json": {}}, TRANSFORMS, spark)
    target = read_table(
        kafka, tmp_path / "target", f"replica.{topic}", {"avro": {"registry": registry.ccompat_url}}, [], spark
    )
    assert [(row["id"], row["level"]) for row in source] == [(1, 7), (2, None), (4, None), (5, None)]
    assert target == source


def test_refused_schema_stops_the_table_before_its_first_record(
    kafka: Kafka, registry: SchemaRegistry, topic: str, tmp_path: Path, spark: SparkSession
) -> None:
    kafka.create_topic(f"replica.{topic}", partitions=1)
    subject = f"replica.{topic}-value"
    other = {
        "type": "record",
        "name": "Value",
        "namespace": f"replica.{topic}",
        "fields": [{"name": "id", "type": "bytes"}],
    }
    assert (
        request("POST", f"{registry.ccompat_url}/subjects/{subject}/versions", {"schema": json.dumps(other)})[0] == 200
    )
    set_compatibility(registry, subject, "BACKWARD")
    produce(kafka, topic, change("c", 1, "arp", 1))
    pipeline = Pipeline.from_dict(config(kafka, tmp_path, topic, avro(registry)))
    with pytest.raises(DataError, match=f"the schema of {subject} was refused") as caught:
        pipeline.run(spark)
    assert f"table {topic}, sink kafka" in str(caught.value)
    assert "409" in str(caught.value)
    assert "compatibility of the subject" in str(caught.value.fix)
    assert sum(kafka.end_offsets(f"replica.{topic}").values()) == 0
    set_compatibility(registry, subject, "NONE")
    pipeline.run(spark)
    assert len(kafka.read(f"replica.{topic}")) == 1
