"""Records that expire before they are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

import pytest
from tests.support.memory_folder import MemoryFolder

from headrace.sdk.findings import Checkup
from headrace_kafka.kafka_admin import Offsets
from headrace_sources.kinesis import kinesis_source
from headrace_sources.kinesis.kinesis_source import KinesisSource
from headrace_sources.retention import find_expired, find_expiring
from headrace_sources.transports.kafka import KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.sdk.storage import Folder


@pytest.mark.parametrize(
    ("hours", "name"), [(10, None), (20, "records-expire-soon"), (25, "records-expired"), (None, None)]
)
def test_delay_and_retention(hours: float | None, name: str | None) -> None:
    found = list(find_expiring(None if hours is None else hours * 3600, 86400, "stream orders"))
    assert [one.kind.name for one in found] == ([name] if name else [])
    assert all(f"{hours:.1f} hours behind, and records are kept for 24 hours" in one.what for one in found)


@pytest.mark.parametrize(
    ("read", "first", "end", "name"),
    [
        (900, 100, 1000, None),
        (200, 100, 1000, "records-expire-soon"),
        (50, 100, 1000, "records-expired"),
        (100, 100, 1000, "records-expire-soon"),
        (0, 0, 1000, None),  # nothing has expired yet
        (100, 100, 100, None),  # all have expired, and all were read
    ],
)
def test_offsets(read: int, first: int, end: int, name: str | None) -> None:
    found = list(find_expired({"a": {"0": read}}, {"a": {"0": first}}, {"a": {"0": end}}))
    assert [one.kind.name for one in found] == ([name] if name else [])
    assert all(one.where == "topic a, partition 0" for one in found)


class FakeAdmin:
    """Admin client of a topic whose partitions have lost, nearly lost, and kept their unread records."""

    def topics(self) -> list[str]:
        return ["a", "new"]

    def partitions(self, topics: Iterable[str]) -> dict[str, list[str]]:
        return {topic: ["0", "1", "2"] for topic in topics}

    def earliest(self, partitions: Mapping[str, Iterable[str]]) -> Offsets:
        return {topic: dict.fromkeys(numbers, 100) for topic, numbers in partitions.items()}

    def latest(self, partitions: Mapping[str, Iterable[str]]) -> Offsets:
        return {topic: dict.fromkeys(numbers, 1000) for topic, numbers in partitions.items()}


def test_unread_records_that_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new topic and a new partition have no position yet."""
    source, stream = KafkaSource({"bootstrap.servers": "b:1", "subscribe": "a,new"}), MemoryFolder()
    monkeypatch.setattr(source, "_client", FakeAdmin())
    stream.folder("offsets").write("7", 'v1\n{}\n{"a": {"0": 50, "1": 120}}')
    checkup = Checkup(cast("SparkSession", object()), stream=cast("Folder", stream), batch=7)
    lost, soon = source.diagnose(checkup)
    assert (lost.kind.name, lost.where) == ("records-expired", "topic a, partition 0")
    assert (soon.kind.name, soon.where) == ("records-expire-soon", "topic a, partition 1")
    assert list(source.diagnose(Checkup(cast("SparkSession", object())))) == [], "the pipeline has never run"


def test_retention_and_clock_of_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    source, times = KinesisSource({"stream": "orders", "region": "eu-west-1"}), dict[str, float]()
    monkeypatch.setattr(source, "_open_client", lambda stream: None)
    monkeypatch.setattr(kinesis_source, "list_shards", lambda stream, client: ([], 7_000))
    monkeypatch.setattr(kinesis_source, "read_summary", lambda stream, client: {"RetentionPeriodHours": 24})
    (found,) = source.diagnose(Checkup(delay_seconds=23 * 3600.0, note_time=times.__setitem__))
    assert found.kind.name == "records-expire-soon"
    assert list(times.values()) == [7.0]
    assert found.where == next(iter(times))
