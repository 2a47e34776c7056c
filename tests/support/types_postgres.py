"""Types of PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.types import Quirk, Type, TypeTable, Way, make_bit_way, make_byte_ways

#: First and last day of the years that all table formats support. They represent infinity of PostgreSQL.
_FIRST_DAY, _LAST_DAY = -719162, 2932896
_FIRST, _LAST = _FIRST_DAY * 86_400_000_000, _LAST_DAY * 86_400_000_000
#: Expression with the output function of a type. A cast to text may print more.
PRINTED = "case when {c} is not null then concat({c}) end"


def _infinite(finite: str, first: int, last: int) -> str:
    return f"case {{c}} when 'infinity' then {last} when '-infinity' then {first} else {finite} end"


def _unchanged(kind: str, bare: str = "") -> Way:
    return Way(kind, "{c}", bare=bare)


_TEXT = Way("string", PRINTED)
_LONG = Way("bigint", "{c}")
#: NaN is a string in JSON, and so is a column that contains NaN.
_FLOAT = Way("float", "{c}::float8", bare="string", bare_spark="cast({c} as float)")
_DOUBLE = Way("double", "{c}::float8", bare="string", bare_spark="cast({c} as double)")

# Decimals.


def _decimals(kind: str, number: str = "{c}") -> dict[str, Way]:
    return {
        "precise": Way(kind, number if kind.startswith("decimal") else f"({number})::text"),
        "string": Way("string", f"({number})::text"),
        "double": Way("double", f"({number})::float8"),
    }


def _java_quirks(value: str, text: str) -> list[Quirk]:
    """Return the quirks of a value that a Java number cannot represent."""
    return [Quirk(value, None, modes={"decimal": ["precise"]}), Quirk(value, text, modes={"decimal": ["string"]})]


_NOT_A_NUMBER = _java_quirks("'NaN'", "NAN")
#: Debezium reports a scale of -2 as 2046 and sends that many zeros. The number is the same.
_ZEROS = Way("string", "{c}::text || '.' || repeat('0', 2046)")
_ROUNDED = {**_decimals("string"), "precise": _ZEROS, "string": _ZEROS}

# Times. All are compared as microseconds.

_SECONDS = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
_DAY = Way("date", _infinite("{c} - date '1970-01-01'", _FIRST_DAY, _LAST_DAY), "cast(unix_date({c}) as bigint)")
_MICROS = "(extract(epoch from {c}) * 1000000)::bigint"
#: Milliseconds rounded towards the past, as in java.time.
_MILLIS = "floor(extract(epoch from {c}) * 1000)::bigint * 1000"
_WALL = Way("timestamp_ntz", _infinite(_MICROS, _FIRST, _LAST), "unix_micros(try_cast({c} as timestamp))")
_WALL_MILLIS = Way("timestamp_ntz", _infinite(_MILLIS, _FIRST, _LAST), "unix_micros(try_cast({c} as timestamp))")
_INSTANT = Way("timestamp", _infinite(_MICROS, _FIRST, _LAST), "unix_micros(try_cast({c} as timestamp))", bare="string")


_TIME_TEXT = Way("string", _MICROS, "unix_micros(cast(concat('1970-01-01T', {c}) as timestamp))")


def _walls() -> dict[str, Way]:
    iso = Way(_WALL.kind, _WALL.sql, _WALL.spark, bare="string")
    return {
        "adaptive": _WALL,
        "adaptive_time_microseconds": _WALL,
        "connect": _WALL_MILLIS,
        "isostring": iso,
        "microseconds": _WALL,
        "nanoseconds": _WALL,
    }


def _days() -> dict[str, Way]:
    iso = Way("date", _DAY.sql, "cast(unix_date(try_cast(replace({c}, 'Z') as date)) as bigint)", bare="string")
    return {**dict.fromkeys(_walls(), _DAY), "isostring": iso}


def _times() -> dict[str, Way]:
    micros = Way("bigint", _MICROS)
    return {
        "adaptive": micros,
        "adaptive_time_microseconds": micros,
        "connect": Way("bigint", _MILLIS),
        "isostring": _TIME_TEXT,
        "microseconds": micros,
        "nanoseconds": micros,
    }


# Intervals. Debezium counts a month as 365.25 / 12 days.
_MONTHS = "(extract(year from {c}) * 12 + extract(month from {c}))"
_CLOCK = "extract(hour from {c}) * 3600 + extract(minute from {c}) * 60 + extract(second from {c})"
_INTERVALS = {
    "numeric": Way(
        "bigint", f"(({_MONTHS} * 30.4375 + extract(day from {{c}})) * 86400000000 + ({_CLOCK}) * 1000000)::bigint"
    ),
    "string": Way(
        "string",
        "'P' || extract(year from {c}) || 'Y' || extract(month from {c}) || 'M' || extract(day from {c}) || 'DT' || "
        "extract(hour from {c}) || 'H' || extract(minute from {c}) || 'M' || "
        "trim_scale(extract(second from {c})) || 'S'",
    ),
}

# Bytes and bits, as hexadecimal digits and integers.
_BYTES = make_byte_ways("encode({c}, 'hex')")
_BITS = make_bit_way("lpad({c}::text, 64, '0')::bit(64)::bigint::text")

# Maps, structs and lists.
_ENTRIES = "coalesce((select string_agg(k || '=' || coalesce(v, 'null'), ',' order by k collate \"C\") from each({c}) e(k, v)), '')"
_PAIRS = "array_join(transform(array_sort(map_entries({m})), e -> concat(e.key, '=', coalesce(e.value, 'null'))), ',')"
_HSTORE_SQL = f"case when {{c}} is not null then {_ENTRIES} end"
_HSTORES = {
    "json": Way("string", _HSTORE_SQL, _PAIRS.format(m="from_json({c}, 'map<string,string>')")),
    "map": Way("map<string,string>", _HSTORE_SQL, _PAIRS.format(m="{c}")),
}
_POINT = Way(
    "struct<x:double,y:double,wkb:binary,srid:int>",
    "case when {c} is not null then array[{c}[0], {c}[1]] end",
    "if({c} is null, null, array({c}.x, {c}.y))",
    bare="struct<wkb:string,x:double,y:double>",
)


def _list(element: str, sql: str = "{c}", spark: str = "cast(x as string)") -> Way:
    return Way(
        f"array<{element}>",
        f"array_to_string({sql}, ',', 'null')",
        f"array_join(transform({{c}}, x -> {spark}), ',', 'null')",
    )


def _each(of: str) -> str:
    """Return a list expression over elements ``x``."""
    return (
        f"case when {{c}} is not null then array(select {of} from unnest({{c}}) with ordinality u(x, n) order by n) end"
    )


_HEX_LIST = _each("encode(x, 'hex')")
_NUMBER_LISTS = {
    "precise": _list("decimal(8,3)"),
    "string": _list("string"),
    "double": Way("array<double>", "{c}::float8[]"),
}
_ANY_LISTS = {**dict.fromkeys(["precise", "string"], _list("string")), "double": _NUMBER_LISTS["double"]}
_GRID = replace(_list("int"), bare="array<bigint>")
_BYTES_LISTS = {
    "bytes": _list("binary", _HEX_LIST, "lower(hex(x))"),
    "base64": _list("string", _HEX_LIST, "lower(hex(unbase64(x)))"),
    "base64-url-safe": _list("string", _HEX_LIST, "lower(hex(unbase64(translate(x, '-_', '+/'))))"),
    "hex": _list("string", _HEX_LIST, "x"),
}


def _micros_list(kind: str, bare: str = "") -> Way:
    moments = _list(kind, _each(_MICROS.format(c="x")), "cast(unix_micros(cast(x as timestamp)) as string)")
    return replace(moments, bare=bare)


_WALL_LIST, _INSTANT_LIST = _micros_list("timestamp_ntz"), _micros_list("timestamp", "array<string>")
_WALL_LISTS = {**dict.fromkeys(_walls(), _WALL_LIST), "isostring": replace(_WALL_LIST, bare="array<string>")}
_DAY_LIST = _list("date", _each("x - date '1970-01-01'"), "cast(unix_date(x) as string)")
_ISO_DAY_LIST = replace(
    _DAY_LIST,
    spark=_DAY_LIST.spark.replace("unix_date(x)", "unix_date(cast(replace(x, 'Z') as date))"),
    bare="array<string>",
)
_DAY_LISTS = {**dict.fromkeys(_walls(), _DAY_LIST), "isostring": _ISO_DAY_LIST}
_UTC_TIME = "(extract(epoch from {c} at time zone 'UTC') * 1000000)::bigint"
_STRINGS = r"""E'text \u00e9\u4e2d\U0001F600 "q" \'s\' \n tab\t \\ back'"""
_TIMESTAMPS = [
    "'2026-11-21 13:14:15.123456'",
    "'2026-03-08 02:30:00'",
    "'0001-01-01 00:00:00'",
    "'1500-02-28 01:02:03.999999'",
    "'1969-12-31 23:59:59.999999'",
    "'9999-12-31 23:59:59.999'",
    "'0044-03-15 12:00:00 BC'",
    "'infinity'",
    "'-infinity'",
]


def _bare_infinity(value: str, arrives: Any, phase: str = "") -> list[Quirk]:
    """Return the quirk of infinity without a schema, where it looks like any other string."""
    return [Quirk(value, arrives, phase, {"wire": ["bare"]})]


_TIMESTAMP_QUIRKS = [
    # The range of 64-bit nanoseconds is 1677 to 2262.
    *[
        Quirk(moment, None, modes={"time": ["nanoseconds"]})
        for moment in _TIMESTAMPS
        if moment[1:5] in {"0001", "1500", "9999", "0044"}
    ],
    *_bare_infinity("'infinity'", 9223372036825200000),
    *_bare_infinity("'-infinity'", -9223372036832400000),
]
_MIDNIGHT = [Quirk("'24:00'", 0, modes={"time": ["isostring"]})]

TYPES = TypeTable(
    [
        Type("c_small", "smallint", ["-32768", "32767", "0"], Way("int", "{c}")),
        Type("c_int", "integer", ["-2147483648", "2147483647", "0"], Way("int", "{c}")),
        Type("c_big", "bigint", ["-9223372036854775808", "9223372036854775807", "0", "9007199254740993"], _LONG),
        Type("c_oid", "oid", ["0", "4294967295"], Way("bigint", "{c}::bigint")),
        Type("c_bool", "boolean", ["true", "false"], Way("boolean", "{c}")),
        Type(
            "c_real",
            "real",
            ["0", "1.5", "-3.4028235e38", "1.1754944e-38", "0.1", "'NaN'", "'Infinity'", "'-Infinity'"],
            _FLOAT,
        ),
        Type(
            "c_double",
            "double precision",
            ["0", "-1.7976931348623157e308", "2.2250738585072014e-308", "0.1", "'NaN'", "'Infinity'", "'-Infinity'"],
            _DOUBLE,
        ),
        Type(
            "c_numeric",
            "numeric(10,2)",
            ["0", "-0.01", "99999999.99", "-99999999.99", "1.50", "'NaN'"],
            _decimals("decimal(10,2)"),
            "decimal",
            _NOT_A_NUMBER,
        ),
        Type(
            "c_whole",
            "numeric(38,0)",
            ["0", "99999999999999999999999999999999999999", "-99999999999999999999999999999999999999"],
            _decimals("decimal(38,0)"),
            "decimal",
        ),
        Type(
            "c_fraction",
            "numeric(38,37)",
            ["0", "9.9999999999999999999999999999999999999", "-0.0000000000000000000000000000000000001"],
            _decimals("decimal(38,37)"),
            "decimal",
        ),
        Type(
            "c_vast", "numeric(60,10)", ["0", "9" * 50 + ".0123456789", "-" + "9" * 50], _decimals("string"), "decimal"
        ),
        Type(
            "c_any",
            "numeric",
            ["0", "1.50", "1234567890.123456789", "-1e-20", "1e40", "100", "'NaN'", "'Infinity'", "'-Infinity'"],
            _decimals("string"),
            "decimal",
            [
                *_NOT_A_NUMBER,
                *_java_quirks("'Infinity'", "POSITIVE_INFINITY"),
                *_java_quirks("'-Infinity'", "NEGATIVE_INFINITY"),
                # A column without a scale loses trailing zeros.
                Quirk("1.50", "1.5", modes={"decimal": ["precise"]}),
            ],
        ),
        Type("c_rounded", "numeric(5,-2)", ["0", "1234567", "-1200"], _ROUNDED, "decimal"),
        Type(
            "c_money",
            "money",
            ["0", "-0.01", "92233720368547758.07", "-92233720368547758.08"],
            _decimals("decimal(38,2)", "{c}::numeric"),
            "decimal",
        ),
        Type("c_char", "char(5)", ["'ab'", "''", "'é中😀'"], _TEXT),
        Type("c_varchar", "varchar(20)", ["'ab  '", "''"], _TEXT),
        Type("c_text", "text", ["''", _STRINGS, "repeat('é中😀x', 2500)"], _TEXT),
        Type("c_citext", "citext", ["'CiText'"], _TEXT),
        Type("c_bytea", "bytea", [r"''", r"'\xdeadbeef00ff'", r"'\x00'", r"'\xfbffbf'"], _BYTES, "binary"),
        Type(
            "c_date",
            "date",
            [
                "'2026-11-21'",
                "'0001-01-01'",
                "'1582-10-10'",
                "'0044-03-15 BC'",
                "'9999-12-31'",
                "'infinity'",
                "'-infinity'",
            ],
            _days(),
            "time",
            # The snapshot uses java.sql.Date, which has calendar gaps and no era.
            [
                Quirk("'1582-10-10'", -141422, "snapshot"),
                Quirk("'0044-03-15 BC'", -703383, "snapshot"),
                *_bare_infinity("'infinity'", None, "snapshot"),
                *_bare_infinity("'-infinity'", None, "snapshot"),
                *_bare_infinity("'infinity'", -2147472692, "stream"),
                *_bare_infinity("'-infinity'", -2147472691, "stream"),
            ],
        ),
        Type(
            "c_time",
            "time",
            ["'00:00'", "'13:14:15.123456'", "'23:59:59.999999'", "'24:00'"],
            _times(),
            "time",
            _MIDNIGHT,
        ),
        Type("c_time3", "time(3)", ["'00:00'", "'13:14:15.123'", "'24:00'"], _times(), "time", _MIDNIGHT),
        Type(
            "c_timetz",
            "timetz",
            ["'13:14:15.123456+02'", "'00:00+00'", "'23:59:59-12'"],
            Way("string", _UTC_TIME, _TIME_TEXT.spark),
        ),
        Type("c_ts", "timestamp", _TIMESTAMPS, _walls(), "time", _TIMESTAMP_QUIRKS),
        Type("c_ts0", "timestamp(0)", _TIMESTAMPS, _walls(), "time", _TIMESTAMP_QUIRKS),
        Type("c_ts3", "timestamp(3)", _TIMESTAMPS, _walls(), "time", _TIMESTAMP_QUIRKS),
        Type(
            "c_tstz",
            "timestamptz",
            [
                "'2026-11-21 13:14:15.123456+02'",
                "'0001-01-01 00:00:00+14'",
                "'0044-03-15 12:00:00+00 BC'",
                "'9999-12-31 23:59:59.999999+00'",
                "'epoch'",
                "'1969-12-31 23:59:59.999999-08'",
                "'infinity'",
                "'-infinity'",
            ],
            _INSTANT,
            quirks=[*_bare_infinity("'infinity'", None), *_bare_infinity("'-infinity'", None)],
        ),
        Type(
            "c_interval",
            "interval",
            ["'1 year 2 mons 3 days 04:05:06.789'", "'-1 day -00:00:01'", "'0'", "'100 years'", "'-3 mons +5 days'"],
            _INTERVALS,
            "interval",
        ),
        Type(
            "c_uuid",
            "uuid",
            ["'6f1d3c1e-5b1c-4b8a-9c7e-0f1e2d3c4b5a'", "'00000000-0000-0000-0000-000000000000'"],
            _TEXT,
        ),
        Type("c_json", "json", ["""'{"a": 1, "b": [1, 2.50]}'""", "'null'", "'[]'", "'\"é中😀\"'"], _TEXT),
        Type("c_jsonb", "jsonb", ["""'{"z": null,"a":1}'""", "'null'", "'1e2'"], _TEXT),
        Type("c_xml", "xml", ["'<a b=\"1\">x &amp; y</a>'"], _TEXT),
        Type("c_inet", "inet", ["'192.168.1.5'", "'192.168.1.5/24'", "'2001:db8::1'"], _TEXT),
        Type("c_cidr", "cidr", ["'10.0.0.0/8'", "'2001:db8::/32'"], _TEXT),
        Type("c_mac", "macaddr", ["'08:00:2b:01:02:03'"], _TEXT),
        Type("c_mac8", "macaddr8", ["'08:00:2b:01:02:03:04:05'"], _TEXT),
        Type("c_bit", "bit(1)", ["B'1'", "B'0'"], Way("boolean", "{c} = B'1'")),
        Type("c_bit10", "bit(10)", ["B'1010010111'", "B'0000000000'", "B'0000000001'"], _BITS),
        Type("c_varbit", "varbit(20)", ["B'101'", "B'11111111111111111111'", "B'0'"], _BITS),
        Type("c_enum", "mood", ["'happy'", "'not ok'"], _TEXT),
        Type("c_domain", "posint", ["7", "1"], Way("int", "{c}::int")),
        Type("c_hstore", "hstore", ["'k1=>v1, k2=>NULL'", "''", "'é=>\"a,b\"'"], _HSTORES, "hstore"),
        Type("c_ltree", "ltree", ["'a.b.c'", "''"], _TEXT),
        Type("c_tsvector", "tsvector", ["to_tsvector('english', 'the quick fox')", "''"], _TEXT),
        Type("c_point", "point", ["'(1.5,-2)'", "'(0,0)'", "'(1e300,1e-300)'"], _POINT),
        Type("c_i4range", "int4range", ["'[1,10)'", "'empty'", "'(,)'"], _TEXT),
        Type("c_i8range", "int8range", ["'[1,10)'"], _TEXT),
        Type("c_numrange", "numrange", ["'[1.5,2.5]'"], _TEXT),
        Type("c_tsrange", "tsrange", ["'[2026-01-01,2026-02-01)'"], _TEXT),
        Type("c_tstzrange", "tstzrange", ["'[2026-01-01 00:00+00,2026-02-01 00:00+00)'"], _TEXT),
        Type("c_daterange", "daterange", ["'[2026-01-01,2026-02-01)'"], _TEXT),
        # In the stream, the connector does not recognize the type.
        Type("c_name", "name", ["'nam'"], _TEXT, quirks=[Quirk("'nam'", None, "stream")]),
        Type("c_smalls", "smallint[]", ["'{1,NULL}'"], replace(_list("int"), bare="array<bigint>")),
        Type("c_reals", "real[]", ["'{1.5,NULL}'"], Way("array<float>", "{c}::float8[]", bare="array<double>")),
        # Nested lists arrive as nulls.
        Type(
            "c_grid", "integer[]", ["'{{1,2},{3,4}}'", "'{1,2}'"], _GRID, quirks=[Quirk("'{{1,2},{3,4}}'", "null,null")]
        ),
        Type("c_varchars", "varchar(10)[]", ["'{ab,NULL}'"], _list("string")),
        Type("c_citexts", "citext[]", ["'{Ab,NULL}'"], _list("string")),
        Type("c_jsons", "json[]", ["""array['{"a":1}'::json, null]"""], _list("string")),
        Type(
            "c_inets",
            "inet[]",
            ["'{10.0.0.1,NULL}'"],
            _list("string", _each("case when x is not null then concat(x) end")),
        ),
        Type("c_oids", "oid[]", ["'{42,NULL}'"], _list("bigint")),
        Type("c_ranges", "int4range[]", ["'{\"[1,3)\",NULL}'"], _list("string")),
        Type(
            "c_anys",
            "numeric[]",
            ["'{1.50,1e20,-0.001,NULL}'", "'{NaN}'"],
            _ANY_LISTS,
            "decimal",
            [
                Quirk("'{NaN}'", None),
                Quirk(
                    "'{1.50,1e20,-0.001,NULL}'", "1.5,100000000000000000000,-0.001,null", modes={"decimal": ["precise"]}
                ),
            ],
        ),
        Type("c_ints", "integer[]", ["'{1,NULL,-3}'", "'{}'"], replace(_list("int"), bare="array<bigint>")),
        Type("c_bigs", "bigint[]", ["'{9223372036854775807,NULL}'", "'{}'"], _list("bigint")),
        Type("c_bools", "boolean[]", ["'{t,NULL,f}'"], _list("boolean", "{c}::text[]")),
        Type("c_doubles", "double precision[]", ["'{0.1,NULL,-1e300}'"], Way("array<double>", "{c}")),
        Type("c_texts", "text[]", ["""'{"a","b,c",NULL,"q\\"q","é😀"}'""", "'{}'"], _list("string")),
        Type("c_numbers", "numeric(8,3)[]", ["'{1.500,-2.250,NULL}'", "'{}'"], _NUMBER_LISTS, "decimal"),
        Type("c_uuids", "uuid[]", ["'{6f1d3c1e-5b1c-4b8a-9c7e-0f1e2d3c4b5a,NULL}'"], _list("string")),
        Type("c_jsonbs", "jsonb[]", ["""array['{"k": 1}'::jsonb, null]"""], _list("string")),
        Type("c_byteas", "bytea[]", [r"array['\x01ff'::bytea, null, '']"], _BYTES_LISTS, "binary"),
        Type("c_moods", "mood[]", ["'{happy,not ok}'", "'{}'"], _list("string")),
        Type("c_dates", "date[]", ["'{2026-11-21,NULL,0001-01-01}'"], _DAY_LISTS, "time"),
        Type("c_tss", "timestamp[]", ["'{2026-01-01 00:00:00,2026-01-01 00:00:00.5,NULL}'"], _WALL_LISTS, "time"),
        Type("c_tstzs", "timestamptz[]", ["'{2026-01-01 00:00:00+02,NULL}'"], _INSTANT_LIST),
    ],
    unsent={
        "line": "'{1,2,3}'",
        "lseg": "'[(0,0),(1,1)]'",
        "box": "'(1,1),(0,0)'",
        "path": "'((0,0),(1,1))'",
        "polygon": "'((0,0),(1,1))'",
        "circle": "'<(0,0),1>'",
        "pg_lsn": "'16/B374D848'",
        "tsquery": "'a & b'",
        "jsonpath": "'$.a'",
        "int4multirange": "'{[1,3)}'",
        "pair": "'(1,x)'",
        "money[]": "'{1.50}'",
        "interval[]": "'{1 day}'",
        "xml[]": "array['<a/>'::xml]",
        "varbit[]": "'{101}'",
        "point[]": "array['(1,2)'::point]",
        "posint[]": "'{7}'",
    },
)
#: Custom types of the table.
CUSTOM_TYPES = """
create extension if not exists hstore; create extension if not exists citext; create extension if not exists ltree;
create type {schema}.mood as enum ('sad', 'not ok', 'happy');
create type {schema}.pair as (a int, b text);
create domain {schema}.posint as integer check (value > 0);
"""
