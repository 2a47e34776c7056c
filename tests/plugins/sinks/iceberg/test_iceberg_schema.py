"""Schemas that Iceberg cannot hold."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from headrace import DataError
from headrace_sinks.iceberg.iceberg_schema import check_paths


def struct(**fields: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])


@pytest.mark.parametrize(
    ("columns", "path"),
    [
        ({"A.B": T.IntegerType(), "A": struct(B=T.IntegerType())}, "A.B"),
        ({"a": T.ArrayType(T.IntegerType()), "a.element": T.IntegerType()}, "a.element"),
        ({"m": T.MapType(T.StringType(), struct(k=T.IntegerType())), "m.value.k": T.IntegerType()}, "m.value.k"),
    ],
)
def test_path_of_a_column_and_of_a_field(columns: dict[str, T.DataType], path: str) -> None:
    with pytest.raises(DataError, match="Iceberg does not distinguish") as raised:
        check_paths(struct(**columns))
    assert repr(path) in str(raised.value)


def test_paths_with_dots_are_allowed() -> None:
    check_paths(struct(**{"A.B": T.IntegerType(), "A": struct(C=T.IntegerType())}))
