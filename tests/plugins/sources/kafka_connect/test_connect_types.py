"""Types of Kafka Connect and Debezium: each value in a table equals the value in the database."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from pyspark.sql import types as T

from headrace.errors import DataError
from headrace.spark.sessions import Sessions
from headrace_sources.kafka_connect.avro_schema import make_reader_schema, parse_avro_schema
from headrace_sources.kafka_connect.connect_schema import (
    ConnectSchema,
    UnusableSchemaError,
    parse_connect_schema,
    union_by_name,
)
from headrace_sources.kafka_connect.connect_types import conversion_failed, convert, table_type, wire_type
from headrace_sources.kafka_connect.decimals import with_numeric_decimals
from headrace_sources.limits import DECIMAL_BYTES, DECIMAL_SCALE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

few = settings(max_examples=4, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
EPOCH, FIRST = datetime.fromisoformat("1970-01-01"), datetime.fromisoformat("0001-01-01")
D, C = "io.debezium.time.", "org.apache.kafka.connect.data."


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """Return a session like the engine's, in a zone with daylight saving time, which must not affect local times."""
    return Sessions(spark, {"spark.sql.session.timeZone": "America/New_York"}).of("connect")


def block(kind: str, name: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": kind, "optional": True, **({"name": name, "version": 1} if name else {}), **more}


def decimal(scale: int, precision: int | None = None) -> dict[str, Any]:
    extra = {"connect.decimal.precision": str(precision)} if precision else {}
    return block("bytes", f"{C}Decimal", parameters={"scale": str(scale), **extra})


def encode_integer(number: int) -> bytes:
    """Return the bytes of Java's BigInteger.toByteArray."""
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


@dataclass(frozen=True)
class Case:
    """Wire values and table values of the type ``kind``. Times are strings; ``LOST`` marks a value that the type cannot hold."""

    schema: dict[str, Any]
    kind: str
    pairs: Sequence[tuple[Any, Any]]

    @property
    def tree(self) -> ConnectSchema:
        return parse_connect_schema(self.schema)


def convert_all(session: SparkSession, columns: Sequence[tuple[ConnectSchema, Sequence[Any]]]) -> list[list[Any]]:
    """Return the table values of every column from one plan. The last row is null in all columns."""
    from pyspark.sql import functions as F

    lists = [[*values, None] for _, values in columns]
    trees = [(F.col(f"wire{i}"), F.col(f"table{i}"), tree) for i, (tree, _) in enumerate(columns)]
    wires = [T.StructField(f"wire{i}", wire_type(tree)) for i, (tree, _) in enumerate(columns)]
    rows = [(n, *row) for n, row in enumerate(zip_longest(*lists))]
    frame = session.createDataFrame(rows, T.StructType([T.StructField("n", T.IntegerType()), *wires])).coalesce(1)
    frame = frame.select("*", *(convert(wire, tree).alias(f"table{i}") for i, (wire, _, tree) in enumerate(trees)))
    selected = [F.col("n")]
    for i, (wire, table, tree) in enumerate(trees):
        kind = table_type(tree)
        assert frame.schema[f"table{i}"].dataType == kind
        lost = conversion_failed(wire, table, tree)
        is_time = isinstance(kind, (T.DateType, T.TimestampType, T.TimestampNTZType))
        selected.append((table.cast("string") if is_time else table).alias(f"table{i}"))
        selected.append((F.lit(False) if lost is None else lost).alias(f"lost{i}"))
    found = sorted(frame.select(*selected).collect(), key=lambda row: row["n"])
    return [
        ["LOST" if row[f"lost{i}"] else row[f"table{i}"] for row in found[: len(values)]]
        for i, values in enumerate(lists)
    ]


def read(session: SparkSession, tree: ConnectSchema, values: Sequence[Any]) -> list[Any]:
    """Return the values in a table of one column."""
    [found] = convert_all(session, [(tree, values)])
    return found[:-1]


def list_wall_clocks(unit: int) -> list[tuple[int, str]]:
    timestamps = ["2026-11-21 13:14:15", "2026-03-08 02:30:00", "0001-01-01 00:00:00", "1500-02-28 01:02:03"]
    return [((datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=unit), text) for text in timestamps]


def list_edges(precision: int, scale: int) -> list[tuple[bytes, Decimal]]:
    """Return the limits of a decimal, and values around each byte boundary."""
    largest = 10**precision - 1
    edges = {
        0,
        largest,
        -largest,
        *(s * (2 ** (8 * n - 1) + d) for n in range(1, 17) for s in (1, -1) for d in (-1, 0, 1)),
    }
    return [(encode_integer(n), Decimal(n).scaleb(-scale, _exact)) for n in sorted(edges) if abs(n) <= largest]


_exact = Context(prec=400)
# PostgreSQL's 1 BC is the year 0 of the proleptic calendar.
DAYS = [
    (20778, "2026-11-21"),
    (0, "1970-01-01"),
    (-141422, "1582-10-20"),
    (-719162, "0001-01-01"),
    (-719528, "0000-01-01"),
    (-735160, "-0043-03-15"),
]
# Infinite dates of the stream and of the snapshot, and PostgreSQL's first and last day.
INFINITE_DAYS = [
    (-2147472692, "9999-12-31"),
    (-622191234, "9999-12-31"),
    (-2147472691, "0001-01-01"),
    (-625821272, "0001-01-01"),
    (-2440588, "-4713-11-24"),
    (2145042905, "+5874897-12-31"),
    (-2440589, "LOST"),
    (2145042906, "LOST"),
]
_DAY, _PRICE = block("int32", f"{D}Date"), decimal(2, 9)
_FIELDS = [
    {"field": "day", **_DAY},
    {"field": "prices", **block("array", items=_PRICE)},
    {"field": "named", **block("map", keys=block("string"), values=_PRICE)},
]
TIMES = {
    **{f"dates {name}": Case(block("int32", name), "date", DAYS) for name in (f"{D}Date", f"{C}Date")},
    **{
        f"wall clocks {name}": Case(block("int64", name), "timestamp_ntz", list_wall_clocks(unit))
        for name, unit in ((f"{D}Timestamp", 1000), (f"{C}Timestamp", 1000), (f"{D}MicroTimestamp", 1))
    },
    "nanoseconds go to the past": Case(
        block("int64", f"{D}NanoTimestamp"),
        "timestamp_ntz",
        [
            (1772284455123456700, "2026-02-28 13:14:15.123456"),
            (-100, "1969-12-31 23:59:59.999999"),
            (-1000, "1969-12-31 23:59:59.999999"),
            (999, "1970-01-01 00:00:00"),
        ],
    ),
    **{
        f"infinity of PostgreSQL {name} {infinity}": Case(
            block("int64", name), "timestamp_ntz", [(infinity, "9999-12-31 00:00:00"), (before, "0001-01-01 00:00:00")]
        )
        for name, infinity, before in (
            (f"{D}Timestamp", 9223372036825200, -9223372036832400),
            (f"{D}Timestamp", 9223372036825200000, -9223372036832400000),  # from old connectors
            (f"{C}Timestamp", 9223372036825200, -9223372036832400),
            (f"{D}MicroTimestamp", 9223372036825200000, -9223372036832400000),
            (f"{D}NanoTimestamp", 2**63 - 1, -(2**63)),
        )
    },
    # PostgreSQL's first timestamp, and the last that fits into 64 bits of microseconds.
    "near infinity, microseconds": Case(
        block("int64", f"{D}MicroTimestamp"),
        "timestamp_ntz",
        [(-210866803200000000, "-4713-11-24 00:00:00"), (2**63 - 1, "+294247-01-10 04:00:54.775807")],
    ),
    "near infinity, nanoseconds": Case(
        block("int64", f"{D}NanoTimestamp"),
        "timestamp_ntz",
        [(2**63 - 2, "2262-04-11 23:47:16.854775"), (-(2**63) + 1, "1677-09-21 00:12:43.145224")],
    ),
    **{f"infinite days {name}": Case(block("int32", name), "date", INFINITE_DAYS) for name in (f"{D}Date", f"{C}Date")},
    "a count that is no time is not null in silence": Case(
        block("int64", f"{D}Timestamp"),
        "timestamp_ntz",
        [(2**62, "LOST"), (-(2**62), "LOST"), (0, "1970-01-01 00:00:00")],
    ),
    "instants": Case(
        block("string", f"{D}ZonedTimestamp"),
        "timestamp",
        [
            ("2026-11-21T11:14:15.123456Z", "2026-11-21 06:14:15.123456"),  # in New York
            ("2026-07-01T00:30:00.0000001+14:00", "2026-06-30 06:30:00"),
            ("9999-12-31T23:59:59.999999Z", "9999-12-31 18:59:59.999999"),
            ("infinity", "9999-12-30 19:00:00"),
            ("yesterday", "LOST"),
            # Spark casts them to a time of the current day.
            ("10:20:30", "LOST"),
            ("T10:20:30Z", "LOST"),
        ],
    ),
    "dates as text": Case(
        block("string", f"{D}IsoDate"),
        "date",
        [
            ("2026-11-21Z", "2026-11-21"),
            ("0001-01-01Z", "0001-01-01"),
            ("-0043-03-15Z", "-0043-03-15"),
            ("soon", "LOST"),
            # PostgreSQL's infinity in the stream and in the snapshot.
            ("-5877611-06-21Z", "9999-12-31"),
            ("+292278994-08-16Z", "9999-12-31"),
            ("-5877611-06-22Z", "0001-01-01"),
            ("+292269055-12-02Z", "0001-01-01"),
        ],
    ),
    "times as text": Case(
        block("string", f"{D}IsoTimestamp"),
        "timestamp_ntz",
        [
            ("2026-03-08T02:30:00.123456Z", "2026-03-08 02:30:00.123456"),
            ("10:20:30", "LOST"),
            ("0001-01-01T00:00:00Z", "0001-01-01 00:00:00"),
            ("+292278994-08-16T23:00:00Z", "9999-12-31 00:00:00"),
            ("-292275055-05-16T23:00:00Z", "0001-01-01 00:00:00"),
            ("+294247-01-10T04:00:25.2Z", "9999-12-31 00:00:00"),
            ("-290308-12-21T19:59:27.6Z", "0001-01-01 00:00:00"),
        ],
    ),
}
DECIMALS = {
    **{
        f"decimal({precision},{scale})": Case(
            decimal(scale, precision), f"decimal({precision},{scale})", list_edges(precision, scale)
        )
        for precision, scale in ((9, 2), (18, 18), (19, 0), (30, 10), (38, 37), (38, 0))
    },
    "what does not fit is not null in silence": Case(
        decimal(2, 4),
        "decimal(4,2)",
        [
            (encode_integer(9999), Decimal("99.99")),
            (encode_integer(10000), "LOST"),
            (b"", "LOST"),
            (encode_integer(2**140), "LOST"),
        ],
    ),
    "more digits than Spark has": Case(
        decimal(1, 65),
        "string",
        [(encode_integer(10**65 - 1), "9" * 64 + ".9"), (encode_integer(-7), "-0.7")],
    ),
}
NESTED = {
    "inside structs, lists and maps": Case(
        block("array", items=block("struct", fields=_FIELDS)),
        "array<struct<day:date,prices:array<decimal(9,2)>,named:map<string,decimal(9,2)>>>",
        [
            (
                [(0, [encode_integer(150), None], {"a": encode_integer(-1)}), None],
                [(date(1970, 1, 1), [Decimal("1.50"), None], {"a": Decimal("-0.01")}), None],
            ),
            ([(None, None, None)], [(None, None, None)]),
            ([(0, [encode_integer(10**9)], None)], "LOST"),
            ([(0, None, {"a": encode_integer(10**9)})], "LOST"),
            ([], []),
        ],
    ),
}
#: Avro has no smaller integers: its schema names the type.
SMALL = {
    name: Case(
        block("int32", name), kind, [(high, high), (-high - 1, -high - 1), (high + 1, "LOST"), (-high - 2, "LOST")]
    )
    for name, kind, high in (("int8", "tinyint", 127), ("int16", "smallint", 32767))
}
CASES = {**TIMES, **DECIMALS, **NESTED, **SMALL}


@pytest.fixture(scope="module")
def tables(session: SparkSession) -> dict[str, list[Any]]:
    """Return the values of every case, from one plan."""
    columns = [(case.tree, [wire for wire, _ in case.pairs]) for case in CASES.values()]
    return dict(zip(CASES, convert_all(session, columns), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_values(tables: dict[str, list[Any]], name: str) -> None:
    case = CASES[name]
    assert table_type(case.tree).simpleString() == case.kind
    # Null stays null and is not marked as lost.
    assert tables[name] == [*(expected for _, expected in case.pairs), None]


class TestTimes:
    @few
    @given(st.lists(st.datetimes(min_value=FIRST), min_size=50, max_size=200))
    def test_every_microsecond(self, session: SparkSession, timestamps: list[datetime]) -> None:
        micros = [(timestamp - EPOCH) // timedelta(microseconds=1) for timestamp in timestamps]
        tree = parse_connect_schema(block("int64", f"{D}MicroTimestamp"))
        assert [datetime.fromisoformat(_full(text)) for text in read(session, tree, micros)] == timestamps

    @few
    @given(st.lists(st.dates(), min_size=50, max_size=200))
    def test_every_day(self, session: SparkSession, days: list[date]) -> None:
        tree = parse_connect_schema(block("int32", f"{D}Date"))
        assert read(session, tree, [day.toordinal() - 719163 for day in days]) == [day.isoformat() for day in days]


class TestDecimals:
    @pytest.mark.parametrize(
        ("schema", "kind"),
        [
            (decimal(2, 10), "decimal(10,2)"),
            (decimal(0, 38), "decimal(38,0)"),
            (decimal(2), "decimal(38,2)"),  # money has no precision
            (decimal(0, 65), "string"),
            (decimal(-2, 5), "string"),
            (decimal(2046, 5), "string"),
            (block("struct", "io.debezium.data.VariableScaleDecimal", fields=[]), "string"),
        ],
    )
    def test_types(self, schema: dict[str, Any], kind: str) -> None:
        assert table_type(parse_connect_schema(schema)).simpleString() == kind

    @few
    @given(st.lists(st.integers(min_value=-(10**38) + 1, max_value=10**38 - 1), min_size=50, max_size=200))
    def test_every_decimal(self, session: SparkSession, numbers: list[int]) -> None:
        tree = parse_connect_schema(decimal(10, 38))
        found = read(session, tree, [encode_integer(n) for n in numbers])
        assert found == [Decimal(n).scaleb(-10, _exact) for n in numbers]

    @few
    @given(
        st.lists(
            st.tuples(st.integers(min_value=-(10**120), max_value=10**120), st.integers(min_value=-5, max_value=150)),
            min_size=30,
            max_size=60,
        )
    )
    def test_every_number_of_any_length(self, session: SparkSession, pairs: list[tuple[int, int]]) -> None:
        fields = [{"field": "scale", **block("int32")}, {"field": "value", **block("bytes")}]
        tree = parse_connect_schema(block("struct", "io.debezium.data.VariableScaleDecimal", fields=fields))
        pairs += [(0, 0), (0, 2), (0, -2), (-1, 20), (10**65 - 1, 0), (-(2**119), 0), (2**119, 3)]
        found = read(session, tree, [(scale, encode_integer(number)) for number, scale in pairs])
        assert found == [_text(number, scale) for number, scale in pairs]

    def test_numbers_beyond_the_limits_are_lost(self, session: SparkSession) -> None:
        fields = [{"field": "scale", **block("int32")}, {"field": "value", **block("bytes")}]
        tree = parse_connect_schema(block("struct", "io.debezium.data.VariableScaleDecimal", fields=fields))
        longest = (1 << DECIMAL_BYTES * 8 - 1) - 1
        scales = [2**31 - 1, -(2**31), -2_000_000_000, DECIMAL_SCALE + 1, -DECIMAL_SCALE - 1]
        values = [(DECIMAL_SCALE, encode_integer(1)), (0, encode_integer(longest))]
        found = read(session, tree, [*values, *((scale, b"\1") for scale in scales), (0, b"\1" * 1_000_000)])
        with _all_digits():
            assert found == [_text(1, DECIMAL_SCALE), str(longest), *["LOST"] * 6]
        assert read(session, parse_connect_schema(decimal(0, 65)), [b"\1" * 1_000_000, b"\1"]) == ["LOST", "1"]

    @pytest.mark.parametrize(
        "parameters",
        [
            {"scale": "2000000000"},
            {"scale": "-2000000000"},
            {"scale": "9" * 5000},
            {"scale": "two"},
            {"scale": "2", "connect.decimal.precision": "2000000000"},
        ],
    )
    def test_schema_beyond_the_limits(self, parameters: dict[str, str]) -> None:
        with pytest.raises(UnusableSchemaError, match="a decimal has the"):
            parse_connect_schema(block("bytes", f"{C}Decimal", parameters=parameters))
        avro = {"type": "bytes", "connect.name": f"{C}Decimal", "logicalType": "decimal", "precision": 64}
        record = {"type": "record", "name": "R", "fields": [{"name": "d", "type": {**avro, "scale": 2 * 10**9}}]}
        with pytest.raises(UnusableSchemaError, match="a decimal has the scale 2000000000"):
            parse_avro_schema(json.dumps(record))


class TestOtherTypes:
    @pytest.mark.parametrize(
        ("schema", "kind"),
        [
            (block("int8"), "tinyint"),
            (block("int16"), "smallint"),
            (block("int32"), "int"),
            (block("int64"), "bigint"),
            (block("float"), "float"),
            (block("double"), "double"),
            (block("boolean"), "boolean"),
            (block("string"), "string"),
            (block("bytes"), "binary"),
            (block("int32", f"{D}Time"), "bigint"),
            (block("int32", f"{C}Time"), "bigint"),
            (block("int64", f"{D}MicroTime"), "bigint"),
            (block("int64", f"{D}NanoTime"), "bigint"),
            (block("int64", f"{D}MicroDuration"), "bigint"),
            (block("int64", f"{D}NanoDuration"), "bigint"),
            (block("string", f"{D}Interval"), "string"),
            (block("string", f"{D}ZonedTime"), "string"),
            (block("string", f"{D}IsoTime"), "string"),
            (block("int32", f"{D}Year"), "int"),
            *(
                (block("string", f"io.debezium.data.{name}"), "string")
                for name in ("Json", "Xml", "Uuid", "Enum", "EnumSet", "Ltree", "Tsvector")
            ),
            (block("bytes", "io.debezium.data.Bits", parameters={"length": "8"}), "binary"),
            (block("array", "io.debezium.data.DoubleVector", items=block("double")), "array<double>"),
            (block("array", "io.debezium.data.FloatVector", items=block("float")), "array<float>"),
            (block("map", keys=block("string"), values=decimal(2, 9)), "map<string,decimal(9,2)>"),
            (block("map", keys=block("int16"), values=block("double")), "string"),
            (block("string", f"{D}Date"), "string"),  # a name over a type that it never has
        ],
    )
    def test_types(self, schema: dict[str, Any], kind: str) -> None:
        assert table_type(parse_connect_schema(schema)).simpleString() == kind

    def test_columns_without_conversion_are_unchanged(self, session: SparkSession) -> None:
        from pyspark.sql import functions as F

        fields = [{"field": "x", **block("double")}, {"field": "wkb", **block("bytes")}]
        tree = parse_connect_schema(block("struct", "io.debezium.data.geometry.Point", fields=fields))
        column = F.col("point")
        assert convert(column, tree) is column
        assert conversion_failed(column, column, tree) is None

    @pytest.mark.parametrize(
        "schema", [None, "int32", {}, {"type": "int33"}, {"type": "array"}, {"type": "struct", "fields": [1]}]
    )
    def test_invalid_schemas(self, schema: Any) -> None:
        with pytest.raises(DataError, match="not a schema of Kafka Connect"):
            parse_connect_schema(schema)


class TestAvro:
    RECORD: ClassVar[dict[str, Any]] = {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.orders",
        "fields": [
            {"name": "before", "type": ["null", {"type": "record", "name": "Value", "fields": []}]},
            {"name": "after", "type": ["null", "Value"]},
        ],
    }

    def tree(self, *fields: tuple[str, Any]) -> tuple[ConnectSchema, str]:
        row = [{"name": name, "type": kind} for name, kind in fields]
        schema = json.loads(json.dumps(self.RECORD))
        schema["fields"][0]["type"][1]["fields"] = row
        text = json.dumps(schema)
        return parse_avro_schema(text), make_reader_schema(text)

    @staticmethod
    def type_block(kind: str, name: str | None = None, **more: Any) -> dict[str, Any]:
        return {"type": kind, **({"connect.name": name, "connect.version": 1} if name else {}), **more}

    def test_types(self) -> None:
        money = self.type_block("bytes", f"{C}Decimal", logicalType="decimal", precision=64, scale=2)
        vast = {**money, "precision": 65, "connect.parameters": {"scale": "2", "connect.decimal.precision": "65"}}
        tree, _ = self.tree(
            ("id", "int"),
            ("small", ["null", self.type_block("int", **{"connect.type": "int16"})]),
            ("day", self.type_block("int", f"{D}Date")),
            ("day2", self.type_block("int", f"{C}Date", logicalType="date")),
            ("at", self.type_block("long", f"{D}MicroTimestamp")),
            ("at2", self.type_block("long", f"{C}Timestamp", logicalType="timestamp-millis")),
            ("instant", self.type_block("long", logicalType="timestamp-micros")),
            ("zoned", self.type_block("string", f"{D}ZonedTimestamp")),
            ("price", self.type_block("bytes", f"{C}Decimal", logicalType="decimal", precision=12, scale=2)),
            ("money", money),
            ("vast", vast),
            ("mood", {"type": "enum", "name": "Mood", "symbols": ["sad"]}),
            ("moods", {"type": "array", "items": "Mood"}),
            ("more", {"type": "map", "values": ["null", "long"]}),
            ("either", ["null", "int", "long"]),
            ("any", ["int", "string"]),
            ("nested", {"type": {"type": "string"}}),
        )
        row = (
            "struct<id:int,small:smallint,day:date,day2:date,at:timestamp_ntz,at2:timestamp_ntz,instant:timestamp,"
            "zoned:timestamp,price:decimal(12,2),money:decimal(38,2),vast:string,mood:string,moods:array<string>,"
            "more:map<string,bigint>,either:bigint,any:struct<member0:int,member1:string>,nested:string>"
        )
        assert table_type(tree).simpleString() == f"struct<before:{row},after:{row}>"

    def test_wire_type_equals_spark_type(self, session: SparkSession) -> None:
        money = self.type_block("bytes", f"{C}Decimal", logicalType="decimal", precision=64, scale=2)
        vast = {**money, "precision": 65, "connect.parameters": {"scale": "2", "connect.decimal.precision": "65"}}
        # PostgreSQL's connector writes numeric(5,-2) like this.
        rounded = self.type_block("bytes", f"{C}Decimal", logicalType="decimal", precision=5, scale=2046)
        tree, reader = self.tree(
            ("at", self.type_block("long", f"{C}Timestamp", logicalType="timestamp-millis")),
            ("day", self.type_block("int", f"{C}Date", logicalType="date")),
            ("money", ["null", money]),
            ("vast", ["null", vast]),
            ("rounded", ["null", rounded]),
            ("wall", self.type_block("long", logicalType="local-timestamp-micros")),
            ("fixed", {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}),
            ("uuid", self.type_block("string", logicalType="uuid")),
            ("time", self.type_block("int", f"{C}Time", logicalType="time-millis")),
            ("nested", {"type": {"type": "string"}}),
            ("union", {"type": ["null", {"type": {"type": "long"}}]}),
            ("days", ["null", self.type_block("int", logicalType="date"), "long"]),
            ("numbers", ["double", "null", {"type": {"type": "float"}}]),
            ("mixed", ["int", "null", "string"]),
            ("records", ["null", {"type": "record", "name": "A", "fields": [{"name": "a", "type": "int"}]}, "F"]),
            ("lists", {"type": "array", "items": ["A", {"type": "array", "items": ["null", "int", "string"]}]}),
        )
        jvm: Any = session._jvm
        avro = jvm.org.apache.avro.Schema.Parser().parse(reader)
        found = jvm.org.apache.spark.sql.avro.SchemaConverters.toSqlType(avro).dataType().asNullable().json()
        assert T.StructType.fromJson(json.loads(found)) == wire_type(tree)

    def test_recursive_type(self) -> None:
        node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
        with pytest.raises(DataError) as raised:
            self.tree(("list", node))
        assert str(raised.value) == (
            "the Avro schema has a 'Node' inside a 'Node', which a table cannot hold\n"
            "  fix: exclude the topic, or remove the field at the source"
        )

    def test_duplicate_type_name(self) -> None:
        one, two = ({"type": "record", "name": "Point", "fields": [{"name": n, "type": "int"}]} for n in "xy")
        with pytest.raises(DataError) as raised:
            self.tree(("from", one), ("to", two))
        assert str(raised.value) == (
            "the Avro schema defines 'shop.orders.Point' twice\n"
            "  fix: give one of them another name or namespace at the source"
        )

    def test_undefined_type_name(self) -> None:
        with pytest.raises(DataError, match=r"refers to 'other\.Thing', which is not defined"):
            self.tree(("thing", "other.Thing"))


def test_numeric_decimals_of_json() -> None:
    fields = [{"field": "a", **decimal(2, 9)}, {"field": "b", **block("bytes")}, {"field": "c", **decimal(2046, 5)}]
    tree = with_numeric_decimals(parse_connect_schema(block("struct", fields=fields)))
    assert tree is not None
    # The scale is the largest possible, because Spark rounds values with more digits.
    assert wire_type(tree).simpleString() == "struct<a:decimal(38,31),b:binary,c:binary>"
    assert table_type(tree).simpleString().startswith("struct<a:decimal(9,2),b:binary,")
    assert with_numeric_decimals(parse_connect_schema(block("bytes"))) is None


def _full(text: str) -> str:
    """Pad the fraction to six digits: Spark omits trailing zeros, and Python requires three or six digits."""
    seconds, _, fraction = text.partition(".")
    return f"{seconds}.{fraction:0<6}"


@contextmanager
def _all_digits() -> Iterator[None]:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    yield
    sys.set_int_max_str_digits(before)


def _text(number: int, scale: int) -> str:
    return "0" if number == 0 and scale < 0 else f"{Decimal(number).scaleb(-scale, _exact):f}"


class TestOtherCase:
    """Fields that records spell in another case than the table."""

    def test_schema_is_restricted_with_its_own_spelling(self) -> None:
        tree = ConnectSchema(fields={"Name": ConnectSchema(T.StringType()), "b": ConnectSchema(T.StringType())})
        wanted = T.StructType([T.StructField("name", T.StringType()), T.StructField("c", T.StringType())])
        assert tree.project(wanted) == ConnectSchema(fields={"Name": ConnectSchema(T.StringType())})

    def test_spellings_are_parsed_apart(self) -> None:
        first, second = (ConnectSchema(fields={name: ConnectSchema(T.StringType())}) for name in ("name", "Name"))
        assert union_by_name(first, second) is None
