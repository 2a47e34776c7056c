"""Values of the texts that databases write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace_sources.jdbc.text_values import choose_type, parse_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

#: Type in SQL, type of Spark's reader, and texts with their values; ``LOST``: the type does not hold the value.
LOST = "lost"
CASES: list[tuple[str, str, dict[str | None, str | None]]] = [
    (
        "timestamp_ntz",
        "timestamp",
        {
            "2026-03-29 02:30:00.5": "2026-03-29 02:30:00.5",
            "infinity": "9999-12-31 00:00:00",
            "-infinity": "0001-01-01 00:00:00",
            "0044-03-15 00:00:00 BC": LOST,
            "2026-00-00 00:00:00": LOST,
            "0000-00-00 00:00:00": None,
            None: None,
        },
    ),
    (
        "timestamp",
        "timestamp",
        {
            "2026-03-29 02:30:00.5+00": "2026-03-29 04:30:00.5",
            "2026-03-29 02:30:00": "2026-03-29 04:30:00",
            "infinity": "9999-12-31 01:00:00",
            "0044-03-15 00:00:00+00 BC": LOST,
        },
    ),
    ("date", "date", {"2026-01-31": "2026-01-31", "infinity": "9999-12-31", "0044-03-15 BC": LOST, "2026-00-00": LOST}),
    ("string", "timestamp", {"10:00:00.5": "10:00:00.5", "-838:59:59": "-838:59:59", "24:00:00": "24:00:00"}),
    ("decimal", "decimal(10,2)", {"1.50": "1.50", "-7": "-7.00", "NaN": LOST, "Infinity": LOST}),
    (
        "decimal",
        "decimal(38,18)",
        {
            "0.123456789012345678": "0.123456789012345678",
            "0.1234567890123456780": "0.123456789012345678",
            "0.1234567890123456789": LOST,
            "1" + "0" * 25: LOST,
        },
    ),
    (
        "timestamp_ntz",
        "array<timestamp>",
        {
            '{"2026-03-29 02:30:00",NULL}': "[2026-03-29 02:30:00, null]",
            "{}": "[]",
            '{"0044-03-15 00:00:00 BC"}': LOST,
            '{{"2026-03-29 02:30:00"}}': LOST,
            "[0:0]={2026-03-29}": LOST,
            None: None,
        },
    ),
    ("decimal", "array<decimal(38,18)>", {"{1.5,NULL}": "[1.500000000000000000, null]", "{NaN}": LOST}),
]


@pytest.mark.parametrize(("name", "kind", "values"), CASES, ids=[f"{name}-{kind}" for name, kind, _ in CASES])
def test_texts_become_values_or_are_lost(
    spark: SparkSession, name: str, kind: str, values: dict[str | None, str | None]
) -> None:
    from pyspark.sql import functions as F

    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Zurich")
    rows: list[Any] = [(text,) for text in values]
    chosen = choose_type(name, spark.createDataFrame([], f"v {kind}").schema["v"].dataType)
    value, is_lost = parse_text("a.b", chosen)
    frame = session.createDataFrame(rows, "`a.b` string").select(
        "`a.b`", value.cast("string").alias("value"), is_lost.alias("lost"), F.typeof(value).alias("type")
    )
    found = {row[0]: LOST if row["lost"] else row["value"] for row in frame.collect()}
    assert found == values
    assert {row["type"] for row in frame.collect()} == {chosen.simpleString()}
