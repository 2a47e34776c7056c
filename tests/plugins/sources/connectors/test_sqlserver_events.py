"""Events of Debezium's SQL Server connector: the database's order, changes of the key, values that are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.records import changes_of, record, rows_of, samples

from headrace.sdk.changes import DELETED, ERROR, KEY, OFFSET, OP, POSITION
from headrace.sdk.dialect import Dialect
from headrace_sources.dialects.debezium import DebeziumDialect
from headrace_sources.dialects.flat import FlatDialect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

#: File → what reads it, and where its rows are.
WAYS = [
    pytest.param("sqlserver_envelope", DebeziumDialect(), id="envelope"),
    pytest.param("sqlserver_unwrap", FlatDialect(), id="flat"),
]
PLACEHOLDER = "__debezium_unavailable_value"


def backwards(name: str, table: str) -> list[dict[str, Any]]:
    """The records of a table, the last one first in the topic."""
    found = [r for r in samples(name) if r["topic"].endswith(f".{table}")]
    return [{**r, "offset": len(found) - r["offset"]} for r in found]


@pytest.mark.parametrize(("name", "dialect"), WAYS)
def test_events_in_any_order_lie_as_the_database_made_them(spark: SparkSession, name: str, dialect: Dialect) -> None:
    found = changes_of(spark, backwards(name, "customers"), dialect=dialect)["customers"]
    rows = sorted(rows_of(found, POSITION, OFFSET, OP, ERROR), key=lambda row: row[POSITION])
    assert {row[ERROR] for row in rows} == {None}
    # A snapshot's rows have one position, and are ordered by their places.
    assert [row[OP] for row in rows[:3]] == ["r", "r", "r"]
    offsets = [row[OFFSET] for row in rows[3:]]
    assert len(offsets) == 15
    assert offsets == sorted(offsets, reverse=True)


@pytest.mark.parametrize(("name", "dialect"), WAYS)
def test_the_last_of_each_key_is_what_the_database_has(spark: SparkSession, name: str, dialect: Dialect) -> None:
    """1003 became 2003 and went; in one transaction 1002 was changed three times, then it and 1004 changed places."""
    found = changes_of(spark, backwards(name, "customers"), dialect=dialect)["customers"]
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


def test_a_change_of_the_key_is_a_delete_and_an_insert_of_one_change(spark: SparkSession) -> None:
    [delete, tombstone, insert] = samples("sqlserver_envelope")[5:8]
    assert (delete["key"], tombstone["key"], insert["key"]) == ({"id": 1003}, {"id": 1003}, {"id": 2003})
    places = [
        [event["value"]["source"][field] for field in ("commit_lsn", "change_lsn", "event_serial_no")]
        for event in (delete, insert)
    ]
    assert places[0][:2] == places[1][:2]
    assert [place[2] for place in places] == [1, 2]
    rows = rows_of(changes_of(spark, [insert, delete, tombstone])["customers"], KEY, DELETED, POSITION)
    [first, second] = sorted(rows, key=lambda row: row[POSITION])
    assert [(row[KEY]["id"], row[DELETED]) for row in (first, second)] == [(1003, True), (2003, False)]


def test_a_table_without_a_key(spark: SparkSession) -> None:
    found = changes_of(spark, backwards("sqlserver_envelope", "no_pk"), keyed=False, key=["a"])["no_pk"]
    rows = sorted(rows_of(found, POSITION, OP, KEY, "after"), key=lambda row: row[POSITION])
    assert [(row[OP], row[KEY], row["after"]["b"]) for row in rows] == [
        ("r", {"a": 1}, "one"),
        ("u", {"a": 1}, "uno"),
    ]


def test_what_an_update_did_not_touch_does_not_come(spark: SparkSession) -> None:
    """As docs/sqlserver.md says: a placeholder for ntext, null for nvarchar(max)."""
    found = changes_of(spark, samples("sqlserver_envelope"), keyed=False)["customers"]
    of_sally = [row["after"] for row in rows_of(found, "after") if row["after"] and row["after"]["id"] == 1001]
    assert [(row["name"], row["about"], row["notes"]) for row in of_sally] == [
        ("Sally", "long", "longer"),
        ("Sally Ann", None, PLACEHOLDER),
    ]


def test_isostring_has_the_years_that_nanoseconds_have_not(spark: SparkSession) -> None:
    """`datetime2(7)` with `time.precision.mode=isostring`, as the connector wrote it."""
    field = {"type": "string", "name": "io.debezium.time.IsoTimestamp", "optional": True, "field": "at"}
    schema = {"type": "struct", "fields": [field]}
    written = ["0001-01-01T01:02:03.1234567Z", "1677-09-21T00:12:43.1452242Z", "9999-12-31T23:59:59.9999999Z"]
    records = [
        record({"schema": schema, "payload": {"at": text}}, topic="x.dbo.t", offset=i) for i, text in enumerate(written)
    ]
    found = changes_of(spark, records, dialect=FlatDialect(), keyed=False)["t"]
    times = found.frame.orderBy(OFFSET).selectExpr("date_format(at, 'yyyy-MM-dd HH:mm:ss.SSSSSS')").collect()
    assert [time for (time,) in times] == [
        "0001-01-01 01:02:03.123456",
        "1677-09-21 00:12:43.145224",
        "9999-12-31 23:59:59.999999",
    ]
