"""Columns of a Delta table: names, and changes of the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk import ConfigError, DataError
from headrace.sdk.changes import DELETED
from headrace.sdk.schemas import project
from headrace_sinks.delta.delta_handle import DeltaHandle
from headrace_sinks.delta.delta_names import check_names
from headrace_sinks.delta.delta_readers import explain_widening
from headrace_sinks.reader_support import list_names
from headrace_sinks.stored_types import find_changes, spell_as_stored, union_by_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

WIDENING = "delta.enableTypeWidening"
#: Keys in the metadata of a generated and of an identity column.
_GENERATED = {"delta.generationExpression", "delta.identity.start"}
#: Widths of integers in bytes.
_INTEGERS = {"byte": 1, "short": 2, "integer": 4, "long": 8}


def evolve(handle: DeltaHandle, rows: DataFrame, readers: Sequence[str], *, has_deletes: bool) -> DataFrame:
    """Add columns and widen types of the table to hold the rows, and return the rows in the table's columns and types.

    ``has_deletes``: the rows may lack NOT NULL columns, because they may be deletes with only a key.
    """
    stored, reasons = handle.schema, list[str]()

    def can_widen(narrow: DataType, wide: DataType, path: tuple[str, ...]) -> bool:
        if not is_widening(narrow, wide):
            return False
        if refusal := _explain_refusal(handle, readers):
            reason, way_on = refusal
            raise DataError(
                f"column {'.'.join(path)!r} has type {wide.simpleString()} in the batch and {narrow.simpleString()} in the table, "
                f"and {reason}",
                fix=f"rewrite the table with the wider type, or {way_on}",
            )
        reasons.append(".".join(path))
        return True

    rows = spell_as_stored(rows, stored)
    _check_generated(stored, rows.columns)
    schema = union_by_name(stored, rows.drop(DELETED).schema, can_widen, has_deletes=has_deletes)
    check_names(list_names(schema), handle.properties, readers)
    if any(find_changes(stored, schema)):
        _change_schema(handle, schema, widens=bool(reasons))
    return project(rows, schema.add(DELETED, "boolean"))


def _check_generated(stored: StructType, columns: Sequence[str]) -> None:
    """Raise ConfigError for a generated column of the table that the batch lacks. A row without a value would be rejected or be wrong."""
    for field in stored:
        if field.name not in columns and not _GENERATED.isdisjoint(field.metadata):
            raise ConfigError(
                f"the table generates the values of the column {field.name!r}, and batches have no such column",
                where="sink delta",
                fix="give the table another `target:`, and compute the column with a transform or in a view",
            )


def _explain_refusal(handle: DeltaHandle, readers: Sequence[str]) -> tuple[str, str] | None:
    """Return the reason why no type must be widened, and what else a user can do; None if types can be widened."""
    if handle.spark.version.startswith("3."):
        # It has a preview of the feature, from bytes and shorts to integers, which other engines do not read.
        return "Delta for Spark 3 does not widen types", "run the pipeline on Spark 4"
    if handle.properties.get(WIDENING) != "true" and (reason := explain_widening(readers)) is not None:
        return reason, "remove the reader from `readers`"
    return None


def is_widening(narrow: DataType, wide: DataType) -> bool:
    """Return whether Delta can widen a column that has data to this type."""
    from pyspark.sql import types as T

    if isinstance(narrow, T.DecimalType) and isinstance(wide, T.DecimalType):
        more_digits = wide.precision - wide.scale >= narrow.precision - narrow.scale
        return more_digits and wide.scale >= narrow.scale
    if (narrow, wide) == (T.FloatType(), T.DoubleType()):
        return True
    widths = [_INTEGERS.get(kind.typeName(), 0) for kind in (narrow, wide)]
    return 0 < widths[0] < widths[1]


def _change_schema(handle: DeltaHandle, schema: StructType, *, widens: bool) -> None:
    """Commit the new schema. Delta has no other command for a table without a catalog than a write of no rows."""
    from pyspark.sql import functions as F

    if widens and handle.properties.get(WIDENING) != "true":
        handle.set_properties({WIDENING: "true"})
    if _has_local_timestamps(schema) and not _has_local_timestamps(handle.schema):
        handle.table.addFeatureSupport("timestampNtz")
    columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in schema]
    none = handle.spark.range(0).select(*columns)
    none.write.format("delta").mode("append").option("mergeSchema", "true").save(handle.path)


def _has_local_timestamps(data_type: DataType) -> bool:
    """Return whether a type contains timestamps without a time zone, which are a feature of the table."""
    return "timestamp_ntz" in data_type.simpleString()
