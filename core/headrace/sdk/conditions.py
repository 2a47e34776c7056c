"""Application of a transform to the rows for which its option ``when`` is true."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.errors import ConfigError, DataError
from headrace.schema.promotion import promote
from headrace.sdk import changes as C
from headrace.sdk.changes import Changes
from headrace.sdk.rows import KEYS, METADATA, list_images, reject_rows, row_scope, unavailable_flags
from headrace.spark.columns import any_of, name_fold, quote_name
from headrace.spark.row_expressions import evaluate, read_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField

#: Whether the condition is true, by row image; and the event's columns, the keys and the flags before the transform.
_WHEN, _KEPT = C.PREFIX + "when_", C.PREFIX + "kept"
#: Own columns that a transform may change.
_KEPT_COLUMNS = (*KEYS, C.UNAVAILABLE, C.ERROR, C.DETAIL)


def has_columns(changes: Changes, text: str) -> bool:
    """Return whether the row has all columns that a SQL expression names."""
    return _are_in(changes, text, changes.row_columns)


def evaluate_condition(frame: DataFrame, scope: Mapping[str, Column], text: str, prefix: str) -> DataFrame:
    """Return the frame with the value of a condition, in the column ``prefix`` and 0. ConfigError if it is not a boolean."""
    result = evaluate(frame, scope, [text], prefix)
    if (kind := result.schema[f"{prefix}0"].dataType.simpleString()) != "boolean":
        raise ConfigError(f"{text!r} is a value of the type {kind}, and a condition is true or false", fix="compare it")
    return result


def _are_in(changes: Changes, text: str, columns: Collection[str]) -> bool:
    fold = name_fold(changes.frame.sparkSession)
    return set(map(fold, read_columns(text))) <= set(map(fold, columns))


def apply_when(
    changes: Changes, apply: Callable[[Changes], Changes], condition: str, changed: Collection[str], *, unknown: bool
) -> Changes:
    """Return the changes with the function applied to the row images for which the condition is true.

    ``unknown``: apply it also where the condition is null; ``changed``: the columns that the function changes. A key column may be
    one of them only if the condition reads nothing but the key, because a delete has no other columns.
    """
    from pyspark.sql import functions as F

    images = list_images(changes)
    if not images or not has_columns(changes, condition):
        return apply(changes) if unknown else changes
    marked, keys, flags = changes, _find_keys(changes, condition, changed), None
    if not unknown:
        flags = unavailable_flags(changes, read_columns(condition))
    for image in (*images, *keys):
        scope, name = row_scope(changes, image, (*METADATA, C.HEADERS)), f"{_WHEN}{image}_0"
        marked = replace(marked, frame=evaluate_condition(marked.frame, scope, condition, f"{_WHEN}{image}_"))
        if flags and image == images[-1]:
            is_unknown = F.col(name).isNull() & any_of(flags)
            marked = reject_rows(marked, {"`when` reads a value that the event omits": is_unknown})
        marked = replace(marked, frame=marked.frame.withColumn(name, F.coalesce(F.col(name), F.lit(unknown))))
    kept = [*changes.event_columns, *(name for name in _KEPT_COLUMNS if name in marked.own_columns)]
    frame = marked.frame.withColumn(_KEPT, F.struct(*[F.col(quote_name(name)) for name in kept]))
    result = apply(replace(marked, frame=frame))
    if result.envelope != changes.envelope:
        raise ConfigError("`when` cannot select the rows of a transform that flattens them", fix="use `tables`")
    merged = _merge(result, images, keys, everywhere=unknown)
    return replace(merged, origins={**changes.origins, **result.origins}, derived={**changes.derived, **result.derived})


def _find_keys(changes: Changes, condition: str, changed: Collection[str]) -> list[str]:
    """Return the key structs to which the function applies; none if it changes no key column."""
    touched = set(changes.find_columns(changed)) & set(changes.key_columns)
    if not touched:
        return []
    if not _are_in(changes, condition, changes.key_columns):
        raise DataError(
            f"it changes the key column {min(touched)!r}, and its `when` reads columns that a delete does not have",
            fix="name only key columns in `when`, or use `tables`",
        )
    return [name for name in KEYS if name in changes.own_columns]


def _merge(changes: Changes, images: list[str | None], keys: list[str], *, everywhere: bool) -> Changes:
    """Return each column of the result where the condition is true, and otherwise as it was before.

    ``everywhere``: columns outside of the row, such as a SQL statement with values of several rows, are those of the result.
    """
    from pyspark.sql import functions as F

    frame = changes.frame
    kept = {field.name: field for field in frame.schema[_KEPT].dataType}  # type: ignore[attr-defined]
    is_true = {image: F.col(f"{_WHEN}{image}_0") for image in (*images, *keys)}
    row = (
        is_true[None]
        if None in is_true
        else F.coalesce(*[F.when(F.col(str(i)).isNotNull(), is_true[i]) for i in images])
    )
    new = {field.name: field for field in frame.schema if field.name in changes.event_columns}
    old = {name: field for name, field in kept.items() if not name.startswith(C.PREFIX)}
    columns: dict[str, Column] = {}
    for name in [*new, *(name for name in old if name not in new)]:
        is_outside = changes.envelope or changes.origins.get(name, C.IMAGES)[0] not in C.IMAGES
        condition = F.lit(True) if everywhere and is_outside and name not in images else is_true.get(name, row)
        columns[name] = _choose(condition, name, new.get(name), old.get(name), in_image=name in images)
    for name in (name for name in changes.own_columns if name != _KEPT and not name.startswith(_WHEN)):
        if name in KEYS and name not in keys:
            columns[name] = F.col(_KEPT).getField(name)
        elif name in kept:
            in_image = name in (*KEYS, C.UNAVAILABLE)
            columns[name] = _choose(is_true.get(name, row), name, frame.schema[name], kept[name], in_image=in_image)
            if name in KEYS and _names(frame.schema[name]) != _names(kept[name]):
                raise DataError("`when` selects rows, and all rows have the same key columns", fix="use `tables`")
        else:
            columns[name] = F.col(name)
    return replace(changes, frame=frame.select(*[column.alias(name) for name, column in columns.items()]))


def _names(field: StructField) -> list[str]:
    return list(getattr(field.dataType, "names", ()))


def _choose(
    condition: Column, name: str, new: StructField | None, old: StructField | None, *, in_image: bool
) -> Column:
    """Return the new column where the condition is true, otherwise the old one; of a row image, field by field."""
    from pyspark.sql import functions as F

    new_column, old_column = F.col(quote_name(name)), F.col(_KEPT).getField(name)
    if not in_image or new is None or old is None:
        return _select(condition, name, (new_column, new and new.dataType), (old_column, old and old.dataType))
    new_types, old_types = ({f.name: f.dataType for f in field.dataType} for field in (new, old))  # type: ignore[attr-defined]
    cells = [
        _select(
            condition,
            field,
            (new_column.getField(field), new_types.get(field)),
            (old_column.getField(field), old_types.get(field)),
        ).alias(field)
        for field in dict.fromkeys([*new_types, *old_types])
    ]
    return F.when(old_column.isNotNull(), F.struct(*cells))


def _select(
    condition: Column, name: str, new: tuple[Column, DataType | None], old: tuple[Column, DataType | None]
) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType

    (new_column, new_type), (old_column, old_type) = new, old
    if new_type is None or old_type is None:
        return F.when(~condition, old_column) if new_type is None else F.when(condition, new_column)
    names = {new_type.typeName(), old_type.typeName()}
    is_text = new_type != old_type and "string" in names and names.isdisjoint(("struct", "array", "map", "binary"))
    kind = StringType() if is_text else promote(old_type, new_type, name)
    return F.when(condition, new_column.cast(kind)).otherwise(old_column.cast(kind))
