"""Positions from columns: they sort like the values, in all types that the columns may get."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from headrace.engine.read.column_order import describe_order, find_order_fields, order_changes, reject_tombstones
from headrace.errors import DataError
from headrace.sdk.changes import Changes
from headrace.sdk.events import Events
from headrace_sources import DebeziumDialect, FlatDialect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

pytestmark = [pytest.mark.spark, pytest.mark.steps, pytest.mark.one_spark]

COLUMNS = {
    "small": "int",
    "large": "bigint",
    "exact": "decimal(38,10)",
    "id": "decimal(38,0)",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "word": "string",
}
DAYS = st.dates(date(1, 1, 1), date(9999, 12, 31))
TIMES = st.datetimes(datetime(1600, 1, 1), datetime(9999, 12, 30))  # noqa: DTZ001 - a time without a zone
WHOLE = st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 20)
#: Many values that differ little, and a few of the whole range.
ROWS = st.tuples(
    st.none() | st.integers(-(2**31), 2**31 - 1) | st.integers(-3, 3),
    st.none() | WHOLE,
    st.none()
    | st.decimals(-20, 20, places=10)
    | st.builds(lambda n, places: Decimal(n).scaleb(-places), st.integers(-(10**18), 10**18), st.integers(0, 10)),
    st.none() | WHOLE.map(Decimal),
    st.none() | DAYS,
    st.none() | TIMES.map(lambda time: time.replace(tzinfo=UTC)),
    st.none() | TIMES,
    st.none() | st.text("ab\0é𝄞", max_size=3) | st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)
ORDERS = [[name] for name in COLUMNS] + [["word", "small"], ["exact", "word"], ["small", "exact", "at"]]
POSITION = "_headrace_position"


def make_changes(spark: SparkSession, schema: str, rows: Sequence[tuple[Any, ...]], **options: Any) -> Changes:
    own = f"{POSITION} string, _headrace_error string"
    return Changes(spark.createDataFrame(rows, f"{schema}, {own}"), envelope=False, **options)


def order(changes: Changes, *names: str) -> Changes:
    return order_changes(changes, [changes.frame.schema[name] for name in names])


def rank(value: Any) -> tuple[bool, Any]:
    """Return the expected order: null first, strings by their bytes."""
    return value is not None, value.encode() if isinstance(value, str) else value or type(value)()


@settings(max_examples=2, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(rows=st.lists(ROWS, min_size=150, max_size=250))
def test_positions_sort_like_the_columns(spark: SparkSession, rows: list[tuple[Any, ...]]) -> None:
    from pyspark.sql import functions as F

    schema = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    frame = make_changes(spark, schema, [(*row, f"0{number:04X}", None) for number, row in enumerate(rows)]).frame
    frame = frame.withColumn("place", F.col(POSITION))
    # Each order is a column of its own, so that one job computes all of them.
    for number, names in enumerate(ORDERS):
        ordered = order(Changes(frame.withColumn(POSITION, F.col("place")), envelope=False), *names)
        frame = ordered.frame.withColumn(f"position{number}", F.col(POSITION))
    made = frame.collect()
    assert {row["_headrace_error"] for row in made} == {None}
    collected = [[row[f"position{number}"] for row in made] for number in range(len(ORDERS))]
    places = list(COLUMNS)
    for names, found in zip(ORDERS, collected, strict=True):
        keys = [tuple(rank(row[places.index(name)]) for name in names) for row in rows]
        by_position = sorted(range(len(rows)), key=found.__getitem__)
        assert by_position == sorted(range(len(rows)), key=lambda number: (keys[number], number)), names


def test_equal_values_of_wider_types_have_equal_positions(spark: SparkSession) -> None:
    numbers = [-129, -1, 0, 7, 120000, None]
    found = []
    for kind in ("int", "bigint", "decimal(10,0)", "decimal(12,4)", "decimal(38,0)", "decimal(38,18)"):
        rows = [(number, f"0{place}", None) for place, number in enumerate(numbers)]
        changes = make_changes(spark, "n int", rows)
        frame = changes.frame.withColumn("n", changes.frame["n"].cast(kind))
        found.append([row[POSITION] for row in order(Changes(frame, envelope=False), "n").frame.collect()])
    assert found == [found[0]] * len(found)


def test_local_times_do_not_depend_on_the_zone_of_the_session(spark: SparkSession) -> None:
    """An hour of the year exists twice in New York, and another one does not exist."""
    hours = [datetime(2026, 11, 1, hour, 30) for hour in range(4)]  # noqa: DTZ001 - a time without a zone
    hours += [datetime(2027, 3, 14, hour, 30) for hour in range(4)]  # noqa: DTZ001
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    rows = [(hour, "0", None) for hour in hours]
    found = [row[POSITION] for row in order(make_changes(session, "t timestamp_ntz", rows), "t").frame.collect()]
    assert found == sorted(set(found))
    utc = [row[POSITION] for row in order(make_changes(spark, "t timestamp_ntz", rows), "t").frame.collect()]
    assert found == utc


def test_number_without_a_position_is_rejected(spark: SparkSession) -> None:
    values = [2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**37, None]
    rows = [(Decimal(value) if value is not None else None, "0", None) for value in values]
    made = order(make_changes(spark, "n decimal(38,0)", rows), "n").frame.collect()
    assert [row["_headrace_error"] for row in made] == [
        *(None, "unsupported-value", None, "unsupported-value", "unsupported-value", None)
    ]


def test_tombstone_keeps_its_position_and_the_pattern_matches_all_others(spark: SparkSession) -> None:
    schema = "n decimal(10,2), t timestamp, s string"
    at = datetime(2026, 1, 31, tzinfo=UTC)
    rows: list[tuple[Any, ...]] = [(Decimal("1.50"), at, "é", "02FF10", None), (None, None, None, "02FF10", None)]
    changes = make_changes(spark, schema, [*rows, (None, None, None, "!2FF10", None)], position_parts="")
    made = order(changes, "n", "t", "s")
    assert made.position_parts is not None
    assert made.position_parts.count("(") == made.position_parts.count("(?:")
    whole = made.frame.select(made.frame[POSITION].rlike(f"^0{made.position_parts}2FF10$")).collect()
    assert [row[0] for row in whole] == [True, True, False]
    assert made.frame.collect()[-1][POSITION] == "!2FF10"


def test_tombstone_without_columns_is_rejected(spark: SparkSession) -> None:
    schema = "key struct<id int>, value struct<id int>, error string"
    rows: list[tuple[Any, ...]] = [((1,), (1,), None), ((1,), None, None), ((1,), None, "undecodable"), (None,) * 3]
    made = reject_tombstones(spark.createDataFrame(rows, schema)).collect()
    assert [row["error"] for row in made] == [None, "after-missing", "undecodable", None]


def make_plan(spark: SparkSession, dialect: Any, schema: str) -> tuple[Any, Events]:
    def row_fields(schema: StructType) -> list[str]:
        return [name for name in dialect.row_fields if name in schema.names]

    plan = SimpleNamespace(dialect_of=lambda events: dialect, row_fields=row_fields)
    return plan, Events("shop.orders", spark.createDataFrame([], schema).schema, lambda session, _: session.range(0))


@pytest.mark.parametrize(
    ("schema", "names", "message"),
    [
        ("id int, updated timestamp", ["update"], "no such column: 'update'. did you mean 'updated'"),
        ("id int, price double", ["price"], "the column 'price' has the type double, which cannot order changes"),
        ("id int, ok boolean", ["id", "OK"], "the column 'ok' has the type boolean, which cannot order changes"),
        ("n decimal(38,37)", ["n"], "has the type decimal(38,37), which cannot order changes"),
        ("id int, __lsn bigint", ["id"], "rows without a position, and its events have one: PostgreSQL's LSN"),
    ],
)
def test_columns_that_cannot_order_changes(spark: SparkSession, schema: str, names: list[str], message: str) -> None:
    plan, events = make_plan(spark, FlatDialect(), schema)
    with pytest.raises(DataError) as caught:
        find_order_fields(plan, spark, events, names)
    assert message in f"{caught.value.what}. {caught.value.fix}"
    assert "topic shop.orders" in str(caught.value.where)


def test_envelopes_are_refused(spark: SparkSession) -> None:
    plan, events = make_plan(spark, DebeziumDialect(), "op string, after struct<id int>, before struct<id int>")
    with pytest.raises(DataError, match="the rows of its events are in 'before' and 'after'"):
        find_order_fields(plan, spark, events, ["id"])


def test_order_is_described_by_columns_and_kinds(spark: SparkSession) -> None:
    plan, events = make_plan(spark, FlatDialect(), "ID bigint, updated timestamp, note string")
    described = "the columns updated (time), id (number), note (text)"
    assert describe_order(plan, spark, events, ["updated", "id", "note"]) == described
    plan, events = make_plan(spark, FlatDialect(), "id bigint, UPDATED timestamp, Note string")
    assert describe_order(plan, spark, events, ["updated", "id", "note"]) == described
