"""Promotion of types, and the log of schemas."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st
from pyspark.sql import types as T

from headrace.errors import DataError
from headrace.schema.promotion import add_missing_fields, promote
from headrace.sdk.schema_log import SchemaLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIMPLE = st.sampled_from(
    [T.ByteType(), T.ShortType(), T.IntegerType(), T.LongType(), T.FloatType(), T.DoubleType(), T.NullType()]
)
TYPES: st.SearchStrategy[T.DataType] = st.recursive(
    SIMPLE,
    lambda inner: (
        st.builds(T.ArrayType, inner)
        | st.dictionaries(st.sampled_from("abc"), inner).map(
            lambda fields: T.StructType([T.StructField(name, kind) for name, kind in fields.items()])
        )
    ),
    max_leaves=5,
)


def struct(**fields: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])


class TestPromotion:
    @pytest.mark.parametrize(
        ("first", "second", "both"),
        [
            (T.IntegerType(), T.LongType(), T.LongType()),
            (T.ByteType(), T.ShortType(), T.ShortType()),
            (T.FloatType(), T.DoubleType(), T.DoubleType()),
            (T.IntegerType(), T.DoubleType(), T.DoubleType()),
            (T.IntegerType(), T.FloatType(), T.DoubleType()),
            (T.DecimalType(10, 2), T.DecimalType(12, 2), T.DecimalType(12, 2)),
            (T.DecimalType(10, 2), T.DecimalType(10, 4), T.DecimalType(12, 4)),
            (T.NullType(), T.StringType(), T.StringType()),
            (T.ArrayType(T.IntegerType(), containsNull=False), T.ArrayType(T.LongType()), T.ArrayType(T.LongType())),
            (
                T.MapType(T.StringType(), T.IntegerType()),
                T.MapType(T.StringType(), T.LongType()),
                T.MapType(T.StringType(), T.LongType()),
            ),
            (
                struct(a=T.IntegerType(), b=T.StringType()),
                struct(c=T.StringType(), a=T.LongType()),
                struct(a=T.LongType(), b=T.StringType(), c=T.StringType()),
            ),
            (
                struct(name=T.IntegerType(), at=struct(x=T.IntegerType())),
                struct(AT=struct(X=T.LongType()), Name=T.IntegerType()),
                struct(name=T.IntegerType(), at=struct(x=T.LongType())),
            ),
            (
                struct(x=T.IntegerType(), X=T.StringType()),
                struct(X=T.StringType(), x=T.LongType()),
                struct(x=T.LongType(), X=T.StringType()),
            ),
        ],
    )
    def test_wider_type(self, first: T.DataType, second: T.DataType, both: T.DataType) -> None:
        assert promote(first, second) == both

    def test_field_of_one_schema_is_nullable(self) -> None:
        required = T.StructType([T.StructField("a", T.StringType(), nullable=False)])
        assert promote(required, struct(b=T.StringType())) == struct(a=T.StringType(), b=T.StringType())

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (T.StringType(), T.LongType()),
            (T.DateType(), T.IntegerType()),
            (T.TimestampType(), T.TimestampNTZType()),
            (T.StringType(), struct(a=T.StringType())),
            (T.ArrayType(T.StringType()), T.StringType()),
            (T.DecimalType(38, 0), T.DecimalType(38, 10)),
            (T.BooleanType(), T.IntegerType()),
            (T.StringType(), T.BinaryType()),
            (T.LongType(), T.FloatType()),
            (T.DoubleType(), T.LongType()),
        ],
    )
    def test_no_common_type(self, first: T.DataType, second: T.DataType) -> None:
        with pytest.raises(DataError) as raised:
            promote(struct(after=struct(x=first)), struct(after=struct(x=second)))
        assert str(raised.value) == (
            f"the column 'after.x' is {first.simpleString()} in some records and {second.simpleString()} in others\n"
            "  fix: read the two types with separate pipelines, or cast the column in the producer of the events"
        )

    @given(TYPES)
    def test_type_promoted_with_itself_is_unchanged(self, kind: T.DataType) -> None:
        assert promote(kind, kind) == kind

    @given(TYPES, TYPES)
    def test_order_only_affects_the_order_of_fields(self, first: T.DataType, second: T.DataType) -> None:
        assert outcome(first, second) == outcome(second, first)


def outcome(first: T.DataType, second: T.DataType) -> object:
    """Return the promoted type without the order of its fields; None if there is none."""
    try:
        return drop_order(promote(first, second))
    except DataError:
        return None


def drop_order(kind: T.DataType) -> object:
    if isinstance(kind, T.StructType):
        return {field.name: drop_order(field.dataType) for field in kind}
    return ("array", drop_order(kind.elementType)) if isinstance(kind, T.ArrayType) else kind


class TestMissingFields:
    def test_known_types_stay_and_new_fields_are_added(self) -> None:
        known = struct(a=T.LongType(), s=struct(x=T.StringType()), l=T.ArrayType(struct(i=T.LongType())))
        found = struct(
            b=T.StringType(),
            a=T.StringType(),
            s=struct(y=T.LongType()),
            l=T.ArrayType(struct(j=T.LongType())),
        )
        assert add_missing_fields(known, found) == struct(
            a=T.LongType(),
            s=struct(x=T.StringType(), y=T.LongType()),
            l=T.ArrayType(struct(i=T.LongType(), j=T.LongType())),
            b=T.StringType(),
        )
        before, after = struct(i=T.LongType()), struct(i=T.LongType(), j=T.StringType())
        text, number = T.StringType(), T.LongType()
        assert add_missing_fields(T.MapType(text, before), T.MapType(text, after)) == T.MapType(text, after)
        assert add_missing_fields(T.MapType(text, before), T.MapType(number, after)).keyType == text  # type: ignore[attr-defined]

    @given(TYPES, TYPES)
    def test_repeated_calls_change_nothing(self, known: T.DataType, found: T.DataType) -> None:
        extended = add_missing_fields(known, found)
        assert add_missing_fields(extended, found) == extended
        assert add_missing_fields(extended, known) == extended


class TestSchemaLog:
    def test_in_memory(self) -> None:
        log = SchemaLog()
        assert log.get("x-value") is None
        log.remember("x-value", struct(a=T.LongType()))
        assert log.get("x-value") == struct(a=T.LongType())

    @pytest.mark.spark
    @pytest.mark.one_spark
    @pytest.mark.parametrize("subject", ["moma.public.artists-value", "__debezium-heartbeat.x-value", "a/../b %c-key"])
    def test_in_a_folder(self, spark: SparkSession, tmp_path: Path, subject: str) -> None:
        from headrace.spark.storage import Folder

        schema = struct(a=T.LongType(), b=T.ArrayType(T.DecimalType(10, 2)), c=struct(d=T.TimestampNTZType()))
        SchemaLog(Folder(spark, str(tmp_path / "schemas"))).remember(subject, schema)
        again = SchemaLog(Folder(spark, str(tmp_path / "schemas")))
        assert again.get(subject) == schema
        assert again.get("another") is None
        again.remember(subject, extended := struct(a=T.LongType(), z=T.StringType()))
        assert SchemaLog(Folder(spark, str(tmp_path / "schemas"))).get(subject) == extended
        assert len([p for p in (tmp_path / "schemas").iterdir() if p.suffix == ".json"]) == 1
