"""Types of SQL Server, with expressions that print values the same way in SQL Server and in Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

Value = None | int | float | str | bytes


def _parse_timestamp(text: str) -> datetime:
    """Parse a timestamp and truncate it to microseconds, the precision of tables."""
    head, dot, rest = text.partition(".")
    return datetime.fromisoformat(head + dot + rest[:6]) if dot else datetime.fromisoformat(head)


def wall(text: Any) -> datetime:
    return _parse_timestamp(text)


def instant(text: Any) -> int:
    """Return the microseconds since 1970."""
    clock, offset = text.rsplit(" ", 1)
    minutes = int(offset[1:3]) * 60 + int(offset[4:6])
    timestamp = _parse_timestamp(clock).replace(tzinfo=UTC) - timedelta(
        minutes=-minutes if offset[0] == "-" else minutes
    )
    return (timestamp - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def clock(text: str) -> int:
    """Convert a time to microseconds, the precision of tables."""
    full_units, _, part = text.partition(".")
    hours, minutes, seconds = map(int, full_units.split(":"))
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int(part[:6].ljust(6, "0") or 0)


def _unchanged(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Type:
    """Column with one value per row."""

    name: str
    ddl: str
    #: Type in an Iceberg table, whose smallest integer type is int.
    kind: str
    values: Sequence[Value]
    #: Converts a value that SQL Server prints to the value in the table.
    reads: Callable[[Any], Any] = _unchanged
    spark: str = "{c}"


def _times(digits: int) -> list[str | None]:
    nines = "." + "9" * digits if digits else ""
    return ["13:14:15.1234567", None, "00:00:00", f"23:59:59{nines}", "00:00:00", "12:34:56.9876543"]


def _datetimes(digits: int) -> list[str | None]:
    nines = "." + "9" * digits if digits else ""
    first, last = ("0001-01-01 00:00:00", f"9999-12-31 23:59:59{nines}")
    return ["2026-02-28 13:14:15.1234567", None, first, last, "1970-01-01", "1500-02-28 01:02:03.0000005"]


def _offsets(digits: int) -> list[str | None]:
    nines = "." + "9" * digits if digits else ""
    return [
        "2026-02-28 13:14:15.1234567 +02:00",
        None,
        "0001-01-01 00:00:00 +00:00",
        f"9999-12-31 23:59:59{nines} +00:00",
        "1970-01-01 00:00:00 -14:00",
        "2026-07-01 00:30:00.0000001 +14:00",
        "1500-02-28 00:00:00 +00:00" if digits < 7 else "1969-12-31 23:59:59.5 +00:00",
    ]


#: Values of the rows: typical values, nulls, minimum, maximum, zero or empty values, and corner cases.
TYPES = [
    Type("c_bit", "bit", "boolean", [1, None, 0, 1, 0, 1], bool),
    Type("c_tinyint", "tinyint", "int", [200, None, 0, 255, 0, 128]),
    Type("c_smallint", "smallint", "int", [-12345, None, -(2**15), 2**15 - 1, 0, -1]),
    Type("c_int", "int", "int", [1234567890, None, -(2**31), 2**31 - 1, 0, -1]),
    Type("c_bigint", "bigint", "bigint", [1234567890123456789, None, -(2**63), 2**63 - 1, 0, -1]),
    Type(
        "c_decimal",
        "decimal(18,4)",
        "decimal(18,4)",
        ["12345.6789", None, "-99999999999999.9999", "99999999999999.9999", 0, "-0.0001"],
        Decimal,
    ),
    Type(
        "c_decimal38",
        "decimal(38,10)",
        "decimal(38,10)",
        ["1" * 28 + ".0123456789", None, "-" + "9" * 28 + ".9999999999", "9" * 28 + ".9999999999", 0, "-0.0000000001"],
        Decimal,
    ),
    Type("c_numeric", "numeric(9,0)", "decimal(9,0)", ["42", None, "-999999999", "999999999", 0, "0.5"], Decimal),
    Type(
        "c_money",
        "money",
        "decimal(19,4)",
        ["1234.5678", None, "-922337203685477.5808", "922337203685477.5807", 0, "-0.0001"],
        Decimal,
    ),
    Type(
        "c_smallmoney",
        "smallmoney",
        "decimal(10,4)",
        ["-214.7483", None, "-214748.3648", "214748.3647", 0, "0.00005"],
        Decimal,
    ),
    Type("c_real", "real", "float", [3.25, None, -3.4028234663852886e38, 3.4028234663852886e38, 0.0, 0.1]),
    Type("c_float", "float", "double", [0.1, None, -1.7976931348623157e308, 1.7976931348623157e308, 0.0, 5e-324]),
    Type(
        "c_date",
        "date",
        "date",
        ["2026-02-28", None, "0001-01-01", "9999-12-31", "1970-01-01", "1500-02-28", "1582-10-10"],
        spark="cast({c} as string)",
    ),
    Type("c_time0", "time(0)", "bigint", _times(0), clock),
    Type("c_time3", "time(3)", "bigint", _times(3), clock),
    Type("c_time6", "time(6)", "bigint", _times(6), clock),
    Type("c_time7", "time", "bigint", _times(7), clock),
    Type(
        "c_datetime",
        "datetime",
        "timestamp_ntz",
        [
            "2026-02-28 13:14:15.997",
            None,
            "1753-01-01 00:00:00",
            "9999-12-31 23:59:59.997",
            "1970-01-01",
            "1969-12-31 23:59:59.990",
        ],
        wall,
    ),
    Type(
        "c_smalldatetime",
        "smalldatetime",
        "timestamp_ntz",
        ["2026-02-28 13:14", None, "1900-01-01 00:00", "2079-06-06 23:59", "1970-01-01", "2000-02-29 12:00:30"],
        wall,
    ),
    Type("c_datetime2_0", "datetime2(0)", "timestamp_ntz", _datetimes(0), wall),
    Type("c_datetime2_3", "datetime2(3)", "timestamp_ntz", _datetimes(3), wall),
    Type("c_datetime2_6", "datetime2(6)", "timestamp_ntz", _datetimes(6), wall),
    Type("c_datetime2_7", "datetime2", "timestamp_ntz", _datetimes(7), wall),
    Type("c_offset0", "datetimeoffset(0)", "timestamp", _offsets(0), instant, "unix_micros({c})"),
    Type("c_offset3", "datetimeoffset(3)", "timestamp", _offsets(3), instant, "unix_micros({c})"),
    Type("c_offset7", "datetimeoffset", "timestamp", _offsets(7), instant, "unix_micros({c})"),
    Type("c_char", "char(10)", "string", ["abc", None, "", "x" * 10, " ", " é€"]),
    Type("c_varchar", "varchar(50)", "string", ["héllo €", None, "", "y" * 50, " ", "null"]),
    Type("c_varchar_max", "varchar(max)", "string", ["max", None, "", "z" * 9000, " ", "é"]),
    Type("c_text", "text", "string", ["text", None, "", "t" * 9000, " ", "é"]),
    Type("c_nchar", "nchar(10)", "string", ["žluť", None, "", "ん" * 10, " ", "😀"]),
    Type("c_nvarchar", "nvarchar(50)", "string", ["日本語 🚀", None, "", "é" * 50, " ", '"\\\n\t\u2028']),
    Type("c_nvarchar_max", "nvarchar(max)", "string", ["длинный", None, "", "😀" * 5000, " ", "\u0000x"]),
    Type("c_ntext", "ntext", "string", ["ntext ñ", None, "", "n" * 9000, " ", "😀"]),
    Type("c_binary", "binary(8)", "binary", [b"\1\2\3", None, b"", b"\xff" * 8, bytes(8), b"\x80"]),
    Type("c_varbinary", "varbinary(16)", "binary", [b"\xde\xad", None, b"", b"\xff" * 16, bytes(1), b"\x80"]),
    Type(
        "c_varbinary_max", "varbinary(max)", "binary", [b"\0\1", None, b"", bytes(range(256)) * 40, bytes(1), b"\x80"]
    ),
    Type("c_image", "image", "binary", [b"GIF89a", None, b"", bytes(range(256)) * 40, bytes(1), b"\x80"]),
    Type("c_xml", "xml", "string", ['<a b="1">é<c/></a>', None, "<r/>", "<x>&lt;&amp;</x>", "", "<a>😀</a>"]),
    Type(
        "c_guid",
        "uniqueidentifier",
        "string",
        [
            "6f9619ff-8b86-d011-b42d-00c04fc964ff",
            None,
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "00112233-4455-6677-8899-aabbccddeeff",
            "FFEEDDCC-bbaa-9988-7766-554433221100",
        ],
    ),
]
#: Values that the connector or the driver changes, by column and printed value. docs/sqlserver.md lists them.
ARRIVES = {
    # Out of the range of 64-bit nanoseconds.
    ("c_datetime2_7", "0001-01-01 00:00:00.0000000"): None,
    ("c_datetime2_7", "9999-12-31 23:59:59.9999999"): None,
    ("c_datetime2_7", "1500-02-28 01:02:03.0000005"): None,
    # The driver uses the Julian calendar.
    ("c_date", "1582-10-10"): "1582-10-20",
    ("c_offset0", "0001-01-01 00:00:00 +00:00"): "0000-12-30",
    ("c_offset3", "0001-01-01 00:00:00.000 +00:00"): "0000-12-30",
    ("c_offset7", "0001-01-01 00:00:00.0000000 +00:00"): "0000-12-30",
    ("c_offset0", "1500-02-28 00:00:00 +00:00"): "1500-03-09 00:00:00 +00:00",
    ("c_offset3", "1500-02-28 00:00:00.000 +00:00"): "1500-03-09 00:00:00 +00:00",
    # Fractions of a second before 1970.
    ("c_offset7", "1969-12-31 23:59:59.5000000 +00:00"): "1970-01-01 00:00:00.5 +00:00",
}
COUNT = max(len(t.values) for t in TYPES)


def rows(first: int) -> list[dict[str, Value]]:
    """Return a row for each index of ``values``, numbered from ``first``."""
    return [
        {"id": first + i, **{t.name: t.values[i] if i < len(t.values) else None for t in TYPES}} for i in range(COUNT)
    ]


def lake_row(row: dict[str, Value]) -> list[Any]:
    """Return the expected row of the table for a row printed by SQL Server."""
    return [row["id"], row["c_rowversion"], *(_arrives(kind, row[kind.name]) for kind in TYPES)]


def _arrives(kind: Type, printed: Value) -> Any:
    arrives = ARRIVES.get((kind.name, str(printed)), printed)
    if arrives == "0000-12-30":
        # Python has no year 0, so subtract two days from the start of the year 1.
        return instant("0001-01-01 00:00:00 +00:00") - 2 * 86400 * 10**6
    return None if arrives is None else kind.reads(arrives)


def lake_columns() -> list[str]:
    """Return the columns of ``lake_row`` for Spark."""
    return ["id", "c_rowversion", *(f"{t.spark.format(c=t.name)} as {t.name}" for t in TYPES)]
