"""Flat rows, from ExtractNewRecordState and from other producers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.records import make_changes, record, rows_of, samples

from headrace.errors import DataError
from headrace.sdk.changes import COMMITTED, DELETED, ERROR, KEY, OP, POSITION, Changes
from headrace.sdk.schema_log import SchemaLog
from headrace.sdk.source import SourceContext
from headrace_sources.dialects.flat import FlatDialect
from headrace_sources.transports.files import FilesSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

REAL = Path(__file__).parents[3] / "data" / "msk_demo" / "flat"


def changes(spark: SparkSession, *values: Any, **options: Any) -> Changes:
    records = [record(value, key=options.get("record_key"), offset=i) for i, value in enumerate(values)]
    [found] = make_changes(
        spark, records, dialect=FlatDialect(), keyed="record_key" in options, key=options.get("key", ())
    ).values()
    assert not found.envelope
    return found


def in_order(found: Changes, column: str) -> list[Any]:
    """Return the values of a column in the order of the positions."""
    rows = found.frame.select(POSITION, column).collect()
    return [value for _, value in sorted(map(tuple, rows))]


def test_every_field_is_a_column(spark: SparkSession) -> None:
    assert rows_of(changes(spark, {"id": 1, "__op": "c", "na me": "x"})) == [{"id": 1, "__op": "c", "na me": "x"}]


class TestOpAndDeletion:
    def test_op_and_deleted_flag(self, spark: SparkSession) -> None:
        values = [
            {"__op": "c", "__deleted": "false"},
            {"__op": "d", "__deleted": "true"},
            {"__op": "d"},
            {"__deleted": "true"},
            {"id": 1},
        ]
        rows = rows_of(changes(spark, *values), OP, DELETED)
        assert [tuple(r.values()) for r in rows] == [
            ("c", False),
            ("d", True),
            ("d", True),
            (None, True),
            (None, False),
        ]

    def test_boolean_deleted_flag(self, spark: SparkSession) -> None:
        assert rows_of(changes(spark, {"__deleted": True}, {"__deleted": False}), DELETED) == [
            {DELETED: True},
            {DELETED: False},
        ]

    def test_rows_without_metadata(self, spark: SparkSession) -> None:
        assert rows_of(changes(spark, {"id": 1}), OP, DELETED, COMMITTED, ERROR) == [
            {OP: None, DELETED: False, COMMITTED: None, ERROR: None}
        ]

    def test_undecodable_record(self, spark: SparkSession) -> None:
        assert rows_of(changes(spark, {"id": 1}, b"{"), "id", ERROR) == [
            {"id": 1, ERROR: None},
            {"id": None, ERROR: "undecodable"},
        ]

    @pytest.mark.parametrize("name", ["__source_ts_ms", "__ts_ms"])
    def test_commit_time(self, spark: SparkSession, name: str) -> None:
        assert rows_of(changes(spark, {name: 1700}), COMMITTED) == [{COMMITTED: 1700}]


class TestTombstones:
    def test_tombstone_deletes_rows_without_deleted_flag(self, spark: SparkSession) -> None:
        found = changes(spark, {"id": 1, "name": "x", "__lsn": 9}, None, record_key={"id": 1})
        assert rows_of(found, "id", "name", DELETED, ERROR) == [
            {"id": 1, "name": "x", DELETED: False, ERROR: None},
            {"id": 1, "name": None, DELETED: True, ERROR: None},
        ]
        assert in_order(found, DELETED) == [False, True]

    def test_tombstone_after_deleted_flag_is_ignored(self, spark: SparkSession) -> None:
        found = changes(spark, {"id": 1, "__deleted": "true"}, None, record_key={"id": 1})
        assert rows_of(found, "id", DELETED) == [{"id": 1, DELETED: True}]

    def test_tombstone_sorts_before_flagged_changes(self, spark: SparkSession) -> None:
        records = [record({"id": 1, "name": "x", "__deleted": "false", "__lsn": 9}, key={"id": 1})]
        records.append(record(None, key={"id": 1}, offset=1))
        [found] = make_changes(spark, records, dialect=FlatDialect(), tombstones=True).values()
        assert in_order(found, DELETED) == [True, False]
        assert [row["id"] for row in rows_of(found, "id")] == [1, 1]
        records = [{**one, "key": {"id": "1"}} for one in records]  # a key's type may differ from its column's type
        [found] = make_changes(spark, records, dialect=FlatDialect(), tombstones=True).values()
        assert [row["id"] for row in rows_of(found, "id")] == [1, 1]

    def test_tombstone_without_key_is_ignored(self, spark: SparkSession) -> None:
        assert rows_of(changes(spark, {"id": 1}, None), "id") == [{"id": 1}]


class TestPositions:
    def test_by_lsn(self, spark: SparkSession) -> None:
        values = [{"n": 2, "__lsn": 100}, {"n": 1, "__lsn": 99}]
        assert in_order(changes(spark, *values), "n") == [1, 2]

    def test_by_sequence(self, spark: SparkSession) -> None:
        values = [{"n": n, "__source_sequence": pair} for n, pair in ((1, '["9","99"]'), (0, '["8","100"]'))]
        assert in_order(changes(spark, *values), "n") == [0, 1]

    def test_new_slot_snapshot_sorts_after_old_slot_stream(self, spark: SparkSession) -> None:
        values = [{"n": n, "__source_sequence": pair} for n, pair in ((1, '[null,"100"]'), (0, '["9","99"]'))]
        assert in_order(changes(spark, *values), "n") == [0, 1]

    def test_by_mysql_file_and_position(self, spark: SparkSession) -> None:
        values = [{"n": 1, "__file": "b.10", "__pos": 4}, {"n": 0, "__file": "b.9", "__pos": 10}]
        assert in_order(changes(spark, *values), "n") == [0, 1]

    def test_by_offset_without_source_position(self, spark: SparkSession) -> None:
        assert in_order(changes(spark, *[{"n": i, "__op": "u"} for i in range(12)]), "n") == list(range(12))


class TestKeys:
    def test_record_key_precedes_rule_key(self, spark: SparkSession) -> None:
        assert rows_of(changes(spark, {"id": 1}, record_key={"k": 7}, key=["id"]), KEY) == [{KEY: {"k": 7}}]

    def test_rule_key(self, spark: SparkSession) -> None:
        assert rows_of(changes(spark, {"id": 1, "x": 2}, key=["x", "id"]), KEY) == [{KEY: {"x": 2, "id": 1}}]

    def test_no_key_columns(self, spark: SparkSession) -> None:
        assert changes(spark, {"id": 1}).key_columns == []

    def test_unknown_key_column_is_rejected(self, spark: SparkSession) -> None:
        with pytest.raises(DataError) as raised:
            changes(spark, {"artist_id": 1}, key=["artistid"])
        assert str(raised.value) == (
            "topic moma.public.artists: no such key column: 'artistid'\n  fix: did you mean 'artist_id'?"
        )


def test_events_of_extract_new_record_state(spark: SparkSession) -> None:
    events = [r for r in samples("pg_unwrap") if r["topic"].endswith(".customers")]
    [found] = make_changes(spark, events, dialect=FlatDialect()).values()
    rows = rows_of(found, "id", OP, DELETED)
    assert [(r["id"], r[OP]) for r in rows if r[DELETED]] == [(4, "d"), (1004, "d")]
    assert len(rows) == len(events) == 9


def test_real_files(spark: SparkSession) -> None:
    source = FilesSource(path=str(REAL), format="avro")
    artists, artworks = source.known_schemas(SourceContext(spark, SchemaLog()))
    assert (artists.topic, artworks.topic) == ("moma.public.artists", "moma.public.artworks")
    found = FlatDialect().changes(artists, artists.load(spark, artists.schema), ["artist_id"])
    [first, *_] = rows_of(found, OP, DELETED, KEY, POSITION, COMMITTED, ERROR)
    assert (first[OP], first[DELETED], first[ERROR]) == ("r", False, None)
    assert list(first[KEY]) == ["artist_id"]
    assert first[POSITION].startswith("0" + 2 * "B34654000000")  # no commit yet, so the LSN 3600591880192 twice
    assert first[COMMITTED] > 1_600_000_000_000
