"""Union of the changes of several topics that feed one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from headrace.engine.read.type_compatibility import reject_incompatible
from headrace.errors import DataError
from headrace.schema.projection import convert_type, is_same_type
from headrace.schema.promotion import promote
from headrace.sdk.changes import Changes
from headrace.spark.columns import fold_name, name_fold, quote_name

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def union_changes(
    parts: Sequence[Changes], table: str, *, rejects_conflicts: bool = False, found: dict[str, str] | None = None
) -> Changes:
    """Return the changes of several topics as those of one table. DataError if their shapes, keys or types differ.

    A topic without columns, of which no record could be read, fits any other. ``rejects_conflicts``: reject the changes of later
    topics whose types differ, instead; ``found`` notes the columns and the types of their values.
    """
    readable = [part for part in parts if part.event_columns]
    if len({part.envelope for part in readable}) > 1:
        raise DataError(
            "some topics have envelopes and some have rows",
            where=f"table {table}",
            fix="add `- unwrap: {}` to `transforms:`",
        )
    fold = name_fold(parts[0].frame.sparkSession)
    if len({tuple(map(fold, part.key_columns)) for part in readable}) > 1:
        raise DataError(
            "its topics have different key columns", where=f"table {table}", fix="give each its own `target:`"
        )
    others = [part for part in parts if not part.event_columns]
    if len(readable) > 1:
        readable = _align_types(readable, table, found, rejects_conflicts=rejects_conflicts)
    parts = [*readable, *others]
    frame = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), [part.frame for part in parts])
    return replace(parts[0], frame=frame)


def _align_types(
    parts: Sequence[Changes], table: str, found: dict[str, str] | None, *, rejects_conflicts: bool
) -> list[Changes]:
    """Return the changes with one type per column. Spark's union would convert numbers to strings and lose digits."""
    from pyspark.sql.types import StructField, StructType

    union: Any = StructType()
    fitting = []
    for part in parts:
        fits = reject_incompatible(part, union, found=found) if rejects_conflicts else part
        row = StructType([StructField(name, fits.frame.schema[name].dataType) for name in fits.event_columns])
        try:
            union = promote(union, row)
        except DataError as error:
            error.where = f"table {table}"
            raise
        fitting.append(fits)
    return [_convert(part, union) for part in fitting]


def _convert(part: Changes, union: StructType) -> Changes:
    from pyspark.sql import functions as F

    types = {fold_name(field.name): field.dataType for field in union}
    pairs = {name: (part.frame.schema[name].dataType, types[fold_name(name)]) for name in part.event_columns}
    changed = {
        name: convert_type(F.col(quote_name(name)), have, want)
        for name, (have, want) in pairs.items()
        if not is_same_type(have, want)
    }
    return replace(part, frame=part.frame.withColumns(changed)) if changed else part
