"""Offsets that the Kafka source commits to a consumer group for monitors of lag, with a real broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.plugins.sources.transports.test_kafka_source import change, job

from headrace import ConfigError
from headrace_sources.transports.kafka import KafkaSource
from headrace_stack.servers.kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def group() -> str:
    return f"monitors-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def consumer(kafka: Kafka, group: str) -> Iterator[Consumer]:
    """Return a client of the group, which joins the group only when it subscribes."""
    client = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "log_level": 0})
    yield client
    client.close()


def committed(consumer: Consumer, topic: str, partitions: int) -> list[int]:
    places = [TopicPartition(topic, number) for number in range(partitions)]
    return [place.offset for place in consumer.committed(places, timeout=30)]


@pytest.mark.spark
@pytest.mark.dist
@pytest.mark.one_spark
def test_group_has_the_offsets_of_each_applied_batch(
    kafka: Kafka, group: str, consumer: Consumer, tmp_path: Path, spark: SparkSession
) -> None:
    topic = f"{group}.public.orders"
    kafka.create_topic(topic, partitions=2)
    kafka.produce(topic, *[change("c", number, "a", lsn=number) for number in range(10)])
    pipeline = job(kafka, tmp_path, {"subscribe": topic, "commit.group": group})
    pipeline.run(spark)
    ends = kafka.end_offsets(topic)
    assert committed(consumer, topic, 2) == [ends[0], ends[1]]
    assert sum(ends.values()) == 10

    # A member of the group would move its offsets. The tables do not need them.
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.2)
    kafka.produce(topic, change("c", 11, "b", lsn=11))
    query = pipeline.start_available_now(spark)
    query.await_termination()
    (warning,) = [text for text in query.warnings if "the consumer group has members" in text]
    assert warning.startswith("batch 1 is applied, but the source was not told so: source kafka, ")
    assert "name a group in `commit.group` that no consumer uses" in warning
    assert pipeline.read(topic, spark=spark).count() == 11
    assert committed(consumer, topic, 2) == [ends[0], ends[1]]


@pytest.mark.parametrize("name", ["enable.auto.commit", "kafka.enable.auto.commit"])
def test_option_of_consumers_names_the_group(name: str) -> None:
    options: dict[str, Any] = {"bootstrap.servers": "b:9092", "subscribe": "t", name: "true"}
    with pytest.raises(ConfigError, match=r"for monitors of lag, write `commit\.group:`"):
        KafkaSource(options)
