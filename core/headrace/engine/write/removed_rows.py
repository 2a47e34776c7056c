"""Result of a removal of rows after the batch's rows were written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.sdk.sink import Sink, WriteResult


@dataclass(frozen=True)
class Removed:
    """Number of rows that were removed from a sink's table, and the result of the write."""

    rows: int
    result: WriteResult

    def add_to(self, result: WriteResult) -> WriteResult:
        """Return the result of the batch's write, combined with the result of this removal."""
        size = None if result.bytes is None else result.bytes + (self.result.bytes or 0)
        return replace(result, version=self.result.version or result.version, bytes=size)


def merge_removed(first: Mapping[Sink, Removed], second: Mapping[Sink, Removed]) -> Mapping[Sink, Removed]:
    """Return the removals of two steps, the second one later, as one removal per sink."""
    merged = {**first, **second}
    for sink in first.keys() & second.keys():
        merged[sink] = Removed(first[sink].rows + second[sink].rows, second[sink].add_to(first[sink].result))
    return merged
