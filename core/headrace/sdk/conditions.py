"""Application of a transform to the rows for which its option ``when`` is true."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.errors import ConfigError, DataError
from headrace.schema.column_choice import choose_column, choose_fields
from headrace.sdk import changes as C
from headrace.sdk.changes import Changes
from headrace.sdk.rows import KEYS, METADATA, list_fields, list_images, reject_rows, row_scope, unavailable_flags
from headrace.spark.columns import any_of, barrier, name_fold, quote_name
from headrace.spark.row_expressions import evaluate, read_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

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
    marked, keys = changes, _find_keys(changes, condition, changed)
    flags = unavailable_flags(changes, read_columns(condition))
    for image in (*images, *keys):
        scope, name = row_scope(changes, image, (*METADATA, C.HEADERS)), f"{_WHEN}{image}_0"
        marked = replace(marked, frame=evaluate_condition(marked.frame, scope, condition, f"{_WHEN}{image}_"))
        is_true = F.coalesce(F.col(name), F.lit(unknown))
        if flags and image == images[-1]:
            # Null stands for an unavailable value, so a result that is not null may be wrong, too.
            if unknown:
                is_true |= any_of(flags)
            else:
                marked = reject_rows(marked, {"`when` reads a value that the event omits": any_of(flags)})
        marked = replace(marked, frame=marked.frame.withColumn(name, barrier(is_true)))
    kept = [*changes.event_columns, *(name for name in _KEPT_COLUMNS if name in marked.own_columns)]
    frame = marked.frame.withColumn(_KEPT, F.struct(*[F.col(quote_name(name)) for name in kept]))
    result = apply(replace(marked, frame=frame))
    if result.envelope != changes.envelope:
        raise ConfigError("`when` cannot select the rows of a transform that flattens them", fix="use `tables`")
    result = _reject_stored_values(result, changes, changed, _is_row_selected(images))
    merged = _merge(result, images, keys, everywhere=unknown)
    return replace(
        merged,
        origins={**changes.origins, **result.origins},
        derived=_join(changes.derived, result.derived),
        moved=changes.moved,
        tags=_join(changes.tags, result.tags),
        ordered=changes.ordered | result.ordered,
    )


def _join(first: Mapping[str, frozenset[str]], second: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    return {name: first.get(name, frozenset()) | second.get(name, frozenset()) for name in {**first, **second}}


def _is_row_selected(images: list[str | None]) -> Column:
    """Return whether the condition is true for the row: the image after the change, or before it for a delete."""
    from pyspark.sql import functions as F

    if None in images:
        return F.col(f"{_WHEN}{None}_0")
    return F.coalesce(*[F.when(F.col(str(i)).isNotNull(), F.col(f"{_WHEN}{i}_0")) for i in reversed(images)])


def _reject_stored_values(result: Changes, before: Changes, changed: Collection[str], is_selected: Column) -> Changes:
    """Turn selected changes into dead letters if a changed column keeps its stored value: it may be that of an unselected row."""
    fold = name_fold(result.frame.sparkSession)
    unchanged = set(map(fold, before.row_columns)) - set(map(fold, before.find_columns(changed)))
    tests = {
        f"the column `{name}` depends on `when`, and the event omits its value": is_selected & flag
        for name in list_fields(result, C.UNAVAILABLE)
        if fold(name) not in unchanged
        for flag in unavailable_flags(result, [name])
    }
    return reject_rows(result, tests)


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

    ``everywhere``: columns outside of the row, such as a value of the row before the change, are those of the result.
    """
    from pyspark.sql import functions as F

    frame = changes.frame
    kept = {field.name: field for field in frame.schema[_KEPT].dataType}  # type: ignore[attr-defined]
    is_true = {image: F.col(f"{_WHEN}{image}_0") for image in (*images, *keys)}
    copies = [name for name, path in changes.origins.items() if len(path) == 1 and path[0] in C.IMAGES]
    row = _is_row_selected(images)
    new = {field.name: field for field in frame.schema if field.name in changes.event_columns}
    old = {name: field for name, field in kept.items() if not name.startswith(C.PREFIX)}
    columns: dict[str, Column] = {}
    for name in [*new, *(name for name in old if name not in new)]:
        is_outside = changes.envelope or changes.origins.get(name, ("after",))[0] != "after"
        condition = F.lit(True) if everywhere and is_outside and name not in images else is_true.get(name, row)
        columns[name] = _choose(condition, name, new.get(name), old.get(name), in_image=name in (*images, *copies))
    own = dict.fromkeys([*changes.own_columns, *(name for name in kept if name.startswith(C.PREFIX))])
    for name in (name for name in own if name != _KEPT and not name.startswith(_WHEN)):
        if name in KEYS and name not in keys:
            columns[name] = F.col(_KEPT).getField(name)
        elif name in kept:
            made = frame.schema[name] if name in frame.columns else None  # A result without flags lacks UNAVAILABLE.
            in_image = name in (*KEYS, C.UNAVAILABLE)
            columns[name] = _choose(is_true.get(name, row), name, made, kept[name], in_image=in_image)
            if made and name in KEYS and _names(made) != _names(kept[name]):
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

    new_side = F.col(quote_name(name)), new and new.dataType
    old_side = F.col(_KEPT).getField(name), old and old.dataType
    if in_image and new and old and _names(new) and _names(old):
        return choose_fields(condition, new_side, old_side)
    return choose_column(condition, name, new_side, old_side)
