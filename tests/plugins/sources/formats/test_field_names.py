"""Types of JSON without the fields that cannot be columns."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from headrace_sources.formats.json.field_names import drop_bad_names


def struct(**fields: StructType | ArrayType | LongType) -> StructType:
    return StructType([StructField(name, data_type) for name, data_type in fields.items()])


def test_structs_without_valid_fields_are_dropped() -> None:
    bad = struct(_headrace_op=LongType())
    inferred = struct(id=LongType(), n=bad, items=ArrayType(ArrayType(bad)), m=struct(n=bad, k=LongType()))
    schema, dropped = drop_bad_names(inferred, None, lambda _: 1)
    assert schema == struct(id=LongType(), m=struct(k=LongType()))
    assert dropped.names == {"_headrace_op"}
