"""Where a record lies among files: what orders changes that carry no position of their database's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk import events as E
from headrace.sdk.positions import sortable

if TYPE_CHECKING:
    from pyspark.sql import Column


def place_columns(*, has_offsets: bool) -> list[Column]:
    """PARTITION, OFFSET, FILE and PLACE of the records in a frame that was read from files.

    A place is the file's first offset, or the file's time and name; then the block and the row in it, and the partition. How
    two files lie to each other does not depend on what else is in the batch.
    """
    from pyspark.sql import functions as F

    file = F.col("_metadata.file_path")
    if has_offsets:
        # Unlike a column of _metadata, it costs no copy of the row.
        name = F.input_file_name()
        partition = F.substring_index(F.substring_index(name, "+", -2), "+", 1).cast("int")
        offset = F.substring_index(F.substring_index(name, "+", -1), ".", 1).cast("bigint")
        start, end = [sortable(offset)], [sortable(partition)]
    else:
        partition, offset = F.lit(None).cast("int"), F.lit(None).cast("bigint")
        # Object stores keep whole seconds: files of one second are taken in the order of their names.
        modified = sortable(F.unix_millis("_metadata.file_modification_time"))
        start, end = [modified, F.col("_metadata.file_name"), F.lit("/"), sortable(F.xxhash64(file))], []
    # Row ids rise inside a task's part of a file; their upper bits are the task, which says nothing about the file.
    row = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << 33) - 1))
    place = F.concat(*start, sortable(F.expr("input_file_block_start()")), sortable(row), *end)
    return [partition.alias(E.PARTITION), offset.alias(E.OFFSET), file.alias(E.FILE), place.alias(E.PLACE)]
