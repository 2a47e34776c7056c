"""Positions of changes: strings that sort numerically, so that one comparison orders all changes of a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["OFFSET_ORDER", "SORTABLE", "position", "sortable", "sortable_signed", "tombstone_position"]

#: ``Dialect.order`` of a topic whose changes have no database position.
OFFSET_ORDER = "the record's offset"
#: First characters of strings with 1 to 16 digits.
_LENGTHS = "123456789ABCDEFG"
#: Regular expression of a string from ``sortable``: its length comes first.
SORTABLE = f"(?:0|{'|'.join(f'{letter}[0-9A-F]{{{i}}}' for i, letter in enumerate(_LENGTHS, 1))})"
#: Prefix of a tombstone's position.
TOMBSTONE = "!"


def sortable(number: Column) -> Column:
    """Return a bigint, read as unsigned, as a string that sorts numerically; null sorts before zero.

    The number of hexadecimal digits comes first (1 to 9, A to G): 255 is ``2FF``, 256 is ``3100``, null is ``0``. Such strings can be
    concatenated: none is a prefix of another.
    """
    from pyspark.sql import functions as F

    digits = F.hex(number.cast("bigint"))
    letter = F.lit(_LENGTHS).substr(F.octet_length(digits), F.lit(1))
    # One concatenation for the whole position: intermediate strings dominate its cost.
    return F.concat(F.coalesce(letter, F.lit("0")), F.coalesce(digits, F.lit("")))


def sortable_signed(number: Column) -> Column:
    """Return a bigint as a string that sorts numerically, negative numbers first; null sorts before all numbers."""
    from pyspark.sql import functions as F

    # Exchanges the order of negative and other numbers, which ``sortable`` reads as unsigned.
    return sortable(number.bitwiseXOR(F.lit(-(1 << 63))))


def position(*parts: Column, place: Column) -> Column:
    """Return the position of a change: epoch 0, the dialect's parts, then the record's offset in the source."""
    from pyspark.sql import functions as F

    return F.concat(F.lit("0"), *parts, place)


def record_place(offset: Column, partition: Column) -> Column:
    """Return the place of a broker's record in its topic."""
    from pyspark.sql import functions as F

    # The partition comes last: it only distinguishes records with the same offset.
    return F.concat(sortable(offset), sortable(partition))


def tombstone_position(place: Column) -> Column:
    """Return the position of a tombstone: lower than each change's, in all epochs; tombstones of a key sort by place."""
    from pyspark.sql import functions as F

    return F.concat(F.lit(TOMBSTONE), place)


def is_tombstone(position: Column) -> Column:
    """Return whether a position comes from ``tombstone_position``."""
    return position.startswith(TOMBSTONE)


def in_epoch(position: Column, epoch: int) -> Column:
    """Return the position in another epoch: higher than all positions of earlier epochs. Tombstones have no epoch."""
    from pyspark.sql import functions as F

    if not epoch:
        return position
    raised = F.concat(F.lit(epoch_text(epoch)), position.substr(2, 2**31 - 1))
    return F.when(is_tombstone(position), position).otherwise(raised)


def read_epoch(position: str) -> int:
    """Return the epoch of a position."""
    return int(position[1 : 1 + int(position[0], 36)] or "0", 16)


def epoch_text(epoch: int) -> str:
    """Return the prefix of an epoch's positions, in the format of ``sortable``."""
    digits = f"{epoch:X}"
    return f"{_LENGTHS[len(digits) - 1]}{digits}" if epoch else "0"
