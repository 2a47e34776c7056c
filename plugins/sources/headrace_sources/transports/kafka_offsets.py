"""The offsets of a batch: where it begins and ends in each partition, from the log that Spark's stream keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError
from headrace_sources.transports.kafka_admin import Offsets

if TYPE_CHECKING:
    from headrace.sdk.storage import Folder

#: Partition → the first offset of a range, and the one after its last.
Ranges = dict[str, tuple[int, int]]

#: Kafka's own word for the oldest offset that a partition still has when it is read.
EARLIEST = -2


def list_ranges(start: Offsets, end: Offsets) -> dict[str, Ranges]:
    """Topic → what is between two offsets, for those that have something there."""
    ranges = {topic: _range_between(start.get(topic, {}), end[topic]) for topic in sorted(end)}
    return {topic: partitions for topic, partitions in ranges.items() if partitions}


def read_end(stream: Folder, batch: int) -> Offsets:
    """Where a batch ends, as Spark planned it."""
    return _parse_offsets(stream.folder("offsets").read(f"{batch}"))


def read_start(stream: Folder, batch: int) -> Offsets:
    """Where a batch starts, as Spark planned it. A partition that is new has no start."""
    if batch > 0:
        return read_end(stream, batch - 1)
    return _parse_offsets(stream.folder("sources").folder("0").read("0"))


def pin_ranges(ranges: Ranges, earliest: Mapping[str, int]) -> Ranges:
    """The ranges with numbers where they begin at the earliest: what that is later may be another record."""
    return {p: (earliest[p] if first == EARLIEST else first, last) for p, (first, last) in ranges.items()}


def merge_ranges(parts: Sequence[Ranges]) -> list[Ranges]:
    """The ranges of batches, one after the other, as few: where one ends the next begins, unless a topic was made anew."""
    merged: list[Ranges] = []
    for part in parts:
        if merged and all(merged[-1].get(p, (0, first))[1] == first for p, (first, _) in part.items()):
            merged[-1] |= {p: (merged[-1].get(p, (first, last))[0], last) for p, (first, last) in part.items()}
        else:
            merged.append(dict(part))
    return merged


def count_records(ranges: Ranges) -> int:
    """About how many records there are, where a range may begin at the earliest that is left."""
    return sum(last - max(first, 0) for first, last in ranges.values())


def _range_between(start: dict[str, int], end: dict[str, int]) -> Ranges:
    """The partitions of a topic that have something new."""
    ranges = {}
    for partition, last in end.items():
        first = start.get(partition, EARLIEST)
        if last < first:  # the topic was made anew: with failOnDataLoss, Spark has stopped before
            first = EARLIEST
        if last > 0 and first != last:
            ranges[partition] = (first, last)
    return ranges


def _parse_offsets(text: str | None) -> Offsets:
    """The offsets in a file of Spark's: the last line that is JSON of topics."""
    if text is None:
        raise ConfigError("Spark's log of offsets lacks a batch", fix="restore the checkpoint, or use a new one")
    last = text.strip().splitlines()[-1]
    offsets: Offsets = json.loads(last[last.index("{") :])
    return offsets
