"""Events of Debezium's SQL Server connector: order, key changes, and unavailable values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.records import make_changes, record, rows_of, samples
from tests.support.tiers import nightly_after

from headrace.sdk.changes import DELETED, ERROR, KEY, OFFSET, OP, POSITION
from headrace.sdk.dialect import Dialect
from headrace_sources.dialects.debezium import DebeziumDialect
from headrace_sources.dialects.flat import FlatDialect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

#: File name and dialect of the recorded events.
CASES = [
    pytest.param("sqlserver_envelope", DebeziumDialect(), id="envelope"),
    pytest.param("sqlserver_unwrap", FlatDialect(), id="flat"),
]
PLACEHOLDER = "__debezium_unavailable_value"


def reversed_samples(name: str, table: str) -> list[dict[str, Any]]:
    """Return the records of a table with reversed offsets."""
    found = [r for r in samples(name) if r["topic"].endswith(f".{table}")]
    return [{**r, "offset": len(found) - r["offset"]} for r in found]


@pytest.mark.parametrize(("name", "dialect"), nightly_after(1, CASES))
def test_events_sort_in_database_order(spark: SparkSession, name: str, dialect: Dialect) -> None:
    found = make_changes(spark, reversed_samples(name, "customers"), dialect=dialect)["customers"]
    rows = sorted(rows_of(found, POSITION, OFFSET, OP, ERROR), key=lambda row: row[POSITION])
    assert {row[ERROR] for row in rows} == {None}
    # Snapshot rows share one position, so their offsets order them.
    assert [row[OP] for row in rows[:3]] == ["r", "r", "r"]
    offsets = [row[OFFSET] for row in rows[3:]]
    assert len(offsets) == 15
    assert offsets == sorted(offsets, reverse=True)


@pytest.mark.parametrize(("name", "dialect"), nightly_after(1, CASES))
def test_last_event_of_each_key_equals_the_database(spark: SparkSession, name: str, dialect: Dialect) -> None:
    """1003 became 2003 and was deleted. One transaction changed 1002 three times, then swapped the keys of 1002 and 1004."""
    found = make_changes(spark, reversed_samples(name, "customers"), dialect=dialect)["customers"]
    image = "after" if found.envelope else None
    state = {}
    columns = [POSITION, KEY, DELETED, *([image] if image else ["name", "status", "phone"])]
    for row in sorted(rows_of(found, *columns), key=lambda row: row[POSITION]):
        cells = (row[image] or {}) if image else row
        state[row[KEY]["id"]] = None if row[DELETED] else [cells[c] for c in ("name", "status", "phone")]
    assert state == {
        1001: ["Sally Ann", "new", None],
        1002: ["Zoë 😀", "new", None],
        1003: None,
        1004: ["George", "11", "555"],
        2003: None,
        9999: None,
    }


def test_key_change_is_delete_and_insert_with_one_change_lsn(spark: SparkSession) -> None:
    [delete, tombstone, insert] = samples("sqlserver_envelope")[5:8]
    assert (delete["key"], tombstone["key"], insert["key"]) == ({"id": 1003}, {"id": 1003}, {"id": 2003})
    positions = [
        [event["value"]["source"][field] for field in ("commit_lsn", "change_lsn", "event_serial_no")]
        for event in (delete, insert)
    ]
    assert positions[0][:2] == positions[1][:2]
    assert [position[2] for position in positions] == [1, 2]
    rows = rows_of(make_changes(spark, [insert, delete, tombstone])["customers"], KEY, DELETED, POSITION)
    [first, second] = sorted(rows, key=lambda row: row[POSITION])
    assert [(row[KEY]["id"], row[DELETED]) for row in (first, second)] == [(1003, True), (2003, False)]


def test_table_without_key(spark: SparkSession) -> None:
    found = make_changes(spark, reversed_samples("sqlserver_envelope", "no_pk"), keyed=False, key=["a"])["no_pk"]
    rows = sorted(rows_of(found, POSITION, OP, KEY, "after"), key=lambda row: row[POSITION])
    assert [(row[OP], row[KEY], row["after"]["b"]) for row in rows] == [
        ("r", {"a": 1}, "one"),
        ("u", {"a": 1}, "uno"),
    ]


def test_unchanged_large_values_are_unavailable(spark: SparkSession) -> None:
    """As documented in docs/sqlserver.md: a placeholder for ntext, null for nvarchar(max)."""
    found = make_changes(spark, samples("sqlserver_envelope"), keyed=False)["customers"]
    of_sally = [row["after"] for row in rows_of(found, "after") if row["after"] and row["after"]["id"] == 1001]
    assert [(row["name"], row["about"], row["notes"]) for row in of_sally] == [
        ("Sally", "long", "longer"),
        ("Sally Ann", None, PLACEHOLDER),
    ]


def test_isostring_covers_years_beyond_nanoseconds(spark: SparkSession) -> None:
    """Read `datetime2(7)` with `time.precision.mode=isostring`, as the connector writes it."""
    field = {"type": "string", "name": "io.debezium.time.IsoTimestamp", "optional": True, "field": "at"}
    schema = {"type": "struct", "fields": [field]}
    texts = ["0001-01-01T01:02:03.1234567Z", "1677-09-21T00:12:43.1452242Z", "9999-12-31T23:59:59.9999999Z"]
    records = [
        record({"schema": schema, "payload": {"at": text}}, topic="x.dbo.t", offset=i) for i, text in enumerate(texts)
    ]
    found = make_changes(spark, records, dialect=FlatDialect(), keyed=False)["t"]
    times = found.frame.orderBy(OFFSET).selectExpr("date_format(at, 'yyyy-MM-dd HH:mm:ss.SSSSSS')").collect()
    assert [time for (time,) in times] == [
        "0001-01-01 01:02:03.123456",
        "1677-09-21 00:12:43.145224",
        "9999-12-31 23:59:59.999999",
    ]
