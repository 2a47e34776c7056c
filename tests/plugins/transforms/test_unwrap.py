"""Unwrap: rows equal those of Debezium's ExtractNewRecordState, and deletes follow the mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.records import make_changes, record, rows_of, samples

from headrace.errors import ConfigError, DataError
from headrace.sdk.changes import DELETED, ERROR, KEY, OP, POSITION, Changes
from headrace_transforms.unwrap import Unwrap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

MODES = ("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")
ENVELOPE = (
    "before struct<id int, name string>, after struct<id int, name string>, "
    "source struct<ts_ms bigint, table string, lsn bigint>, op string, ts_ms bigint, "
    "transaction struct<id string, total_order bigint>, query string, lsn string"
)
SOURCE = (1700, "artists", 7)
SOURCE_BLOCK = {"connector": "postgresql", "lsn": 8, "ts_ms": 5}


def unwrap(mode: str = "tombstone", **options: Any) -> Unwrap:
    return Unwrap({"delete.tombstone.handling.mode": mode, **{k.replace("_", "."): v for k, v in options.items()}})


@pytest.fixture(scope="module")
def envelopes(spark: SparkSession) -> DataFrame:
    """Return a plain frame of envelopes: an insert, an update, a delete, a snapshot row, a truncate and a message."""
    old, new = (1, "x"), (1, "y")
    events = [
        (None, old, "c"),
        (old, new, "u"),
        (new, None, "d"),
        (None, (2, "z"), "r"),
        (None, None, "t"),
        (None, None, "m"),
    ]
    rows = [
        (b, a, SOURCE, op, 1800 + i, ("tx", i) if i % 2 else None, "SELECT", "not the source's")
        for i, (b, a, op) in enumerate(events)
    ]
    return spark.createDataFrame(rows, ENVELOPE).coalesce(1).cache()


@pytest.fixture(scope="module")
def rows_by_table(spark: SparkSession) -> dict[str, list[dict[str, Any]]]:
    options = unwrap("rewrite", add_fields="op,table,source.ts_ms")
    events = [r for r in samples("pg_envelope") if r["topic"].endswith((".customers", ".composite_key", ".no_pk"))]
    found = {}
    for topic, changes in make_changes(spark, events).items():
        result = options.apply(changes)
        found[topic] = rows_of(Changes(result.frame.where(f"{ERROR} IS NULL"), envelope=False))
    return found


@pytest.fixture(scope="module")
def events() -> list[dict[str, Any]]:
    def event(op: str | None, before: Any, after: Any) -> dict[str, Any]:
        return {"before": before, "after": after, "source": SOURCE_BLOCK, "op": op}

    return [
        record(event("c", None, {"id": 1, "name": "x", "age": 30}), key={"id": 1}, offset=0),
        record(event("d", {"id": 1, "name": "x", "age": 30}, None), key={"id": 1}, offset=1),
        record(event("d", {"id": 2, "name": ""}, None), key={"id": 2}, offset=2),
        record(event("d", None, None), key={"id": 3}, offset=3),
        record(None, key={"id": 3}, offset=4),
        record(event("t", None, None), offset=5),
        record(b"{ no json", key={"id": 6}, offset=6),
    ]


@pytest.fixture(scope="module")
def changes_without_before(spark: SparkSession, events: list[dict[str, Any]]) -> Changes:
    """Return the events for a mode that does not read `before`, decoded once for all such modes."""
    [changes] = make_changes(spark, events, with_row_before=False).values()
    return changes


def unwrapped_rows(frame: DataFrame, transform: Unwrap) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in transform(frame).collect()]


class TestRealEvents:
    """The same statements as envelopes, and as rows of the real ExtractNewRecordState."""

    @pytest.mark.parametrize("table", ["customers", "composite_key", "no_pk"])
    def test_rows_equal_those_of_extract_new_record_state(
        self, rows_by_table: dict[str, list[dict[str, Any]]], table: str
    ) -> None:
        expected = [r["value"] for r in samples("pg_unwrap") if r["topic"].endswith(f".{table}")]
        assert len(rows_by_table[table]) == len(expected) > 2
        for actual, real in zip(rows_by_table[table], expected, strict=True):
            # JSON without a schema omits later columns in earlier rows, where headrace has null.
            assert {name: actual[name] for name in real} == real
            assert all(actual[name] is None for name in actual.keys() - real.keys())

    def test_added_fields_come_last(self, rows_by_table: dict[str, list[dict[str, Any]]]) -> None:
        assert list(rows_by_table["no_pk"][0]) == ["a", "b", "__deleted", "__op", "__table", "__source_ts_ms"]


class TestPlainDataFrames:
    @pytest.mark.parametrize("mode", ["drop", "tombstone", "delete-to-tombstone"])
    def test_delete_is_omitted(self, envelopes: DataFrame, mode: str) -> None:
        assert unwrap(mode)(envelopes).columns == ["id", "name"]
        assert unwrapped_rows(envelopes, unwrap(mode)) == [(1, "x"), (1, "y"), (2, "z")]

    def test_rewrite_keeps_the_delete(self, envelopes: DataFrame) -> None:
        assert unwrap("rewrite")(envelopes).columns == ["id", "name", "__deleted"]
        assert unwrapped_rows(envelopes, unwrap("rewrite")) == [
            (1, "x", "false"),
            (1, "y", "false"),
            (1, "y", "true"),
            (2, "z", "false"),
        ]

    def test_rewrite_with_tombstone_flags_and_removes(self, envelopes: DataFrame) -> None:
        assert unwrapped_rows(envelopes, unwrap("rewrite-with-tombstone")) == [
            (1, "x", "false"),
            (1, "y", "false"),
            (2, "z", "false"),
        ]

    def test_flat_rows_are_unchanged(self, spark: SparkSession) -> None:
        rows = spark.createDataFrame([(1, "false")], "id int, __deleted string")
        for mode in MODES:
            assert [tuple(row) for row in unwrap(mode, add_fields="op")(rows).collect()] == [(1, "false")]

    def test_envelopes_without_before(self, envelopes: DataFrame) -> None:
        assert unwrapped_rows(envelopes.drop("before"), unwrap()) == [(1, "x"), (1, "y"), (2, "z")]

    def test_envelopes_without_after(self, envelopes: DataFrame) -> None:
        frame = envelopes.drop("after").where("op = 'd'")
        assert unwrapped_rows(frame, unwrap("rewrite")) == [(1, "y", "true")]
        assert unwrap()(frame).schema.simpleString() == "struct<id:int,name:string>"
        assert unwrapped_rows(frame, unwrap()) == []


class TestAddFields:
    @pytest.mark.parametrize(
        ("fields", "added"),
        [
            ("op", {"__op": "c"}),
            ("source.ts_ms", {"__source_ts_ms": 1700}),
            (" op , source.table ", {"__op": "c", "__source_table": "artists"}),
            ("transaction.id:tx", {"__tx": None}),
            ("op:operation,source.lsn:at", {"__operation": "c", "__at": 7}),
            # a plain name is searched in the envelope, the transaction and the source, as in ExtractNewRecordState
            ("ts_ms", {"__ts_ms": 1800}),
            ("total_order", {"__total_order": None}),
            ("table,lsn", {"__table": "artists", "__lsn": 7}),
            ("query", {"__query": "SELECT"}),
            # fields that the envelope lacks are not added
            ("ts_ns,sequence,data_collection_order,source.gtid,nobody.id,nobody", {}),
            ("", {}),
            (",,", {}),
        ],
    )
    def test_names_and_values(self, envelopes: DataFrame, fields: str, added: dict[str, Any]) -> None:
        [first, *_] = unwrap(add_fields=fields)(envelopes).collect()
        assert first.asDict() == {"id": 1, "name": "x", **added}

    def test_fields_follow_the_order_of_the_option(self, envelopes: DataFrame) -> None:
        result = unwrap("rewrite", add_fields="table,op,transaction.id")(envelopes)
        assert result.columns == ["id", "name", "__deleted", "__table", "__op", "__transaction_id"]

    def test_fields_of_a_transaction(self, envelopes: DataFrame) -> None:
        assert unwrapped_rows(envelopes, unwrap(add_fields="id,total_order"))[1:] == [
            (1, "y", "tx", 1),
            (2, "z", "tx", 3),
        ]

    def test_prefix(self, envelopes: DataFrame) -> None:
        options = {"add.fields": "op,source.ts_ms", "add.fields.prefix": "cdc."}
        assert Unwrap(options)(envelopes).columns == ["id", "name", "cdc.op", "cdc.source_ts_ms"]

    @pytest.mark.parametrize("fields", ["op,op", "op,table:op", "op,table:OP"])
    def test_duplicate_column_names(self, fields: str) -> None:
        with pytest.raises(ConfigError, match=r"`add\.fields` adds a second column '__(op|OP)': name it `.*:alias`"):
            unwrap(add_fields=fields)

    def test_name_of_a_row_column(self, envelopes: DataFrame) -> None:
        with pytest.raises(DataError, match="second column 'name'"):
            Unwrap({"add.fields": "table:name", "add.fields.prefix": ""})(envelopes)

    @pytest.mark.parametrize("fields", ["source.", "a.b.c", ".", "op,a.b.c:d", ":alias"])
    def test_invalid_fields(self, fields: str) -> None:
        with pytest.raises(ConfigError, match=r"is not a field: write `op`, `source\.ts_ms` or `source\.ts_ms:alias`"):
            unwrap(add_fields=fields)


class TestInAPipeline:
    """Frames with headrace's columns. The sink deletes the rows of DELETED."""

    def rows(self, changes: Changes, mode: str, *columns: str, reads_before: bool = False) -> list[tuple[Any, ...]]:
        transform = unwrap(mode)
        assert transform.reads_before is reads_before
        result = transform.apply(changes)
        assert not result.envelope
        assert {OP, KEY, POSITION, ERROR} <= set(result.own_columns)
        return [tuple(row.values()) for row in rows_of(result, *columns)]

    @pytest.mark.parametrize("mode", ["tombstone", "delete-to-tombstone"])
    def test_delete_has_only_its_key(self, changes_without_before: Changes, mode: str) -> None:
        assert self.rows(changes_without_before, mode, "id", "name", "age", DELETED, ERROR) == [
            (1, "x", 30, False, None),
            (1, None, None, True, None),
            (2, None, None, True, None),
            (3, None, None, True, None),
            (None, None, None, False, "truncated"),
            (6, None, None, False, "undecodable"),
        ]

    def test_rewrite_keeps_the_last_row(self, spark: SparkSession, events: list[dict[str, Any]]) -> None:
        [changes] = make_changes(spark, events, with_row_before=True).values()
        columns = "id", "name", "age", "__deleted", DELETED
        assert self.rows(changes, "rewrite", *columns, reads_before=True)[:4] == [
            (1, "x", 30, "false", False),
            (1, "x", 30, "true", False),
            (2, "", None, "true", False),
            (3, None, None, "true", False),
        ]

    def test_rewrite_with_tombstone_flags_and_removes(self, changes_without_before: Changes) -> None:
        assert self.rows(changes_without_before, "rewrite-with-tombstone", "id", "__deleted", DELETED)[:3] == [
            (1, "false", False),
            (1, "true", True),
            (2, "true", True),
        ]

    def test_drop_omits_deletes_and_keeps_errors(self, changes_without_before: Changes) -> None:
        rows = self.rows(changes_without_before, "drop", "id", ERROR)
        assert rows == [(1, None), (None, "truncated"), (6, "undecodable")]

    def test_key_column_missing_in_the_row_is_added(self, spark: SparkSession) -> None:
        value = {"before": None, "after": {"name": "x"}, "source": SOURCE_BLOCK, "op": "c"}
        [changes] = make_changes(spark, [record(value, key={"id": 7})]).values()
        assert rows_of(unwrap().apply(changes)) == [{"name": "x", "id": 7}]

    def test_batch_of_deletes_has_columns_and_types_of_the_table(self, spark: SparkSession) -> None:
        value = {"before": {"id": 1, "name": "x"}, "after": None, "source": SOURCE_BLOCK, "op": "d"}
        [changes] = make_changes(spark, [record(value)], keyed=False, key=["id"], with_row_before=True).values()
        result = unwrap().apply(changes)
        assert result.frame.select("id", "name").schema.simpleString() == "struct<id:bigint,name:string>"
        assert rows_of(result, "id", "name", DELETED) == [{"id": 1, "name": None, DELETED: True}]

    def test_flat_rows_with_deleted_flag(self, spark: SparkSession) -> None:
        frame = spark.createDataFrame([(1, False), (2, True)], f"id int, {DELETED} boolean")
        flat = Changes(frame, envelope=False)

        def apply_mode(mode: str) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in unwrap(mode).apply(flat).frame.collect()]

        assert apply_mode("tombstone") == [(1, False), (2, True)]
        assert apply_mode("drop") == [(1, False)]
        assert apply_mode("rewrite") == [(1, False, "false"), (2, False, "true")]
        assert apply_mode("rewrite-with-tombstone") == [(1, False, "false"), (2, True, "true")]

    def test_flat_rows_keep_their_flag(self, spark: SparkSession) -> None:
        frame = spark.createDataFrame([("true", True)], f"__deleted string, {DELETED} boolean")
        [row] = unwrap("rewrite").apply(Changes(frame, envelope=False)).frame.collect()
        assert row.asDict() == {"__deleted": "true", DELETED: False}


@pytest.mark.parametrize("mode", MODES)
def test_requirements_for_sinks_and_sources(mode: str) -> None:
    deletes = {"drop": False, "rewrite": False}.get(mode, True)
    assert (unwrap(mode).deletes_rows, unwrap(mode).reads_before) == (deletes, mode == "rewrite")
