"""Unavailable values: those that an event leaves out because they are as they were (large texts that an update did not touch).

A table keeps with each row where the values of such columns are from, in ``COLUMN_POSITIONS``: an older change that comes late
may have a newer value of a column than the row, although the row itself is newer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.sdk.changes import ERROR, IMAGES, NEW_KEY, OP, PREFIX, UNAVAILABLE, Changes
from headrace.spark.columns import any_of, barrier, quote_name
from headrace.spark.error_text import full_text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    #: Column → whether a value of it is the placeholder of an unavailable one.
    Tests = Mapping[str, Callable[[Column], Column]]

#: map<string, string>, stored with the row: column → the position of the change that its value is from, where that is not the
#: row's own; empty text where no change that has it has come yet.
COLUMN_POSITIONS = PREFIX + "origin"
#: boolean: the row is a partial update, which has values for some columns of a row that came, or will come, with another change.
PARTIAL = PREFIX + "partial"
#: What is added to a stored row's position when an older change fills one of its columns: the row is newer than it was, and
#: older than every change that is newer than it was.
FILLED_SUFFIX = "!"
_MARK = "<headrace-value-unavailable>"


def fail_on_unavailable(changes: Changes, tests: Tests) -> Changes:
    """The changes, unread; a task that meets an unavailable value fails, and ``is_unavailable_value_error`` says so of its error.

    To look for such values costs little. To do what they need would cost every table, and few have them.
    """
    from pyspark.sql import functions as F

    signs = [is_unavailable for _, is_unavailable in _unavailable_values(changes, tests)]
    if not signs:
        return changes
    others = tests.keys() - set(changes.key_columns)
    if others and NEW_KEY in changes.own_columns:  # The row under the new key, which leaves values out, may come later.
        signs.append(F.col(NEW_KEY).isNotNull())
    failure = F.when(any_of(signs), F.raise_error(F.lit(_MARK)).cast("string"))
    if OP in changes.own_columns:  # A snapshot's row has all its values; an insert has not where a key was changed.
        failure = F.when(F.col(OP).eqNullSafe("r"), None).otherwise(failure)
    error = barrier(F.coalesce(F.col(ERROR), failure))
    return replace(changes, frame=changes.frame.withColumn(ERROR, error))


def is_unavailable_value_error(error: BaseException) -> bool:
    """Whether a task failed for an unavailable value."""
    return _MARK in full_text(error)


def mark_unavailable(changes: Changes, tests: Tests) -> Changes:
    """The changes with null for every unavailable value, and with UNAVAILABLE, which says which they are."""
    from pyspark.sql import functions as F

    values = _unavailable_values(changes, tests)
    if not values:
        return changes
    frame = changes.frame.withColumn(UNAVAILABLE, F.struct(*[is_it.alias(name) for name, is_it in values]))
    if not changes.envelope:
        cells = {name: F.when(~tests[name](F.col(quote_name(name))), F.col(quote_name(name))) for name, _ in values}
        return replace(changes, frame=frame.withColumns(cells))
    for image in IMAGES:
        if image in frame.columns and _image_columns(frame, image):
            frame = frame.withColumn(image, _without_placeholders(frame, image, tests))
    return replace(changes, frame=frame)


def unavailable_columns(rows: DataFrame) -> list[str]:
    """The columns of the rows whose values may be unavailable."""
    names: list[str] = getattr(rows.schema[UNAVAILABLE].dataType, "names", []) if UNAVAILABLE in rows.columns else []
    return [name for name in names if name in rows.columns]


def name_unavailable(rows: DataFrame) -> DataFrame:
    """The rows with UNAVAILABLE as a list of names, null when there are none: as tables that are appended to keep it."""
    from pyspark.sql import functions as F

    whole = F.col(UNAVAILABLE)
    names = F.array_compact(F.array(*[F.when(whole.getField(n), F.lit(n)) for n in unavailable_columns(rows)]))
    return rows.withColumn(UNAVAILABLE, F.when(F.size(names) > 0, names))


def is_true(condition: Column) -> Column:
    """The condition, false where it is null."""
    from pyspark.sql import functions as F

    return F.coalesce(condition, F.lit(False))


def _without_placeholders(frame: DataFrame, image: str, tests: Tests) -> Column:
    """A row image with null in place of its unavailable values."""
    from pyspark.sql import functions as F

    whole = F.col(image)
    cells = {name: whole.getField(name) for name in _image_columns(frame, image)}
    values = [(F.when(~tests[n](c), c) if n in tests else c).alias(n) for n, c in cells.items()]
    return F.when(whole.isNotNull(), F.struct(*values))


def _unavailable_values(changes: Changes, tests: Tests) -> list[tuple[str, Column]]:
    """Column → whether the row's value of it is unavailable."""
    from pyspark.sql import functions as F

    if not changes.envelope:
        return [
            (name, is_true(tests[name](F.col(quote_name(name))))) for name in changes.event_columns if name in tests
        ]
    # The row is what is after the change, and of a delete what was before it.
    images = [image for image in IMAGES if image in changes.frame.columns]
    values = []
    for name in (name for name in changes.row_columns if name in tests):
        is_unavailable = F.lit(False)
        for image in images:
            whole = F.col(image)
            if name in _image_columns(changes.frame, image):
                test = is_true(tests[name](whole.getField(name)))
                is_unavailable = F.when(whole.isNotNull(), test).otherwise(is_unavailable)
        values.append((name, is_unavailable))
    return values


def _image_columns(frame: DataFrame, image: str) -> list[str]:
    """The columns of a row image; none where the events have something else in its place."""
    return list(getattr(frame.schema[image].dataType, "names", ()))
