"""Start and end offsets of a batch, from the log of Spark's stream."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError
from headrace_kafka.kafka_admin import Offsets

if TYPE_CHECKING:
    from headrace.sdk.storage import Folder

#: Partition → the first offset of a range, and the offset after its last record.
Ranges = dict[str, tuple[int, int]]

#: Kafka's value for the oldest offset that is available when the partition is read.
EARLIEST = -2


def list_ranges(start: Offsets, end: Offsets) -> dict[str, Ranges]:
    """Return the ranges between two offsets by topic, for topics with records there."""
    ranges = {topic: _range_between(start.get(topic, {}), end[topic]) for topic in sorted(end)}
    return {topic: partitions for topic, partitions in ranges.items() if partitions}


def read_end(stream: Folder, batch: int) -> Offsets:
    """Return the end of a batch as Spark planned it."""
    return _parse_offsets(stream.folder("offsets").read(f"{batch}"))


def read_start(stream: Folder, batch: int) -> Offsets:
    """Return the start of a batch as Spark planned it. A new partition has no start."""
    if batch > 0:
        return read_end(stream, batch - 1)
    return _parse_offsets(stream.folder("sources").folder("0").read("0"))


def pin_ranges(ranges: Ranges, earliest: Mapping[str, int]) -> Ranges:
    """Return the ranges with numbers instead of EARLIEST, which is another record after older records expire."""
    return {p: (min(earliest[p], last) if first == EARLIEST else first, last) for p, (first, last) in ranges.items()}


def merge_ranges(parts: Sequence[Ranges]) -> list[Ranges]:
    """Merge adjacent ranges of consecutive batches. They are adjacent unless a cluster without topic ids recreated a topic."""
    merged: list[Ranges] = []
    for part in parts:
        if merged and all(merged[-1].get(p, (0, first))[1] == first for p, (first, _) in part.items()):
            merged[-1] |= {p: (merged[-1].get(p, (first, last))[0], last) for p, (first, last) in part.items()}
        else:
            merged.append(dict(part))
    return merged


def is_past(offsets: Offsets, end: Mapping[str, Mapping[str, int]]) -> bool:
    """Return whether offsets are at or after an end. A partition without records needs no offset."""
    return all(offsets.get(t, {}).get(p, 0) >= last for t, partitions in end.items() for p, last in partitions.items())


def count_records(ranges: Ranges) -> int:
    """Return the approximate number of records. Ranges of the newest records may start at EARLIEST."""
    return sum(last - max(first, 0) for first, last in ranges.values())


def _range_between(start: dict[str, int], end: dict[str, int]) -> Ranges:
    """Return the partitions of a topic that have new records."""
    ranges = {}
    for partition, last in end.items():
        first = start.get(partition, EARLIEST)
        if last < first:  # the topic was recreated; with failOnDataLoss Spark would have failed
            first = EARLIEST
        if last > 0 and first != last:
            ranges[partition] = (first, last)
    return ranges


def _parse_offsets(text: str | None) -> Offsets:
    """Return the offsets in a file of Spark's log, which are JSON in its last line."""
    if text is None:
        raise ConfigError("Spark's log of offsets lacks a batch", fix="restore the checkpoint, or use a new one")
    last = text.strip().splitlines()[-1]
    offsets: Offsets = json.loads(last[last.index("{") :])
    return offsets
