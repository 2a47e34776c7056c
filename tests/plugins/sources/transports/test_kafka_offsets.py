"""Offset ranges for replay, which must name the same records at any later time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest

from headrace.sdk.schema_log import SchemaLog
from headrace.sdk.source import SourceContext
from headrace_sources.transports.kafka import KafkaSource
from headrace_sources.transports.kafka_shares import read_applied_end

NOTHING: Any = None


class Folder:
    """Spark's folder of a stream, before and after its second batch."""

    def __init__(self, *offsets: Mapping[str, Mapping[str, int]]) -> None:
        self.texts = {str(number): f"v1\n{{}}\n{json.dumps(offset)}" for number, offset in enumerate(offsets)}

    def folder(self, name: str) -> Folder:
        return self if name == "offsets" else Folder()

    def names(self) -> list[str]:
        return list(self.texts)

    def read(self, name: str) -> str | None:
        return self.texts.get(name)

    def write(self, name: str, text: str) -> None:
        self.texts[name] = text

    def load(self, name: str, parse: Any) -> None:
        assert name not in self.texts


class Cluster:
    """Kafka client with fixed earliest offsets and topic ids."""

    def ids(self, topics: Iterable[str]) -> dict[str, str]:
        return dict.fromkeys(topics, "same")

    def earliest(self, partitions: Mapping[str, Iterable[str]]) -> dict[str, dict[str, int]]:
        return {topic: dict.fromkeys(numbers, 3) for topic, numbers in partitions.items()}


def test_replay_range_resolves_the_earliest_offset() -> None:
    source = KafkaSource({"bootstrap.servers": "broker:9092", "subscribePattern": "shop.*"})
    source._client = cast("Any", Cluster())
    # A new topic, an added partition, and a re-created topic.
    before = {"shop.a": {"0": 5}, "shop.c": {"0": 90}}
    after = {"shop.a": {"0": 7, "1": 4}, "shop.b": {"0": 9}, "shop.c": {"0": 10}}
    stream: Any = Folder(before, after)
    context = SourceContext(NOTHING, SchemaLog(), batch=1, stream=stream)
    assert source.replay_range(context, ["shop.a", "shop.b", "shop.c"]) == {
        "shop.a": {"0": (5, 7), "1": (3, 4)},
        "shop.b": {"0": (3, 9)},
        "shop.c": {"0": (3, 10)},
    }


@pytest.mark.parametrize(
    ("end", "is_read"),
    [
        ({"t": {"0": 7, "1": 4}}, True),
        ({"t": {"0": 8}}, False),
        # A topic or a partition that the stream has not planned yet.
        ({"t": {"0": 7, "2": 1}}, False),
        ({"u": {"0": 1}}, False),
        ({"u": {"0": 0}}, True),
    ],
)
def test_end_of_a_batch_is_compared_per_partition(end: dict[str, dict[str, int]], *, is_read: bool) -> None:
    stream = cast("Any", Folder({"t": {"0": 3}}, {"t": {"0": 7, "1": 4}}))
    context = SourceContext(NOTHING, SchemaLog(), batch=1, stream=stream)
    source = KafkaSource({"bootstrap.servers": "broker:9092", "subscribe": "t"})
    assert source.has_read(context, end) is is_read


def test_end_of_a_shared_batch_is_the_stored_one() -> None:
    """A batch may read fewer records of a topic than Spark planned."""

    class Shared(Folder):
        def folder(self, name: str) -> Folder:
            return self if name == "offsets" else Overrides()

    class Overrides(Folder):
        def load(self, name: str, parse: Any) -> Any:
            return parse('{"t": {"0": 5}}') if name == "1" else None

    stream = cast("Any", Shared({"t": {"0": 3}}, {"t": {"0": 7, "1": 4}}))
    assert read_applied_end(stream, 1) == {"t": {"0": 5, "1": 4}}
    assert read_applied_end(stream, 0) == {"t": {"0": 3}}
