"""Values of every type in the output of ``headrace show --format json``."""

from __future__ import annotations

import json
import math
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import types as T

from headrace.cli.json_values import to_json_value

STRUCT = T.StructType([T.StructField("at", T.TimestampType()), T.StructField("raw", T.ArrayType(T.BinaryType()))])
NOON = datetime(2015, 7, 17, 12, 0, 0, 120000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (None, T.TimestampType(), None),
        (None, STRUCT, None),
        (7, T.LongType(), 7),
        (1.5, T.DoubleType(), 1.5),
        (math.nan, T.DoubleType(), "nan"),
        (True, T.BooleanType(), True),
        (Decimal("1.50"), T.DecimalType(5, 2), Decimal("1.50")),
        (date(2015, 7, 17), T.DateType(), "2015-07-17"),
        (NOON.replace(tzinfo=None), T.TimestampNTZType(), "2015-07-17T12:00:00.120000"),
        (NOON.astimezone().replace(tzinfo=None), T.TimestampType(), "2015-07-17T12:00:00.120000Z"),
        (bytearray(b"Arp \xff\x00"), T.BinaryType(), "Arp \\xff\x00"),
        ({1: None, 2: b"x"}, T.MapType(T.IntegerType(), T.BinaryType()), {"1": None, "2": "x"}),
        (T.Row(at=NOON, raw=[b"\xe9", None]), STRUCT, {"at": "2015-07-17T12:00:00.120000Z", "raw": ["\\xe9", None]}),
    ],
)
def test_value_is_converted_to_json(value: Any, kind: T.DataType, expected: Any) -> None:
    assert to_json_value(value, kind) == expected
    json.dumps(expected, default=str, allow_nan=False)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_timestamps_do_not_depend_on_the_local_time_zone(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        # In New York, this hour occurs twice.
        instant = datetime(2015, 11, 1, 6, 30, tzinfo=UTC)
        collected = T.TimestampType().fromInternal(int(instant.timestamp()) * 1_000_000)
        assert to_json_value(collected, T.TimestampType()) == "2015-11-01T06:30:00Z"
    finally:
        monkeypatch.undo()
        time.tzset()
