"""Debezium envelopes as changes: operation, key, error, and position in the database's order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pyspark.sql import functions as F, types as T
from tests.support.records import make_changes, record, rows_of, samples, source_position

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
LSN = "connector string, lsn bigint"
#: Source block of a connector whose order headrace does not know.
UNKNOWN = "connector string, scn string"
SQLSERVER = "connector string, sequence string, commit_lsn string, change_lsn string, event_serial_no bigint"


class Order(NamedTuple):
    """Source blocks in the order of their positions. By default, offsets run in the opposite direction."""

    schema: str
    blocks: Sequence[tuple[Any, ...]]
    offsets: Sequence[int] = ()
    expected: Sequence[int] = ()


def encode_lsn(n: int) -> str:
    return f"{n:08x}:{n:08x}:{n:04x}"


ORDERS = {
    "PostgreSQL, ordered by commit, then by event": Order(
        POSTGRES,
        [
            ('[null,"900"]', 900),  # the snapshot precedes every commit that its slot read
            ('["1000","1000"]', 1000),
            ('["1000","1400"]', 1400),
            ('["1500","1200"]', 1200),  # committed later but started earlier, so its own LSN is lower
            ('["10000","9"]', 9),  # ordered as numbers, not as strings
        ],
    ),
    "PostgreSQL, incomplete sequence": Order(
        POSTGRES,
        [
            (None, 5),  # an old connector sends no sequence
            ("[null,null]", 6),
            ('[null, "7"]', None),
            ('["100",null]', 7),
            ('["100","8"]', None),  # an incremental snapshot has no LSN
            ('["100", "9"]', 9),
        ],
    ),
    "PostgreSQL, snapshot of a new slot after stream of an old slot": Order(
        POSTGRES,
        [
            ('[null,"900"]', 900),  # the first slot: its snapshot, its first transaction, and later transactions
            ('[null,"950"]', 950),
            ('["1000","1400"]', 1400),
            ('["1500","1500"]', 1500),
            ('[null,"9000"]', 9000),  # the second slot, in the same order
            ('[null,"9008"]', 9008),
            ('["9100","9050"]', 9050),
            ('["9200","9200"]', None),  # an incremental snapshot
        ],
    ),
    # Old connectors send no sequence. LSNs of one key rise, because a row is locked until its transaction commits.
    "PostgreSQL, with and without a sequence in one topic": Order(
        POSTGRES,
        [(None, 900), (None, 1000), ('["1100","1200"]', 1200), ('[null,"9000"]', 9000), ('["9100","9050"]', 9050)],
    ),
    "PostgreSQL, without a sequence": Order(LSN, [(9,), (10,), (100,), (2**62,), (-1,)]),
    "MySQL, ordered by numbers": Order(
        MYSQL,
        [
            (None, "binlog.000009", 4, 0),
            (None, "binlog.000010", 4, 0),
            (None, "binlog.000010", 900, 0),
            (None, "binlog.000010", 1000, 0),
            (None, "binlog.999999", 5000, 0),
            (None, "binlog.1000000", 4, 0),  # the file number has one more digit
        ],
    ),
    "MySQL, ordered by file number": Order(
        MYSQL, [(None, "mysql-bin-2.000001", 9, 0), (None, "mysql-bin-1.000002", 4, 0)]
    ),
    # The number of a row restarts in each event of a transaction whose events have one position.
    "MySQL, one position": Order(
        MYSQL,
        [(None, "binlog.000001", 900, 1), (None, "binlog.000001", 900, 0), (None, "binlog.000001", 900, 1)],
        offsets=(5, 6, 7),
    ),
    "SQL Server": Order(
        SQLSERVER,
        [
            (None, encode_lsn(9), None, None),  # a snapshot's row has no change LSN
            (None, encode_lsn(9), encode_lsn(5), 1),
            (None, encode_lsn(9), encode_lsn(5), 2),  # a change of the primary key: delete, then insert
            (None, encode_lsn(9), encode_lsn(5), 10),
            (None, encode_lsn(9), encode_lsn(6), 1),
            (None, encode_lsn(10), encode_lsn(2), 1),
            (None, encode_lsn(255), encode_lsn(1), None),
        ],
    ),
    # Records that the database does not order are ordered by their offset.
    **{
        f"by offset, {schema}": Order(schema, [block] * 3, offsets=(300, 20, 100), expected=(1, 2, 0))
        for schema, block in (
            (POSTGRES, ('["5","6"]', 6)),
            (MYSQL, (None, "binlog.000001", 4, 0)),
            (SQLSERVER, (None, "a", "b", 1)),
            (UNKNOWN, ("17",)),
        )
    },
}


@pytest.fixture(scope="module")
def positions(spark: SparkSession) -> dict[str, dict[int, str]]:
    """Return case → block number → position. One plan evaluates all cases, in one column per schema."""
    schemas = sorted({case.schema for case in ORDERS.values()})
    rows = []
    for name, case in ORDERS.items():
        offsets = case.offsets or range(len(case.blocks), 0, -1)
        for n, (block, offset) in enumerate(zip(case.blocks, offsets, strict=True)):
            rows.append((name, n, offset, *((None, *block) if schema == case.schema else None for schema in schemas)))
    sources = ", ".join(f"source{i} struct<{schema}>" for i, schema in enumerate(schemas))
    frame = spark.createDataFrame(rows, f"name string, n int, offset int, {sources}")
    columns = [
        source_position(
            frame.schema[f"source{i}"].dataType.names,  # type: ignore[attr-defined]
            F.col(f"source{i}").getField,
            sortable(F.col("offset")),
        ).alias(f"position{i}")
        for i in range(len(schemas))
    ]
    found: dict[str, dict[int, str]] = {name: {} for name in ORDERS}
    for row in frame.select("name", "n", *columns).collect():
        found[row["name"]][row["n"]] = row[f"position{schemas.index(ORDERS[row['name']].schema)}"]
    return found


#: Existing tables contain these positions, so none of them may change.
ENCODED = {
    ('["255","256"]', 256): "02FF3100@",
    ('["255",null]', None): "02FF0@",
    ('["255",null]', 16): "02FF210@",
    ("[null,null]", None): "000@",
    ('[null,"256"]', 256): "031003100@",
    ("[null,null]", 256): "031003100@",
    (None, 256): "031003100@",
}


@pytest.fixture(scope="module")
def encoded(spark: SparkSession) -> dict[tuple[Any, ...], str]:
    frame = spark.createDataFrame(list(ENCODED), "sequence string, lsn bigint")
    column = source_position(frame.columns, F.col, F.lit("@"))
    return {tuple(row)[:2]: row["position"] for row in frame.select("*", column.alias("position")).collect()}


def struct(**fields: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])


def event(op: str | None, before: Any = None, after: Any = None, **source: Any) -> dict[str, Any]:
    block = {"connector": "postgresql", "ts_ms": 1700, "lsn": 7, **source}
    return {"before": before, "after": after, "source": block, "op": op}


def only_changes(found: dict[str, Changes]) -> Changes:
    [changes] = found.values()
    return changes


class TestPositions:
    @pytest.mark.parametrize("name", ORDERS)
    def test_source_blocks_sort_in_database_order(self, positions: dict[str, dict[int, str]], name: str) -> None:
        case, found = ORDERS[name], positions[name]
        assert len(set(found.values())) == len(case.blocks)
        assert sorted(found, key=found.__getitem__) == list(case.expected or range(len(case.blocks)))

    @pytest.mark.parametrize("block", ENCODED, ids=str)
    def test_postgres_position_strings_are_stable(
        self, encoded: dict[tuple[Any, ...], str], block: tuple[Any, ...]
    ) -> None:
        assert encoded[block] == ENCODED[block]

    def test_real_events_sort_by_offset(self, spark: SparkSession) -> None:
        found = make_changes(spark, samples("pg_envelope"), keyed=False)
        assert set(found) == {"customers", "composite_key", "docs", "no_pk", "message"}
        for topic in ("customers", "composite_key", "no_pk"):
            rows = rows_of(found[topic], POSITION, OFFSET)
            assert len(rows) > 3
            assert [r[OFFSET] for r in sorted(rows, key=lambda r: r[POSITION])] == [r[OFFSET] for r in rows]


class TestErrors:
    def test_events_without_rows_have_errors(self, spark: SparkSession) -> None:
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
        rows = rows_of(only_changes(make_changes(spark, records)), OP, DELETED, ERROR)
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

    def test_undecodable_record_keeps_bytes_and_offset(self, spark: SparkSession) -> None:
        records = [record(event("c", None, {"id": 1}), offset=4), record(b"no json", offset=5)]
        last = rows_of(only_changes(make_changes(spark, records, keyed=False)), TOPIC, OFFSET, RAW, ERROR)[-1]
        assert list(last.values()) == ["moma.public.artists", 5, bytearray(b"no json"), "undecodable"]

    def test_tombstone_is_not_a_change(self, spark: SparkSession) -> None:
        records = [record(event("d", {"id": 1}), key={"id": 1}), record(None, key={"id": 1}, offset=1)]
        assert rows_of(only_changes(make_changes(spark, records)), OP) == [{OP: "d"}]

    @pytest.mark.nightly
    def test_tombstone_with_complete_key_sorts_before_changes(self, spark: SparkSession) -> None:
        keys = [{"id": 1, "n": 1}, {"id": 1, "n": 1}, {"id": 1, "n": None}]
        records = [record(event("c", None, {"id": 1, "n": 1}), key=keys[0])]
        records += [record(None, key=key, offset=i) for i, key in enumerate(keys[1:], 1)]
        found = only_changes(make_changes(spark, records, tombstones=True))
        rows = rows_of(found, OP, DELETED, KEY, ERROR, POSITION, "after")
        assert [(row[OP], row[DELETED], row[ERROR]) for row in rows] == [("c", False, None), (None, True, None)]
        assert (rows[1][KEY], rows[1]["after"]) == (keys[0], None)
        assert rows[1][POSITION] < rows[0][POSITION]
        without = only_changes(
            make_changes(spark, [record(None), records[0]], keyed=False, key=["id"], tombstones=True)
        )
        assert len(rows_of(without, OP)) == 1

    def test_envelopes_without_op_are_rejected(self, spark: SparkSession) -> None:
        value = {"after": {"id": 1}, "source": {"connector": "postgresql"}}
        with pytest.raises(DataError) as raised:
            make_changes(spark, [record(value)])
        assert str(raised.value) == (
            "topic moma.public.artists: the envelopes have no `op`, so that inserts and deletes cannot be distinguished\n"
            "  fix: use Debezium's complete envelope, or flatten it with ExtractNewRecordState"
        )

    def test_commit_time_comes_from_source_block(self, spark: SparkSession) -> None:
        assert rows_of(only_changes(make_changes(spark, [record(event("c", None, {"id": 1}))])), COMMITTED) == [
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
        return [row[KEY] for row in rows_of(only_changes(make_changes(spark, records, **options)), KEY)]

    def test_record_key_is_used(self, spark: SparkSession) -> None:
        assert self.keys(spark) == [{"k": 0}, {"k": 1}, {"k": 2}]

    def test_record_key_precedes_rule_key(self, spark: SparkSession) -> None:
        assert self.keys(spark, key=["id"]) == [{"k": 0}, {"k": 1}, {"k": 2}]

    def test_rule_key_comes_from_available_image(self, spark: SparkSession) -> None:
        assert self.keys(spark, keyed=False, key=["id", "n"]) == [
            {"id": 1, "n": "x"},
            {"id": 2, "n": "y"},
            {"id": 3, "n": "b"},
        ]

    def test_rule_key_works_when_before_holds_only_keys(self, spark: SparkSession) -> None:
        assert self.keys(spark, keyed=False, key=["id"], with_row_before=False) == [{"id": 1}, {"id": 2}, {"id": 3}]

    def test_no_key_columns_without_record_key_and_rule(self, spark: SparkSession) -> None:
        records = [record(value, offset=i) for i, value in enumerate(self.EVENTS)]
        for keyed in (True, False):
            assert only_changes(make_changes(spark, records, keyed=keyed)).key_columns == []

    @pytest.mark.nightly
    def test_rule_key_applies_to_records_without_key(self, spark: SparkSession) -> None:
        changes = only_changes(make_changes(spark, [record(self.EVENTS[0])], key=["id"]))
        assert rows_of(changes, KEY) == [{KEY: {"id": 1}}]

    def test_unknown_key_column_is_rejected(self, spark: SparkSession) -> None:
        with pytest.raises(DataError) as raised:
            make_changes(spark, [record(self.EVENTS[0])], keyed=False, key=["idd"])
        assert str(raised.value) == "topic moma.public.artists: no such key column: 'idd'\n  fix: did you mean 'id'?"


class TestSchemas:
    ROW = struct(id=T.IntegerType(), name=T.StringType(), note=T.StringType())
    ENVELOPE = struct(before=ROW, after=ROW, source=struct(connector=T.StringType()), op=T.StringType())

    def read_schema(
        self, schema: T.StructType, *, key: tuple[str, ...] = (), with_row_before: bool = False
    ) -> T.StructType:
        return DebeziumDialect().read_schema(schema, key=key, with_row_before=with_row_before)

    @pytest.mark.parametrize(
        ("schema", "recognized"),
        [
            (ENVELOPE, True),
            (struct(after=ROW, source=struct(connector=T.StringType())), True),
            (struct(op=T.StringType(), source=struct(connector=T.StringType())), True),
            (struct(before=ROW, after=ROW, op=T.StringType()), True),  # Flink's format
            (struct(before=ROW, after=ROW, op=T.StringType(), source=T.StringType()), False),
            (struct(source=struct(connector=T.StringType()), ddl=T.StringType()), False),  # a schema change
            (ROW, False),
        ],
    )
    def test_schema_recognition(self, schema: T.StructType, *, recognized: bool) -> None:
        assert DebeziumDialect.matches(schema) is recognized

    def test_before_is_reduced_to_key_columns(self) -> None:
        needed = self.read_schema(self.ENVELOPE, key=("id",))
        assert needed["before"].dataType == struct(id=T.IntegerType())
        assert needed["after"].dataType == self.ROW
        assert needed.names == self.ENVELOPE.names

    def test_unneeded_before_is_not_read(self) -> None:
        assert self.read_schema(self.ENVELOPE).names == ["after", "source", "op"]
        assert self.read_schema(self.ENVELOPE, key=("other",)).names == ["after", "source", "op"]

    def test_with_row_before_is_read_on_request(self) -> None:
        assert self.read_schema(self.ENVELOPE, key=("id",), with_row_before=True) == self.ENVELOPE

    def test_both_images_share_one_row_type(self) -> None:
        before = struct(id=T.DoubleType(), old=T.StringType())
        schema = struct(before=before, after=struct(id=T.LongType(), new=T.StringType()), op=T.StringType())
        row = struct(id=T.LongType(), new=T.StringType(), old=T.StringType())
        assert self.read_schema(schema, with_row_before=True) == struct(before=row, after=row, op=T.StringType())

    def test_envelope_without_before_is_unchanged(self) -> None:
        schema = struct(after=self.ROW, op=T.StringType())
        assert self.read_schema(schema) == schema
