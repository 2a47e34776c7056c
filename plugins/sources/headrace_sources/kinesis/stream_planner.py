"""Planner of one stream: readable shards, their ends, and detection of expired records."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from headrace.sdk import ConfigError, DataError, Offset
from headrace_sources.kinesis.kinesis_config import KinesisConfig
from headrace_sources.kinesis.kinesis_stream import KinesisStream, list_shards, read_summary
from headrace_sources.kinesis.shard_positions import (
    Shard,
    ShardPosition,
    ShardPositions,
    StreamPosition,
    find_lost,
    find_read,
    find_readable,
    find_stale,
    from_offset,
    has_all_children,
    is_in,
    note_shards,
    order_children,
)
from headrace_sources.kinesis.shard_reader import Mark, Reading

_LOG = logging.getLogger(__name__)
_HOUR = 3_600_000
#: Pauses in seconds before a list of shards that may lag behind is requested again.
LIST_PAUSES = (0.5, 1.0, 2.0, 4.0)
#: Milliseconds by which the two clocks of the driver may differ until the time of the service is requested again.
_DRIFT = 60_000


@dataclass(frozen=True)
class StreamPlan:
    """Next part of a stream to read."""

    places: ShardPositions
    readings: Sequence[Reading] = ()
    #: Time of the plan in milliseconds.
    began: int = 0


class StreamPlanner:
    """Planner of one stream in one run."""

    def __init__(
        self,
        stream: KinesisStream,
        config: KinesisConfig,
        client: Any,
        clock: Callable[[], int] = lambda: round(time.monotonic() * 1000),
        wall_clock: Callable[[], int] = lambda: round(time.time() * 1000),
    ) -> None:
        """``clock``: counts milliseconds from any time on, and stops while the machine is suspended. ``wall_clock``: may be wrong."""
        self.stream = stream
        self._config, self._client = config, client
        self._clock, self._wall_clock = clock, wall_clock
        #: Milliseconds from the clock to the time of the service, by which records expire, and to the wall clock.
        self._ahead: int | None = None
        self._wall_ahead = 0
        self._shards: Sequence[Shard] | None = None
        self._retention = 0
        #: Shard → time at which this run last read it to its end.
        self._seen: dict[str, int] = {}
        #: Bound of an available-now run in milliseconds, and the shards that were read up to it.
        self._until: int | None = None
        self._finished: set[str] = set()
        #: Shard → iterator after the last page, if the page had no record from which reading can resume.
        self._resume: dict[str, str] = {}

    def find_begin(self, *, is_new: bool = False) -> dict[str, ShardPosition]:
        """Return the first position of a stream without a checkpoint. ``is_new``: its records are later than the start of the pipeline."""
        shards, now = self._list_shards()
        if is_new and self._config.starting_position == "LATEST":
            return note_shards({}, shards, ShardPosition())
        begin = self._config.begin(now)
        if begin.since is not None and begin.since > now:
            fix = "set a timestamp in the past, or `starting.position: LATEST`"
            raise ConfigError("`starting.timestamp` is in the future", where=self.stream.where, fix=fix)
        if begin.since is not None and begin.since < self._find_oldest():
            self._report_early_start()
        return note_shards({}, shards, begin)

    def bound(self) -> None:
        """Restrict the run to records that have arrived by now."""
        # The time of the service is rounded down to a second.
        self._until = self._list_shards()[1] + 1000
        self._finished.clear()

    def plan(self, before: ShardPositions) -> StreamPlan:
        """Return the part of the stream after some positions. Without readings, the positions may still be new."""
        self._list_again(before)
        if lost := find_lost(before, self._list):
            return StreamPlan(self._replace_lost(before, lost))
        places = self._look(before)
        hash_keys = {shard.id: shard.hash_keys for shard in self._list}
        readings = [
            Reading(shard, places[shard], until=self._until, hash_keys=hash_keys[shard], resume=self._resume.get(shard))
            for shard in find_readable(places, self._list)
            if shard not in self._finished
        ]
        return StreamPlan(places, readings, self._now() if readings else 0)

    @property
    def _list(self) -> Sequence[Shard]:
        """Listed shards. The list is read again after a shard ended; otherwise there are no new shards."""
        if self._shards is None:
            self._shards, _ = self._list_shards()
        return self._shards

    def _list_again(self, places: ShardPositions) -> None:
        """List the shards again if the list lacks children of finished shards, or unfinished shards.

        A list can lag behind the shards for some time. Other shards do not wait for children, but the end of an available-now run does.
        """
        if not has_all_children(places, self._list):
            self._shards = None
            if self._until is not None:
                self._shards = _await(self._list, self._request_list, partial(has_all_children, places))
        unfinished = {shard for shard, place in places.items() if not place.is_done}
        self._shards = _await(self._list, self._request_list, partial(_has_listed, unfinished))

    def _request_list(self) -> list[Shard]:
        return self._list_shards()[0]

    def _list_shards(self) -> tuple[list[Shard], int]:
        """Return all listed shards, and the time of the service in milliseconds."""
        shards, now = list_shards(self.stream, self._client)
        clock = self._clock()
        self._ahead, self._wall_ahead = now - clock, self._wall_clock() - clock
        return shards, now

    def _now(self) -> int:
        """Return the time of the service, continued by the clock. It is requested again after the machine was suspended."""
        if self._ahead is None or abs(self._wall_clock() - self._clock() - self._wall_ahead) > _DRIFT:
            self._list_shards()
        assert self._ahead is not None
        return self._clock() + self._ahead

    def _replace_lost(self, places: ShardPositions, lost: Sequence[str]) -> ShardPositions:
        """Return positions at the oldest records in place of lost ones. DataError if `fail.on.data.loss` is true.

        They become an offset before a record is read, because a range that is repeated needs the beginning of each shard.
        """
        reason = "these shards no longer exist, or the stream was created again"
        _report_lost(self.stream, lost, reason, is_lenient=not self._config.fail_on_data_loss)
        kept = {shard: place for shard, place in places.items() if shard not in lost}
        return note_shards(kept, self._list, ShardPosition())

    def _look(self, places: ShardPositions) -> ShardPositions:
        """Return the positions of the listed shards. DataError if records expired and `fail.on.data.loss` is true."""
        places = note_shards(places, self._list, ShardPosition())
        oldest = self._find_oldest()
        if stale := find_stale(places, find_readable(places, self._list), self._seen, oldest):
            reason = f"the last read was before the retention of {self._retention} hours"
            _report_lost(self.stream, stale, reason, is_lenient=not self._config.fail_on_data_loss)
            self._seen |= dict.fromkeys(stale, self._now())
        return places

    def _find_oldest(self) -> int:
        """Return the time before which records have expired, in milliseconds."""
        self._retention = self._retention or read_summary(self.stream, self._client)["RetentionPeriodHours"]
        return self._now() - self._retention * _HOUR

    def _report_early_start(self) -> None:
        """Raise ConfigError for a start before the oldest record. With `fail.on.data.loss: false`, log a warning."""
        message = (
            f"`starting.timestamp` is before the retention of {self._retention} hours: records after it have expired"
        )
        if self._config.fail_on_data_loss:
            fix = (
                "set a later timestamp or `starting.position: TRIM_HORIZON`, or set `fail.on.data.loss: false` to start "
                "with the oldest record"
            )
            raise ConfigError(message, where=self.stream.where, fix=fix)
        _LOG.warning("%s: %s. The run starts with the oldest record", self.stream.where, message)

    def advance(self, start: ShardPositions, plan: StreamPlan, found: Sequence[Mark]) -> ShardPositions:
        """Return the positions after the marks of a plan; ``start`` if no change needs a new offset."""
        marks = {mark.shard: mark for mark in found}
        end = dict(plan.places)
        firsts = {shard.id: str(shard.first) for shard in self._list}
        for shard, mark in marks.items():
            end[shard] = replace(end[shard], sequence=mark.sequence, number=mark.number, is_done=mark.is_done)
            if mark.is_done and mark.sequence is None:
                end[shard] = replace(end[shard], first=firsts[shard])
        if any(mark.is_done for mark in marks.values()):
            self._shards = None
            end = note_shards(end, self._list, ShardPosition())
        end = order_children(end, self._list)
        # Requests above may fail, and the shards are then read again.
        self._note(plan, marks)
        seen = {shard: self._seen[shard] for shard, mark in marks.items() if mark.is_at_end and not mark.is_done}
        # After an hour without records, a new offset records that the shard was read.
        is_old = any(now - (end[shard].read_until or 0) > _HOUR for shard, now in seen.items())
        if end == start and not is_old:
            return start
        return {**end, **{shard: replace(end[shard], seen=now) for shard, now in seen.items()}}

    def _note(self, plan: StreamPlan, marks: Mapping[str, Mark]) -> None:
        """Remember the shards that were read to their ends, and where others resume."""
        at_end = [shard for shard, mark in marks.items() if mark.is_at_end]
        self._seen |= dict.fromkeys(at_end, plan.began if self._until is None else min(plan.began, self._until))
        if self._until is not None:
            self._finished.update(at_end)
        self._resume = {shard: mark.resume for shard, mark in marks.items() if mark.resume is not None}


def plan_range(stream: KinesisStream, client: Any, start: Offset, end: Offset, *, is_lenient: bool) -> list[Reading]:
    """Return the readings that repeat a range of one stream. DataError if its records are lost; ``is_lenient`` leaves them out."""
    nothing = StreamPosition({})
    before, after = (from_offset(offset).get(stream.name, nothing).shards for offset in (start, end))
    shards = find_read(before, after)
    listed = {shard.id: shard for shard in _await_shards(stream, client, shards)} if shards else {}
    begins = {shard: before.get(shard, ShardPosition()) for shard in shards}
    lost = [name for name in shards if not all(is_in(place, listed.get(name)) for place in (begins[name], after[name]))]
    if lost:
        reason = "these shards no longer exist, or the stream was created again"
        _report_lost(stream, lost, reason, is_lenient=is_lenient)
    return [
        Reading(name, begins[name], after[name].sequence, is_lenient=is_lenient, hash_keys=listed[name].hash_keys)
        for name in shards
        if name not in lost
    ]


def _await_shards(stream: KinesisStream, client: Any, wanted: Collection[str]) -> Sequence[Shard]:
    """Return all listed shards, after ``wanted`` are listed or some seconds have passed."""

    def request() -> list[Shard]:
        return list_shards(stream, client)[0]

    return _await(request(), request, partial(_has_listed, wanted))


def _await(
    shards: Sequence[Shard], request: Callable[[], Sequence[Shard]], is_complete: Callable[[Sequence[Shard]], bool]
) -> Sequence[Shard]:
    """Return a list of shards, which is requested again for some seconds until it is complete."""
    for pause in LIST_PAUSES:
        if is_complete(shards):
            break
        time.sleep(pause)
        shards = request()
    return shards


def _has_listed(wanted: Collection[str], shards: Sequence[Shard]) -> bool:
    return {shard.id for shard in shards}.issuperset(wanted)


def _report_lost(stream: KinesisStream, shards: Sequence[str], reason: str, *, is_lenient: bool) -> None:
    names = ", ".join(shards[:5]) + ", …" * (len(shards) > 5)
    message = f"unread records of {names} may be lost: {reason}"
    if not is_lenient:
        fix = "start with a new checkpoint, or set `fail.on.data.loss: false` to continue with the oldest record"
        raise DataError(message, where=stream.where, fix=fix)
    _LOG.warning("%s: %s. The run continues with the oldest record", stream.where, message)
