"""How far each shard of a stream is read, and in which order shards are: the offset of the source.

A record's number is the millisecond of its arrival and, in the lowest 20 bits, a count; it is higher than all before it in its
shard and in the shards that this one was made of. docs/decisions/0035 says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.sdk import DataError, Offset

#: Bits of a number that count records of one millisecond.
COUNT_BITS = 20


@dataclass(frozen=True)
class Shard:
    """A shard that is listed: its parents' ids, and the sequence number at which it begins."""

    id: str
    parents: tuple[str, ...] = ()
    first: int = 0


@dataclass(frozen=True)
class Place:
    """How far a shard is read."""

    #: The last record that was read; without one it is read from ``since`` on (milliseconds), or from the oldest record.
    sequence: str | None = None
    since: int | None = None
    #: The number of that record, or the highest one of the shards before this one.
    number: int = 0
    #: When the shard was last read to its end, in milliseconds.
    seen: int | None = None
    #: Closed, and read to its end.
    is_done: bool = False

    @property
    def read_until(self) -> int | None:
        """What had arrived until then is read, in milliseconds; None where the oldest record is as good a begin as any."""
        known = max(self.seen or 0, self.since or 0, self.number >> COUNT_BITS)
        return known or None


Places = Mapping[str, Place]


def next_number(number: int, arrival: int) -> int:
    """The number of a record that arrived at a millisecond, after one with that number."""
    return max(arrival << COUNT_BITS, number + 1)


def partition_of(shard: str) -> int:
    """The number at the end of a shard's id, which no other shard of the stream has."""
    digits = shard.rpartition("-")[2]
    if not digits.isdigit():
        raise DataError(f"{shard!r} is no id of a shard: shardId-000000000000 is one", fix="look at `endpoint.url`")
    return int(digits)


def note_shards(places: Places, shards: Sequence[Shard], begin: Place) -> dict[str, Place]:
    """The places with those of new shards, without those that are done and listed no more."""
    listed = {shard.id for shard in shards}
    noted = order_children({**{shard.id: begin for shard in shards}, **places}, shards)
    return {shard: place for shard, place in noted.items() if shard in listed or not place.is_done}


def order_children(places: Places, shards: Sequence[Shard]) -> dict[str, Place]:
    """The places, in which a shard that was not read yet begins with its parents' number, and no earlier than they were seen open."""
    ordered = dict(places)
    for shard in sorted(shards, key=lambda shard: partition_of(shard.id)):
        place = ordered.get(shard.id)
        if place is not None and place.sequence is None:
            parents = [ordered[parent] for parent in shard.parents if parent in ordered]
            number = max([place.number, *(parent.number for parent in parents)])
            seen = max([place.seen or 0, *(parent.read_until or 0 for parent in parents)])
            ordered[shard.id] = replace(place, number=number, seen=seen or None)
    return ordered


def find_readable(places: Places, shards: Sequence[Shard]) -> list[str]:
    """The shards to read now: not done, and all of whose parents are."""
    return [
        shard.id
        for shard in shards
        if shard.id in places
        and not places[shard.id].is_done
        and all(places[parent].is_done for parent in shard.parents if parent in places)
    ]


def find_lost(places: Places, shards: Sequence[Shard]) -> list[str]:
    """Shards that were not read to their end and are listed no more, or are other ones by now: their stream was made anew."""
    first = {shard.id: shard.first for shard in shards}
    return [
        shard
        for shard, place in places.items()
        if not place.is_done
        and (shard not in first or (place.sequence is not None and int(place.sequence) < first[shard]))
    ]


def find_stale(places: Places, readable: Sequence[str], seen: Mapping[str, int], oldest: int) -> list[str]:
    """Shards of which records may be gone: read until before ``oldest``, the oldest millisecond that is kept. ``seen``: by this run."""
    found = []
    for shard in readable:
        known = places[shard].read_until
        if known is not None and max(known, seen.get(shard, 0)) < oldest:
            found.append(shard)
    return found


def to_offset(stream: str, places: Places) -> Offset:
    """The places as JSON can hold them."""
    return {"stream": stream, "shards": {shard: _to_json(place) for shard, place in places.items()}}


def from_offset(offset: Offset) -> dict[str, Place]:
    """The places in an offset."""
    return {shard: Place(**place) for shard, place in offset["shards"].items()}


def _to_json(place: Place) -> dict[str, Any]:
    return {name: value for name, value in vars(place).items() if value}
