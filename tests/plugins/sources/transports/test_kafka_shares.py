"""Fair shares of a batch per topic: Spark's total, and the same ranges when a batch is repeated."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection
from typing import Any

from hypothesis import given, strategies as st

from headrace_kafka.kafka_admin import Offsets
from headrace_sources.equal_shares import share
from headrace_sources.transports.kafka_offsets import Ranges
from headrace_sources.transports.kafka_shares import KEPT_BATCHES, FairShares

WANTED = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 200), min_size=1)


@given(WANTED, st.integers(0, 600))
def test_limit_is_used_and_shares_are_equal(wanted: dict[str, int], limit: int) -> None:
    parts = share(limit, wanted)
    assert parts.keys() == wanted.keys()
    assert sum(parts.values()) == min(limit, sum(wanted.values()))
    assert all(0 <= parts[name] <= wanted[name] for name in wanted)
    short = [parts[name] for name in wanted if parts[name] < wanted[name]]
    # A topic that gets less than it requested is at most one record below the largest share, because of the remainder.
    assert all(part >= max(parts.values()) - 1 for part in short)


def test_unused_share_goes_to_other_topics() -> None:
    wanted = {"hot": 1_000_000, "warm": 40_000, "quiet": 7, "idle": 0}
    assert share(100_000, wanted) == {"hot": 59_993, "warm": 40_000, "quiet": 7, "idle": 0}


class Folder:
    """In-memory folder."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.folders: dict[str, Folder] = {}

    def folder(self, name: str) -> Folder:
        return self.folders.setdefault(name, Folder())

    def names(self) -> list[str]:
        return sorted(self.files)

    def read(self, name: str) -> str | None:
        return self.files.get(name)

    def load(self, name: str, parse: Callable[[str], Any]) -> Any:
        return parse(self.files[name]) if name in self.files else None

    def write(self, name: str, text: str) -> None:
        self.files[name] = text

    def delete(self, name: str) -> None:
        self.files.pop(name, None)


class Stream:
    """Cluster with Spark's stream of its topics: ``limit`` records per batch, in proportion to the backlog."""

    def __init__(self, topics: dict[str, list[int]], limit: int, *, ends: bool = False) -> None:
        """Start with ``topics`` (records per partition); with ``ends``, later records are not read."""
        self.latest = {t: {f"{p}": n for p, n in enumerate(counts)} for t, counts in topics.items()}
        self.available = _copy(self.latest) if ends else None
        self.folder, self.limit, self.batch = Folder(), limit, -1
        self.end = {t: dict.fromkeys(parts, 0) for t, parts in self.latest.items()}
        self.folder.folder("sources").folder("0").write("0", "v1\n" + json.dumps(self.end))
        self.recreated: set[str] = set()
        self.oldest = 0
        self.shares = self.open()

    def open(self) -> FairShares:
        stream: Any = self.folder
        return FairShares(
            stream,
            self.limit,
            lambda _: self.available or _copy(self.latest),
            lambda new: {topic: dict.fromkeys(partitions, self.oldest) for topic, partitions in new.items()},
            self.find_recreated,
        )

    def find_recreated(self, batch: int, topics: Collection[str]) -> Collection[str]:
        return self.recreated & set(topics)

    def plan(self) -> bool:
        """Plan the next batch as Spark does, and return whether there is one."""
        latest = self.available or self.latest
        waiting = {(t, p): latest[t][p] - last for t, parts in self.end.items() for p, last in parts.items()}
        if not (total := sum(waiting.values())):
            return False
        for (topic, partition), count in waiting.items():
            part = self.limit * count / total
            taken = count if total <= self.limit else math.ceil(part) if part < 1 else math.floor(part)
            self.end[topic][partition] += taken
        self.batch += 1
        self.folder.folder("offsets").write(f"{self.batch}", 'v1\n{"conf":{}}\n' + json.dumps(self.end))
        return True

    def produce(self, more: dict[str, list[int]]) -> None:
        for topic, counts in more.items():
            for partition, count in enumerate(counts):
                self.latest[topic][f"{partition}"] += count


def _copy(offsets: Offsets) -> Offsets:
    return {topic: dict(parts) for topic, parts in offsets.items()}


def _count(ranges: dict[str, Ranges]) -> int:
    return sum(last - first for parts in ranges.values() for first, last in parts.values())


COUNTS = st.lists(st.integers(0, 60) | st.integers(0, 3), min_size=2, max_size=2)
TOPICS = st.fixed_dictionaries(dict.fromkeys(("hot", "warm", "cold"), COUNTS))


@given(TOPICS, st.lists(TOPICS, max_size=5), st.integers(1, 80), st.booleans(), st.data())
def test_every_record_is_in_one_batch_of_the_planned_size(
    initial: dict[str, list[int]], later: list[dict[str, list[int]]], limit: int, ends: bool, data: st.DataObject
) -> None:
    stream = Stream(initial, limit, ends=ends)
    read = _copy(stream.end)
    while True:
        before = sum(sum(parts.values()) for parts in stream.end.values())
        if not stream.plan():
            break
        if later:
            stream.produce(later.pop())
        ranges = stream.shares.ranges(stream.batch)
        assert _count(ranges) == sum(sum(parts.values()) for parts in stream.end.values()) - before
        if data.draw(st.booleans(), label="killed"):
            if later:
                stream.produce(later.pop())
            stream.limit = data.draw(st.integers(1, 80), label="limit")
            stream.shares = stream.open()
            assert stream.shares.ranges(stream.batch) == ranges
        for topic, parts in ranges.items():
            for partition, (first, last) in parts.items():
                assert first == read[topic][partition]
                assert last <= (stream.available or stream.latest)[topic][partition]
                read[topic][partition] = last
        assert stream.shares.end(stream.batch) == read
    assert read == (stream.available or stream.latest)


def test_quiet_topic_is_read_fully_despite_backlog_of_another() -> None:
    stream = Stream({"hot": [50_000, 50_000], "quiet": [40, 0]}, limit=1_000)
    stream.plan()
    assert stream.end == {"hot": {"0": 499, "1": 499}, "quiet": {"0": 1, "1": 0}}
    assert stream.shares.ranges(0) == {"hot": {"0": (0, 480), "1": (0, 479)}, "quiet": {"0": (0, 40)}}
    stream.produce({"quiet": [0, 500]})
    stream.plan()
    assert stream.shares.ranges(1)["quiet"] == {"1": (0, 500)}


def test_new_or_recreated_topic_follows_the_plan_of_spark() -> None:
    stream = Stream({"hot": [500], "quiet": [40]}, limit=100)
    stream.plan()
    assert stream.shares.ranges(0)["quiet"] == {"0": (0, 40)}
    stream.latest |= {"quiet": {"0": 3}, "new": {"0": 5}}
    planned = {"hot": {"0": stream.end["hot"]["0"] + 50}, "quiet": {"0": 3}, "new": {"0": 5}}
    stream.folder.folder("offsets").write("1", json.dumps(planned))
    ranges = stream.shares.ranges(1)
    assert ranges["quiet"] == {"0": (0, 3)}
    assert ranges["new"] == {"0": (0, 5)}
    assert ranges["hot"]["0"][1] == planned["hot"]["0"]


def test_repeated_batch_with_a_new_topic_has_the_same_ranges_after_records_expired() -> None:
    stream = Stream({"a": [500]}, limit=100)
    stream.plan()
    for batch in range(1, KEPT_BATCHES + 3):
        stream.oldest = 2
        stream.folder.folder("offsets").write(f"{batch}", json.dumps({**stream.end, f"new{batch}": {"0": 9}}))
        ranges = stream.shares.ranges(batch)
        assert ranges[f"new{batch}"] == {"0": (2, 9)}
        stream.oldest = 5
        assert stream.open().ranges(batch) == ranges
    assert len(stream.folder.folder("offset_starts").names()) == KEPT_BATCHES


def test_recreated_topic_with_more_records_is_read_from_its_beginning() -> None:
    stream = Stream({"hot": [50], "quiet": [40, 10]}, limit=1000)
    stream.plan()
    stream.shares.ranges(0)
    stream.recreated = {"quiet"}
    stream.produce({"hot": [5], "quiet": [25, 0]})  # 65 and 10 records
    stream.plan()
    assert stream.shares.ranges(1) == {"hot": {"0": (50, 55)}, "quiet": {"0": (0, 65), "1": (0, 10)}}
    stream.recreated = set()
    stream.produce({"quiet": [1, 1]})
    stream.plan()
    assert stream.shares.ranges(2) == {"quiet": {"0": (65, 66), "1": (10, 11)}}


def test_topic_is_created_again_between_a_batch_with_its_new_partition_and_the_repetition() -> None:
    stream = Stream({"hot": [50], "quiet": [40, 10]}, limit=1000)
    stream.plan()
    stream.shares.ranges(0)
    stream.oldest = 2
    planned = {"hot": {"0": 50}, "quiet": {"0": 45, "1": 15, "2": 9}}
    stream.folder.folder("offsets").write("1", json.dumps(planned))
    assert stream.shares.ranges(1) == {"quiet": {"0": (40, 45), "1": (10, 15), "2": (2, 9)}}
    stream.recreated, stream.oldest = {"quiet"}, 0
    expected = {"quiet": {"0": (0, 45), "1": (0, 15), "2": (0, 9)}}
    assert stream.open().ranges(1) == expected
    stream.oldest = 3  # Records expire before the next repetition.
    assert stream.open().ranges(1) == expected


def test_single_topic_writes_no_file_and_old_files_are_deleted() -> None:
    stream = Stream({"hot": [10_000], "quiet": [0]}, limit=10)
    for _ in range(5):
        stream.plan()
        stream.shares.ranges(stream.batch)
    assert stream.folder.folder("offset_overrides").names() == []
    for _ in range(KEPT_BATCHES + 50):
        stream.produce({"hot": [5], "quiet": [5]})
        stream.plan()
        stream.shares.ranges(stream.batch)
    assert len(stream.folder.folder("offset_overrides").names()) == KEPT_BATCHES
