"""The records of a batch shared out: topics get equal parts, and what one does not use goes to the others.

Spark shares ``maxOffsetsPerTrigger`` by what waits, so that a topic with a large backlog gets nearly all of it. A batch takes
as many records as Spark planned for it, and takes them from other places: more of a quiet topic, which is read ahead of
Spark's offsets, and so much less of a busy one. After every batch as many records were read as Spark believes, so that all
of them were when Spark has nothing left to plan.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from headrace_sources.transports.kafka_admin import Offsets
from headrace_sources.transports.kafka_offsets import Ranges, list_ranges, read_end, read_start

if TYPE_CHECKING:
    from headrace.sdk.storage import Folder

#: Batches of which is kept where they end, as many as Spark keeps.
KEPT_BATCHES = 100
_FOLDER = "offset_overrides"


class FairShares:
    """Where a stream's batches begin and end. What was chosen is written down before it is read: a batch that comes again is the same."""

    def __init__(self, stream: Folder, limit: int, find_bounds: Callable[[Offsets], Offsets]) -> None:
        """``limit``: what Spark plans at most; ``find_bounds``: up to where the partitions of these offsets may be read."""
        self._stream, self._folder = stream, stream.folder(_FOLDER)
        self._limit, self._find_bounds = limit, find_bounds
        self._kept = sorted(int(name) for name in self._folder.names())
        #: The batch that was asked for last, its ranges and its end.
        self._last: tuple[int, dict[str, Ranges], Offsets] | None = None

    def ranges(self, batch: int) -> dict[str, Ranges]:
        """Topic → what a batch has of it, for those with something new."""
        return self._plan(batch)[0]

    def end(self, batch: int) -> Offsets:
        """Where a batch ends."""
        return self._plan(batch)[1]

    def _plan(self, batch: int) -> tuple[dict[str, Ranges], Offsets]:
        if self._last is None or self._last[0] != batch:
            planned_start, planned_end = read_start(self._stream, batch), read_end(self._stream, batch)
            start = _drop_made_anew(self._read(batch - 1, planned_start), planned_start, planned_end)
            end = self._choose_end(batch, start, planned_start, planned_end)
            self._last = (batch, list_ranges(start, end), end)
        return self._last[1:]

    def _choose_end(self, batch: int, start: Offsets, planned_start: Offsets, planned_end: Offsets) -> Offsets:
        """What decides whether an end is written down is the same whenever the batch comes: Spark's offsets, and the start."""
        if batch in self._kept:
            return self._read(batch, planned_end)
        is_sharing = len(list_ranges(start, planned_end)) > 1 or _differs(start, planned_start)
        if not is_sharing:
            return planned_end
        # Spark rounds the parts of partitions down.
        is_limited = _count(planned_start, planned_end) > self._limit - sum(map(len, planned_end.values())) - 1
        bounds = self._find_bounds(planned_end) if is_limited else planned_end
        end = share_offsets(start, planned_end, bounds)
        self._write(batch, end, planned_end)
        return end

    def _read(self, batch: int, planned: Offsets) -> Offsets:
        """Where a batch ends that Spark planned to end there."""
        text = self._folder.read(f"{batch}") if batch in self._kept else None
        chosen: Offsets = json.loads(text) if text else {}
        return {topic: {**partitions, **chosen.get(topic, {})} for topic, partitions in planned.items()}

    def _write(self, batch: int, end: Offsets, planned: Offsets) -> None:
        """Notes what is other than Spark planned."""
        others = {t: {p: last for p, last in ends.items() if last != planned[t][p]} for t, ends in end.items()}
        self._folder.write(f"{batch}", json.dumps({topic: ends for topic, ends in others.items() if ends}))
        self._kept.append(batch)
        while self._kept[0] <= batch - KEPT_BATCHES:
            self._folder.delete(f"{self._kept.pop(0)}")


def share_offsets(start: Offsets, planned_end: Offsets, bounds: Offsets) -> Offsets:
    """The end of a batch that begins at ``start``, with as many records as up to ``planned_end``, and none beyond ``bounds``.

    A partition that is not in ``start`` is taken as it was planned: where it begins is not known.
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


def share(limit: int, wanted: Mapping[str, int]) -> dict[str, int]:
    """What each gets of a limit, which is used up: an equal part, or what it wants where that is less."""
    parts = {}
    for number, name in enumerate(sorted(wanted, key=wanted.__getitem__)):
        equal = -(-limit // (len(wanted) - number))  # rounded up: who wants little has it
        parts[name] = min(wanted[name], equal)
        limit -= parts[name]
    return parts


def _drop_made_anew(start: Offsets, planned_start: Offsets, planned_end: Offsets) -> Offsets:
    """A start without the partitions that begin anew, or that are gone: Spark's offsets of these went down, ours may be ahead."""
    return {
        topic: {
            p: first for p, first in parts.items() if planned_end.get(topic, {}).get(p, -1) >= planned_start[topic][p]
        }
        for topic, parts in start.items()
    }


def _differs(start: Offsets, planned: Offsets) -> bool:
    return any(first != planned[topic][p] for topic, parts in start.items() for p, first in parts.items())


def _count(start: Offsets, end: Offsets) -> int:
    """Records between two offsets, of partitions that are in both."""
    return sum(
        end[topic][p] - first for topic, parts in start.items() for p, first in parts.items() if p in end.get(topic, {})
    )
