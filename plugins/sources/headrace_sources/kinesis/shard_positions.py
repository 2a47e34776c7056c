"""Positions and order of the shards of streams: the offset of the source.

The number of a record is its arrival in milliseconds and a counter in the lowest 20 bits. It is higher than the numbers of all
earlier records of the shard and its parents. The reason is in docs/decisions/0035.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.sdk import ConfigError, DataError, Offset

#: Bits of the counter of records in one millisecond.
COUNT_BITS = 20


#: First and last hash key, both inclusive.
HashKeys = tuple[int, int]
#: Range of the MD5 of a partition key.
ALL_HASH_KEYS: HashKeys = (0, (1 << 128) - 1)


@dataclass(frozen=True)
class Shard:
    """Listed shard with the IDs of its parents, its first sequence number and its range of hash keys."""

    id: str
    parents: tuple[str, ...] = ()
    first: int = 0
    hash_keys: HashKeys = ALL_HASH_KEYS


@dataclass(frozen=True)
class ShardPosition:
    """Position in a shard."""

    #: Last record that was read. Without one, reading starts at ``since`` (milliseconds) or at the oldest record.
    sequence: str | None = None
    since: int | None = None
    #: Number of that record, or the highest number of the parents.
    number: int = 0
    #: Time of the last read to the end of the shard, in milliseconds.
    seen: int | None = None
    #: The shard is closed and read to its end.
    is_done: bool = False
    #: First sequence number of a closed shard without records. It identifies the stream, as ``sequence`` does.
    first: str | None = None

    @property
    def read_until(self) -> int | None:
        """Arrival time up to which all records are read, in milliseconds; None if reading starts at the oldest record."""
        known = max(self.seen or 0, self.since or 0, self.number >> COUNT_BITS)
        return known or None


ShardPositions = Mapping[str, ShardPosition]


def next_number(number: int, arrival: int) -> int:
    """Return the number of a record from its arrival and the previous number."""
    return max(arrival << COUNT_BITS, number + 1)


def partition_of(shard: str) -> int:
    """Return the number in a shard ID, which is unique in the stream."""
    digits = shard.rpartition("-")[2]
    if not digits.isdigit():
        raise DataError(f"{shard!r} is not a shard ID like shardId-000000000000", fix="check `endpoint.url`")
    return int(digits)


def note_shards(places: ShardPositions, shards: Sequence[Shard], begin: ShardPosition) -> dict[str, ShardPosition]:
    """Add the positions of new shards; remove finished shards that are no longer listed."""
    listed = {shard.id for shard in shards}
    noted = order_children({**{shard.id: begin for shard in shards}, **places}, shards)
    return {shard: place for shard, place in noted.items() if shard in listed or not place.is_done}


def order_children(places: ShardPositions, shards: Sequence[Shard]) -> dict[str, ShardPosition]:
    """Start unread shards at the number of their parents, and not before the parents were last seen open."""
    ordered = dict(places)
    for shard in sorted(shards, key=lambda shard: partition_of(shard.id)):
        place = ordered.get(shard.id)
        if place is not None and place.sequence is None:
            parents = [ordered[parent] for parent in shard.parents if parent in ordered]
            number = max([place.number, *(parent.number for parent in parents)])
            seen = max([place.seen or 0, *(parent.read_until or 0 for parent in parents)])
            ordered[shard.id] = replace(place, number=number, seen=seen or None)
    return ordered


def find_readable(places: ShardPositions, shards: Sequence[Shard]) -> list[str]:
    """Return unfinished shards whose parents are finished."""
    return [
        shard.id
        for shard in shards
        if shard.id in places
        and not places[shard.id].is_done
        and all(places[parent].is_done for parent in shard.parents if parent in places)
    ]


def has_all_children(places: ShardPositions, shards: Sequence[Shard]) -> bool:
    """Return whether the children of all finished shards are listed: those with a parent's hash keys."""
    covered: dict[str, int] = {}
    by_id = {shard.id: shard for shard in shards}
    for shard in shards:
        for parent in (by_id[name] for name in shard.parents if name in by_id):
            first, last = (limit(shard.hash_keys[i], parent.hash_keys[i]) for i, limit in ((0, max), (1, min)))
            covered[parent.id] = covered.get(parent.id, 0) + max(0, last - first + 1)
    return all(
        covered.get(shard.id, 0) > shard.hash_keys[1] - shard.hash_keys[0]
        for shard in shards
        if shard.id in places and places[shard.id].is_done
    )


def is_in(place: ShardPosition, shard: Shard | None) -> bool:
    """Return whether a position belongs to a listed shard. A stream that was created again has higher sequence numbers."""
    if shard is None:
        return False
    known = place.sequence or place.first
    return known is None or int(known) >= shard.first


def find_lost(places: ShardPositions, shards: Sequence[Shard]) -> list[str]:
    """Return unfinished shards that are no longer listed, and all shards of a stream that was created again."""
    listed = {shard.id: shard for shard in shards}
    return [
        shard
        for shard, place in places.items()
        if not is_in(place, listed.get(shard)) and (shard in listed or not place.is_done)
    ]


def find_read(start: ShardPositions, end: ShardPositions) -> list[str]:
    """Return the shards with records between two positions."""
    unread = ShardPosition()
    return [shard for shard, place in end.items() if place.sequence not in (None, start.get(shard, unread).sequence)]


def find_stale(places: ShardPositions, readable: Sequence[str], seen: Mapping[str, int], oldest: int) -> list[str]:
    """Return shards with possibly expired records: last read before ``oldest`` (milliseconds). ``seen``: reads of this run."""
    found = []
    for shard in readable:
        known = places[shard].read_until
        if known is not None and max(known, seen.get(shard, 0)) < oldest:
            found.append(shard)
    return found


@dataclass(frozen=True)
class StreamPosition:
    """Position in a stream."""

    shards: ShardPositions
    #: Fields of the DataError because of which the stream is not read.
    failure: Mapping[str, Any] | None = None


def to_offset(streams: Mapping[str, StreamPosition]) -> Offset:
    """Convert the positions of streams to a JSON offset."""
    return {"streams": {name: _stream_to_json(position) for name, position in streams.items()}}


def from_offset(offset: Offset) -> dict[str, StreamPosition]:
    """Return the positions of the streams in an offset."""
    if "streams" not in offset:
        message = "the checkpoint is of an older headrace version, which read one Kinesis stream"
        raise ConfigError(message, where="source kinesis", fix="use a new checkpoint, which reads the stream again")
    return {
        name: StreamPosition(
            {shard: ShardPosition(**place) for shard, place in part["shards"].items()}, part.get("failure")
        )
        for name, part in offset["streams"].items()
    }


def pick_stream(offset: Offset, stream: str) -> Offset:
    """Return the part of an offset that belongs to one stream."""
    return {"streams": {name: part for name, part in offset["streams"].items() if name == stream}}


def find_read_streams(start: Offset, end: Offset) -> list[str]:
    """Return the streams with records between two offsets."""
    before, nothing = from_offset(start), StreamPosition({})
    return [name for name, now in from_offset(end).items() if find_read(before.get(name, nothing).shards, now.shards)]


def find_failures(start: Offset, end: Offset) -> dict[str, Mapping[str, Any]]:
    """Return the streams that failed between two offsets, with the fields of their errors."""
    before, nothing = from_offset(start), StreamPosition({})
    return {
        name: now.failure
        for name, now in from_offset(end).items()
        if now.failure is not None and now.failure != before.get(name, nothing).failure
    }


def _stream_to_json(position: StreamPosition) -> dict[str, Any]:
    shards = {shard: _to_json(place) for shard, place in position.shards.items()}
    return {"shards": shards} if position.failure is None else {"shards": shards, "failure": dict(position.failure)}


def _to_json(place: ShardPosition) -> dict[str, Any]:
    return {name: value for name, value in vars(place).items() if value}
