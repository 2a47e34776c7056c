"""Positions: text that sorts as numbers do, so that one comparison orders all changes of a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["PLACE_ORDER", "SORTABLE", "position", "sortable", "tombstone_position"]

#: What ``Dialect.order`` says of a topic whose changes have no position of the database's.
PLACE_ORDER = "the record's place"
#: A regular expression of a text that ``sortable`` makes: its length leads.
SORTABLE = f"(?:0|{'|'.join(f'{letter}[0-9A-F]{{{i}}}' for i, letter in enumerate('123456789ABCDEFG', 1))})"
#: What the position of a tombstone begins with.
TOMBSTONE = "!"


def sortable(number: Column) -> Column:
    """A bigint, read as unsigned, as text of its own length that sorts numerically; null sorts before zero.

    The number of hexadecimal digits leads (1 to 9, A to G): 255 is ``2FF``, 256 is ``3100``, null is ``0``. Such texts
    can be joined: no one is the beginning of another.
    """
    from pyspark.sql import functions as F

    digits = F.hex(number.cast("bigint"))
    letter = F.lit("123456789ABCDEFG").substr(F.octet_length(digits), F.lit(1))
    # Pieces that a position puts together in one go: text made on the way is what its time goes into.
    return F.concat(F.coalesce(letter, F.lit("0")), F.coalesce(digits, F.lit("")))


def position(*parts: Column, place: Column) -> Column:
    """The position of a change: epoch 0, the dialect's parts, then the record's place in the source."""
    from pyspark.sql import functions as F

    return F.concat(F.lit("0"), *parts, place)


def record_place(offset: Column, partition: Column) -> Column:
    """The place of a broker's record in its topic."""
    from pyspark.sql import functions as F

    # The partition comes last: what it tells apart has one offset, and else the order is that of the offsets.
    return F.concat(sortable(offset), sortable(partition))


def tombstone_position(place: Column) -> Column:
    """The position of a record with a key and no value: lower than every change's, in any epoch; those of a key by their places."""
    from pyspark.sql import functions as F

    return F.concat(F.lit(TOMBSTONE), place)


def is_tombstone(position: Column) -> Column:
    """Whether ``tombstone_position`` made it."""
    return position.startswith(TOMBSTONE)


def in_epoch(position: Column, epoch: int) -> Column:
    """The position in another epoch: higher than all positions of the epochs before. A tombstone's is of none."""
    from pyspark.sql import functions as F

    if not epoch:
        return position
    raised = F.concat(F.lit(epoch_text(epoch)), position.substr(2, 2**31 - 1))
    return F.when(is_tombstone(position), position).otherwise(raised)


def epoch_text(epoch: int) -> str:
    """What the positions of an epoch begin with, as ``sortable`` writes it."""
    digits = f"{epoch:X}"
    return f"{len(digits)}{digits}" if epoch else "0"
