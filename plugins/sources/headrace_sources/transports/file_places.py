"""Locations of records in files, which order changes without a database position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk import events as E
from headrace.sdk.positions import sortable

if TYPE_CHECKING:
    from pyspark.sql import Column

#: Settings with which the location of a record depends only on its file. Opening a file costs as much as a whole block, so each task
#: reads one block of one file. Blocks start at multiples of a fixed size, and the rows of a block are the rows of a task.
_BLOCK = f"{32 << 20}"
BLOCK_CONF = {
    "spark.sql.files.maxPartitionBytes": _BLOCK,
    "spark.sql.files.openCostInBytes": _BLOCK,
    "spark.sql.files.maxPartitionNum": f"{2**31 - 1}",
}


def place_columns(*, has_offsets: bool) -> list[Column]:
    """Return PARTITION, OFFSET, FILE and PLACE of the records in a frame that was read from files.

    PLACE, the location of a record, is the file's first offset, or the file's time and name; then the block and the row in the block.
    The partition and the path only distinguish records of equal names. PLACE does not depend on the other files of the batch, if the
    session has BLOCK_CONF.
    """
    from pyspark.sql import functions as F

    file = F.col("_metadata.file_path")
    if has_offsets:
        # Unlike a column of _metadata, this does not copy the row.
        name = F.input_file_name()
        partition = F.substring_index(F.substring_index(name, "+", -2), "+", 1).cast("int")
        offset = F.substring_index(F.substring_index(name, "+", -1), ".", 1).cast("bigint")
        start, end = [sortable(offset)], [sortable(partition), sortable(F.xxhash64(name))]
    else:
        partition, offset = F.lit(None).cast("int"), F.lit(None).cast("bigint")
        # Object stores keep whole seconds: files of the same second are ordered by name.
        modified = sortable(F.unix_millis("_metadata.file_modification_time"))
        start, end = [modified, F.col("_metadata.file_name"), F.lit("/"), sortable(F.xxhash64(file))], []
    # The lower bits are the row in the task. The upper bits are the task, which is unrelated to the file.
    row = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << 33) - 1))
    place = F.concat(*start, sortable(F.expr("input_file_block_start()")), sortable(row), *end)
    return [partition.alias(E.PARTITION), offset.alias(E.OFFSET), file.alias(E.FILE), place.alias(E.PLACE)]
