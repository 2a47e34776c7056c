"""Rows in changes: their columns and types, in each row image and in the key."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.sdk import changes as C
from headrace.sdk.changes import Changes
from headrace.sdk.reject_reason import RejectReason
from headrace.spark.columns import any_of, barrier, name_fold, quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

KEYS = (C.KEY, C.NEW_KEY)
#: Own columns that expressions may name, in addition to those of the row.
METADATA = (C.OP, C.TOPIC, C.PARTITION, C.OFFSET, C.TIMESTAMP, C.COMMITTED)


def row_types(changes: Changes) -> dict[str, DataType]:
    """Return column of the row or the key → its type."""
    schema = changes.frame.schema
    structs = [name for name in (*KEYS, *(C.IMAGES if changes.envelope else ())) if name in schema.names]
    types = {field.name: field.dataType for name in structs for field in getattr(schema[name].dataType, "fields", ())}
    return types if changes.envelope else types | {name: schema[name].dataType for name in changes.event_columns}


def list_images(changes: Changes) -> list[str | None]:
    """Return the row images of an envelope, or None for a flat row."""
    return [name for name in C.IMAGES if list_fields(changes, name)] if changes.envelope else [None]


def row_scope(changes: Changes, image: str | None, own: Collection[str] = METADATA) -> dict[str, Column]:
    """Return the columns that an expression over a row image or a key may name. Those that an image lacks are null."""
    from pyspark.sql import functions as F

    scope = {name: F.col(name) for name in own if name in changes.own_columns}
    if image is None:
        return scope | {name: F.col(quote_name(name)) for name in changes.event_columns}
    fields, types = list_fields(changes, image), row_types(changes)
    names = fields if image in KEYS else changes.row_columns
    null = F.lit(None)
    return scope | {n: F.col(image).getField(n) if n in fields else null.cast(types[n]) for n in names}


def reject_rows(changes: Changes, tests: Mapping[str, Column]) -> Changes:
    """Turn changes into dead letters. ``tests``: description without values → condition.

    Deletes stay, because they have no row and must remove the stored one. A DataFrame outside of a pipeline fails.
    """
    from pyspark.sql import functions as F

    if not tests:
        return changes
    frame = changes.frame
    is_row = ~F.col(C.DELETED) if C.DELETED in frame.columns else F.lit(True)
    is_bad = {text: F.coalesce(test & is_row, F.lit(False)) for text, test in tests.items()}
    if C.ERROR not in frame.columns:
        errors = [F.when(test, F.raise_error(F.lit(text)).cast("string")) for text, test in is_bad.items()]
        return replace(changes, frame=frame.where(F.coalesce(*errors).isNull()))
    error = F.coalesce(F.col(C.ERROR), F.when(any_of(is_bad.values()), F.lit(RejectReason.UNTRANSFORMABLE)))
    if C.DETAIL in frame.columns:
        details = [F.when(test & F.col(C.ERROR).isNull(), F.lit(text)) for text, test in is_bad.items()]
        frame = frame.withColumn(C.DETAIL, barrier(F.coalesce(F.col(C.DETAIL), *details)))
    return replace(changes, frame=frame.withColumn(C.ERROR, barrier(error)))


def unavailable_flags(changes: Changes, names: Collection[str]) -> list[Column]:
    """Return whether a value is unavailable, for each of the columns that may be."""
    from pyspark.sql import functions as F

    fold = name_fold(changes.frame.sparkSession)
    wanted = set(map(fold, names))
    found = [name for name in list_fields(changes, C.UNAVAILABLE) if fold(name) in wanted]
    return [F.coalesce(F.col(C.UNAVAILABLE).getField(name), F.lit(False)) for name in found]


def list_fields(changes: Changes, name: str) -> list[str]:
    """Return the fields of a struct column; none for other columns."""
    kind = changes.frame.schema[name].dataType if name in changes.frame.columns else None
    return list(getattr(kind, "names", ()))
