from __future__ import annotations

import pytest
from pyspark.sql import types as T

from headrace import ConfigError
from headrace_sinks.delta.delta_partitions import check_partition_types


@pytest.mark.parametrize("kind", [T.TimestampType(), T.BinaryType()], ids=str)
def test_types_whose_values_change_are_rejected(kind: T.DataType) -> None:
    schema = T.StructType([T.StructField("Seen", kind), T.StructField("day", T.DateType())])
    with pytest.raises(ConfigError, match=f"values of the type {kind.simpleString()} back unchanged"):
        check_partition_types(["seen"], schema, "kit")
    check_partition_types(["day"], schema, "kit")
