"""Selection of the small files of a table that a compaction merges, by file size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Bytes that one compaction writes at most while a batch waits: about five seconds on one core.
MAX_BYTES = 256 * 1024 * 1024
#: Files up to this size are always compacted: reading one takes as long as opening it.
TINY_BYTES = 1024 * 1024


@dataclass(frozen=True)
class CompactionCandidates:
    """Files to merge into one file per partition: all files up to a size, in partitions with at least two of them."""

    files: int = 0
    partitions: int = 0
    bytes: int = 0
    #: Bytes of the largest file.
    largest: int = 0

    @property
    def surplus(self) -> int:
        """Number of files that the compaction saves."""
        return self.files - self.partitions


def select_small_files(partitions: Sequence[Sequence[int]], max_file_bytes: int) -> CompactionCandidates:
    """Select the files to compact. ``partitions``: the file sizes of each partition, in ascending order.

    Iceberg and Delta apply one size limit to all partitions. The result has the largest limit that suits one of the partitions and writes at most
    ``MAX_BYTES`` in all.
    """
    limits = sorted({size for sizes in partitions for size in sizes[1 : count_small_files(sizes, max_file_bytes)]})
    low, found = 0, _collect_up_to(partitions, limits[0]) if limits else CompactionCandidates()
    high = len(limits)
    while high - low > 1:
        middle = (low + high) // 2
        if (more := _collect_up_to(partitions, limits[middle])).bytes <= MAX_BYTES:
            low, found = middle, more
        else:
            high = middle
    return found


def count_small_files(sizes: Sequence[int], max_file_bytes: int) -> int:
    """Count the files to merge into one: tiny files, and each file that is no larger than all smaller files together.

    A row is therefore rewritten each time the table's size doubles, and not by every compaction.
    """
    total, count = 0, 0
    for size in sizes:
        if size > max(total, TINY_BYTES) or size > max_file_bytes or total + size > MAX_BYTES:
            break
        total, count = total + size, count + 1
    return count if count > 1 else 0


def _collect_up_to(partitions: Sequence[Sequence[int]], limit: int) -> CompactionCandidates:
    """Collect the files of at most ``limit`` bytes in partitions that have at least two of them."""
    selected = [small for sizes in partitions if len(small := [size for size in sizes if size <= limit]) > 1]
    return CompactionCandidates(sum(map(len, selected)), len(selected), sum(map(sum, selected)), limit)
