"""Fair shares of a batch: streams get equal parts of its limits, and the shards of a stream equal parts of the stream's share.

Kinesis does not report how much waits in a shard. The last read tells: a shard that was read to its end wants a little more than it
had then, and the others want as much as they may get. The unused part of a share goes to the other shards and streams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace_sources.equal_shares import share

#: Least share that a shard wants after it was read to its end, so that new records rarely need two batches.
_LEAST_RECORDS, _LEAST_BYTES = 1_000, 4 << 20


@dataclass(frozen=True)
class FetchLimit:
    """Most records, and approximately most bytes, to read."""

    records: int
    bytes: int


class FetchShares:
    """Shares of the batches of one run."""

    def __init__(self, most: FetchLimit) -> None:
        """``most``: limit of each shard."""
        self._most = most
        #: What shards want that were read to their ends.
        self._wanted: dict[tuple[str, str], FetchLimit] = {}

    def note(self, stream: str, shard: str, read: FetchLimit, *, is_at_end: bool) -> None:
        """Remember how much the last read of a shard had, and whether it reached the end."""
        if is_at_end:
            wanted = FetchLimit(max(2 * read.records, _LEAST_RECORDS), max(2 * read.bytes, _LEAST_BYTES))
            self._wanted[stream, shard] = wanted
        else:
            self._wanted.pop((stream, shard), None)

    def divide(self, limit: FetchLimit, shards: Mapping[str, Sequence[str]]) -> dict[str, list[FetchLimit]]:
        """Return the share of each shard. ``shards``: stream → shards. Each shard may read at least one record."""
        wanted = {name: [self._wanted.get((name, shard), self._most) for shard in of] for name, of in shards.items()}
        records = divide(
            limit.records, {name: [min(one.records, self._most.records) for one in of] for name, of in wanted.items()}
        )
        sizes = divide(
            limit.bytes, {name: [min(one.bytes, self._most.bytes) for one in of] for name, of in wanted.items()}
        )
        return {
            name: [
                FetchLimit(max(1, count), max(1, size)) for count, size in zip(records[name], sizes[name], strict=True)
            ]
            for name in shards
        }


def divide(limit: int, wanted: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """Divide a limit equally among streams, and each share equally among the shards; none gets more than it wants."""
    shares = share(limit, {name: sum(of) for name, of in wanted.items()})
    parts = {name: share(shares[name], {f"{n}": one for n, one in enumerate(of)}) for name, of in wanted.items()}
    return {name: [parts[name][f"{n}"] for n in range(len(of))] for name, of in wanted.items()}
