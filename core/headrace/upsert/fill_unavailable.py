"""Filling of unavailable values: from older changes of the batch, then from the stored rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.schema.promotion import promote
from headrace.sdk.changes import DELETED, POSITION, PREFIX, UNAVAILABLE
from headrace.sdk.positions import is_tombstone
from headrace.spark.columns import any_of, fold_name, quote_name, reuse_columns, select_texts
from headrace.spark.observation import materialize_with
from headrace.upsert.unavailable import COLUMN_POSITIONS, FILLED_SUFFIX, PARTIAL, is_true, unavailable_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_RANK, _RANK_COMPLETE = PREFIX + "rank", PREFIX + "rank_complete"
#: Prefixes, followed by the number of a column that may be unavailable: its last sent value; the stored row's value; whether the
#: incoming row takes the stored value; whether the stored row takes the incoming value.
_SENT, _STORED = PREFIX + "sent_", PREFIX + "stored_"
_FROM_STORED, _INTO_STORED = PREFIX + "from_stored_", PREFIX + "into_stored_"
_IS_NEWER = PREFIX + "is_newer"
_MAP = "map<string,string>"


def fill_from_older(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return the latest row of every key, unavailable values filled from the next older change, and COLUMN_POSITIONS.

    A newer partial update stays a separate row: the row that it completes came earlier, or is still to come.
    """
    from pyspark.sql import Window, functions as F

    names, by_key = tuple(unavailable_columns(rows)), Window.partitionBy(*[quote_name(k) for k in key])
    latest_first = F.col(POSITION).desc()
    ranks = {_RANK: F.row_number().over(by_key.orderBy(latest_first))}
    is_kept = F.col(_RANK) == 1
    if PARTIAL in rows.columns:
        ranks[_RANK_COMPLETE] = F.row_number().over(by_key.orderBy(PARTIAL, latest_first))
        is_kept = (F.col(_RANK_COMPLETE) == 1) | (F.col(PARTIAL) & is_kept)
    latest = rows.withColumns({**_find_last_sent(names, tuple(key)), **ranks}).where(is_kept)
    kept = [name for name in rows.columns if name != UNAVAILABLE]
    return _replace_columns(latest, _fill_from_sent(names), kept)


@reuse_columns
def _find_last_sent(names: tuple[str, ...], key: tuple[str, ...]) -> dict[str, Column]:
    """Return, for each column, the last value that was sent so far, and the position of its change."""
    from pyspark.sql import Window, functions as F

    by_key = Window.partitionBy(*[quote_name(k) for k in key]).orderBy(POSITION)
    so_far = by_key.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    values = {n: F.struct(F.col(POSITION).alias("at"), F.col(quote_name(n)).alias("value")) for n in names}
    return {f"{_SENT}{i}": F.last(F.when(~_is_left_out(n), values[n]), True).over(so_far) for i, n in enumerate(names)}


@reuse_columns
def _fill_from_sent(names: tuple[str, ...]) -> dict[str, Column]:
    """Return the columns, unavailable values replaced by the last sent value, and COLUMN_POSITIONS."""
    from pyspark.sql import functions as F

    values, positions = {}, {}
    for i, n in enumerate(names):
        values[n] = F.when(_is_left_out(n), F.col(f"{_SENT}{i}.value")).otherwise(F.col(quote_name(n)))
        positions[n] = F.when(_is_left_out(n), F.coalesce(F.col(f"{_SENT}{i}.at"), F.lit("")))
    return {**values, COLUMN_POSITIONS: _position_map(positions)}


def _is_left_out(name: str) -> Column:
    from pyspark.sql import functions as F

    # A delete has no unavailable values: a later change of the key starts empty. Values after a tombstone are unknown.
    return (is_true(F.col(UNAVAILABLE).getField(name)) & ~F.col(DELETED)) | is_tombstone(F.col(POSITION))


@contextmanager
def fill_from_stored(
    rows: DataFrame, stored: DataFrame | None, key: Sequence[str], unavailable: Sequence[str]
) -> Iterator[DataFrame]:
    """Fill the rows of ``fill_from_older`` from the stored rows, for values that no change of the batch has.

    A row that is older than the stored one, but has a newer value of such a column, becomes the stored row with that value.
    ``stored``: the table's own columns, POSITION and, once written, COLUMN_POSITIONS; ``unavailable``: the columns.
    """
    from pyspark.sql import functions as F

    is_partial = F.col(PARTIAL) if PARTIAL in rows.columns else F.lit(False)
    if stored is None:
        yield rows.where(~is_partial).drop(PARTIAL)
        return
    if COLUMN_POSITIONS not in stored.columns:
        stored = stored.withColumn(COLUMN_POSITIONS, F.lit(None).cast(_MAP))
    stored_types = {fold_name(field.name): field.dataType for field in stored.schema}
    types = {
        name: promote(rows.schema[name].dataType, stored_types[fold_name(name)])
        for name in unavailable
        if fold_name(name) in stored_types
    }
    promoted = {n: t for n, t in types.items() if rows.schema[n].dataType != t}
    rows = rows.withColumns({n: F.col(quote_name(n)).cast(t) for n, t in promoted.items()}) if promoted else rows
    joined_rows = _join_stored(rows, stored, key, types).withColumns(_decide_directions(tuple(types)))
    with materialize_with(joined_rows, fills=F.count_if(_fills_any(len(types)))) as (joined, seen):
        # A sink may accept a row with the same position as the stored row. The stored row has the values that such a row omits.
        newer = joined.where(F.col(_IS_NEWER) & ~is_partial)
        kept = [name for name in rows.columns if name not in (COLUMN_POSITIONS, PARTIAL)]
        filled = _replace_columns(newer, _fill_from_joined(tuple(types), tuple(unavailable)), kept)
        if not seen["fills"]:
            yield filled
        else:
            fills = _rows_that_fill(joined, key, len(types))
            yield filled.unionByName(_fill_stored(stored, fills, key, types), allowMissingColumns=True)


def _join_stored(rows: DataFrame, stored: DataFrame, key: Sequence[str], types: Mapping[str, DataType]) -> DataFrame:
    """Join each row with the stored row of its key, whose columns start with ``_STORED``."""
    from pyspark.sql import functions as F

    is_same = [F.col(quote_name(k)) == F.col(f"{_STORED}key{i}") for i, k in enumerate(key)]
    return rows.join(stored.select(*_name_stored(tuple(key), tuple(types.items()))), is_same, "left")


@reuse_columns
def _name_stored(key: tuple[str, ...], types: tuple[tuple[str, DataType], ...]) -> list[Column]:
    """Return the columns of a stored row that are compared or may fill a value, under names that no row has."""
    from pyspark.sql import functions as F

    columns = {f"{_STORED}{i}": F.col(quote_name(n)).cast(t) for i, (n, t) in enumerate(types)}
    columns |= {f"{_STORED}key{i}": F.col(quote_name(k)) for i, k in enumerate(key)}
    # Rows of another writer have an empty position, or none. A null would also mean that there is no stored row.
    position = F.coalesce(F.col(POSITION), F.lit(""))
    columns |= {f"{_STORED}position": position, f"{_STORED}column_positions": F.col(COLUMN_POSITIONS)}
    return [column.alias(name) for name, column in columns.items()]


@reuse_columns
def _decide_directions(names: tuple[str, ...]) -> dict[str, Column]:
    """Return whether each row is newer than the stored one, and per column which of the two takes the other's value."""
    from pyspark.sql import functions as F

    position, stored_position = F.col(POSITION), F.col(f"{_STORED}position")
    is_newer = stored_position.isNull() | (position > stored_position)
    incoming_at = {name: F.col(COLUMN_POSITIONS).getItem(name) for name in names}
    stored_at = {name: F.col(f"{_STORED}column_positions").getItem(name) for name in names}
    # A newer row takes the values that it left out. A stored row takes newer values from an older row.
    # A stored row of another writer has an empty position, like a value that no change of the batch has.
    from_stored = {n: is_newer & (F.coalesce(stored_at[n], stored_position) >= incoming_at[n]) for n in names}
    into_stored = {n: ~is_newer & (F.coalesce(incoming_at[n], position) > stored_at[n]) for n in names}
    return {
        **{f"{_INTO_STORED}{i}": is_true(into_stored[n]) for i, n in enumerate(names)},
        **{f"{_FROM_STORED}{i}": is_true(from_stored[n]) for i, n in enumerate(names)},
        _IS_NEWER: is_newer,
    }


@reuse_columns
def _fills_any(columns: int) -> Column:
    from pyspark.sql import functions as F

    return any_of(F.col(f"{_INTO_STORED}{i}") for i in range(columns))


def _rows_that_fill(joined: DataFrame, key: Sequence[str], columns: int) -> DataFrame:
    """Return the rows with a value for their stored row, one per key."""
    from pyspark.sql import Window, functions as F

    fills = joined.where(_fills_any(columns))
    if PARTIAL not in joined.columns:
        return fills
    # A change before a partial update belongs to another row, which had the key earlier.
    by_key = Window.partitionBy(*[quote_name(k) for k in key]).orderBy(F.col(PARTIAL).desc())
    return fills.withColumn(_RANK, F.row_number().over(by_key)).where(F.col(_RANK) == 1)


@reuse_columns
def _fill_from_joined(names: tuple[str, ...], unavailable: tuple[str, ...]) -> dict[str, Column]:
    """Return the columns with the values taken from the stored row, and COLUMN_POSITIONS.

    ``unavailable``: includes columns that the table does not have yet.
    """
    from pyspark.sql import functions as F

    stored_positions, stored_position = F.col(f"{_STORED}column_positions"), F.col(f"{_STORED}position")
    values, positions = {}, {name: F.col(COLUMN_POSITIONS).getItem(name) for name in unavailable}
    for i, name in enumerate(names):
        is_taken = F.col(f"{_FROM_STORED}{i}")
        values[name] = F.when(is_taken, F.col(f"{_STORED}{i}")).otherwise(F.col(quote_name(name)))
        stored_at = F.coalesce(stored_positions.getItem(name), stored_position)
        positions[name] = F.when(is_taken, stored_at).otherwise(positions[name])
    return {**values, COLUMN_POSITIONS: _position_map(positions)}


def _replace_columns(rows: DataFrame, columns: dict[str, Column], kept: Sequence[str]) -> DataFrame:
    """Replace columns of the rows, COLUMN_POSITIONS last. ``kept``: the columns without it."""
    return select_texts(rows.withColumns(columns), [quote_name(c) for c in (*kept, COLUMN_POSITIONS)])


def _fill_stored(stored: DataFrame, fills: DataFrame, key: Sequence[str], types: Mapping[str, DataType]) -> DataFrame:
    """Return the stored rows that take a value from an older row, with that value."""
    from pyspark.sql import functions as F

    incoming = fills.select(
        *[F.col(quote_name(k)).alias(f"{_SENT}key{i}") for i, k in enumerate(key)],
        *[
            F.when(
                F.col(f"{_INTO_STORED}{i}"),
                F.struct(
                    F.col(quote_name(name)).alias("value"),
                    F.coalesce(F.col(COLUMN_POSITIONS).getItem(name), F.col(POSITION)).alias("at"),
                ),
            ).alias(f"{_SENT}{i}")
            for i, name in enumerate(types)
        ],
    )
    is_same = [stored[quote_name(k)] == F.col(f"{_SENT}key{i}") for i, k in enumerate(key)]
    values, positions = {}, {}
    for i, (name, data_type) in enumerate(types.items()):
        sent, value = F.col(f"{_SENT}{i}"), stored[quote_name(name)].cast(data_type)
        values[fold_name(name)] = F.when(sent.isNotNull(), sent.getField("value")).otherwise(value)
        positions[name] = F.coalesce(sent.getField("at"), stored[COLUMN_POSITIONS].getItem(name))
    columns = [c for c in stored.columns if c not in (POSITION, COLUMN_POSITIONS, DELETED)]
    # Columns that no change of this batch leaves out keep their position.
    others = F.map_filter(
        F.coalesce(stored[COLUMN_POSITIONS], _no_positions()), lambda name, _: ~name.isin(list(types))
    )
    column_positions = F.map_concat(others, F.coalesce(_position_map(positions), _no_positions()))
    return stored.join(incoming, is_same).select(
        *[values.get(fold_name(c), stored[quote_name(c)]).alias(c) for c in columns],
        F.concat(stored[POSITION], F.lit(FILLED_SUFFIX)).alias(POSITION),
        F.lit(False).alias(DELETED),
        F.when(F.size(column_positions) > 0, column_positions).alias(COLUMN_POSITIONS),
    )


def _position_map(positions: Mapping[str, Column]) -> Column:
    """Return column → position without the nulls; null if none is left."""
    from pyspark.sql import functions as F

    pairs = [
        F.when(at.isNotNull(), F.struct(F.lit(name).alias("name"), at.alias("at"))) for name, at in positions.items()
    ]
    if not pairs:
        return F.lit(None).cast(_MAP)
    known = F.array_compact(F.array(*pairs))
    return F.when(F.size(known) > 0, F.map_from_entries(known))


def _no_positions() -> Column:
    from pyspark.sql import functions as F

    return F.create_map().cast(_MAP)
