"""Unavailable values: unchanged values that an event leaves out, such as large strings that an update did not touch.

A table stores the positions of such values with each row, in ``COLUMN_POSITIONS``: a late change may have a newer value of a column
than the row, although the row itself is newer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.sdk.changes import ERROR, IMAGES, NEW_KEY, OP, PREFIX, UNAVAILABLE, Changes
from headrace.spark.columns import any_of, barrier, quote_name, reuse_columns
from headrace.spark.error_text import full_text, text_after_raised

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    #: Returns whether a value is the placeholder of an unavailable one.
    Test = Callable[[Column], Column]
    #: Column with the value → its test.
    Tests = Mapping[str, Test]

#: map<string, string>, stored with the row: column → the position of the change that sent its value, if it is not the row's own; an
#: empty string until a change with the value has arrived.
COLUMN_POSITIONS = PREFIX + "origin"
#: Columns of stored tables with rows that have had unavailable values; a history has UNAVAILABLE.
MARKS = frozenset((COLUMN_POSITIONS, UNAVAILABLE))
#: boolean: the row is a partial update. It has values for some columns of a row that came, or will come, with another change.
PARTIAL = PREFIX + "partial"
#: Suffix of a stored row's position after an older change filled one of its columns: the row is newer than before, and older than
#: every change that is newer than it.
FILLED_SUFFIX = "!"
_MARK = "<headrace-value-unavailable>"


def fail_on_unavailable(changes: Changes, tests: Tests) -> Changes:
    """Return changes of which a task fails if it meets an unavailable value.

    ``is_unavailable_value_error`` recognizes the error. Detecting such values is cheap. Handling them is not, and few tables have
    them.
    """
    from pyspark.sql import functions as F

    values = _choose_tests(changes, tests)
    if not values.tests:
        return changes
    fails = _is_any_unavailable(values)
    others = tests.keys() - set(changes.key_columns)
    if others and NEW_KEY in changes.own_columns:  # The row under the new key, which leaves values out, may come later.
        fails |= F.col(NEW_KEY).isNotNull()
    failure = F.when(fails, F.raise_error(F.lit(_MARK)).cast("string"))
    if OP in changes.own_columns:  # A snapshot's row has all its values; an insert after a key change may not.
        failure = F.when(F.col(OP).eqNullSafe("r"), None).otherwise(failure)
    error = barrier(F.coalesce(F.col(ERROR), failure))
    return replace(changes, frame=changes.frame.withColumn(ERROR, error))


def is_unavailable_value_error(error: BaseException) -> bool:
    """Return whether a task failed because of an unavailable value."""
    return text_after_raised(_MARK, full_text(error)) is not None


def mark_unavailable(changes: Changes, tests: Tests) -> Changes:
    """Replace every unavailable value by null, and list them in UNAVAILABLE."""
    from pyspark.sql import functions as F

    values = _choose_tests(changes, tests)
    if not values.tests:
        return changes
    frame = changes.frame.withColumn(UNAVAILABLE, _mark_values(values))
    if values.images is None:
        cells = {name: F.when(~test(F.col(quote_name(name))), F.col(quote_name(name))) for name, test in values.tests}
        return replace(changes, frame=frame.withColumns(cells))
    for image, columns in values.images:
        if columns:
            frame = frame.withColumn(image, _without_placeholders(image, columns, values.tests))
    return replace(changes, frame=frame)


def unavailable_columns(rows: DataFrame) -> list[str]:
    """Return the columns of the rows whose values may be unavailable."""
    names: list[str] = getattr(rows.schema[UNAVAILABLE].dataType, "names", []) if UNAVAILABLE in rows.columns else []
    return [name for name in names if name in rows.columns]


def name_unavailable(rows: DataFrame, *, has_envelopes: bool = False) -> DataFrame:
    """Convert UNAVAILABLE to a list of names for tables that are appended to; null if there are none.

    ``has_envelopes``: rows are whole events, and names are paths in their row images, such as ``after.name``.
    """
    from pyspark.sql import functions as F

    flags = F.col(UNAVAILABLE)
    if has_envelopes:
        found = _find_in_images(rows)
    else:
        found = {name: flags.getField(name) for name in unavailable_columns(rows)}
    if not found:
        return rows.drop(UNAVAILABLE)
    names = F.array_compact(F.array(*[F.when(is_omitted, F.lit(name)) for name, is_omitted in found.items()]))
    return rows.withColumn(UNAVAILABLE, F.when(F.size(names) > 0, names))


def _find_in_images(rows: DataFrame) -> dict[str, Column]:
    """Return path in a row image → whether its value is unavailable.

    UNAVAILABLE describes the row, which is the image after the change, or before it for a delete. In the row before an update, the
    unavailable values of the row are null if the event omits them there, too.
    """
    from pyspark.sql import functions as F

    flagged: list[str] = getattr(rows.schema[UNAVAILABLE].dataType, "names", [])
    has_after = F.col("after").isNotNull() if "after" in rows.columns else F.lit(False)
    found = {}
    for image in (name for name in IMAGES if name in rows.columns):
        for name in (name for name in _image_columns(rows, image) if name in flagged):
            is_omitted = F.col(image).isNotNull() & F.col(UNAVAILABLE).getField(name)
            if image == "before":
                is_omitted &= ~has_after | F.col(image).getField(name).isNull()
            found[f"{image}.{name}"] = is_omitted
    return found


def is_true(condition: Column) -> Column:
    """Return the condition, false where it is null."""
    from pyspark.sql import functions as F

    return F.coalesce(condition, F.lit(False))


@dataclass(frozen=True)
class _TestedValues:
    """Columns of a row that may be unavailable, with their tests; and the row images of an envelope."""

    tests: tuple[tuple[str, Test], ...]
    images: tuple[tuple[str, tuple[str, ...]], ...] | None


def _choose_tests(changes: Changes, tests: Tests) -> _TestedValues:
    def choose(names: Sequence[str]) -> tuple[tuple[str, Test], ...]:
        return tuple((name, tests[name]) for name in names if name in tests)

    if not changes.envelope:
        return _TestedValues(choose(changes.event_columns), None)
    images = tuple((i, _image_columns(changes.frame, i)) for i in IMAGES if i in changes.frame.columns)
    return _TestedValues(choose(changes.row_columns), images)


def _find_unavailable(values: _TestedValues) -> list[Column]:
    """Return, for each column, whether the row's value is unavailable."""
    from pyspark.sql import functions as F

    if values.images is None:
        return [is_true(test(F.col(quote_name(name)))) for name, test in values.tests]
    # The row is the image after the change, or before it for a delete.
    found = []
    for name, test in values.tests:
        is_unavailable = F.lit(False)
        for image, columns in values.images:
            image_column = F.col(image)
            if name in columns:
                is_unavailable = F.when(image_column.isNotNull(), is_true(test(image_column.getField(name)))).otherwise(
                    is_unavailable
                )
        found.append(is_unavailable)
    return found


@reuse_columns
def _is_any_unavailable(values: _TestedValues) -> Column:
    return any_of(_find_unavailable(values))


@reuse_columns
def _mark_values(values: _TestedValues) -> Column:
    """Return the struct of unavailable values."""
    from pyspark.sql import functions as F

    found = zip(values.tests, _find_unavailable(values), strict=True)
    return F.struct(*[is_unavailable.alias(name) for (name, _), is_unavailable in found])


@reuse_columns
def _without_placeholders(image: str, columns: tuple[str, ...], tests: tuple[tuple[str, Test], ...]) -> Column:
    """Return a row image with null in place of its unavailable values."""
    from pyspark.sql import functions as F

    image_column, by_name = F.col(image), dict(tests)
    cells = {name: image_column.getField(name) for name in columns}
    values = [(F.when(~by_name[n](c), c) if n in by_name else c).alias(n) for n, c in cells.items()]
    return F.when(image_column.isNotNull(), F.struct(*values))


def _image_columns(frame: DataFrame, image: str) -> tuple[str, ...]:
    """Return the columns of a row image; none if the event has no struct there."""
    return tuple(getattr(frame.schema[image].dataType, "names", ()))
