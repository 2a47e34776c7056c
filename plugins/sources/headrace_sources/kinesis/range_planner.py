"""Finds the next range of a stream: which shards may be read now, how far that went, and whether records are gone."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.sdk import ConfigError, DataError, Offset
from headrace_sources.kinesis.kinesis_config import KinesisConfig
from headrace_sources.kinesis.kinesis_stream import Stream, list_shards, read_summary
from headrace_sources.kinesis.shard_positions import (
    Place,
    Places,
    Shard,
    find_lost,
    find_readable,
    find_stale,
    from_offset,
    note_shards,
    order_children,
    to_offset,
)
from headrace_sources.kinesis.shard_reader import Mark, Reading

_LOG = logging.getLogger(__name__)
_HOUR = 3_600_000


class Planner:
    """Plans the ranges of one run. ``read`` reads shards and says how far it went."""

    def __init__(
        self,
        stream: Stream,
        config: KinesisConfig,
        client: Any,
        read: Callable[[Sequence[Reading]], Iterable[Mark]],
        now: Callable[[], int] = lambda: round(time.time() * 1000),
    ) -> None:
        self._stream, self._config, self._client, self._read, self._now = stream, config, client, read, now
        self._shards: list[Shard] | None = None
        self._retention = 0
        #: Shard → when this run last read it to its end.
        self._seen: dict[str, int] = {}
        #: Available now: what arrived before is read, and of which shards it was.
        self._until: int | None = None
        self._finished: set[str] = set()

    def find_begin(self) -> Offset:
        """Where a stream without a checkpoint starts."""
        shards, now = list_shards(self._stream, self._client)
        begin = self._config.begin(now)
        if begin.since is not None and begin.since > now:
            fix = "name a time that has been, or LATEST"
            raise ConfigError("`starting.timestamp` has not come yet", where=self._stream.where, fix=fix)
        return to_offset(self._stream.name, note_shards({}, shards, begin))

    def bound(self) -> None:
        """From now on only what has arrived by now."""
        # Kinesis says its time in whole seconds.
        self._until = list_shards(self._stream, self._client)[1] + 1000
        self._finished.clear()

    def find_end(self, start: Offset, limit: int | None) -> Offset:
        """The end of the range after ``start``, at most ``limit`` records on; ``start`` when there is nothing."""
        before = read_places(self._stream, start)
        places = self._look(before)
        readable = [shard for shard in find_readable(places, self._list) if shard not in self._finished]
        marks = self._find(places, readable, limit) if readable else {}
        return to_offset(self._stream.name, self._advance(before, places, marks))

    @property
    def _list(self) -> Sequence[Shard]:
        """Shards are listed again when one has ended: else there are no new ones."""
        if self._shards is None:
            self._shards, _ = list_shards(self._stream, self._client)
        return self._shards

    def _look(self, places: Places) -> Places:
        """The places of the shards that are listed now. DataError when records are gone and the file does not allow it."""
        if lost := find_lost(places, self._list):
            self._say_lost(lost, "not there any more, or of another stream of this name")
            places = {shard: place for shard, place in places.items() if shard not in lost}
        places = note_shards(places, self._list, Place())
        self._retention = self._retention or read_summary(self._stream, self._client)["RetentionPeriodHours"]
        oldest = self._now() - self._retention * _HOUR
        if stale := find_stale(places, find_readable(places, self._list), self._seen, oldest):
            self._say_lost(stale, f"last read longer ago than the {self._retention} hours for which records are kept")
            self._seen |= dict.fromkeys(stale, self._now())
        return places

    def _say_lost(self, shards: Sequence[str], why: str) -> None:
        names = ", ".join(shards[:5]) + ", …" * (len(shards) > 5)
        what = f"records may be gone that were not read, of {names}: {why}"
        if self._config.fail_on_data_loss:
            fix = "start with a new checkpoint, or set `fail.on.data.loss: false` to go on with the oldest there are"
            raise DataError(what, where=self._stream.where, fix=fix)
        _LOG.warning("%s: %s. It goes on with the oldest there are", self._stream.where, what)

    def _find(self, places: Places, readable: Sequence[str], limit: int | None) -> dict[str, Mark]:
        """Reads what there is of some shards."""
        began, most = self._now(), self._config.max_fetch_records_per_shard
        if limit is not None:
            most = min(most, max(1, limit // len(readable)))
        readings = [Reading(shard, places[shard], until=self._until, most_records=most) for shard in readable]
        marks = {mark.shard: mark for mark in self._read(readings)}
        at_end = [shard for shard, mark in marks.items() if mark.is_at_end]
        self._seen |= dict.fromkeys(at_end, began if self._until is None else min(began, self._until))
        if self._until is not None:
            self._finished.update(at_end)
        return marks

    def _advance(self, start: Places, places: Places, marks: Mapping[str, Mark]) -> Places:
        """The places after a range; those of ``start`` when nothing has changed that is worth an offset."""
        end = dict(places)
        for shard, mark in marks.items():
            end[shard] = replace(end[shard], sequence=mark.sequence, number=mark.number, is_done=mark.is_done)
        if any(mark.is_done for mark in marks.values()):
            self._shards = None
            end = note_shards(end, self._list, Place())
        end = order_children(end, self._list)
        seen = {shard: self._seen[shard] for shard, mark in marks.items() if mark.is_at_end and not mark.is_done}
        # That nothing came is worth knowing after a long stop.
        is_old = any(now - (end[shard].read_until or 0) > _HOUR for shard, now in seen.items())
        if end == start and not is_old:
            return start
        return {**end, **{shard: replace(end[shard], seen=now) for shard, now in seen.items()}}


def plan_range(stream: Stream, start: Offset, end: Offset, *, is_lenient: bool) -> list[Reading]:
    """What reads a range again, as it was read to find it. ``is_lenient``: though records are gone."""
    before = read_places(stream, start)
    return [
        Reading(shard, before[shard], place.sequence, is_lenient=is_lenient)
        for shard, place in from_offset(end).items()
        if shard in before and place.sequence != before[shard].sequence
    ]


def read_places(stream: Stream, offset: Offset) -> dict[str, Place]:
    """The places in an offset of this stream."""
    if offset["stream"] != stream.name:
        what = f"the checkpoint is of the stream {offset['stream']}"
        raise ConfigError(what, where=stream.where, fix="use a new checkpoint")
    return from_offset(offset)
