"""JSON with an embedded schema: column types, and records that do not match their schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.records import make_changes, make_kafka_frame, record

from headrace.errors import DataError
from headrace.sdk.changes import ERROR, KEY, OFFSET, OP
from headrace.sdk.format import RecordReader, UnknownSchemaError
from headrace.sdk.schema_log import SchemaLog, Subject
from headrace.spark.sessions import Sessions
from headrace.spark.storage import Folder
from headrace_sources.formats.json import embedded_schema
from headrace_sources.formats.json.json_format import JsonFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

pytestmark = pytest.mark.spark

SAMPLES = Path(__file__).parents[3] / "data" / "debezium"
TOPIC = "moma.public.artists"
C = "org.apache.kafka.connect.data."


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """Return a session like the engine's."""
    return Sessions(spark, {"spark.sql.session.timeZone": "UTC"}).of("json")


def samples(name: str, table: str) -> list[dict[str, Any]]:
    """Return the records of a table with the exact bytes of the converter."""
    found = json.loads((SAMPLES / f"{name}.json").read_text())

    def join_schema(half: list[Any] | None) -> bytes | None:
        return None if half is None else encode(found["schemas"][half[0]], half[1])

    return [
        record(join_schema(r["value"]), key=join_schema(r["key"]), topic=r["topic"], offset=r["offset"])
        for r in found["records"]
        if r["topic"].endswith(f".{table}")
    ]


def encode(schema: str, payload: str) -> bytes:
    """Return a record in JsonConverter's format."""
    return f'{{"schema":{schema},"payload":{payload}}}'.encode()


def struct(**fields: Any) -> dict[str, Any]:
    """Return a schema block; a field is a type name or a block."""
    blocks = [{**({"type": kind} if isinstance(kind, str) else kind), "field": name} for name, kind in fields.items()]
    return {"type": "struct", "fields": blocks, "optional": False, "name": "moma.Value"}


def value(schema: Any, payload: Any) -> bytes:
    return encode(json.dumps(schema, separators=(",", ":")), json.dumps(payload, separators=(",", ":")))


def decimal(scale: int, precision: int) -> dict[str, Any]:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return {"type": "bytes", "name": f"{C}Decimal", "version": 1, "parameters": parameters}


class Reader:
    """Format with a schema log that persists across batches."""

    def __init__(self, session: SparkSession, log: SchemaLog | None = None, column: str = "value") -> None:
        self.session, self.column, self.log, self.format = session, column, log or SchemaLog(), JsonFormat()

    def open(self, *values: Any) -> RecordReader:
        frame = make_kafka_frame(self.session, [record(v, key=v, offset=i) for i, v in enumerate(values)]).coalesce(1)
        return self.format.open(self.session, frame, self.column, Subject(TOPIC, self.column), self.log)

    def schema(self, *values: Any) -> StructType:
        return self.open(*values).schema

    def read(self, *values: Any, schema: StructType | None = None) -> list[Any]:
        """Return the values, or the errors of records that have one. Read again with numeric decimals if needed, as the engine does."""
        try:
            return self.read_as_known(*values, schema=schema)
        except Exception as error:
            unknown = self.format.explain(error)
            if not isinstance(unknown, UnknownSchemaError) or unknown.schemas[0][1] != "decimal.format=NUMERIC":
                raise
            self.log.note_unknown(unknown.schemas)
        return self.read_as_known(*values, schema=schema)

    def read_as_known(self, *values: Any, schema: StructType | None = None) -> list[Any]:
        """Return the same by the logged schemas, which may be incomplete."""
        frame = make_kafka_frame(self.session, [record(v, key=v, offset=i) for i, v in enumerate(values)])
        reader = self.open(*values)
        found = reader.decode(frame.select("offset", self.column), self.column, schema or reader.schema, "error")
        rows = sorted(found.collect(), key=lambda row: row["offset"])
        return [row["error"] or (row[self.column] and row[self.column].asDict(recursive=True)) for row in rows]


def tables(session: SparkSession, name: str, table: str) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Return types and rows of a sample, with times as strings."""
    from pyspark.sql import functions as F

    changes = make_changes(session, samples(name, table))[table]
    kind: Any = changes.frame.schema["after"].dataType
    types = {field.name: field.dataType.simpleString() for field in kind}
    cells = []
    for column, simple in types.items():
        cell = F.col("after").getField(column)
        is_time = any(word in simple for word in ("date", "timestamp"))
        cells.append(
            (
                cell.cast(simple.replace("timestamp_ntz", "string"))
                if "<" in simple and is_time
                else cell.cast("string")
                if is_time
                else cell
            ).alias(column)
        )
    frame = changes.frame.where(F.col("after").isNotNull()).orderBy(OFFSET).select(ERROR, *cells)
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    assert {row.pop(ERROR) for row in rows} == {None}
    return types, rows


def non_null(row: dict[str, Any]) -> dict[str, Any]:
    return {name: cell for name, cell in row.items() if cell is not None}


class TestSamples:
    def test_postgres(self, session: SparkSession) -> None:
        types, rows = tables(session, "pg_schema", "all_types")
        assert types["c_num_10_2"] == "decimal(10,2)"
        assert (types["c_ts"], types["c_tstz"], types["c_date"]) == ("timestamp_ntz", "timestamp", "date")
        uuid = "6f1d3c1e-5b1c-4b8a-9c7e-0f1e2d3c4b5a"
        assert rows[0] == {
            "id": 1,
            "c_small": -32768,
            "c_int": 2147483647,
            "c_big": 9223372036854775807,
            "c_real": 1.5,
            "c_double": 3.141592653589793,
            "c_bool": True,
            "c_num_10_2": Decimal("12345678.90"),
            "c_num_38_0": Decimal("9" * 38),
            "c_num": "1234567890.123456789",
            "c_money": Decimal("1234.56"),
            "c_char": "ab   ",
            "c_varchar": "varchar",
            "c_text": 'text é中😀 "q" \n tab\t',
            "c_citext": "CiText",
            "c_bytea": b"\xde\xad\xbe\xef\x00\xff",
            "c_date": "2026-11-21",
            "c_time": 47655123456,
            "c_time3": 47655123000,
            "c_timetz": "11:14:15.123456Z",
            "c_ts": "2026-11-21 13:14:15.123456",
            "c_ts0": "2026-11-21 13:14:15",
            "c_ts3": "2026-11-21 13:14:15.123",
            "c_tstz": "2026-11-21 11:14:15.123456",
            "c_tstz3": "2026-11-21 11:14:15.123",
            "c_interval": 37091106789000,
            "c_uuid": uuid,
            "c_json": '{"a": 1, "b": [1, 2.50]}',
            "c_jsonb": '{"a": 1, "z": null}',
            "c_xml": "<a>x</a>",
            "c_inet": "192.168.1.5/24",
            "c_cidr": "10.0.0.0/8",
            "c_mac": "08:00:2b:01:02:03",
            "c_bit1": True,
            "c_bit8": b"\xa5",
            "c_varbit": b"\x05",
            "c_int_arr": [1, None, 3],
            "c_text_arr": ["a", "b,c", None, 'q"q'],
            "c_num_arr": [Decimal("1.500"), Decimal("2.250")],
            "c_ts_arr": ["2026-01-01 00:00:00", "2026-01-01 00:00:00.5"],
            "c_uuid_arr": [uuid],
            "c_jsonb_arr": ['{"k": 1}'],
            "c_bytea_arr": [b"\x01"],
            "c_enum": "happy",
            "c_domain": 7,
            "c_hstore": '{"k1":"v1","k2":null}',
            "c_ltree": "a.b.c",
            "c_point": {"x": 1.5, "y": -2.0, "wkb": rows[0]["c_point"]["wkb"], "srid": None},
            "c_i4range": "[1,10)",
            "c_numrange": "[1.5,2.5]",
            "c_tsrange": '["2026-01-01 00:00:00","2026-02-01 00:00:00")',
            "c_tstzrange": '["2026-01-01 00:00:00+00","2026-02-01 00:00:00+00")',
            "c_tsvector": "'fox':3 'quick':2",
            "c_oid": 42,
        }
        assert non_null(rows[1]) == {"id": 2}
        assert str(rows[2].pop("c_real")) == "nan"
        assert non_null(rows[2]) == {
            "id": 3,
            "c_small": 32767,
            "c_double": float("-inf"),
            "c_num": "0",
            "c_date": "0001-01-01",
            "c_ts": "0001-01-01 00:00:00",
            "c_tstz": "9999-12-31 23:59:59.999999",
            "c_interval": -86401000000,
            "c_num_10_2": Decimal("-0.01"),
            "c_money": Decimal("-5.00"),
            "c_time": 86400000000,
            "c_bytea": b"",
            "c_int_arr": [],
            "c_text": "",
        }
        assert non_null(rows[3]) == {"id": 4, "c_num": "0.00000000000000000001", "c_tstz": "9999-12-31 00:00:00"}
        assert non_null(rows[4]) == {"id": 5}  # NaN, for which Debezium sends null

    @pytest.mark.nightly
    def test_mariadb(self, session: SparkSession) -> None:
        _, rows = tables(session, "mariadb_schema", "all_types")
        wkb = {name: rows[0][name]["wkb"] for name in ("c_point", "c_geom")}
        assert rows[0] == {
            "id": 1,
            "c_tiny": -128,
            "c_tinyu": 255,
            "c_bool": 1,
            "c_small": -32768,
            "c_med": -8388608,
            "c_int": -2147483648,
            "c_intu": 4294967295,
            "c_big": -9223372036854775808,
            "c_bigu": -1,  # Debezium's default for 2^64-1
            "c_dec": Decimal("12345678.90"),
            "c_dec65": "9" * 65,
            "c_float": 1.5,
            "c_double": 3.141592653589793,
            "c_bit1": True,
            "c_bit10": b"\x97\x02",
            "c_char": "ab",
            "c_varchar": "varchar",
            "c_text": 'text é中😀 "q" \n tab\t',
            "c_longtext": "long",
            "c_latin": "café",
            "c_binary": b"\xde\xad\xbe\xef",
            "c_varbinary": b"\x00\xff",
            "c_blob": b"\x01\x02\x03\x04\x05",
            "c_date": "2026-11-21",
            "c_time": 47655000000,
            "c_time6": -3020398999999,
            "c_dt": "2026-11-21 13:14:15",
            "c_dt3": "2026-11-21 13:14:15.123",
            "c_dt6": "2026-11-21 13:14:15.123456",
            "c_ts": "2026-11-21 13:14:15",
            "c_ts6": "2026-11-21 13:14:15.123456",
            "c_year": 2026,
            "c_enum": "happy",
            "c_set": "a,c",
            "c_json": '{"a": 1, "b": [1, 2.50]}',
            "c_point": {"x": 1.5, "y": -2.0, "wkb": wkb["c_point"], "srid": None},
            "c_geom": {"wkb": wkb["c_geom"], "srid": None},
            "c_uuid": "6f1d3c1e-5b1c-4b8a-9c7e-0f1e2d3c4b5a",
        }
        assert non_null(rows[1]) == {"id": 2}
        assert non_null(rows[2]) == {
            "id": 3,
            "c_year": 1901,
            "c_enum": "",
            "c_text": "",
            "c_blob": b"",
            "c_dec": Decimal("-0.01"),
        }

    @pytest.mark.nightly
    def test_sqlserver(self, session: SparkSession) -> None:
        _, rows = tables(session, "sqlserver_schema", "all_types")
        expected = {
            "c_bigint": (1234567890123456789, None, -(2**63), 2**63 - 1),
            "c_decimal": ("12345.6789", None, "-99999999999999.9999", "99999999999999.9999", "0.0001"),
            "c_decimal38": (
                "1234567890123456789012345678.0123456789",
                None,
                "-9999999999999999999999999999.9999999999",
                "9999999999999999999999999999.9999999999",
                "-0.0000000001",
            ),
            "c_money": ("1234.5678", None, "-922337203685477.5808", "922337203685477.5807", "-0.0001"),
            "c_date": ("2026-02-28", None, "0001-01-01", "9999-12-31", "1582-10-20", "1500-02-28"),
            "c_datetime": ("2026-02-28 13:14:15.997", None, "1753-01-01 00:00:00", "9999-12-31 23:59:59.997"),
            "c_datetime2_6": (
                "2026-02-28 13:14:15.123457",
                None,
                "0001-01-01 00:00:00",
                "9999-12-31 23:59:59.999999",
                "1970-01-01 00:00:00",
                "1500-02-28 01:02:03.000001",
            ),
            "c_datetime2_7": ("2026-02-28 13:14:15.123456", None, None, None, "1969-12-31 23:59:59.999999"),
            "c_dto7": ("2026-02-28 11:14:15.123456", None, "0000-12-30 00:00:00", "9999-12-31 23:59:59.999999"),
        }
        for column, cells in expected.items():
            found = [row[column] for row in rows][: len(cells)]
            assert found == [Decimal(cell) if isinstance(found[0], Decimal) and cell else cell for cell in cells], (
                column
            )

    def test_added_and_removed_columns(self, session: SparkSession) -> None:
        changes = make_changes(session, samples("pg_schema", "customers"))["customers"]
        kind: Any = changes.frame.schema["after"].dataType
        assert kind.names == ["id", "first_name", "last_name", "email", "balance", "created_at", "phone", "phone_no"]
        rows = [
            (
                row[OP],
                row[KEY]["id"],
                row["after"] and tuple(row["after"])[4:8:1][:1] + tuple(row["after"])[6:],
                row[ERROR],
            )
            for row in changes.frame.orderBy(OFFSET).select(OP, KEY, "after", ERROR).collect()
        ]
        assert rows == [
            ("r", 1, (Decimal("10.50"), None, None), None),
            ("r", 2, (Decimal("0.00"), None, None), None),
            ("r", 3, (Decimal("-3.33"), None, None), None),
            ("c", 4, (Decimal("99999999.99"), None, None), None),
            ("u", 4, (Decimal("99999999.99"), None, None), None),
            ("d", 4, None, None),
            ("c", 1004, (Decimal("99999999.99"), None, None), None),
            ("d", 1004, None, None),
            ("c", 5, (Decimal("0.00"), None, None), None),
            ("c", 6, (Decimal("0.00"), None, None), None),
            ("u", 5, (Decimal("1.00"), None, None), None),
            ("u", 6, (Decimal("1.00"), None, None), None),
            ("c", 8, (Decimal("0.00"), "555-1", None), None),
            ("c", 9, (None, "000", None), None),
            ("u", 8, (None, "555-2", None), None),
            ("u", 8, (None, None, "555-3"), None),
        ]


A = struct(id="int32", name="string")
B = struct(id="int64", price=decimal(2, 9))


class TestWriters:
    def test_several_schemas_in_one_batch(self, session: SparkSession) -> None:
        reader = Reader(session)
        assert reader.read(value(A, {"id": 1, "name": "x"}), value(B, {"id": 2**40, "price": "/w=="})) == [
            {"id": 1, "name": "x", "price": None},
            {"id": 2**40, "name": None, "price": Decimal("-0.01")},
        ]
        assert reader.schema().simpleString() == "struct<id:bigint,name:string,price:decimal(9,2)>"

    def test_new_schema_in_a_later_batch(self, session: SparkSession, tmp_path: Path) -> None:
        reader = Reader(session, SchemaLog(schema_folder(session, tmp_path)))
        reader.read(value(A, {"id": 1, "name": "x"}))
        later = value(A, {"id": 2, "name": "y"}), value(B, {"id": 3, "price": None})
        with pytest.raises(Exception, match="headrace-writer-schema") as raised:
            reader.read(*later)
        found = reader.format.explain(raised.value)
        assert isinstance(found, UnknownSchemaError)
        assert str(found) == (
            "topic moma.public.artists: records have a schema that no record had before\n"
            "  fix: run it again: the batch is planned with the new schema"
        )
        reader.log.note_unknown(found.schemas)
        expected = [{"id": 2, "name": "y", "price": None}, {"id": 3, "name": None, "price": None}]
        assert reader.read(*later) == expected
        # another run reads the schema from the checkpoint
        assert Reader(session, SchemaLog(schema_folder(session, tmp_path))).read(*later) == expected

    def test_errors_of_other_decoders_are_not_explained(self, session: SparkSession) -> None:
        mark = "<headrace-writer-schema decoder=other subject=other-value id=1>"
        assert JsonFormat().explain(RuntimeError(mark)) is None

    def test_incompatible_types(self, session: SparkSession) -> None:
        with pytest.raises(DataError, match=r"topic moma\.public\.artists: the column 'id' is int in some records"):
            Reader(session).schema(value(A, {"id": 1, "name": "x"}), value(struct(id="string"), {"id": "x"}))

    def test_changed_semantic_type(self, session: SparkSession) -> None:
        millis = {"type": "int64", "name": "io.debezium.time.Timestamp"}
        micros = {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}
        found = Reader(session).read(value(struct(at=millis), {"at": 1000}), value(struct(at=micros), {"at": 1000}))
        assert [str(row["at"]) for row in found] == ["1970-01-01 00:00:01", "1970-01-01 00:00:00.001000"]

    def test_planning_known_schemas_starts_no_job(self, session: SparkSession) -> None:
        reader = Reader(session)
        first = value(A, {"id": 1, "name": "x"})
        reader.schema(first)
        with collected_jobs(session) as started:
            reader.schema(first)
        assert started == []


class TestRecords:
    def test_records_that_do_not_match_their_schema(self, session: SparkSession) -> None:
        schema = struct(
            id="int32", price=decimal(2, 4), at={"type": "string", "name": "io.debezium.time.ZonedTimestamp"}
        )
        good = value(schema, {"id": 1, "price": "AQ==", "at": None})
        bad = [
            value(schema, {"id": "one", "price": None, "at": None}),
            value(schema, {"id": 2**31, "price": None, "at": None}),
            value(schema, {"id": 1, "price": "not base64!", "at": None}),
            value(schema, {"id": 1, "price": "AAGGoA==", "at": None}),  # 1000.00
            value(schema, {"id": 1, "price": None, "at": "yesterday"}),
            value(schema, [1]),
            value(schema, "text"),
            good.replace(b"id", b"i\xff"),
            good.replace(b"AQ==", b"AQ==\xff"),
            good[:-1],
            good[:40],
            good + good,
            good + b" and more",
        ]
        reader = Reader(session)
        reader.schema(good)
        assert reader.read(good, *bad, good) == [
            {"id": 1, "price": Decimal("0.01"), "at": None},
            *["undecodable"] * len(bad),
            {"id": 1, "price": Decimal("0.01"), "at": None},
        ]

    def test_values_that_spark_would_change(self, session: SparkSession) -> None:
        """A number above a double, and half of a surrogate pair."""
        schema = struct(id="int32", price=decimal(2, 4), x="double", s="string")
        good = value(schema, {"id": 1, "price": None, "x": "-Infinity", "s": "1e400"})
        text = good.replace(b'"1e400"', rb'"\\ud800 \ud83d\ude00"')
        bad = [
            good.replace(b'"-Infinity"', b"1e400"),
            good.replace(b'"-Infinity"', b"9" * 310),
            good.replace(b'"1e400"', rb'"a\ud800"'),
            good.replace(b'"1e400"', rb'"a\uDFFF"'),
        ]
        row = {"id": 1, "price": None, "x": float("-inf"), "s": "1e400"}
        reader = Reader(session)
        assert reader.read(good, *bad, text) == [row, *["undecodable"] * len(bad), {**row, "s": "\\ud800 😀"}]

    def test_broken_schema_affects_only_its_records(self, session: SparkSession) -> None:
        good = value(A, {"id": 1, "name": "x"})
        broken = [
            value({"type": "int33"}, 1),
            good.replace(b'"int32"', b'"int32'),
            value({"type": "int32"}, 1),
            *(good.replace(b'"field":"id"', b'"field":' + name) for name in (b"0", b"null", b'"\\ud800"')),
            good.replace(b'"field":"id"', b'"name":[],"field":"id"'),
        ]
        assert len({good, *broken}) == 8
        reader = Reader(session)
        assert reader.read(good, *broken) == [{"id": 1, "name": "x"}, *["undecodable"] * 7]

    def test_names_that_cannot_be_columns_affect_only_their_records(self, session: SparkSession) -> None:
        good = value(A, {"id": 1, "name": "x"})
        bad = [
            value(struct(id="int32", name="string", **{name: "int32"}), {"id": 2, "name": "y", name: 3})
            for name in ("_headrace_op", " ", "\u0131d")
        ]
        reader = Reader(session)
        assert reader.read(good, *bad) == [{"id": 1, "name": "x"}, *["field-name"] * 3]
        frame = make_kafka_frame(session, [record(bad[0], key=bad[0], offset=0)])
        opened = reader.open(good, *bad)
        rows = opened.decode(frame.select(reader.column), reader.column, opened.schema, "error").collect()
        assert [row[reader.column].asDict() for row in rows] == [{"id": 2, "name": "y"}]

    def test_deeply_nested_schema_affects_only_its_records(self, session: SparkSession) -> None:
        good = value(A, {"id": 1, "name": "x"})
        deep = [
            encode('{"type":"struct","fields":[' * n + '{"type":"int32","field":"a"}' + '],"field":"a"}' * n, "{}")
            for n in (101, 1000)
        ]
        assert Reader(session).read(good, *deep) == [{"id": 1, "name": "x"}, *["undecodable"] * 2]

    def test_many_schemas(self, session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(embedded_schema, "WRITER_SCHEMAS", 3)
        records = [value(struct(**{f"c{n}": "int32"}), {f"c{n}": n}) for n in range(9)]
        wide = value(struct(**{f"c{n}": "int32" for n in range(30_000)}), {"c0": 1})
        first, *found = Reader(session).read(wide, *records)
        assert first == "undecodable"
        rows = [row for row in found if row != "undecodable"]
        assert 0 < len(rows) <= 3
        assert [row for row in rows if [cell for cell in row.values() if cell is not None] == []] == []
        assert found.count("undecodable") == 9 - len(rows)

    def test_many_columns_of_all_schemas(self, session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(embedded_schema, "SCHEMA_COLUMNS", 3)
        records = [value(struct(id="int32", **{name: "int32"}), {"id": 1, name: 1}) for name in ("a", "b", "c", "a")]
        found = Reader(session).read(*records)
        assert found == [{"id": 1, "a": 1, "b": None}, {"id": 1, "a": None, "b": 1}, "undecodable", found[0]]

    def test_null_values(self, session: SparkSession) -> None:
        null = value(A, None)  # ExtractNewRecordState's value for a delete
        empty = b'{"schema":null,"payload":null}'
        assert Reader(session).read(None, value(A, {"id": 1, "name": None}), null, empty) == [
            None,
            {"id": 1, "name": None},
            None,
            None,
        ]
        assert Reader(session).schema(None, empty, None).fields == []

    def test_tombstones_with_a_schema_give_no_types(self, session: SparkSession) -> None:
        """SMTs that skip tombstones leave the columns of the table in the schema of a tombstone."""
        reader, before, after = Reader(session), struct(price="string", note="string"), struct(price="double")
        assert reader.read(value(before, None), value(after, {"price": 1.5})) == [None, {"price": 1.5}]
        assert reader.read(value(struct(price="boolean"), None), value(after, {"price": None})) == [
            None,
            {"price": None},
        ]
        assert Reader(session).open(value(before, None)).schema.names == []

    def test_records_of_other_producers(self, session: SparkSession) -> None:
        body = {"schema": A, "payload": {"id": 1, "name": ',"payload":'}}
        reversed_fields = dict(reversed(body.items()))
        spaced = value(A, body["payload"]).replace(b',"payload":{', b', "payload":{')
        encoded = [
            text.encode() for text in (json.dumps(body), json.dumps(reversed_fields), json.dumps(body, indent=2))
        ]
        encoded = [b"no json", *encoded, spaced]
        found = Reader(session).read(*encoded, value(A, body["payload"]))
        assert found == ["undecodable", *[body["payload"]] * 5]

    @pytest.mark.nightly
    def test_decimals_as_numbers(self, session: SparkSession) -> None:
        schema = json.dumps(struct(a=decimal(20, 38), b=decimal(10, 60)), separators=(",", ":"))
        found = Reader(session).read(
            encode(schema, '{"a":123456789012345678.12345678901234567891,"b":-0.0000000001}'),
            encode(schema, '{"a":1,"b":null}'),
            encode(schema, '{"a":"AQ==","b":"AQ=="}'),
        )
        price = json.dumps(struct(a=decimal(2, 9)), separators=(",", ":"))
        assert Reader(session).read(encode(price, '{"a":1.25}'), encode(price, '{"a":1.255}')) == [
            {"a": Decimal("1.25")},
            "undecodable",
        ]
        extreme = [encode(price, f'{{"a":{number}}}') for number in ("1e400000000", '"1e-400000000"')]
        assert Reader(session).read(encode(price, '{"a":1.25}'), *extreme) == [
            {"a": Decimal("1.25")},
            *["undecodable"] * 2,
        ]
        assert found == [
            {"a": Decimal("123456789012345678.12345678901234567891"), "b": "-0.0000000001"},
            {"a": Decimal(1), "b": None},
            {"a": Decimal("1E-20"), "b": "0.0000000001"},
        ]


def test_int8_beyond_its_range(session: SparkSession) -> None:
    values = [{"n": n} for n in (-128, 127, 128, 255)]
    found = Reader(session).read(*[value(struct(n="int8"), row) for row in values])
    assert found == [{"n": -128}, {"n": 127}, "undecodable", "undecodable"]


class TestMixed:
    PLAIN = b'{"id": 1, "name": "x"}'

    def test_record_without_schema_among_records_with_schema(self, session: SparkSession) -> None:
        good = value(A, {"id": 1, "name": "x"})
        assert Reader(session).read(good, self.PLAIN, b'{"schema":null,"payload":{"id":2}}', b"no json") == [
            {"id": 1, "name": "x"},
            *["undecodable"] * 3,
        ]

    @pytest.mark.nightly
    def test_record_with_schema_among_records_without(self, session: SparkSession) -> None:
        row, reader = {"id": 1, "name": "x"}, Reader(session)
        null_schema = b'{"schema":null,"payload":{"id":2}}'
        unwrapped = {"id": 2, "name": None}
        assert reader.read(null_schema, self.PLAIN, self.PLAIN, value(A, row)) == [
            unwrapped,
            row,
            row,
            "undecodable",
        ]
        assert reader.read(self.PLAIN, value(A, row)) == [row, "undecodable"]
        assert reader.schema(self.PLAIN).names == ["id", "name"]
        with pytest.raises(DataError, match="some records have a schema, but the first records did not"):
            reader.schema(self.PLAIN, *[value(A, row)] * 20)
        # In a small batch, the records are single ones, even if there is no other.
        assert reader.read(value(A, row), null_schema) == ["undecodable", unwrapped]

    def test_null_schema_before_records_with_schema(self, session: SparkSession) -> None:
        row = {"id": 1, "name": "x"}
        records = b'{"schema":null,"payload":{"id":2}}', value(A, row)
        assert Reader(session).read(*records) == ["undecodable", row]

    def test_null_schemas(self, session: SparkSession) -> None:
        """JsonConverter writes them for records without schemas, with ``schemas.enable``."""
        reader = Reader(session)
        text = json.dumps({"id": 1, "name": '"}, "schema": null}'})
        found = reader.read(
            f'{{"schema":null,"payload":{text}}}'.encode(),
            f' {{ "payload" : {text} , "schema" : null }} '.encode(),
            b'{"schema":null,"payload":{"id":2,"name":"x"}',
            b'{"schema":null,"payload":{"id":3},"more":1}',
        )
        assert found == [json.loads(text), json.loads(text), "undecodable", "undecodable"]
        assert reader.read(b'{"schema":null,"payload":{"id":3,"name":"y","new":1}}') == [
            {"id": 3, "name": "y", "new": 1}
        ]

    def test_columns_named_schema_and_payload(self, session: SparkSession) -> None:
        for row in ({"schema": "public", "payload": "x"}, {"payload": {"op": "c"}}):
            reader = Reader(session)
            assert reader.read(json.dumps(row).encode()) == [row]
            if row == {"payload": {"op": "c"}}:  # Types are known: the column is no wrapper.
                event = {"payload": {"op": "c", "after": {"id": 1}}}
                assert reader.read(json.dumps(event).encode()) == [event]


class TestKeys:
    def test_struct_key(self, session: SparkSession) -> None:
        key = struct(id="int32")
        assert Reader(session, column="key").read(value(key, {"id": 7}), None) == [{"id": 7}, None]

    def test_single_value_key_has_no_column(self, session: SparkSession) -> None:
        schema = Reader(session, column="key").schema(value({"type": "int32", "optional": False}, 7))
        assert schema.fields == []  # a table rule names the columns of the key

    def test_single_value_is_rejected(self, session: SparkSession) -> None:
        with pytest.raises(DataError) as raised:
            Reader(session).schema(value({"type": "string", "optional": False}, "x"))
        assert str(raised.value) == (
            "topic moma.public.artists: the records are single values, not rows\n"
            "  fix: exclude the topic, or wrap the values with HoistField"
        )


def test_plan_runs_no_python(session: SparkSession) -> None:
    changes = make_changes(session, samples("pg_schema", "customers"))["customers"]
    plan = changes.frame._jdf.queryExecution().executedPlan().toString()
    assert "Python" not in plan.replace("ExistingRDD", "")


def schema_folder(session: SparkSession, path: Path) -> Folder:
    return Folder(session, str(path))


def collected_jobs(session: SparkSession) -> Any:
    """Collect the Spark jobs that start inside the context."""
    from contextlib import contextmanager

    @contextmanager
    def count_jobs() -> Iterator[list[int]]:
        context = session.sparkContext
        context.setJobGroup("counted", "counted")
        found: list[int] = []
        yield found
        found.extend(context.statusTracker().getJobIdsForGroup("counted"))
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]

    return count_jobs()
