"""Primary-key changes whose new row has unavailable values.

A database may log the row under its new key without its large values. They are those of the row under the old key, which the other
half of the change, a delete, removes. Such a delete carries the values to the new key, as one more change of it: a *partial
update*, which has these columns only. Partial updates are stored before any table is written: a repeated batch finds the old row
removed, and the new row may come in a later batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from headrace.checkpoint.row_store import RowStore
from headrace.sdk.changes import DELETED, KEY_CHANGE_POSITION, NEW_KEY, POSITION, PREFIX, UNAVAILABLE
from headrace.spark.columns import any_of, fold_name, quote_name
from headrace.spark.sessions import materialize
from headrace.upsert.keys import key_text, parse_cell_text, struct_key_text
from headrace.upsert.unavailable import (
    COLUMN_POSITIONS,
    FILLED_SUFFIX,
    PARTIAL,
    is_true,
    unavailable_columns,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headrace.spark.storage import Folder

#: Columns of a stored partial update: the new key and the old one as strings; the position of the key change; for each column a
#: struct of its value and the position of the change that sent it, null without one; and its creation, milliseconds since 1970. If
#: two changes of one key arrive in the wrong order, the partial update is created again with more values.
#: No column of a table has these names: they stand next to its key columns.
_NEW, _OLD, _AT = PREFIX + "to_key", PREFIX + "from_key", PREFIX + "key_changed_at"
_VALUES, _CREATED = PREFIX + "carried_values", PREFIX + "created"
#: Whether a partial update must be created: for a key change of this batch, or for one that lacks a value.
_IS_DUE = PREFIX + "is_due"
#: Prefixes, followed by the number of a column: its last value before the key change in the batch, and in the stored row.
_SENT, _STORED = PREFIX + "sent_", PREFIX + "stored_"


class KeyChanges:
    """Partial updates of one table, kept as long as keys of deleted rows. One run at a time uses the folder."""

    def __init__(self, folder: Folder, retention: float) -> None:
        """``retention``: seconds."""
        self._store = RowStore(folder, retention)

    def expire(self, batch: int, newest_change: int | None) -> None:
        """Forget values that were stored longer ago than the retention (``RowStore.expire``)."""
        self._store.expire(batch, newest_change)

    @contextmanager
    def carry_values(
        self, rows: DataFrame, key: Sequence[str], write: int, read_stored: Callable[[], DataFrame | None]
    ) -> Iterator[DataFrame]:
        """Return the rows and the partial updates of their keys, which have PARTIAL.

        The partial updates of the batch's own key changes are stored first. ``write``: number of the write (``BatchMarks.number``);
        ``read_stored``: returns the table, with POSITION and COLUMN_POSITIONS; None without a table.
        """
        from pyspark.sql import functions as F

        if not _columns_to_carry(rows, key):
            yield rows.drop(NEW_KEY, KEY_CHANGE_POSITION)
            return
        cached = rows.persist()
        try:
            # One action reads all rows, so that observations on them are complete.
            has_unavailable = any_of(F.col(UNAVAILABLE).getField(name) for name in _columns_to_carry(rows, key))
            ((key_changes, incomplete),) = cached.agg(F.count(NEW_KEY), F.count_if(has_unavailable)).collect()
            own = self._store.of(write)
            if key_changes and not own:
                with self._partial_updates(cached, key, read_stored()) as updates:
                    self._store.add(updates, write, lambda several: several)
                own = self._store.of(write)
            rows = cached.drop(NEW_KEY, KEY_CHANGE_POSITION)
            if self._store.names and (own or incomplete):
                updates = self._read_for(cached, key, own)
                rows = rows.withColumn(PARTIAL, F.lit(False)).unionByName(
                    _as_changes(updates, rows, key), allowMissingColumns=True
                )
            yield rows
        finally:
            cached.unpersist()

    def _read_for(self, rows: DataFrame, key: Sequence[str], own: Sequence[str]) -> DataFrame:
        """Return the stored partial updates of the rows' keys, and those in the folders ``own``."""
        keys = rows.select(key_text(rows, key).alias(_NEW))
        updates = self._read(rows, key, self._store.names)
        if own:
            keys = keys.unionByName(self._read(rows, key, own).select(_NEW))
        return updates.join(keys, _NEW, "left_semi")

    def _read(self, rows: DataFrame, key: Sequence[str], folders: Sequence[str]) -> DataFrame:
        """Return the partial updates in folders of the store, one per key change."""
        names = _columns_to_carry(rows, key)
        several = self._store.read(rows.sparkSession, _schema(rows, names), folders).coalesce(
            1
        )  # Few rows: no shuffle.
        return _latest_per_key_change(several, names)

    @contextmanager
    def _partial_updates(self, rows: DataFrame, key: Sequence[str], stored: DataFrame | None) -> Iterator[DataFrame]:
        """Create a partial update for every key change of the batch, and for older ones that need another value."""
        from pyspark.sql import functions as F

        names = _columns_to_carry(rows, key)
        lines = rows.withColumns(
            {
                _OLD: key_text(rows, key),
                _NEW: struct_key_text(rows, NEW_KEY, key),
                _IS_DUE: F.lit(True),
            }
        )
        older = None
        with ExitStack() as scope:
            if self._store.names:
                older = scope.enter_context(materialize(self._read(rows, key, self._store.names)))
                lines = lines.unionByName(_as_key_changes(older, rows, key, names), allowMissingColumns=True)
            yield _resolve_chains(lines, older, stored, key, names, scope)


def _resolve_chains(
    lines: DataFrame,
    older: DataFrame | None,
    stored: DataFrame | None,
    key: Sequence[str],
    names: Sequence[str],
    scope: ExitStack,
) -> DataFrame:
    """Return the partial updates of the lines' key changes, including rows whose key changes several times.

    Each iteration reaches one key further, because a moved row carries what was carried to it. Positions rise along a chain, so it
    ends.
    """
    from pyspark.sql import functions as F

    key_changes = lines.where(F.col(_NEW).isNotNull()).select(_OLD, _NEW, KEY_CHANGE_POSITION, _IS_DUE)
    key_changes = scope.enter_context(materialize(key_changes))
    known = lines if older is None else _with_updates(lines, older, key)
    reached = due = key_changes.where(_IS_DUE).drop(_IS_DUE)
    while True:
        created_at = F.lit(f"{time.time_ns() // 10**6:013d}")
        updates = _values_before_key_changes(known, stored, key, names).withColumn(_CREATED, created_at)
        updates = updates if older is None else _latest_per_key_change(updates.unionByName(older), names)
        before = reached.select(F.col(_NEW).alias(_OLD), F.col(KEY_CHANGE_POSITION).alias(_AT))
        further = key_changes.drop(_IS_DUE).join(before, _OLD)
        further = further.where(F.col(KEY_CHANGE_POSITION) > F.col(_AT)).drop(_AT).distinct()
        if further.isEmpty():
            break
        reached = scope.enter_context(materialize(further))
        due = due.unionByName(reached)
        known = _with_updates(lines, scope.enter_context(materialize(updates)), key)
    if older is None:
        return updates
    # Separate column names: both frames have those of the same key changes, and Spark cannot always distinguish them.
    names_of = {_NEW: _NEW, _OLD: _OLD, KEY_CHANGE_POSITION: _AT}
    due_keys = due.select(*[F.col(column).alias(name) for column, name in names_of.items()])
    return updates.join(due_keys, [_NEW, _OLD, _AT], "left_semi")


def _values_before_key_changes(
    lines: DataFrame, stored: DataFrame | None, key: Sequence[str], names: Sequence[str]
) -> DataFrame:
    """Return a partial update for each key change: the last values of the old key before it, in the batch or the table."""
    from pyspark.sql import Window, functions as F

    before = Window.partitionBy(_OLD).orderBy(POSITION).rowsBetween(Window.unboundedPreceding, -1)
    sent = {}
    for i, n in enumerate(names):
        is_sent = F.col(DELETED) | ~is_true(F.col(UNAVAILABLE).getField(n))
        value = F.struct(
            F.col(POSITION).alias("at"), F.col(DELETED).alias("deleted"), F.col(quote_name(n)).alias("value")
        )
        sent[f"{_SENT}{i}"] = F.last(F.when(is_sent, value), True).over(before)
    key_changes = lines.withColumns(sent).where(F.col(_NEW).isNotNull())
    in_table = set()
    if stored is not None:
        in_table = {name for name in names if fold_name(name) in {fold_name(c) for c in stored.columns}}
        key_changes = _join_stored(key_changes, stored, key, names)
    values = {}
    for i, name in enumerate(names):
        last = F.col(f"{_SENT}{i}")
        is_there = last.isNotNull() & ~last.getField("deleted")
        value = F.when(is_there, F.struct(last.getField("value").alias("value"), last.getField("at").alias("at")))
        if name in in_table:
            row, data_type = F.col(f"{_STORED}{i}"), lines.schema[name].dataType
            is_newer = row.isNotNull() & (last.isNull() | (row.getField("at") > last.getField("at")))
            row_value = row.getField("value").cast(data_type).alias("value")
            value = F.when(is_newer, F.struct(row_value, row.getField("at").alias("at"))).otherwise(value)
        values[name] = value
    return key_changes.select(
        _NEW,
        _OLD,
        F.col(KEY_CHANGE_POSITION).alias(_AT),
        F.struct(*[value.alias(name) for name, value in values.items()]).alias(_VALUES),
    )


def _join_stored(key_changes: DataFrame, stored: DataFrame, key: Sequence[str], names: Sequence[str]) -> DataFrame:
    """Join key changes with the older stored row of their old key.

    The stored row has the values of earlier batches. Partial updates are as old as their key changes.
    """
    from pyspark.sql import functions as F

    spelled = {fold_name(c): c for c in stored.columns}
    no_positions = F.lit(None).cast("map<string,string>")
    positions = stored[COLUMN_POSITIONS] if COLUMN_POSITIONS in stored.columns else no_positions
    position, values = F.coalesce(stored[POSITION], F.lit("")), []
    for i, name in enumerate(names):
        if fold_name(name) in spelled:
            at = F.coalesce(positions.getItem(name), position)
            cell = stored[quote_name(spelled[fold_name(name)])]
            value = F.struct(at.alias("at"), cell.alias("value"))
            # Values of another writer have an empty position, or none.
            values.append(F.when((at != "") | cell.isNotNull(), value).alias(f"{_STORED}{i}"))
    rows = stored.select(
        *[stored[quote_name(k)].alias(f"{_STORED}key{i}") for i, k in enumerate(key)],
        position.alias(f"{_STORED}position"),
        *values,
    )
    is_same = [F.col(quote_name(k)) == F.col(f"{_STORED}key{i}") for i, k in enumerate(key)]
    return key_changes.join(rows, [*is_same, F.col(f"{_STORED}position") < F.col(POSITION)], "left")


def _latest_per_key_change(updates: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return one partial update per key change, with the last sent value of each column."""
    from pyspark.sql import functions as F

    values = {name: F.col(_VALUES).getField(name) for name in names}
    latest = F.struct(*[F.max_by(value, value.getField("at")).alias(name) for name, value in values.items()])
    return updates.groupBy(_NEW, _OLD, _AT).agg(latest.alias(_VALUES), F.max(_CREATED).alias(_CREATED))


def _as_key_changes(updates: DataFrame, rows: DataFrame, key: Sequence[str], names: Sequence[str]) -> DataFrame:
    """Return stored partial updates as the deletes that caused them; those that lack a value are due."""
    from pyspark.sql import functions as F

    return (
        _with_key_columns(updates, _OLD, rows, key)
        .select(
            "*",
            F.lit(True).alias(DELETED),
            F.col(_AT).alias(POSITION),
            F.col(_AT).alias(KEY_CHANGE_POSITION),
            any_of(F.col(_VALUES).getField(name).isNull() for name in names).alias(_IS_DUE),
        )
        .drop(_AT, _VALUES, _CREATED)
    )


def _with_updates(lines: DataFrame, updates: DataFrame, key: Sequence[str]) -> DataFrame:
    """Add partial updates to the lines, as changes of their new keys."""
    rows = lines.drop(_OLD, _NEW, NEW_KEY, KEY_CHANGE_POSITION, _IS_DUE)
    changes = _as_changes(updates, rows, key).drop(PARTIAL)
    return lines.unionByName(changes.withColumn(_OLD, key_text(changes, key)), allowMissingColumns=True)


def _as_changes(updates: DataFrame, rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return partial updates as changes of their new keys, with the columns of ``rows``."""
    from pyspark.sql import functions as F

    values, fields = F.col(_VALUES), rows.schema[UNAVAILABLE].dataType.names  # type: ignore[attr-defined]
    names = _columns_to_carry(rows, key)
    is_unavailable = [values.getField(n).isNull() if n in names else F.lit(False) for n in fields]
    return _with_key_columns(updates, _NEW, rows, key).select(
        *[quote_name(k) for k in key],
        *[values.getField(n).getField("value").alias(n) for n in names],
        F.struct(*[c.alias(n) for n, c in zip(fields, is_unavailable, strict=True)]).alias(UNAVAILABLE),
        # A partial update that was created again is newer, and still older than the row that it completes.
        F.concat(_AT, F.lit(FILLED_SUFFIX), _CREATED).alias(POSITION),
        F.lit(False).alias(DELETED),
        F.lit(True).alias(PARTIAL),
    )


def _with_key_columns(updates: DataFrame, texts: str, rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Add the columns of a key to partial updates. ``texts``: the column with the key's strings."""
    from pyspark.sql import functions as F

    return updates.withColumns(
        {k: parse_cell_text(F.col(texts)[i], rows.schema[k].dataType) for i, k in enumerate(key)}
    )


def _columns_to_carry(rows: DataFrame, key: Sequence[str]) -> list[str]:
    """Return the columns that a partial update may have."""
    return [name for name in unavailable_columns(rows) if name not in key]


def _schema(rows: DataFrame, names: Sequence[str]) -> StructType:
    """Return the columns of stored partial updates."""
    from pyspark.sql import types as T

    texts = T.ArrayType(T.StringType())
    values = T.StructType()
    for name in names:
        values.add(name, T.StructType().add("value", rows.schema[name].dataType).add("at", T.StringType()))
    fields = {_NEW: texts, _OLD: texts, _AT: T.StringType(), _VALUES: values, _CREATED: T.StringType()}
    return T.StructType([T.StructField(name, data_type) for name, data_type in fields.items()])
