"""Values that a change of the key leaves out. A database may log the row under its new key without its large values: they are
those of the row under the old key, which the other half of the change, a delete, removes.

Such a delete gives them to the new key, as one more change of it: a *gift*, which tells these columns and no others. Gifts are
written down before any table is: a batch that is repeated finds the old row gone, and the new row may come in a later batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import reduce
from typing import TYPE_CHECKING

from headrace.checkpoint.row_store import RowStore
from headrace.sdk.changes import DELETED, KEY_CHANGE_POSITION, NEW_KEY, POSITION, PREFIX, UNAVAILABLE
from headrace.spark.columns import quote_name
from headrace.spark.sessions import materialize
from headrace.upsert.deleted_keys import key_text
from headrace.upsert.unavailable import GIFT, ORIGIN, TOUCHED, columns_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from headrace.spark.storage import Folder

_TOLD, _STORED = PREFIX + "told_", PREFIX + "stored_"
#: What a gift is kept as: the new key and the old one as texts, the position of the change, and of each column a struct with its
#: value and the position of the change that told it, null while none has; at last when it was made, milliseconds since 1970. A
#: key that was changed twice may be heard of in the wrong order: then a gift is made again, and knows better.
_NEW, _OLD, _AT, _VALUES, _MADE = "key", "old", "position", "told", "made"
#: Whether a gift has to be made: for a move of this batch's, or one to which nobody could give all so far.
_DUE = PREFIX + "due"


class Moved:
    """Those of one table, for as long as deleted keys are remembered. One run at a time uses the folder."""

    def __init__(self, folder: Folder, retention: float) -> None:
        """``retention``: seconds."""
        self._kept = RowStore(folder, retention)

    @contextmanager
    def told(
        self, rows: DataFrame, key: Sequence[str], batch: int, stored: Callable[[], DataFrame | None]
    ) -> Iterator[DataFrame]:
        """The rows, with the gifts among them that concern them. ``stored``: what the table has, with POSITION and ORIGIN."""
        from pyspark.sql import functions as F

        if not _carried(rows, key):
            yield rows.drop(NEW_KEY, KEY_CHANGE_POSITION)
            return
        kept = rows.persist()
        try:
            # All rows in one go: what counts them on the way is told once.
            leaves_out = _any(F.col(UNAVAILABLE).getField(name) for name in _carried(rows, key))
            ((moves, asks),) = kept.agg(F.count(NEW_KEY), F.count_if(leaves_out)).collect()
            own = self._kept.of(batch)
            if moves and not own:
                with self._gifts(kept, key, stored) as gifts:
                    self._kept.add(gifts, batch, lambda several: several)
                own = self._kept.of(batch)
            rows = kept.drop(NEW_KEY, KEY_CHANGE_POSITION)
            if self._kept.names and (own or asks):
                gifts = self._read(kept, key, self._kept.names)
                mine = kept.select(key_text(kept, key).alias(_NEW))
                if own:
                    mine = mine.unionByName(self._read(kept, key, own).select(_NEW))
                gifts = _changes(gifts.join(mine, _NEW, "left_semi"), rows, key)
                rows = rows.withColumn(GIFT, F.lit(False)).unionByName(gifts, allowMissingColumns=True)
            yield rows
        finally:
            kept.unpersist()

    def _read(self, rows: DataFrame, key: Sequence[str], folders: Sequence[str]) -> DataFrame:
        """What is kept, one gift for each move."""
        names = _carried(rows, key)
        every = self._kept.read(rows.sparkSession, _schema(rows, names), folders).coalesce(1)  # few: no shuffle
        return _best(every, names)

    @contextmanager
    def _gifts(
        self, rows: DataFrame, key: Sequence[str], stored: Callable[[], DataFrame | None]
    ) -> Iterator[DataFrame]:
        """What the batch's moves have for their new keys, and older moves that nobody could give all, or that it gives better."""
        from pyspark.sql import functions as F

        names, table = _carried(rows, key), stored()
        new = F.array(*[F.col(NEW_KEY).getField(name).cast("string") for name in key])
        lines = rows.withColumns({_OLD: key_text(rows, key), _NEW: F.when(F.col(NEW_KEY).isNotNull(), new)})
        lines, older = lines.withColumn(_DUE, F.lit(True)), None
        with ExitStack() as stack:
            if self._kept.names:
                older = stack.enter_context(materialize(self._read(rows, key, self._kept.names)))
                again = _keyed(older, _OLD, rows, key).select(
                    "*",
                    F.lit(True).alias(DELETED),
                    F.col(_AT).alias(POSITION),
                    F.col(_AT).alias(KEY_CHANGE_POSITION),
                    _any(F.col(_VALUES).getField(name).isNull() for name in names).alias(_DUE),
                )
                lines = lines.unionByName(again.drop(_AT, _VALUES, _MADE), allowMissingColumns=True)
            moves = lines.where(F.col(_NEW).isNotNull()).select(_OLD, _NEW, KEY_CHANGE_POSITION, _DUE)
            moves = stack.enter_context(materialize(moves))
            known = lines if older is None else _with(lines, older, key)
            reached = due = moves.where(_DUE).drop(_DUE)
            while True:  # once more for a row that was moved on: what it gives it was given itself
                gifts = _given(known, table, key, names).withColumn(_MADE, F.lit(f"{time.time_ns() // 10**6:013d}"))
                gifts = gifts if older is None else _best(gifts.unionByName(older), names)
                before = reached.select(F.col(_NEW).alias(_OLD), F.col(KEY_CHANGE_POSITION).alias(_AT))
                further = (
                    moves.drop(_DUE)
                    .join(before, _OLD)
                    .where(F.col(KEY_CHANGE_POSITION) > F.col(_AT))
                    .drop(_AT)
                    .distinct()
                )
                if further.isEmpty():
                    break
                reached = stack.enter_context(materialize(further))
                due = due.unionByName(reached)
                known = _with(lines, stack.enter_context(materialize(gifts)), key)
            if older is not None:
                gifts = gifts.join(due.withColumnRenamed(KEY_CHANGE_POSITION, _AT), [_NEW, _OLD, _AT], "left_semi")
            yield gifts


def _best(gifts: DataFrame, names: Sequence[str]) -> DataFrame:
    """One gift for each move: of each column what was told last."""
    from pyspark.sql import functions as F

    told = {name: F.col(_VALUES).getField(name) for name in names}
    last = F.struct(*[F.max_by(value, value.getField("at")).alias(name) for name, value in told.items()])
    return gifts.groupBy(_NEW, _OLD, _AT).agg(last.alias(_VALUES), F.max(_MADE).alias(_MADE))


def _given(lines: DataFrame, stored: DataFrame | None, key: Sequence[str], names: Sequence[str]) -> DataFrame:
    """A gift for each of the lines that is a move: of what their old key was told last before, or of the stored row."""
    from pyspark.sql import Window, functions as F

    before = Window.partitionBy(_OLD).orderBy(POSITION).rowsBetween(Window.unboundedPreceding, -1)
    said = {name: F.col(DELETED) | ~F.coalesce(F.col(UNAVAILABLE).getField(name), F.lit(False)) for name in names}
    told = {
        f"{_TOLD}{i}": F.last(
            F.when(
                said[n],
                F.struct(
                    F.col(POSITION).alias("at"), F.col(DELETED).alias("gone"), F.col(quote_name(n)).alias("value")
                ),
            ),
            True,
        ).over(before)
        for i, n in enumerate(names)
    }
    moves = lines.withColumns(told).where(F.col(_NEW).isNotNull())
    values: dict[str, Column] = {}
    have = {c.lower(): c for c in stored.columns} if stored is not None else {}
    if stored is not None:
        # Of what was told in a batch before, it is the stored row that knows; gifts are as old as their moves.
        origin = stored[ORIGIN] if ORIGIN in stored.columns else F.lit(None).cast("map<string,string>")
        at = {n: F.coalesce(origin.getItem(n), stored[POSITION]) for n in names}
        theirs = stored.select(
            *[stored[quote_name(k)].alias(f"{_STORED}key{i}") for i, k in enumerate(key)],
            stored[POSITION].alias(f"{_STORED}position"),
            *[
                F.when(
                    at[n] != "", F.struct(at[n].alias("at"), stored[quote_name(have[n.lower()])].alias("value"))
                ).alias(f"{_STORED}{i}")
                for i, n in enumerate(names)
                if n.lower() in have
            ],
        )
        same = [F.col(quote_name(k)) == F.col(f"{_STORED}key{i}") for i, k in enumerate(key)]
        moves = moves.join(theirs, [*same, F.col(f"{_STORED}position") < F.col(POSITION)], "left")
    for i, name in enumerate(names):
        kind, last = lines.schema[name].dataType, F.col(f"{_TOLD}{i}")
        there = last.isNotNull() & ~last.getField("gone")
        held = F.when(there, F.struct(last.getField("value").alias("value"), last.getField("at").alias("at")))
        if name.lower() in have:
            inner = F.col(f"{_STORED}{i}")
            newer = inner.isNotNull() & (last.isNull() | (inner.getField("at") > last.getField("at")))
            told_there = F.struct(inner.getField("value").cast(kind).alias("value"), inner.getField("at").alias("at"))
            held = F.when(newer, told_there).otherwise(held)
        values[name] = held
    return moves.select(
        _NEW,
        _OLD,
        F.col(KEY_CHANGE_POSITION).alias(_AT),
        F.struct(*[c.alias(n) for n, c in values.items()]).alias(_VALUES),
    )


def _with(lines: DataFrame, gifts: DataFrame, key: Sequence[str]) -> DataFrame:
    """The lines, and gifts as changes of the keys that they are for."""
    plain = lines.drop(_OLD, _NEW, NEW_KEY, KEY_CHANGE_POSITION, _DUE)
    more = _changes(gifts, plain, key).drop(GIFT)
    return lines.unionByName(more.withColumn(_OLD, key_text(more, key)), allowMissingColumns=True)


def _changes(gifts: DataFrame, rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Gifts as changes: they tell what they have, and leave all else out."""
    from pyspark.sql import functions as F

    whole, fields = F.col(_VALUES), rows.schema[UNAVAILABLE].dataType.names  # type: ignore[attr-defined]
    names = _carried(rows, key)
    left_out = [whole.getField(n).isNull() if n in names else F.lit(False) for n in fields]
    return _keyed(gifts, _NEW, rows, key).select(
        *[quote_name(k) for k in key],
        *[whole.getField(n).getField("value").alias(n) for n in names],
        F.struct(*[c.alias(n) for n, c in zip(fields, left_out, strict=True)]).alias(UNAVAILABLE),
        # One that was made again knows better, and is still older than the row that it is for.
        F.concat(_AT, F.lit(TOUCHED), _MADE).alias(POSITION),
        F.lit(False).alias(DELETED),
        F.lit(True).alias(GIFT),
    )


def _keyed(gifts: DataFrame, texts: str, rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Gifts with columns for one of their keys."""
    from pyspark.sql import functions as F

    return gifts.withColumns({k: F.col(texts)[i].cast(rows.schema[k].dataType) for i, k in enumerate(key)})


def _carried(rows: DataFrame, key: Sequence[str]) -> list[str]:
    """The columns that a gift may tell."""
    return [name for name in columns_of(rows) if name not in key]


def _schema(rows: DataFrame, names: Sequence[str]) -> StructType:
    """Of gifts, as they are kept."""
    from pyspark.sql import types as T

    texts = T.ArrayType(T.StringType())
    values = T.StructType()
    for name in names:
        values.add(name, T.StructType().add("value", rows.schema[name].dataType).add("at", T.StringType()))
    fields = {_NEW: texts, _OLD: texts, _AT: T.StringType(), _VALUES: values, _MADE: T.StringType()}
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])


def _any(conditions: Iterator[Column]) -> Column:
    return reduce(lambda a, b: a | b, conditions)
