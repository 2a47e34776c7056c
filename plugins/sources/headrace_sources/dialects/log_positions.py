"""Positions in the logs of databases, from the source blocks of Debezium's events."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from headrace.sdk import changes as C
from headrace.sdk.positions import PLACE_ORDER, SORTABLE, position, sortable

if TYPE_CHECKING:
    from pyspark.sql import Column

    #: A source block's field by its name.
    GetField = Callable[[str], Column]

#: What events are ordered by, beside PLACE_ORDER.
MYSQL_ORDER, SQLSERVER_ORDER, POSTGRES_ORDER = "MySQL's binlog", "SQL Server's LSNs", "PostgreSQL's LSNs"
#: What the order of a connector's events is told by.
POSITION_FIELDS = ("sequence", "lsn", "file", "pos", "row", "commit_lsn", "change_lsn", "event_serial_no")
#: What ``source.snapshot`` says of a row that a snapshot read. A boolean, as old connectors have it, is ``true`` as text;
#: an ``incremental`` snapshot reads piece by piece while changes go on.
_LAST_ROW = ("last_in_data_collection", "last")
_SNAPSHOT_ROW = ("true", "first", "first_in_data_collection", *_LAST_ROW)


def name_order(fields: Collection[str]) -> str:
    """What events are ordered by whose source block has ``fields``."""
    # Every connector has a `sequence`, most of them always null: what only one connector has tells which it is.
    if "pos" in fields and "file" in fields:
        return MYSQL_ORDER
    if "commit_lsn" in fields:
        return SQLSERVER_ORDER
    return POSTGRES_ORDER if "lsn" in fields or "sequence" in fields else PLACE_ORDER


def source_position(fields: Collection[str], field: GetField, place: Column) -> Column:
    """The position in a source block that has ``fields``: by the connector's own order, then the record's place.

    PostgreSQL: last commit's LSN, or the event's own where there was none, then the event's. MySQL and MariaDB: number of
    the binlog file, position, row. SQL Server: commit LSN, change LSN, serial. Else the place alone.
    """
    parts = _PARTS.get(name_order(fields))
    return position(*parts(fields, field), place=place) if parts else position(place=place)


def position_parts(fields: Collection[str]) -> str:
    """What a ``source_position`` has between the epoch and the place, as a regular expression."""
    return _PATTERNS.get(name_order(fields), "")


def snapshot_columns(fields: Collection[str], field: GetField, marker: Column | None) -> list[Column]:
    """SNAPSHOT, by ``source.snapshot``, which is the ``marker``; nothing where there is none, or no order but the place's."""
    from pyspark.sql import functions as F

    order = name_order(fields)
    if marker is None or order == PLACE_ORDER:
        return []
    parts = _PARTS[order](fields, field)
    if order == POSTGRES_ORDER:
        # What was open while it read, and is committed next, has lower LSNs than the snapshot, and no lower last commit.
        parts = parts[:1]
    text = marker.cast("string")
    row = F.struct(position(*parts, place=F.lit("")).alias("began"), text.isin(*_LAST_ROW).alias("is_last"))
    return [F.when(text.isin(*_SNAPSHOT_ROW), row).alias(C.SNAPSHOT)]


def _mysql_parts(fields: Collection[str], field: GetField) -> list[Column]:
    from pyspark.sql import functions as F

    file_number = F.regexp_extract(field("file"), r"(\d+)$", 1)
    row = field("row") if "row" in fields else F.lit(None)
    return [sortable(file_number), sortable(field("pos")), sortable(row)]


def _sqlserver_parts(fields: Collection[str], field: GetField) -> list[Column]:
    from pyspark.sql import functions as F

    names = ("commit_lsn", "change_lsn")
    lsns = [F.coalesce(field(name), F.lit("")) if name in fields else F.lit("") for name in names]
    serial = field("event_serial_no") if "event_serial_no" in fields else F.lit(None)
    return [*[F.concat(sortable(F.length(lsn)), lsn) for lsn in lsns], sortable(serial)]


def _postgres_parts(fields: Collection[str], field: GetField) -> list[Column]:
    from pyspark.sql import functions as F

    lsn = (field("lsn") if "lsn" in fields else F.lit(None)).cast("bigint")
    if "sequence" not in fields:
        return [sortable(lsn), sortable(lsn)]
    # ["<last commit>","<event>"], either may be null. Cut out: parsing JSON costs more than the rest of a row. The
    # event's is `lsn` again, and is looked for only where that is null.
    pair = field("sequence")
    commit_lsn = F.when(~pair.startswith("[null"), F.substring(F.substring_index(pair, '",', 1), 3, 20)).cast("bigint")
    second = F.substring(F.ltrim(F.substring_index(pair, ",", -1)), 2, 20)
    event_lsn = F.coalesce(lsn, F.when(~pair.endswith("null]"), F.substring_index(second, '"', 1)).cast("bigint"))
    # A new slot has seen no commit yet. What it sends comes after all that older slots sent, and before its first commit.
    return [sortable(F.coalesce(commit_lsn, event_lsn)), sortable(event_lsn)]


#: Order → the parts of a position.
_PARTS = {MYSQL_ORDER: _mysql_parts, SQLSERVER_ORDER: _sqlserver_parts, POSTGRES_ORDER: _postgres_parts}
#: An LSN of SQL Server's, ``00000025:00000d58:0003``, or none, with its length before it.
_LSN = "(?:10|216[0-9A-Fa-f:]{22})"
#: Order → the same as a regular expression.
_PATTERNS = {MYSQL_ORDER: SORTABLE * 3, SQLSERVER_ORDER: _LSN * 2 + SORTABLE, POSTGRES_ORDER: SORTABLE * 2}
