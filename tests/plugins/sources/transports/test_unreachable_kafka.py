"""Broker that stops while a pipeline runs, and restarts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.plugins.sources.transports.test_kafka_source import change, job, names
from tests.support.waiting import stop_at_end, until, until_tables

from headrace.engine.run import query as engine
from headrace_stack.servers.kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.nightly, pytest.mark.spark, pytest.mark.dist, pytest.mark.one_spark]

TOPIC = "shop.public.orders"
#: Timeouts with which an outage is noticed within seconds.
SHORT_TIMEOUTS = {
    "kafka.default.api.timeout.ms": 2000,
    "kafka.request.timeout.ms": 1000,
    "kafka.metadata.max.age.ms": 1000,
    "fetchOffset.numRetries": 1,
}


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with Kafka() as server:
        yield server


def test_run_resumes_after_an_outage(
    kafka: Kafka, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "FIRST_PAUSE_SECONDS", 0.2)
    monkeypatch.setattr(engine, "LONGEST_PAUSE_SECONDS", 1.0)
    kafka.produce(TOPIC, change("c", 1, "a", lsn=1))
    pipeline = job(kafka, tmp_path, {"subscribe": TOPIC, **SHORT_TIMEOUTS})
    with stop_at_end(pipeline.start(spark, "200 ms")) as query:
        until(lambda: query.recent_progress, "the first batch")
        kafka.kill()
        until(lambda: "no broker responds" in (query.status.error or ""), "the trouble")
        assert query.status.message.startswith("retrying: no broker responds")
        kafka.start()
        kafka.produce(TOPIC, change("c", 2, "b", lsn=2))
        until_tables(query, lambda: (names(pipeline, spark, TOPIC), {1: "a", 2: "b"}), "the row")
        until(lambda: query.status.error is None, "its end")
        kafka.stop()
        until(lambda: query.status.error is not None, "the trouble")
    assert query.exception is None
    assert query.await_termination(0)
