"""Join of a row image with reference data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from headrace.sdk import Changes, DataError, changes as C
from headrace.sdk.columns import barrier
from headrace.sdk.rows import row_scope, row_types
from headrace_transforms.reference_rows import BEGIN, END, FOUND, VALUES, ReferenceShape

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

#: Columns of the join, which are dropped at the end.
JOINED = f"{C.PREFIX}lookup_"
_INTEGERS = ("byte", "short", "integer", "long")


@dataclass(frozen=True)
class LookupKey:
    """Columns of the row by which reference data is found: those of the key, and the time for data with periods."""

    columns: tuple[str, ...]
    time: str | None = None

    @property
    def names(self) -> list[str]:
        return [*self.columns, *([self.time] if self.time else [])]

    def check_types(self, changes: Changes, rows: DataFrame, shape: ReferenceShape) -> None:
        """Raise DataError for a column of another type than its counterpart in the reference data."""
        types = row_types(changes)
        others = {
            name: (own, rows.schema[own].dataType) for name, own in zip(self.columns, shape.key_names, strict=True)
        }
        shown = dict(zip(shape.key_names, shape.keys, strict=True))
        if self.time is not None:
            period = rows.schema[FOUND].dataType.elementType  # type: ignore[attr-defined]
            others[self.time], shown[BEGIN] = (BEGIN, period[BEGIN].dataType), str(shape.begin)
        for name, (other, kind) in others.items():
            if not _is_comparable(types[name], kind):
                raise DataError(
                    f"the column {name!r} is {types[name].simpleString()}, and {shown[other]!r} of the reference data is "
                    f"{kind.simpleString()}",
                    where=shape.where,
                    fix="put `cast` before `lookup`, or give the column of the files its type with `schema`",
                )


@dataclass(frozen=True)
class ImageJoin:
    """Join of a row image (None: a flat row)."""

    image: str | None
    #: Whether the image has a value in each column of the key.
    has_key: Column
    is_found: Column
    #: Column of the reference data → its value.
    values: Mapping[str, Column]


def join_image(
    changes: Changes, frame: DataFrame, rows: DataFrame, key: LookupKey, image: str | None, columns: Sequence[str]
) -> tuple[DataFrame, ImageJoin]:
    """Return the frame joined with the rows for an image. ``columns``: those of the reference data that are needed."""
    from pyspark.sql import functions as F

    prefix, scope = f"{JOINED}{image}_", row_scope(changes, image, ())
    joined = rows.select(
        *[F.col(name).alias(prefix + name) for name in rows.columns if name.startswith("key") or name == FOUND]
    )
    own = [name for name in joined.columns if name != prefix + FOUND]
    matches = [scope[name] == F.col(other) for name, other in zip(key.columns, own, strict=True)]
    frame = frame.join(F.broadcast(joined), reduce(lambda a, b: a & b, matches), "left")
    value = F.col(prefix + FOUND)
    if key.time is not None:
        value = _find_period(rows, value, scope[key.time])
    frame = frame.withColumn(prefix + VALUES, barrier(value))
    found = F.col(prefix + VALUES)
    has_key = reduce(lambda a, b: a & b, [scope[name].isNotNull() for name in key.names])
    return frame, ImageJoin(image, has_key, found.isNotNull(), {name: found.getField(name) for name in columns})


def _find_period(rows: DataFrame, history: Column, time: Column) -> Column:
    """Return the values of the row that is valid at a time; of several, the one that began last."""
    from pyspark.sql import functions as F

    kind = rows.schema[FOUND].dataType.elementType  # type: ignore[attr-defined]

    def is_valid(period: Column) -> Column:
        has_begun = period[BEGIN].isNull() | (period[BEGIN] <= time)
        return has_begun & (period[END].isNull() | (time < period[END])) if END in kind.names else has_begun

    valid = F.filter(history, is_valid)
    return F.when(time.isNotNull(), F.get(valid, F.size(valid) - 1)[VALUES])


def _is_comparable(one: DataType, other: DataType) -> bool:
    names = {one.typeName(), other.typeName()}
    return len(names) == 1 or "void" in names or names <= {*_INTEGERS, "decimal"}
