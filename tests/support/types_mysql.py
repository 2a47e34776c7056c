"""Types of MySQL and MariaDB."""

from __future__ import annotations

from tests.support.types import Quirk, Type, TypeTable, Way, make_bit_way, make_byte_ways

_TEXT = Way("string", "{c}")
_INT = Way("int", "{c}")
_LONG = Way("bigint", "{c}")
_DOUBLE = Way("double", "cast({c} as double)")

# Decimals.


def _decimals(kind: str) -> dict[str, Way]:
    return {
        "precise": Way(kind, "{c}" if kind.startswith("decimal") else "cast({c} as char)"),
        "string": Way("string", "cast({c} as char)"),
        "double": _DOUBLE,
    }


_UNSIGNED = {
    # Values that exceed signed 64-bit integers become negative.
    "long": Way("bigint", "cast({c} as signed)"),
    "precise": Way("decimal(20,0)", "cast({c} as decimal(20,0))", bare="string"),
}

# Times. All are compared as microseconds.

_DAY = Way("date", "datediff({c}, '1970-01-01')", "unix_date({c})")
_MICROS = "timestampdiff(microsecond, '1970-01-01', {c})"
_SPARK_MICROS = "unix_micros(try_cast({c} as timestamp))"
_WALL = Way("timestamp_ntz", _MICROS, _SPARK_MICROS)
_WALL_MILLIS = Way("timestamp_ntz", f"floor({_MICROS} / 1000) * 1000", _SPARK_MICROS)
_INSTANT = Way("timestamp", "nullif(cast(unix_timestamp({c}) * 1000000 as signed), 0)", _SPARK_MICROS, bare="string")
_CLOCK = "cast(time_to_sec({c}) * 1000000 as signed)"

_WALLS = {
    "adaptive_time_microseconds": _WALL,
    "connect": _WALL_MILLIS,
    "isostring": Way(_WALL.kind, _WALL.sql, _WALL.spark, bare="string"),
    "microseconds": _WALL,
    "nanoseconds": _WALL,
}
_DAYS = {
    **dict.fromkeys(_WALLS, _DAY),
    "isostring": Way("date", _DAY.sql, "unix_date(try_cast(replace({c}, 'Z') as date))", bare="string"),
}
_TIMES = {
    "adaptive_time_microseconds": Way("bigint", _CLOCK),
    "connect": Way("bigint", f"floor({_CLOCK} / 1000) * 1000"),
    "isostring": Way("string", _CLOCK, "unix_micros(cast(concat('1970-01-01T', {c}) as timestamp))"),
    "microseconds": Way("bigint", _CLOCK),
    "nanoseconds": Way("bigint", _CLOCK),
}

# Bytes, bits and shapes.

_BYTES = make_byte_ways("lower(hex({c}))")
_BITS = make_bit_way("cast({c} + 0 as char)")
_SHAPE = "concat(coalesce({c}.srid, 0), ' ', lower(hex({c}.wkb)))"
_SHAPE_SQL = "concat(st_srid({c}), ' ', lower(hex(st_asbinary({c}))))"
_BARE_SHAPE = "concat('0 ', lower(hex(unbase64({c}.wkb))))"
_GEOMETRY = Way("struct<wkb:binary,srid:int>", _SHAPE_SQL, _SHAPE, "struct<wkb:string>", _BARE_SHAPE)
_POINTS = "' ', cast({c}.x * 1000 as bigint), ' ', cast({c}.y * 1000 as bigint))"
_POINT = Way(
    "struct<x:double,y:double,wkb:binary,srid:int>",
    f"concat({_SHAPE_SQL}, ' ', cast(st_x({{c}}) * 1000 as signed), ' ', cast(st_y({{c}}) * 1000 as signed))",
    f"concat({_SHAPE}, {_POINTS}",
    "struct<wkb:string,x:double,y:double>",
    f"concat({_BARE_SHAPE}, {_POINTS}",
)


def _shape(name: str, *texts: str) -> Type:
    values = [f"st_geomfromtext('{text}')" for text in texts]
    return Type(f"c_{name}", name, values, _POINT if name == "point" else _GEOMETRY)


def _beyond(value: str, wrapped: int, *, mariadb: bool) -> Quirk:
    """Return the quirk of a value outside 1677 to 2262, the range of 64-bit nanoseconds.

    Debezium 3.5.0 sends the wrapped number; later versions send null.
    """
    return Quirk(value, wrapped if mariadb else None, modes={"time": ["nanoseconds"]})


#: Debezium moves years of two digits to this century, unless `enable.time.adjuster` is false.
_THIS_CENTURY = "'0001-01-01'"
#: Some modes represent TIME as a time of day, which cannot be negative or exceed 24 hours.
_NO_TIME_OF_DAY = [
    Quirk(value, None, modes={"time": ["connect", "isostring"]})
    for value in ("'-00:00:01'", "'838:59:59'", "'-838:59:59.999'", "'-838:59:58.999999'")
]


def _types(*, mariadb: bool) -> list[Type]:
    return [
        Type("c_tiny", "tinyint", ["-128", "127", "0"], _INT),
        Type("c_tinyu", "tinyint unsigned", ["255", "0"], _INT),
        Type("c_tiny1", "tinyint(1)", ["1", "0", "-7"], _INT),
        Type("c_bool", "boolean", ["true", "false"], _INT),
        Type("c_small", "smallint", ["-32768", "32767", "0"], _INT),
        Type("c_smallu", "smallint unsigned", ["65535", "0"], _INT),
        Type("c_medium", "mediumint", ["-8388608", "8388607", "0"], _INT),
        Type("c_mediumu", "mediumint unsigned", ["16777215", "0"], _INT),
        Type("c_int", "int", ["-2147483648", "2147483647", "0"], _INT),
        Type("c_intu", "int unsigned", ["4294967295", "0"], _LONG),
        Type("c_intz", "int(8) zerofill", ["42", "0"], _LONG),
        Type("c_big", "bigint", ["-9223372036854775808", "9223372036854775807", "0", "9007199254740993"], _LONG),
        Type("c_bigu", "bigint unsigned", ["18446744073709551615", "9223372036854775807", "0"], _UNSIGNED, "unsigned"),
        Type(
            "c_dec",
            "decimal(10,2)",
            ["0", "-0.01", "99999999.99", "-99999999.99"],
            _decimals("decimal(10,2)"),
            "decimal",
        ),
        Type("c_decu", "decimal(10,2) unsigned", ["0", "99999999.99"], _decimals("decimal(10,2)"), "decimal"),
        Type("c_dec38", "decimal(38,0)", ["0", "9" * 38, "-" + "9" * 38], _decimals("decimal(38,0)"), "decimal"),
        Type(
            "c_dec65",
            "decimal(65,30)",
            ["0", "9" * 35 + "." + "9" * 30, "-" + "9" * 35 + ".5", "-0." + "0" * 29 + "1"],
            _decimals("string"),
            "decimal",
        ),
        Type(
            "c_float",
            "float",
            ["0", "-3.40282e38", "1.17549e-38", "1.5", "0.1"],
            Way("float", _DOUBLE.sql, bare_spark="cast({c} as float)"),
        ),
        Type("c_double", "double", ["0", "-1.7976931348623157e308", "2.2250738585072014e-308", "0.1"], _DOUBLE),
        Type("c_bit", "bit(1)", ["b'1'", "b'0'"], Way("boolean", "{c} = 1")),
        Type("c_bit10", "bit(10)", ["b'1010010111'", "b'0'", "b'1'"], _BITS),
        Type("c_bit64", "bit(64)", ["18446744073709551615", "b'0'", "b'1'"], _BITS),
        Type("c_char", "char(5)", ["'ab'", "''", "'é中😀'"], _TEXT),
        Type("c_varchar", "varchar(20)", ["'ab  '", "''"], _TEXT),
        Type("c_tinytext", "tinytext", ["'é'"], _TEXT),
        Type("c_text", "text", ["''", r"""'text é中😀 "q" \'s\' \n tab\t \\ back'""", "repeat('é中😀x', 2500)"], _TEXT),
        Type("c_longtext", "longtext", ["repeat('long', 25000)"], _TEXT),
        Type("c_latin", "varchar(20) character set latin1", ["'café'"], _TEXT),
        Type("c_binary", "binary(4)", ["x'deadbeef'", "x'00'"], _BYTES, "binary"),
        Type("c_varbinary", "varbinary(10)", ["x'00ff'", "''", "x'fbffbf'"], _BYTES, "binary"),
        Type("c_blob", "blob", ["x'0102030405'", "''", "repeat(x'00ff', 5000)"], _BYTES, "binary"),
        Type(
            "c_date",
            "date",
            ["'2026-11-21'", "'1000-01-01'", "'1582-10-10'", "'9999-12-31'", _THIS_CENTURY, "'0000-00-00'"],
            _DAYS,
            "time",
            [Quirk(_THIS_CENTURY, 11323)],
        ),
        Type(
            "c_time",
            "time",
            ["'13:14:15'", "'00:00:00'", "'-00:00:01'", "'838:59:59'"],
            _TIMES,
            "time",
            _NO_TIME_OF_DAY,
        ),
        Type("c_time3", "time(3)", ["'13:14:15.123'", "'-838:59:59.999'"], _TIMES, "time", _NO_TIME_OF_DAY),
        Type(
            "c_time6",
            "time(6)",
            ["'13:14:15.123456'", "'-838:59:58.999999'", "'23:59:59.999999'"],
            _TIMES,
            "time",
            _NO_TIME_OF_DAY,
        ),
        Type(
            "c_dt",
            "datetime",
            [
                "'2026-11-21 13:14:15'",
                "'1000-01-01'",
                "'9999-12-31 23:59:59'",
                "'2026-03-08 02:30:00'",
                _THIS_CENTURY,
                "'0000-00-00'",
            ],
            _WALLS,
            "time",
            [
                Quirk(_THIS_CENTURY, 978307200000000),
                _beyond("'1000-01-01'", 6283264147419103, mariadb=mariadb),
                _beyond("'9999-12-31 23:59:59'", -4852116232933723, mariadb=mariadb),
            ],
        ),
        Type("c_dt3", "datetime(3)", ["'2026-11-21 13:14:15.123'", "'1969-12-31 23:59:59.999'"], _WALLS, "time"),
        Type(
            "c_dt6",
            "datetime(6)",
            ["'2026-11-21 13:14:15.123456'", "'1969-12-31 23:59:59.999999'", "'9999-12-31 23:59:59.999999'"],
            _WALLS,
            "time",
            [_beyond("'9999-12-31 23:59:59.999999'", -4852116231933724, mariadb=mariadb)],
        ),
        Type(
            "c_ts",
            "timestamp null",
            ["'2026-11-21 13:14:15'", "'1970-01-02 00:00:01'", "'2038-01-19 03:14:07'", "'0000-00-00'"],
            _INSTANT,
            # A zero timestamp is null, but the stream of the MariaDB connector sends the epoch.
            quirks=[Quirk("'0000-00-00'", 0, "stream")] if mariadb else [],
        ),
        Type("c_ts6", "timestamp(6) null", ["'2026-11-21 13:14:15.123456'", "'2038-01-19 03:14:07.999999'"], _INSTANT),
        Type(
            "c_enum",
            "enum('sad', 'not, ok', 'happy')",
            ["'happy'", "'not, ok'"],
            _TEXT,
            quirks=[Quirk("'not, ok'", r"not\, ok", "stream")],
        ),
        Type("c_set", "set('a', 'b', 'c')", ["'a,c'", "''"], _TEXT),
        Type("c_json", "json", ["""'{"a": 1, "b": [1, 2.50]}'""", "'null'", "'[]'"], _TEXT),
        _shape("point", "POINT(1.5 -2)", "POINT(0 0)"),
        _shape("geometry", "POLYGON((0 0, 1 0, 1 1, 0 0))", "POINT(1 2)"),
        _shape("linestring", "LINESTRING(0 0, 1.5 1)"),
        _shape("polygon", "POLYGON((0 0, 1 0, 1 1, 0 0))"),
        _shape("multipoint", "MULTIPOINT(0 0, 1 1)"),
        _shape("multilinestring", "MULTILINESTRING((0 0, 1 1), (2 2, 3 3))"),
        _shape("multipolygon", "MULTIPOLYGON(((0 0, 1 0, 1 1, 0 0)))"),
        _shape("geometrycollection", "GEOMETRYCOLLECTION(POINT(1 2))"),
        Type(
            "c_never",
            "date not null",
            ["'2026-11-21'", "'0000-00-00'"],
            _DAYS,
            "time",
            # A zero date in a NOT NULL column.
            [Quirk("'0000-00-00'", 0)],
        ),
    ]


#: A year of 0 stops the snapshot of the MariaDB connector, and a column of INET4 or INET6 stops the connector.
_ZERO_YEAR = [Quirk("0", 2000, "snapshot"), Quirk("0", 1900, "stream")]

MYSQL = TypeTable(
    [*_types(mariadb=False), Type("c_year", "year", ["2026", "1901", "2155", "0"], _INT, quirks=_ZERO_YEAR)]
)
MARIADB = TypeTable(
    [
        *_types(mariadb=True),
        Type("c_year", "year", ["2026", "1901", "2155"], _INT),
        Type("c_uuid", "uuid", ["'6f1d3c1e-5b1c-4b8a-9c7e-0f1e2d3c4b5a'"], _TEXT),
    ]
)
