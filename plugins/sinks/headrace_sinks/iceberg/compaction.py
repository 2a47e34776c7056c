"""Which files of a table are so small that they are worth being merged, by their sizes alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Bytes that are compacted at most while a batch waits: about five seconds of one core.
MOST_BYTES = 256 * 1024 * 1024
#: A file that small is compacted with any others: to read it takes as long as to open it.
TINY_BYTES = 1024 * 1024


@dataclass(frozen=True)
class CompactionCandidates:
    """Files that become one in each partition: all up to a size, in partitions that have two or more such."""

    files: int = 0
    partitions: int = 0
    bytes: int = 0
    #: Bytes of the largest.
    largest: int = 0

    @property
    def surplus(self) -> int:
        """How many files there are more than one for each of the partitions."""
        return self.files - self.partitions


def select_small_files(partitions: Sequence[Sequence[int]], largest: int) -> CompactionCandidates:
    """Those of a table. ``partitions``: the bytes of each one's files, the smallest first; ``largest``: of larger files none is merged.

    Iceberg takes one size for all partitions: the largest that is right for one of them, and with which no more is written in all than
    a batch may wait for.
    """
    candidates = sorted({size for sizes in partitions for size in sizes[1 : count_small_files(sizes, largest)]})
    low, found = 0, _take(partitions, candidates[0]) if candidates else CompactionCandidates()
    high = len(candidates)
    while high - low > 1:
        middle = (low + high) // 2
        if (more := _take(partitions, candidates[middle])).bytes <= MOST_BYTES:
            low, found = middle, more
        else:
            high = middle
    return found


def count_small_files(sizes: Sequence[int], largest: int) -> int:
    """How many of the smallest files are worth being one: those that are tiny, and each that is no larger than all before together.

    So a row is written anew as often as the table's size doubles, and not with every compaction.
    """
    together, count = 0, 0
    for size in sizes:
        if size > max(together, TINY_BYTES) or size > largest or together + size > MOST_BYTES:
            break
        together, count = together + size, count + 1
    return count if count > 1 else 0


def _take(partitions: Sequence[Sequence[int]], most: int) -> CompactionCandidates:
    """The files of up to so many bytes, in partitions that have two or more such."""
    taken = [small for sizes in partitions if len(small := [size for size in sizes if size <= most]) > 1]
    return CompactionCandidates(sum(map(len, taken)), len(taken), sum(map(sum, taken)), most)
