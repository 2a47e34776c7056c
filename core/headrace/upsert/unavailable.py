"""Values that a change leaves out because they are as they were: taken from older changes, or from the stored row.

A table keeps with each row where such values are from, in ``ORIGIN``: an older change that comes late may have a newer
value of a column than the row, although the row itself is newer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING

from headrace.schema.promotion import promote
from headrace.sdk.changes import DELETED, ERROR, IMAGES, NEW_KEY, OP, POSITION, PREFIX, UNAVAILABLE, Changes
from headrace.spark.columns import quote_name
from headrace.spark.error_text import full_text
from headrace.spark.sessions import materialize

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    Tests = Mapping[str, Callable[[Column], Column]]

#: map<string, string>: column → the position of the change that its value is from, where that is not the row's own;
#: empty text where no change that told it has come yet.
ORIGIN = PREFIX + "origin"
#: boolean: a change that tells some columns of a row that came, or will come, with another (headrace.upsert.key_changes).
GIFT = PREFIX + "gift"
#: What a position becomes when an older change gave its row a value: higher, and lower than every other that was.
TOUCHED = "!"
_MARK = "<headrace-value-unchanged>"
_RANK, _RANK_REAL, _TOLD, _TAKEN = PREFIX + "rank", PREFIX + "rank_real", PREFIX + "told_", PREFIX + "taken_"
_NEWER = PREFIX + "newer"
_OURS, _THEIRS = PREFIX + "ours_", PREFIX + "theirs_"


def refused(changes: Changes, tests: Tests) -> Changes:
    """The changes; a task that meets a value that was left out fails, and ``was_met`` knows why.

    To look for them costs little. To do what they need would cost every table, and few have them.
    """
    from pyspark.sql import functions as F

    found = [left_out for _, left_out in _left_out(changes, tests)]
    if not found:
        return changes
    others = tests.keys() - set(changes.key_columns)
    if others and NEW_KEY in changes.own_columns:  # The row under the new key, which leaves values out, may come later.
        found.append(F.col(NEW_KEY).isNotNull())
    met = F.when(reduce(lambda a, b: a | b, found), F.raise_error(F.lit(_MARK)).cast("string"))
    if OP in changes.own_columns:  # What is read has all its values; an insert has not where a key was changed.
        met = F.when(F.col(OP).eqNullSafe("r"), None).otherwise(met)
    # A step of its own: else the filter for it is written out in terms of what the values are made from, each mention anew.
    said = F.when(F.spark_partition_id() >= 0, F.coalesce(F.col(ERROR), met))
    return Changes(changes.frame.withColumn(ERROR, said), changes.envelope)


def was_met(error: BaseException) -> bool:
    """Whether a task failed for a value that was left out."""
    return _MARK in full_text(error)


def marked(changes: Changes, tests: Tests) -> Changes:
    """The changes with null where a value was left out, and with UNCHANGED."""
    from pyspark.sql import functions as F

    found = _left_out(changes, tests)
    if not found:
        return changes
    frame = changes.frame.withColumn(UNAVAILABLE, F.struct(*[left_out.alias(name) for name, left_out in found]))
    if not changes.envelope:
        cells = {name: F.when(~tests[name](F.col(quote_name(name))), F.col(quote_name(name))) for name, _ in found}
        return Changes(frame.withColumns(cells), envelope=False)
    for image in IMAGES:
        if image in frame.columns:
            whole, names = F.col(image), _names(frame, image)
            if not names:
                continue
            cells = {name: whole.getField(name) for name in names}
            inner = [(F.when(~tests[n](c), c) if n in tests else c).alias(n) for n, c in cells.items()]
            frame = frame.withColumn(image, F.when(whole.isNotNull(), F.struct(*inner)))
    return Changes(frame, envelope=True)


def columns_of(rows: DataFrame) -> list[str]:
    """The columns of the rows whose values may have been left out."""
    names: list[str] = getattr(rows.schema[UNAVAILABLE].dataType, "names", []) if UNAVAILABLE in rows.columns else []
    return [name for name in names if name in rows.columns]


def named(rows: DataFrame) -> DataFrame:
    """The rows with UNCHANGED as a list of names, null when there are none: as tables that are appended to keep it."""
    from pyspark.sql import functions as F

    whole = F.col(UNAVAILABLE)
    names = F.array_compact(F.array(*[F.when(whole.getField(n), F.lit(n)) for n in columns_of(rows)]))
    return rows.withColumn(UNAVAILABLE, F.when(F.size(names) > 0, names))


def folded(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """The newest row of every key, with values that it left out from the next older one that has them, and ORIGIN.

    A gift that is newer is a row beside it: the one that it is for came before, or will come.
    """
    from pyspark.sql import Window, functions as F

    names, by_key = columns_of(rows), Window.partitionBy(*[quote_name(k) for k in key])
    so_far = by_key.orderBy(POSITION).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    # A delete leaves nothing out: what comes after it begins with nothing.
    left_out = {name: _sure(F.col(UNAVAILABLE).getField(name)) & ~F.col(DELETED) for name in names}
    told = {
        f"{_TOLD}{i}": F.last(
            F.when(~left_out[n], F.struct(F.col(POSITION).alias("at"), F.col(quote_name(n)).alias("value"))), True
        ).over(so_far)
        for i, n in enumerate(names)
    }
    latest = F.col(POSITION).desc()
    ranks = {_RANK: F.row_number().over(by_key.orderBy(latest))}
    chosen = F.col(_RANK) == 1
    if GIFT in rows.columns:
        ranks[_RANK_REAL] = F.row_number().over(by_key.orderBy(GIFT, latest))
        chosen = (F.col(_RANK_REAL) == 1) | (F.col(GIFT) & chosen)
    newest = rows.withColumns({**told, **ranks}).where(chosen)
    values = {
        n: F.when(left_out[n], F.col(f"{_TOLD}{i}.value")).otherwise(F.col(quote_name(n))) for i, n in enumerate(names)
    }
    origins = {n: F.when(left_out[n], F.coalesce(F.col(f"{_TOLD}{i}.at"), F.lit(""))) for i, n in enumerate(names)}
    kept = [values.get(c, F.col(quote_name(c))).alias(c) for c in rows.columns if c != UNAVAILABLE]
    return newest.select(*kept, _map(origins).alias(ORIGIN))


@contextmanager
def merged(rows: DataFrame, stored: DataFrame | None, key: Sequence[str], names: Sequence[str]) -> Iterator[DataFrame]:
    """Folded rows, with values that no change of theirs told from the stored rows.

    An older row that has a newer value of such a column than the stored row becomes the stored row with that value.
    ``stored``: the table's own columns, POSITION and, once it was written, ORIGIN; ``names``: what may be left out.
    """
    from pyspark.sql import Window, functions as F

    gift = F.col(GIFT) if GIFT in rows.columns else F.lit(False)
    if stored is None:
        yield rows.where(~gift).drop(GIFT)
        return
    if ORIGIN not in stored.columns:
        stored = stored.withColumn(ORIGIN, F.lit(None).cast("map<string,string>"))
    have = {column.lower() for column in stored.columns}
    every, names = names, [name for name in names if name.lower() in have]
    kinds = {name: promote(rows.schema[name].dataType, _kind(stored, name)) for name in names}
    rows = rows.withColumns({name: F.col(quote_name(name)).cast(kind) for name, kind in kinds.items()})
    theirs = {f"{_THEIRS}{i}": stored[quote_name(n)].cast(kinds[n]) for i, n in enumerate(names)}
    theirs |= {f"{_THEIRS}key{i}": stored[quote_name(k)] for i, k in enumerate(key)}
    theirs |= {f"{_THEIRS}position": stored[POSITION], f"{_THEIRS}origin": stored[ORIGIN]}
    same = [F.col(quote_name(k)) == F.col(f"{_THEIRS}key{i}") for i, k in enumerate(key)]
    both = rows.join(stored.select(*[c.alias(n) for n, c in theirs.items()]), same, "left")
    position, stored_position = F.col(POSITION), F.col(f"{_THEIRS}position")
    newer = stored_position.isNull() | (position > stored_position)
    ours = {name: F.col(ORIGIN).getItem(name) for name in names}
    older = {name: F.col(f"{_THEIRS}origin").getItem(name) for name in names}
    # A row that is newer takes what it left out; of an older one the stored row takes what was left out of it.
    takes = {n: newer & (F.coalesce(older[n], stored_position) > ours[n]) for n in names}
    gives = {n: ~newer & (F.coalesce(ours[n], position) > older[n]) for n in names}
    both = both.withColumns(
        {
            **{f"{_OURS}{i}": _sure(gives[n]) for i, n in enumerate(names)},
            **{f"{_TAKEN}{i}": _sure(takes[n]) for i, n in enumerate(names)},
            _NEWER: newer,
        }
    )
    with materialize(both) as kept:
        gives_any = reduce(lambda a, b: a | b, [F.col(f"{_OURS}{i}") for i in range(len(names))], F.lit(False))
        giving = kept.where(gives_any)
        if GIFT in rows.columns:  # What is older than a gift is of a row that had the key before.
            first = F.row_number().over(Window.partitionBy(*[quote_name(k) for k in key]).orderBy(F.col(GIFT).desc()))
            giving = giving.withColumn(_RANK, first).where(F.col(_RANK) == 1)
        # A sink may take a row at the stored row's own position, and what such a row left out was known better before.
        taking = _with_taken(kept.where(F.col(_NEWER) & ~gift), rows.columns, names, every)
        if giving.isEmpty():
            yield taking
        else:
            yield taking.unionByName(_with_given(stored, giving, key, kinds), allowMissingColumns=True)


def _with_taken(both: DataFrame, columns: Sequence[str], names: Sequence[str], every: Sequence[str]) -> DataFrame:
    """The rows with what they take from the stored ones. ``every``: also what the table has no column for yet."""
    from pyspark.sql import functions as F

    stored_origin, stored_position = F.col(f"{_THEIRS}origin"), F.col(f"{_THEIRS}position")
    values, origins = {}, {name: F.col(ORIGIN).getItem(name) for name in every}
    for i, name in enumerate(names):
        taken, own = F.col(f"{_TAKEN}{i}"), F.col(quote_name(name))
        values[name] = F.when(taken, F.col(f"{_THEIRS}{i}")).otherwise(own)
        from_stored = F.coalesce(stored_origin.getItem(name), stored_position)
        origins[name] = F.when(taken, from_stored).otherwise(F.col(ORIGIN).getItem(name))
    kept = [values.get(c, F.col(quote_name(c))).alias(c) for c in columns if c not in (ORIGIN, GIFT)]
    return both.select(*kept, _map(origins).alias(ORIGIN))


def _with_given(stored: DataFrame, giving: DataFrame, key: Sequence[str], kinds: Mapping[str, DataType]) -> DataFrame:
    """The stored rows that older rows have something for, with that."""
    from pyspark.sql import functions as F

    gifts = giving.select(
        *[F.col(quote_name(k)).alias(f"{_OURS}key{i}") for i, k in enumerate(key)],
        *[
            F.when(
                F.col(f"{_OURS}{i}"),
                F.struct(
                    F.col(quote_name(name)).alias("value"),
                    F.coalesce(F.col(ORIGIN).getItem(name), F.col(POSITION)).alias("at"),
                ),
            ).alias(f"{_OURS}{i}")
            for i, name in enumerate(kinds)
        ],
    )
    same = [stored[quote_name(k)] == F.col(f"{_OURS}key{i}") for i, k in enumerate(key)]
    values, origins = {}, {}
    for i, name in enumerate(kinds):
        gift = F.col(f"{_OURS}{i}")
        own = stored[quote_name(name)].cast(kinds[name])
        values[name.lower()] = F.when(gift.isNotNull(), gift.getField("value")).otherwise(own)
        origins[name] = F.coalesce(gift.getField("at"), stored[ORIGIN].getItem(name))
    kept = [
        values.get(c.lower(), stored[quote_name(c)]).alias(c) for c in stored.columns if c not in (POSITION, ORIGIN)
    ]
    # Of columns that none of this batch's changes can leave out it stays.
    others = F.map_filter(F.coalesce(stored[ORIGIN], _nowhere()), lambda name, _: ~name.isin(list(kinds)))
    origin = F.map_concat(others, F.coalesce(_map(origins), _nowhere()))
    return stored.join(gifts, same).select(
        *kept,
        F.concat(stored[POSITION], F.lit(TOUCHED)).alias(POSITION),
        F.lit(False).alias(DELETED),
        F.when(F.size(origin) > 0, origin).alias(ORIGIN),
    )


def _left_out(changes: Changes, tests: Tests) -> list[tuple[str, Column]]:
    """Column → whether the row's value of it was left out."""
    from pyspark.sql import functions as F

    if not changes.envelope:
        return [(name, _sure(tests[name](F.col(quote_name(name))))) for name in changes.event_columns if name in tests]
    # The row is what is after the change, and of a delete what was before it.
    images = [image for image in reversed(IMAGES) if image in changes.frame.columns]
    found = []
    for name in (name for name in changes.row_columns if name in tests):
        held = F.lit(False)
        for image in reversed(images):
            whole = F.col(image)
            if name in _names(changes.frame, image):
                held = F.when(whole.isNotNull(), _sure(tests[name](whole.getField(name)))).otherwise(held)
        found.append((name, held))
    return found


def _names(frame: DataFrame, image: str) -> list[str]:
    """The columns of a row image; none where the events have something else in its place."""
    return list(getattr(frame.schema[image].dataType, "names", ()))


def _sure(condition: Column) -> Column:
    from pyspark.sql import functions as F

    return F.coalesce(condition, F.lit(False))


def _map(entries: Mapping[str, Column]) -> Column:
    """Name → text, without the nulls; null when nothing is left."""
    from pyspark.sql import functions as F

    pairs = [
        F.when(text.isNotNull(), F.struct(F.lit(name).alias("name"), text.alias("at")))
        for name, text in entries.items()
    ]
    if not pairs:
        return F.lit(None).cast("map<string,string>")
    there = F.array_compact(F.array(*pairs))
    return F.when(F.size(there) > 0, F.map_from_entries(there))


def _nowhere() -> Column:
    from pyspark.sql import functions as F

    return F.create_map().cast("map<string,string>")


def _kind(frame: DataFrame, name: str) -> DataType:
    return next(field.dataType for field in frame.schema if field.name.lower() == name.lower())
