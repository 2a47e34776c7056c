"""Fair shares of a batch: topics get equal numbers of records, and the unused part of a share goes to the other topics.

Spark divides ``maxOffsetsPerTrigger`` in proportion to the backlogs, so that a topic with a large backlog gets nearly all of
it. A batch reads as many records as Spark planned, but divides them differently: more records of quiet topics, which are read
ahead of Spark's offsets, and fewer records of busy topics. After every batch the total equals Spark's, so that all records have been read
when Spark has nothing left to plan.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from headrace_kafka.kafka_admin import Offsets
from headrace_sources.equal_shares import share
from headrace_sources.transports.kafka_offsets import EARLIEST, Ranges, list_ranges, pin_ranges, read_end, read_start

if TYPE_CHECKING:
    from headrace.sdk.storage import Folder

#: Number of batches whose ends are kept, the same as in Spark's offset log.
KEPT_BATCHES = 100
_FOLDER, _STARTS = "offset_overrides", "offset_starts"


class FairShares:
    """Start and end offsets of a stream's batches. They are stored before a batch is read, so that a repeated batch is identical."""

    def __init__(
        self,
        stream: Folder,
        limit: int,
        find_bounds: Callable[[Offsets], Offsets],
        find_earliest: Callable[[Mapping[str, Collection[str]]], Offsets],
        find_recreated: Callable[[int, Collection[str]], Collection[str]],
    ) -> None:
        """Read the stored batches.

        ``limit``: maximum number of records that Spark plans; ``find_bounds``: returns the offsets up to which partitions may be read;
        ``find_earliest``: returns the oldest offsets of new partitions; ``find_recreated``: returns the topics of a batch that were created again, which are read from their beginning.
        """
        self._stream, self._folder, self._starts = stream, stream.folder(_FOLDER), stream.folder(_STARTS)
        self._find_earliest = find_earliest
        self._limit, self._find_bounds, self._find_recreated = limit, find_bounds, find_recreated
        self._kept = sorted(int(name) for name in self._folder.names())
        #: The last requested batch, its ranges and its end.
        self._last: tuple[int, dict[str, Ranges], Offsets] | None = None

    def ranges(self, batch: int) -> dict[str, Ranges]:
        """Return a batch's ranges by topic, for topics with new records."""
        return self._plan(batch)[0]

    def end(self, batch: int) -> Offsets:
        """Return the end of a batch."""
        return self._plan(batch)[1]

    def _plan(self, batch: int) -> tuple[dict[str, Ranges], Offsets]:
        if self._last is None or self._last[0] != batch:
            planned_start, planned_end = read_start(self._stream, batch), read_end(self._stream, batch)
            start = _drop_recreated(self._read(batch - 1, planned_start), planned_start, planned_end)
            recreated = self._find_recreated(batch, list_ranges(start, planned_end).keys())
            start = {topic: partitions for topic, partitions in start.items() if topic not in recreated}
            end = self._choose_end(batch, start, planned_start, planned_end)
            self._last = (batch, self._pin_starts(batch, list_ranges(start, end), recreated), end)
        return self._last[1:]

    def _choose_end(self, batch: int, start: Offsets, planned_start: Offsets, planned_end: Offsets) -> Offsets:
        """Return the end of a batch, and store it if it differs from Spark's. A repeated batch gets the stored end."""
        if batch in self._kept:
            return self._read(batch, planned_end)
        is_sharing = len(list_ranges(start, planned_end)) > 1 or _differs(start, planned_start)
        if not is_sharing:
            return planned_end
        # Spark rounds the shares of partitions down.
        is_limited = _count(planned_start, planned_end) > self._limit - sum(map(len, planned_end.values())) - 1
        bounds = self._find_bounds(planned_end) if is_limited else planned_end
        end = share_offsets(start, planned_end, bounds)
        self._write(batch, end, planned_end)
        return end

    def _pin_starts(self, batch: int, ranges: Mapping[str, Ranges], recreated: Collection[str]) -> dict[str, Ranges]:
        """Return the ranges with the oldest offsets of new partitions as numbers, and store these.

        Until the batch is repeated, or read again for a table that failed, older records may expire.
        """
        new = {t: [p for p, (first, _) in parts.items() if first == EARLIEST] for t, parts in ranges.items()}
        stored = (self._starts.load(f"{batch}", _parse) if any(new.values()) else None) or {}
        # Before the repetition of a batch, a topic may have been created again; then all its partitions are new.
        known = {
            t: {} if t in recreated and stored.get(t, {}).keys() != set(new[t]) else stored.get(t, {}) for t in new
        }
        missing = {t: [p for p in partitions if p not in known[t]] for t, partitions in new.items()}
        missing = {topic: partitions for topic, partitions in missing.items() if partitions}
        if missing:
            found = self._find_earliest(missing)
            known = {topic: {**starts, **found.get(topic, {})} for topic, starts in known.items()}
            self._write_starts(batch, {topic: starts for topic, starts in known.items() if starts})
        return {topic: pin_ranges(parts, known[topic]) for topic, parts in ranges.items()}

    def _write_starts(self, batch: int, starts: Offsets) -> None:
        self._starts.write(f"{batch}", json.dumps(starts))
        for name in self._starts.names():
            if int(name) <= batch - KEPT_BATCHES:
                self._starts.delete(name)

    def _read(self, batch: int, planned: Offsets) -> Offsets:
        """Return the stored end of a batch, completed by Spark's ``planned`` end."""
        chosen = (self._folder.load(f"{batch}", _parse) if batch in self._kept else None) or {}
        return {topic: {**partitions, **chosen.get(topic, {})} for topic, partitions in planned.items()}

    def _write(self, batch: int, end: Offsets, planned: Offsets) -> None:
        """Store the offsets that differ from Spark's plan."""
        others = {t: {p: last for p, last in ends.items() if last != planned[t][p]} for t, ends in end.items()}
        self._folder.write(f"{batch}", json.dumps({topic: ends for topic, ends in others.items() if ends}))
        self._kept.append(batch)
        while self._kept[0] <= batch - KEPT_BATCHES:
            self._folder.delete(f"{self._kept.pop(0)}")


def read_applied_end(stream: Folder, batch: int) -> Offsets:
    """Return the end of a batch that was applied: Spark's, replaced by the stored offsets that differ. Nothing is written."""
    planned, chosen = read_end(stream, batch), stream.folder(_FOLDER).load(f"{batch}", _parse) or {}
    return {topic: {**partitions, **chosen.get(topic, {})} for topic, partitions in planned.items()}


def _parse(text: str) -> Offsets:
    return {topic: {p: int(end) for p, end in ends.items()} for topic, ends in json.loads(text).items()}


def share_offsets(start: Offsets, planned_end: Offsets, bounds: Offsets) -> Offsets:
    """Return the end of a batch from ``start``, with as many records as Spark planned up to ``planned_end``, and none beyond ``bounds``.

    A partition that is not in ``start`` keeps its planned end, because its start is unknown.
    """
    known = {t: {p: first for p, first in parts.items() if p in planned_end.get(t, {})} for t, parts in start.items()}
    waiting = {
        topic: {
            p: max(0, bounds.get(topic, {}).get(p, 0) - first, planned_end[topic][p] - first)
            for p, first in parts.items()
        }
        for topic, parts in known.items()
    }
    limit = max(0, _count(known, planned_end))
    parts = share(limit, {topic: sum(of.values()) for topic, of in waiting.items()})
    taken = {topic: share(parts[topic], of) for topic, of in waiting.items()}
    return {
        topic: {p: known[topic][p] + taken[topic][p] if p in known.get(topic, {}) else last for p, last in ends.items()}
        for topic, ends in planned_end.items()
    }


def _drop_recreated(start: Offsets, planned_start: Offsets, planned_end: Offsets) -> Offsets:
    """Return the start without recreated and deleted partitions, whose offsets in Spark's plan decreased."""
    return {
        topic: {
            p: first for p, first in parts.items() if planned_end.get(topic, {}).get(p, -1) >= planned_start[topic][p]
        }
        for topic, parts in start.items()
    }


def _differs(start: Offsets, planned: Offsets) -> bool:
    return any(first != planned[topic][p] for topic, parts in start.items() for p, first in parts.items())


def _count(start: Offsets, end: Offsets) -> int:
    """Return the number of records between two offsets, of partitions that are in both."""
    return sum(
        end[topic][p] - first for topic, parts in start.items() for p, first in parts.items() if p in end.get(topic, {})
    )
