"""Envelopes become changes: op, key, error, and a position in the database's own order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F, types as T
from tests.support.records import changes_of, record, rows_of, samples, source_position

from headrace.errors import DataError
from headrace.sdk.changes import COMMITTED, DELETED, ERROR, KEY, OFFSET, OP, POSITION, RAW, TOPIC, Changes
from headrace.sdk.positions import sortable
from headrace_sources.dialects.debezium import DebeziumDialect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

POSTGRES = "connector string, sequence string, lsn bigint"
#: Every connector's source block has a `sequence`, most of them always null.
MYSQL = "connector string, sequence string, file string, pos bigint, row int"
SQLSERVER = "connector string, sequence string, commit_lsn string, change_lsn string, event_serial_no bigint"


def order(spark: SparkSession, schema: str, *blocks: tuple[Any, ...], places: list[int] | None = None) -> list[int]:
    """The numbers of the blocks in the order of their positions; by default the later a block the earlier its place."""
    places = places or [len(blocks) - i for i in range(len(blocks))]
    rows = [(i, ("x", *block), place) for i, (block, place) in enumerate(zip(blocks, places, strict=True))]
    frame = spark.createDataFrame(rows, f"n int, source struct<{schema}>, place int")
    names = frame.schema["source"].dataType.names  # type: ignore[attr-defined]
    where = source_position(names, F.col("source").getField, sortable(F.col("place")))
    found = sorted((row["position"], row["n"]) for row in frame.select("n", where.alias("position")).collect())
    assert len({position for position, _ in found}) == len(blocks)
    return [number for _, number in found]


def struct(**fields: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])


def event(op: str | None, before: Any = None, after: Any = None, **source: Any) -> dict[str, Any]:
    block = {"connector": "postgresql", "ts_ms": 1700, "lsn": 7, **source}
    return {"before": before, "after": after, "source": block, "op": op}


def the_only(found: dict[str, Changes]) -> Changes:
    [changes] = found.values()
    return changes


class TestPositions:
    def test_postgres_by_commit_then_by_event_not_by_lsn(self, spark: SparkSession) -> None:
        assert order(
            spark,
            POSTGRES,
            ('[null,"900"]', 900),  # the snapshot: before any commit that its slot saw
            ('["1000","1000"]', 1000),
            ('["1000","1400"]', 1400),
            ('["1500","1200"]', 1200),  # committed later, begun earlier: its own LSN is lower
            ('["10000","9"]', 9),  # more digits, not more text
        ) == [0, 1, 2, 3, 4]

    def test_postgres_half_a_sequence(self, spark: SparkSession) -> None:
        assert order(
            spark,
            POSTGRES,
            (None, 5),  # an old connector has none
            ("[null,null]", 6),
            ('[null, "7"]', None),
            ('["100",null]', 7),
            ('["100","8"]', None),  # an incremental snapshot has no LSN
            ('["100", "9"]', 9),
        ) == [0, 1, 2, 3, 4, 5]

    def test_postgres_a_new_slots_snapshot_is_newer_than_what_an_older_slot_streamed(self, spark: SparkSession) -> None:
        assert order(
            spark,
            POSTGRES,
            ('[null,"900"]', 900),  # the first slot: its snapshot, its first transaction, and others
            ('[null,"950"]', 950),
            ('["1000","1400"]', 1400),
            ('["1500","1500"]', 1500),
            ('[null,"9000"]', 9000),  # the second slot: the same
            ('[null,"9008"]', 9008),
            ('["9100","9050"]', 9050),
            ('["9200","9200"]', None),  # an incremental snapshot
        ) == list(range(8))

    def test_postgres_with_and_without_a_sequence_in_one_topic(self, spark: SparkSession) -> None:
        # Old connectors send none. Of one key, LSNs rise: a row is locked until its transaction commits.
        assert order(
            spark,
            POSTGRES,
            (None, 900),
            (None, 1000),
            ('["1100","1200"]', 1200),
            ('[null,"9000"]', 9000),
            ('["9100","9050"]', 9050),
        ) == list(range(5))

    @pytest.mark.parametrize(
        ("block", "position"),
        [
            (('["255","256"]', 256), "02FF3100@"),  # tables have these: none of them may change
            (('["255",null]', None), "02FF0@"),
            (('["255",null]', 16), "02FF210@"),
            (("[null,null]", None), "000@"),
            (('[null,"256"]', 256), "031003100@"),
            (("[null,null]", 256), "031003100@"),
            ((None, 256), "031003100@"),
        ],
    )
    def test_postgres_as_text(self, spark: SparkSession, block: tuple[Any, ...], position: str) -> None:
        frame = spark.createDataFrame([block], "sequence string, lsn bigint")
        column = source_position(frame.columns, F.col, F.lit("@"))
        assert [row[0] for row in frame.select(column).collect()] == [position]

    def test_postgres_without_a_sequence(self, spark: SparkSession) -> None:
        assert order(spark, "connector string, lsn bigint", (9,), (10,), (100,), (2**62,), (-1,)) == [0, 1, 2, 3, 4]

    def test_mysql_by_numbers_not_by_text(self, spark: SparkSession) -> None:
        assert order(
            spark,
            MYSQL,
            (None, "binlog.000009", 4, 0),
            (None, "binlog.000010", 4, 0),
            (None, "binlog.000010", 900, 0),
            (None, "binlog.000010", 1000, 0),
            (None, "binlog.000010", 1000, 9),
            (None, "binlog.000010", 1000, 10),
            (None, "binlog.999999", 5000, 0),
            (None, "binlog.1000000", 4, 0),  # the number has grown by a digit
        ) == list(range(8))

    def test_mysql_whatever_the_file_is_called(self, spark: SparkSession) -> None:
        assert order(spark, MYSQL, (None, "mysql-bin-2.000001", 9, 0), (None, "mysql-bin-1.000002", 4, 0)) == [0, 1]

    def test_sqlserver(self, spark: SparkSession) -> None:
        def lsn(n: int) -> str:
            return f"{n:08x}:{n:08x}:{n:04x}"

        assert order(
            spark,
            SQLSERVER,
            (None, lsn(9), None, None),  # a snapshot's row has no change LSN
            (None, lsn(9), lsn(5), 1),
            (None, lsn(9), lsn(5), 2),  # a change of the primary key: delete, then insert
            (None, lsn(9), lsn(5), 10),
            (None, lsn(9), lsn(6), 1),
            (None, lsn(10), lsn(2), 1),
            (None, lsn(255), lsn(1), None),
        ) == list(range(7))

    @pytest.mark.parametrize(
        ("schema", "block"),
        [
            (POSTGRES, ('["5","6"]', 6)),
            (MYSQL, (None, "binlog.000001", 4, 0)),
            (SQLSERVER, (None, "a", "b", 1)),
            ("connector string, scn string", ("17",)),  # a connector whose order headrace does not know
        ],
    )
    def test_what_the_database_does_not_order_the_place_does(
        self, spark: SparkSession, schema: str, block: tuple[Any, ...]
    ) -> None:
        assert order(spark, schema, block, block, block, places=[300, 20, 100]) == [1, 2, 0]

    def test_real_events_lie_in_the_order_of_their_offsets(self, spark: SparkSession) -> None:
        found = changes_of(spark, samples("pg_envelope"), keyed=False)
        assert set(found) == {"customers", "composite_key", "docs", "no_pk", "message"}
        for topic in ("customers", "composite_key", "no_pk"):
            rows = rows_of(found[topic], POSITION, OFFSET)
            assert len(rows) > 3
            assert [r[OFFSET] for r in sorted(rows, key=lambda r: r[POSITION])] == [r[OFFSET] for r in rows]


class TestErrors:
    def test_what_is_no_row(self, spark: SparkSession) -> None:
        events = [
            event("c", None, {"id": 1}),
            event(None, None, {"id": 2}),
            event("x", None, {"id": 3}),
            event("t"),
            event("m"),
            event("u", {"id": 6}, None),
            event("d", None, None),
            event("C", None, {"id": 8}),
        ]
        records = [record(value, key={"id": i}, offset=i) for i, value in enumerate(events)]
        records.append(record(b'{"op": "c"', key={"id": 8}, offset=8))
        rows = rows_of(the_only(changes_of(spark, records)), OP, DELETED, ERROR)
        assert [tuple(row.values()) for row in rows] == [
            ("c", False, None),
            (None, False, "op-missing"),
            ("x", False, "op-unknown"),
            ("t", False, "truncated"),
            ("m", False, "op-not-a-row"),
            ("u", False, "after-missing"),
            ("d", True, None),
            ("C", False, "op-unknown"),
            (None, False, "undecodable"),
        ]

    def test_a_record_that_is_kept_has_its_bytes_and_its_place(self, spark: SparkSession) -> None:
        records = [record(event("c", None, {"id": 1}), offset=4), record(b"no json", offset=5)]
        last = rows_of(the_only(changes_of(spark, records, keyed=False)), TOPIC, OFFSET, RAW, ERROR)[-1]
        assert list(last.values()) == ["moma.public.artists", 5, bytearray(b"no json"), "undecodable"]

    def test_a_tombstone_is_no_change(self, spark: SparkSession) -> None:
        records = [record(event("d", {"id": 1}), key={"id": 1}), record(None, key={"id": 1}, offset=1)]
        assert rows_of(the_only(changes_of(spark, records)), OP) == [{OP: "d"}]

    def test_a_tombstone_with_a_whole_key_is_lower_than_every_change(self, spark: SparkSession) -> None:
        keys = [{"id": 1, "n": 1}, {"id": 1, "n": 1}, {"id": 1, "n": None}]
        records = [record(event("c", None, {"id": 1, "n": 1}), key=keys[0])]
        records += [record(None, key=key, offset=i) for i, key in enumerate(keys[1:], 1)]
        found = the_only(changes_of(spark, records, tombstones=True))
        rows = rows_of(found, OP, DELETED, KEY, ERROR, POSITION, "after")
        assert [(row[OP], row[DELETED], row[ERROR]) for row in rows] == [("c", False, None), (None, True, None)]
        assert (rows[1][KEY], rows[1]["after"]) == (keys[0], None)
        assert rows[1][POSITION] < rows[0][POSITION]
        without = the_only(changes_of(spark, [record(None), records[0]], keyed=False, key=["id"], tombstones=True))
        assert len(rows_of(without, OP)) == 1

    def test_envelopes_that_tell_no_op(self, spark: SparkSession) -> None:
        value = {"after": {"id": 1}, "source": {"connector": "postgresql"}}
        with pytest.raises(DataError) as raised:
            changes_of(spark, [record(value)])
        assert str(raised.value) == (
            "topic moma.public.artists: the envelopes have no `op`, so that inserts and deletes cannot be distinguished\n"
            "  fix: use Debezium's complete envelope, or flatten it with ExtractNewRecordState"
        )

    def test_the_databases_commit_time(self, spark: SparkSession) -> None:
        assert rows_of(the_only(changes_of(spark, [record(event("c", None, {"id": 1}))])), COMMITTED) == [
            {COMMITTED: 1700}
        ]


class TestKeys:
    EVENTS = (
        event("c", None, {"id": 1, "n": "x"}),
        event("d", {"id": 2, "n": "y"}),
        event("u", {"id": 3, "n": "a"}, {"id": 3, "n": "b"}),
    )

    def keys(self, spark: SparkSession, **options: Any) -> list[Any]:
        records = [record(value, key={"k": i}, offset=i) for i, value in enumerate(self.EVENTS)]
        return [row[KEY] for row in rows_of(the_only(changes_of(spark, records, **options)), KEY)]

    def test_the_records_own(self, spark: SparkSession) -> None:
        assert self.keys(spark) == [{"k": 0}, {"k": 1}, {"k": 2}]

    def test_the_records_own_goes_before_a_rules(self, spark: SparkSession) -> None:
        assert self.keys(spark, key=["id"]) == [{"k": 0}, {"k": 1}, {"k": 2}]

    def test_a_rules_columns_from_whichever_image_is_there(self, spark: SparkSession) -> None:
        assert self.keys(spark, keyed=False, key=["id", "n"]) == [
            {"id": 1, "n": "x"},
            {"id": 2, "n": "y"},
            {"id": 3, "n": "b"},
        ]

    def test_the_same_when_before_is_read_no_further_than_the_key(self, spark: SparkSession) -> None:
        assert self.keys(spark, keyed=False, key=["id"], whole_before=False) == [{"id": 1}, {"id": 2}, {"id": 3}]

    def test_records_without_a_key_and_no_rule(self, spark: SparkSession) -> None:
        records = [record(value, offset=i) for i, value in enumerate(self.EVENTS)]
        for keyed in (True, False):
            assert the_only(changes_of(spark, records, keyed=keyed)).key_columns == []

    def test_records_without_a_key_have_a_rules(self, spark: SparkSession) -> None:
        changes = the_only(changes_of(spark, [record(self.EVENTS[0])], key=["id"]))
        assert rows_of(changes, KEY) == [{KEY: {"id": 1}}]

    def test_a_key_column_that_does_not_exist(self, spark: SparkSession) -> None:
        with pytest.raises(DataError) as raised:
            changes_of(spark, [record(self.EVENTS[0])], keyed=False, key=["idd"])
        assert str(raised.value) == "topic moma.public.artists: no such key column: 'idd'\n  fix: did you mean 'id'?"


class TestSchemas:
    ROW = struct(id=T.IntegerType(), name=T.StringType(), note=T.StringType())
    ENVELOPE = struct(before=ROW, after=ROW, source=struct(connector=T.StringType()), op=T.StringType())

    def read_schema(
        self, schema: T.StructType, *, key: tuple[str, ...] = (), whole_before: bool = False
    ) -> T.StructType:
        return DebeziumDialect().read_schema(schema, key=key, whole_before=whole_before)

    @pytest.mark.parametrize(
        ("schema", "recognised"),
        [
            (ENVELOPE, True),
            (struct(after=ROW, source=struct(connector=T.StringType())), True),
            (struct(op=T.StringType(), source=struct(connector=T.StringType())), True),
            (struct(before=ROW, after=ROW, op=T.StringType()), True),  # Flink writes so
            (struct(before=ROW, after=ROW, op=T.StringType(), source=T.StringType()), False),
            (struct(source=struct(connector=T.StringType()), ddl=T.StringType()), False),  # a schema change
            (ROW, False),
        ],
    )
    def test_what_it_recognises(self, schema: T.StructType, *, recognised: bool) -> None:
        assert DebeziumDialect.matches(schema) is recognised

    def test_before_is_read_no_further_than_the_key(self) -> None:
        needed = self.read_schema(self.ENVELOPE, key=("id",))
        assert needed["before"].dataType == struct(id=T.IntegerType())
        assert needed["after"].dataType == self.ROW
        assert needed.names == self.ENVELOPE.names

    def test_before_is_not_read_when_nobody_needs_it(self) -> None:
        assert self.read_schema(self.ENVELOPE).names == ["after", "source", "op"]
        assert self.read_schema(self.ENVELOPE, key=("other",)).names == ["after", "source", "op"]

    def test_all_of_it_when_somebody_needs_it(self) -> None:
        assert self.read_schema(self.ENVELOPE, key=("id",), whole_before=True) == self.ENVELOPE

    def test_both_images_are_rows_of_one_table(self) -> None:
        before = struct(id=T.DoubleType(), old=T.StringType())
        schema = struct(before=before, after=struct(id=T.LongType(), new=T.StringType()), op=T.StringType())
        row = struct(id=T.LongType(), new=T.StringType(), old=T.StringType())
        assert self.read_schema(schema, whole_before=True) == struct(before=row, after=row, op=T.StringType())

    def test_envelopes_without_before(self) -> None:
        schema = struct(after=self.ROW, op=T.StringType())
        assert self.read_schema(schema) == schema
