"""Versions of rows (SCD type 2): each row of a table with a history is one version of a row of the database.

The versions of a key are a function of its changes, regardless of their order of arrival. So a batch reads the stored versions of
its keys back as changes, and arranges all of them anew. Changes that no version shows, such as deletes, are remembered in the
checkpoint (``RememberedChanges``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from headrace.schema.projection import align, merge_columns
from headrace.sdk.changes import COMMITTED, DELETED, POSITION, PREFIX, UNAVAILABLE
from headrace.sdk.positions import sortable
from headrace.spark.columns import any_of, fold_name, name_fold, quote_name
from headrace.upsert.unavailable import PARTIAL, name_unavailable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

VALID_FROM, VALID_TO, IS_CURRENT = "valid_from", "valid_to", "is_current"
#: Columns that a history adds to the columns of the row.
PERIOD = (VALID_FROM, VALID_TO, IS_CURRENT)
#: string: position of the change with which the version started. With the key of the row, it is the key of the version.
START = PREFIX + "version_start"
#: Struct, stored with a version: position and commit time (``last``, ``last_ms``) of the change that sent its values, the position of
#: its end (``ended``), and the tracked columns at that change (``TRACKED``).
VERSION = PREFIX + "version"
#: array<string>, folded: the columns whose changes start a version, as configured when the change arrived; null: all columns.
TRACKED = PREFIX + "tracked"
_OWN = {
    UNAVAILABLE: "array<string>",
    TRACKED: "array<string>",
    PARTIAL: "boolean",
    COMMITTED: "bigint",
    DELETED: "boolean",
    POSITION: "string",
}

#: Where a line comes from. Of several lines with the same position, the first kind has the best values.
_KIND = PREFIX + "kind"
_REMEMBERED, _LAST, _ARRIVED, _START, _END = range(5)
#: Digest of the stored version that starts at this line, null without one; and the highest revision of the key's stored versions.
_STORED, _REVISION = PREFIX + "stored", PREFIX + "revision"
_RANK, _PREVIOUS, _NEXT, _SENT = PREFIX + "rank", PREFIX + "previous", PREFIX + "next", PREFIX + "sent_"
#: Whether a version starts at this line; the line with which the version of this line started; whether the line has its values; the
#: digest of the version.
_IS_START, _FROM, _IS_LAST, _DIGEST = PREFIX + "is_start", PREFIX + "from", PREFIX + "is_last", PREFIX + "digest"


def is_history(rows: DataFrame) -> bool:
    """Return whether the rows of a stored table are versions."""
    return VERSION in rows.columns


def current_rows(stored: DataFrame) -> DataFrame:
    """Return the current rows of a history, as a table without one stores them."""
    from pyspark.sql import functions as F

    rows = stored.where(F.col(IS_CURRENT)).withColumn(POSITION, F.col(VERSION).getField("last"))
    return rows.drop(START, VERSION, *PERIOD)


def prepare_changes(rows: DataFrame, track: Sequence[str]) -> DataFrame:
    """Return changes with all columns that ``arrange`` reads. ``track``: columns whose changes start a version; empty: all."""
    from pyspark.sql import functions as F

    rows = name_unavailable(rows) if UNAVAILABLE in rows.columns else rows
    tracked = F.array(*[F.lit(fold_name(name)) for name in track]) if track else F.lit(None)
    own = {name: F.lit(None).cast(kind) for name, kind in _OWN.items() if name not in rows.columns}
    own |= {PARTIAL: F.lit(False)} if PARTIAL not in rows.columns else {}
    return rows.withColumns({**own, TRACKED: tracked.cast(_OWN[TRACKED])})


def union_columns(changes: DataFrame, stored: DataFrame | None) -> StructType:
    """Return the columns of prepared changes, and those that only the stored versions have, in types that hold both."""
    from pyspark.sql import types as T

    fields = [*changes.schema] if stored is None else [*stored.schema, *changes.schema]
    left_out = () if stored is None else PERIOD
    rows = [field for field in fields if not field.name.startswith(PREFIX) and field.name not in left_out]
    own = [T.StructField(name, changes.schema[name].dataType) for name in _OWN]
    return T.StructType([*merge_columns(rows, name_fold(changes.sparkSession)), *own])


def arrange(
    changes: DataFrame,
    remembered: DataFrame | None,
    stored: DataFrame | None,
    key: Sequence[str],
    unavailable: Sequence[str],
) -> DataFrame:
    """Return the lines of the keys of ``changes``: all their known changes in order, with the versions that they form.

    ``changes``: prepared, in the columns of ``union_columns``, as are ``remembered``; ``unavailable``: columns whose values changes may leave
    out. Read the result with ``select_versions`` and ``select_hidden``.
    """
    from pyspark.sql import functions as F

    keys = [quote_name(name) for name in key]
    values = {f.name: f.dataType for f in changes.schema if f.name not in _OWN and f.name not in key}
    parts = [_with_kind(changes, _ARRIVED)]
    if remembered is not None:
        parts.append(_with_kind(keep_keys(remembered, changes, key), _REMEMBERED))
    if stored is not None:
        parts.append(_read_back(keep_keys(stored, changes, key), changes.schema, values))
    # All windows need the lines of a key in one partition, in the order of their positions: so they are shuffled and sorted once.
    lines = _drop_duplicates(reduce(lambda a, b: a.unionByName(b), parts).repartition(*keys), keys)
    lines = _fill(lines, keys, unavailable).where(~F.col(PARTIAL))
    return _form_versions(lines, keys, values)


def select_versions(lines: DataFrame, now_ms: int) -> DataFrame:
    """Return the versions that differ from the stored ones, and deletes of stored versions that are none any more.

    POSITION is a revision: it is higher than that of each stored version of the key. ``now_ms``: milliseconds since 1970.
    """
    from pyspark.sql import functions as F

    is_changed = F.col(_IS_LAST) & ~F.col(_DIGEST).eqNullSafe(F.col(_FROM).getField("stored"))
    is_removed = F.col(_STORED).isNotNull() & ~F.col(_IS_START)
    actions = F.array_compact(F.array(F.when(is_changed, F.lit(False)), F.when(is_removed, F.lit(True))))
    revision = F.greatest(F.lit(now_ms), F.coalesce(F.col(_REVISION) + 1, F.lit(0)))
    names = [name for name in lines.columns if not name.startswith(PREFIX)]
    return (
        lines.where(is_changed | is_removed)
        .withColumn(DELETED, F.explode(actions))
        .select(
            *map(quote_name, names),
            *([UNAVAILABLE] if UNAVAILABLE in lines.columns else []),
            F.when(F.col(DELETED), F.col(POSITION)).otherwise(F.col(_FROM).getField("at")).alias(START),
            VERSION,
            DELETED,
            sortable(revision).alias(POSITION),
        )
    )


def select_hidden(lines: DataFrame) -> DataFrame:
    """Return the changes that no version shows and that are not remembered yet: deletes, and changes that another one replaced."""
    from pyspark.sql import functions as F

    is_change = F.col(_KIND).isin(_ARRIVED, _LAST)
    names = [name for name in lines.columns if name in _OWN or not name.startswith(PREFIX)]
    return lines.where(is_change & ~F.col(_IS_LAST)).select(*map(quote_name, names)).drop(*PERIOD)


def keep_keys(rows: DataFrame, changes: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return the rows with a key of the changes."""
    names = [f"{PREFIX}touched_{number}" for number in range(len(key))]
    touched = changes.select(*map(quote_name, key)).toDF(*names)
    return rows.join(
        touched, [rows[quote_name(k)] == touched[name] for k, name in zip(key, names, strict=True)], "left_semi"
    )


def _with_kind(changes: DataFrame, kind: int) -> DataFrame:
    from pyspark.sql import functions as F

    nothing = F.lit(None).cast("bigint")
    return changes.withColumns({_KIND: F.lit(kind), _STORED: nothing, _REVISION: nothing})


def _read_back(stored: DataFrame, columns: StructType, values: Mapping[str, DataType]) -> DataFrame:
    """Return the lines of stored versions: the change that sent their values, their start if it is another one, and their end."""
    from pyspark.sql import functions as F, types as T

    row = [field for field in columns if field.name not in _OWN]
    kept = [stored.schema[name] for name in (START, VERSION, *PERIOD, POSITION)]
    rows = align(stored, T.StructType([*row, columns[UNAVAILABLE], *kept]))
    kind, version = F.col(_KIND), F.col(VERSION)
    last = version.getField("last")
    starts_earlier = F.when(F.col(START) < last, F.lit(_START))
    ends = F.when(version.getField("ended").isNotNull(), F.lit(_END))
    is_at_start = (kind == _START) | ((kind == _LAST) & (F.col(START) == last))
    rows = rows.withColumn(_KIND, F.explode(F.array_compact(F.array(F.lit(_LAST), starts_earlier, ends))))
    own = {
        TRACKED: version.getField("tracked"),
        PARTIAL: F.lit(False),
        DELETED: kind == _END,
        COMMITTED: _choose(kind, version.getField("last_ms"), _millis(VALID_FROM), _millis(VALID_TO)),
        POSITION: _choose(kind, last, F.col(START), version.getField("ended")),
        _STORED: F.when(is_at_start, _digest(values)),
        _REVISION: F.conv(F.col(POSITION).substr(2, 16), 16, 10).cast("bigint"),
    }
    names = [quote_name(field.name) for field in row]
    return rows.select(*names, UNAVAILABLE, _KIND, *[column.alias(name) for name, column in own.items()])


def _choose(kind: Column, last: Column, start: Column, end: Column) -> Column:
    from pyspark.sql import functions as F

    return F.when(kind == _START, start).when(kind == _END, end).otherwise(last)


def _millis(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.unix_millis(F.col(name))


def _drop_duplicates(lines: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return one line per position of a key, of the best kind."""
    from pyspark.sql import Window, functions as F

    same = Window.partitionBy(*keys, POSITION)
    ranks = {_RANK: F.row_number().over(same.orderBy(_KIND)), _STORED: F.max(_STORED).over(same)}
    return lines.withColumns(ranks).where(F.col(_RANK) == 1).drop(_RANK)


def _fill(lines: DataFrame, keys: Sequence[str], unavailable: Sequence[str]) -> DataFrame:
    """Replace values that a change left out by the last value that was sent before it."""
    from pyspark.sql import Window, functions as F

    unavailable = [name for name in unavailable if fold_name(name) in set(map(fold_name, lines.columns))]
    if not unavailable:
        return lines
    so_far = Window.partitionBy(*keys).orderBy(POSITION).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    sent, filled = {}, {}
    for i, name in enumerate(unavailable):
        is_left_out = F.coalesce(F.array_contains(UNAVAILABLE, name), F.lit(False)) & ~F.col(DELETED)
        value = F.struct(F.col(quote_name(name)).alias("value"), F.col(DELETED).alias("deleted"))
        sent[f"{_SENT}{i}"] = F.last(F.when(~is_left_out, value), ignorenulls=True).over(so_far)
        # Without such a change, a stored version has the value that was sent by a change that is forgotten now.
        last = F.col(f"{_SENT}{i}")
        is_known = is_left_out & ~F.coalesce(last.getField("deleted"), F.lit(True))
        filled[name] = F.when(is_known, last.getField("value")).otherwise(F.col(quote_name(name)))
    return lines.withColumns(sent).withColumns(filled).drop(*sent)


def _form_versions(lines: DataFrame, keys: Sequence[str], values: Mapping[str, DataType]) -> DataFrame:
    """Decide at which lines versions start, and which line has the values of each version."""
    from pyspark.sql import Window, functions as F

    by_key = Window.partitionBy(*keys).orderBy(POSITION)
    so_far = by_key.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    row = F.struct(
        F.col(DELETED).alias("deleted"), *[_comparable(n, t).alias(f"v{i}") for i, (n, t) in enumerate(values.items())]
    )
    lines = lines.withColumns(
        {_PREVIOUS: F.lag(row).over(by_key), _REVISION: F.max(_REVISION).over(Window.partitionBy(*keys))}
    )
    lines = lines.withColumn(_IS_START, _starts_version(values)).drop(_PREVIOUS)
    start = F.struct(F.col(POSITION).alias("at"), F.col(COMMITTED).alias("ms"), F.col(_STORED).alias("stored"))
    following = F.struct(
        F.col(POSITION).alias("at"), F.col(COMMITTED).alias("ms"), (F.col(_IS_START) | F.col(DELETED)).alias("ends")
    )
    lines = lines.withColumns(
        {
            _FROM: F.last(F.when(F.col(_IS_START), start), ignorenulls=True).over(so_far),
            _NEXT: F.lead(following).over(by_key),
        }
    )
    return _with_period(lines, values)


def _starts_version(values: Mapping[str, DataType]) -> Column:
    from pyspark.sql import functions as F

    previous, tracked = F.col(_PREVIOUS), F.col(TRACKED)
    differs = any_of(
        (tracked.isNull() | F.array_contains(tracked, fold_name(name)))
        & ~_comparable(name, kind).eqNullSafe(previous.getField(f"v{i}"))
        for i, (name, kind) in enumerate(values.items())
    )
    # A stored start stays one if its change is forgotten: its values are unknown.
    is_start = (F.col(_KIND) == _START) | previous.isNull() | previous.getField("deleted") | differs
    return ~F.col(DELETED) & is_start


def _with_period(lines: DataFrame, values: Mapping[str, DataType]) -> DataFrame:
    from pyspark.sql import functions as F

    following = F.col(_NEXT)
    version = F.struct(
        F.col(POSITION).alias("last"),
        F.col(COMMITTED).alias("last_ms"),
        following.getField("at").alias("ended"),
        F.col(TRACKED).alias("tracked"),
    )
    lines = lines.withColumns(
        {
            _IS_LAST: ~F.col(DELETED) & (following.isNull() | following.getField("ends")),
            VALID_FROM: F.timestamp_millis(F.col(_FROM).getField("ms")),
            VALID_TO: F.timestamp_millis(following.getField("ms")),
            IS_CURRENT: following.isNull(),
            VERSION: version,
        }
    )
    return lines.withColumn(_DIGEST, _digest(values)).drop(_NEXT)


def _digest(values: Mapping[str, DataType]) -> Column:
    """Return a digest of a version's columns."""
    from pyspark.sql import functions as F

    version = F.col(VERSION)
    places = [version.getField(name) for name in ("last", "ended")]
    return F.xxhash64(*[_comparable(n, t) for n, t in values.items()], *places, VALID_FROM, VALID_TO)


def _comparable(name: str, kind: DataType) -> Column:
    """Return a value in a form that Spark compares: it does not compare maps."""
    from pyspark.sql import functions as F

    column = F.col(quote_name(name))
    return F.to_json(F.struct(column)) if "map<" in kind.simpleString() else column
