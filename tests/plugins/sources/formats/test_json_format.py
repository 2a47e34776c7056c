"""JSON lines: inferred types, which stay fixed, and lines that do not match them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.bronze import Bronze, write_lines
from tests.support.files import events_of, in_order
from tests.support.tiers import nightly_after

from headrace.errors import ConfigError, DataError
from headrace.sdk.events import ERROR, PLACE, RAW, VALUE, Events
from headrace.sdk.schema_log import SchemaLog, Subject
from headrace.spark.sessions import Sessions
from headrace_sources.formats import oversized_data
from headrace_sources.formats.json.json_format import JsonFormat
from headrace_sources.limits import FIRST_COLUMNS, NEW_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TOPIC = "moma.public.artists"


def write_records(folder: Path, *records: Any, batch: int = 0) -> Path:
    return write_lines(folder / TOPIC / f"{TOPIC}+0+{batch}.json", records)


def batch(spark: SparkSession, folder: Path, number: int, log: SchemaLog | None = None, **options: Any) -> Events:
    """Return the events of one file as a batch."""
    path = folder / TOPIC / f"{TOPIC}+0+{number}.json"
    [events] = events_of(spark, folder, "json", log=log, files=[path], **options)
    return events


def read(spark: SparkSession, events: Events) -> list[tuple[Any, str | None, bytes]]:
    """Return value, error and bytes of every record, in order. A record with an error has no value."""
    rows = sorted(events.load(spark, events.schema).collect(), key=lambda row: row[PLACE])
    return [
        (None if row[ERROR] else row[VALUE] and row[VALUE].asDict(recursive=True), row[ERROR], bytes(row[RAW]))
        for row in rows
    ]


def types(events: Events) -> str:
    return str(events.schema.simpleString())


class TestTypes:
    def test_types_are_inferred_from_the_data(self, spark: SparkSession, tmp_path: Path) -> None:
        write_records(
            tmp_path, {"id": 1, "x": 1.5, "b": True, "s": "1", "o": {"a": [1]}, "n": None}, {"id": 2**40, "x": 2}
        )
        assert (
            types(batch(spark, tmp_path, 0))
            == "struct<b:boolean,id:bigint,o:struct<a:array<bigint>>,s:string,x:double>"
        )

    def test_types_never_change(self, spark: SparkSession, tmp_path: Path) -> None:
        log = SchemaLog()
        write_records(tmp_path, {"id": 1, "price": 10})
        write_records(tmp_path, {"id": "two", "price": 11}, {"id": 3, "price": 10.5}, {"id": 4, "price": 12}, batch=1)
        first, second = batch(spark, tmp_path, 0, log), batch(spark, tmp_path, 1, log)
        assert types(first) == types(second) == "struct<id:bigint,price:bigint>"
        assert read(spark, second) == [
            (None, "undecodable", b'{"id": "two", "price": 11}'),
            (None, "undecodable", b'{"id": 3, "price": 10.5}'),
            ({"id": 4, "price": 12}, None, b'{"id": 4, "price": 12}'),
        ]

    def test_invalid_column_names(self, spark: SparkSession, tmp_path: Path) -> None:
        log = SchemaLog()
        bad = [
            b'{"ID": 2, "o": {"a": 1}}',
            b'{"id": 3, "o": {"A": 1}}',
            b'{"id": 4, "_headrace_error": "x"}',
            b'{"id": 5, "": "x"}',
            b'{"id": 5, "": ""}',
            b'{"id": 6, "\\u0049d": 1}',
            *(
                b'{"id": 6, "%s": 1}' % half
                for half in (rb"\ud800", rb"a\udc00b", rb"\uD83D\u0061", rb"\ud83d\ude00\ude00")
            ),
            # Java's equalsIgnoreCase, which Spark uses, equates these with i and s.
            '{"id": 7, "\u0131d": 1}'.encode(),
            '{"id": 7, "\u017f": "x"}'.encode(),
            b'{"id": 8, "%s": 1}' % (b"n" * 300),
        ]
        good = b'{"id": 1, "o": {"a": 1}, "s": "\\"ID\\": 5", "t": "a\\nb\\": 1"}'
        write_records(tmp_path, good, good, *bad)
        write_records(tmp_path, *bad, good, batch=1)
        row = {"id": 1, "o": {"a": 1}, "s": '"ID": 5', "t": 'a\nb": 1'}
        first = batch(spark, tmp_path, 0, log)
        assert types(first) == "struct<id:bigint,o:struct<a:bigint>,s:string,t:string>"
        assert [found[0] for found in read(spark, first)] == [row, row, *[None] * len(bad)]
        found = read(spark, batch(spark, tmp_path, 1, log))
        assert found == [*[(None, "field-name", text) for text in bad], (row, None, good)]

    @pytest.mark.nightly
    def test_keys_of_a_declared_map_are_not_names(self, spark: SparkSession, tmp_path: Path) -> None:
        columns = {"m": "map<string,string>", "o": "struct<tags: map<string,string>>", "l": "array<map<string,string>>"}
        log = SchemaLog(file_types=lambda topic: columns)
        keys = ["A", "a", "ID", "", " ", "_headrace_x", "n" * 300, "a.b", 'q"}{', "back\\slash", "line\n", "\u0131d"]
        good: list[dict[str, Any]] = [{"id": 1, "o": {"tags": {key: "x", "k": "y"}}} for key in keys]
        for key in keys:
            good += [{"id": 1, "m": {key: "}x\\"}}, {"id": 1, "l": [{"k": "v"}, {key: "]"}]}]
        write_records(tmp_path, *good, {"ID": 2}, {"id": 3, "o": {"TAGS": {"a": "x"}}}, {"id": 4, "m": 5})
        many = [{"id": n, "m": {f"user{n}": "x", "other": "y"}} for n in range(NEW_COLUMNS + 100)]
        write_records(tmp_path, *many, {"id": 5, **{f"x{n}": n for n in range(NEW_COLUMNS + 1)}}, batch=1)
        kinds = "struct<id:bigint,l:array<map<string,string>>,m:map<string,string>,o:struct<tags:map<string,string>>>"
        for number, rows in enumerate((good, many)):
            events = batch(spark, tmp_path, number, log)
            assert types(events) == kinds
            found = [(row, error) for row, error, _ in read(spark, events)]
            assert [(dict.fromkeys("lmo") | row, None) for row in rows] == found[: len(rows)]
            bad = ["field-name", "field-name", "undecodable"] if number == 0 else ["field-name"]
            assert [error for _, error in found[len(rows) :]] == bad

    def test_stored_look_alike_is_removed(self, spark: SparkSession, tmp_path: Path) -> None:
        log, good = SchemaLog(), {"id": 1, "o": {"id": 2}}
        write_records(tmp_path, good, {"id": 2, "\u0131d": 3})
        stored = "id long, `\u0131d` long, o struct<id: long, `\u0131d`: long>"
        log.remember(Subject(TOPIC, "value"), spark.createDataFrame([], stored).schema)
        events = batch(spark, tmp_path, 0, log)
        assert types(events) == "struct<id:bigint,o:struct<id:bigint>>"
        assert [(row, error) for row, error, _ in read(spark, events)] == [(good, None), (None, "field-name")]

    @pytest.mark.nightly
    @pytest.mark.parametrize("is_first", [False, True], ids=["known topic", "new topic"])
    def test_many_names(self, spark: SparkSession, tmp_path: Path, is_first: bool) -> None:
        log, good = SchemaLog(), {"id": 1, "o": {"a": "x"}, "n": None}
        wide = [
            {"id": 2, "o": {f"x{n}": n for n in range(FIRST_COLUMNS + 1)}},
            {"id": 3, **{f"y{n}": n for n in range(500)}},
        ]
        write_records(tmp_path, good, good, good)
        write_records(tmp_path, good, *wide, good, batch=1)
        if not is_first:
            batch(spark, tmp_path, 0, log)
        events = batch(spark, tmp_path, 1, log)
        assert types(events) == "struct<id:bigint,o:struct<a:string>>"
        row = {"id": 1, "o": {"a": "x"}}
        assert [(found, error) for found, error, _ in read(spark, events)] == [
            (row, None),
            *[(None, "field-name")] * 2,
            (row, None),
        ]

    def test_extreme_numbers(self, spark: SparkSession, tmp_path: Path) -> None:
        """Spark would compute 10^400,000,000 for each of them, for hours."""
        columns = {"price": "decimal(10,2)", "prices": "array<decimal(10,2)>", "o": "struct<amount:decimal(38,18)>"}
        numbers = ["1e400000000", "-1.5E-400000000", '"1e400000000"', '"1\\u0065400000000"', f'"{"9" * 1_000_000}"']
        places = ['{{"id": 1, "price": {}}}', '{{"id": 1, "prices": [1, {}]}}', '{{"id": 1, "o": {{"amount": {}}}}}']
        twice = '{"id": 1, "price": "1e400000000", "price": 1}'
        bad = [*(place.format(number) for place in places for number in numbers), twice]
        text = f'"12e400000000 \\\\u0065 {"9" * 2000}"'
        good = f'{{"id": 1, "price": "1.5e1", "prices": [2], "o": {{"amount": 1e-3}}, "note": {text}, "hex": "12e400000000"}}'
        file = tmp_path / TOPIC / f"{TOPIC}+0+0.json"
        file.parent.mkdir()
        file.write_text("\n".join([good, *bad]))
        found = read(spark, batch(spark, tmp_path, 0, SchemaLog(file_types=lambda topic: columns)))
        assert found[0][0] == {
            "id": 1,
            "price": Decimal(15),
            "prices": [Decimal(2)],
            "o": {"amount": Decimal("0.001")},
            "note": json.loads(text),
            "hex": "12e400000000",
        }
        assert found[1:] == [(None, "undecodable", line.encode()) for line in bad]

    @pytest.mark.nightly
    def test_extreme_numbers_have_a_type(self, spark: SparkSession, tmp_path: Path) -> None:
        file = tmp_path / TOPIC / f"{TOPIC}+0+0.json"
        file.parent.mkdir()
        file.write_text('{"id": 1, "x": 1e400000000}\n{"id": 2, "x": 1.5}\n{"id": 3, "x": 2.5}')
        events = batch(spark, tmp_path, 0, prefersDecimal="true")
        assert types(events) == "struct<id:bigint,x:decimal(2,1)>"
        assert [error for _, error, _ in read(spark, events)] == ["undecodable", None, None]

    def test_numbers_above_a_double(self, spark: SparkSession, tmp_path: Path) -> None:
        """Spark would read them as infinity."""
        good = '{"id": 1, "x": 1.79e308, "xs": [-1E+300, 1e-400], "o": {"x": 0.5}, "s": "a: 1e400, b"}'
        infinite = '{"id": 2, "x": "Infinity", "o": {"x": 1e300}}'
        numbers = ["1e309", "-1.5E+400", "1e400000000", "1.8e308", "9" * 310, f"{'9' * 310}.5"]
        places = [
            '{{"id": 3, "x": {}}}',
            '{{"id": 3, "xs": [1, {}]}}',
            '{{"id": 3, "x": "Infinity", "o": {{"x": {} }}}}',
        ]
        bad = [place.format(number) for place in places for number in numbers]
        bad.append(f'{{"id": 3, "xs": [{", ".join(f"1e{n}" for n in range(400, 500))}]}}')
        write_records(tmp_path, {"id": 0, "x": 0.5, "xs": [0.5], "o": {"x": 0.5}, "s": "a"})
        write_records(tmp_path, *[line.encode() for line in (good, infinite, *bad)], batch=1)
        log = SchemaLog()
        assert types(batch(spark, tmp_path, 0, log)) == (
            "struct<id:bigint,o:struct<x:double>,s:string,x:double,xs:array<double>>"
        )
        found = read(spark, batch(spark, tmp_path, 1, log))
        row = {"id": 1, "x": 1.79e308, "xs": [-1e300, 0.0], "o": {"x": 0.5}, "s": "a: 1e400, b"}
        assert [value for value, _, _ in found[:2]] == [
            row,
            {"id": 2, "x": float("inf"), "xs": None, "o": {"x": 1e300}, "s": None},
        ]
        assert found[2:] == [(None, "undecodable", line.encode()) for line in bad]

    @pytest.mark.parametrize("number", nightly_after(1, [b"1e400", b"-1e400000000", b"9" * 310]))
    def test_number_above_a_double_determines_no_type(self, spark: SparkSession, tmp_path: Path, number: bytes) -> None:
        bad = b'{"id": %s}' % number
        write_records(tmp_path, bad, {"id": 1}, {"id": 2})
        events = batch(spark, tmp_path, 0)
        assert types(events) == "struct<id:bigint>"
        assert read(spark, events) == [
            (None, "undecodable", bad),
            ({"id": 1}, None, b'{"id": 1}'),
            ({"id": 2}, None, b'{"id": 2}'),
        ]

    def test_half_of_a_surrogate_pair(self, spark: SparkSession, tmp_path: Path) -> None:
        """Spark would replace it with a question mark."""
        good = [rb'{"s": "\\ud800 C:\\Users\\ud800"}', rb'{"s": "\ud83d\ude00\uD83D\uDE00"}']
        halves = (rb"\ud800", rb"a\udc00b", rb"\uD83D\u0061", rb"\ud83d\ude00\ude00", rb"\\\ud800", rb"\"\udfff\"")
        bad = [
            place % half for half in halves for place in (b'{"s": "%s"}', b'{"l": ["a", "%s"]}', b'{"o": {"s": "%s"}}')
        ]
        write_records(tmp_path, {"s": "", "l": [""], "o": {"s": ""}}, *good, *bad)
        found = read(spark, batch(spark, tmp_path, 0))
        assert [value and value["s"] for value, _, _ in found[:3]] == ["", r"\ud800 C:\Users\ud800", "😀😀"]
        assert found[3:] == [(None, "undecodable", line) for line in bad]

    @pytest.mark.parametrize("suffix", nightly_after(1, [".json", ".json.gz"]))
    def test_file_with_a_long_line_is_named(
        self, spark: SparkSession, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(oversized_data, "LINE_BYTES", 3 << 20)
        lines = b"\n".join([b"x" * 1_500_000] * 4)
        good, bad = tmp_path / f"good{suffix}", tmp_path / f"bad{suffix}"
        pack = gzip.compress if suffix.endswith("gz") else bytes
        good.write_bytes(pack(lines))
        bad.write_bytes(pack(lines + b"x" * 2_000_000))
        found = JsonFormat().find_damaged_file(
            spark, [f"file:{good}", f"file:{bad}"], RuntimeError("java.lang.OutOfMemoryError: Java heap space")
        )
        assert found == f"file:{bad}"

    def test_long_list_of_nulls(self, spark: SparkSession, tmp_path: Path) -> None:
        """A regular expression that recurses per item would overflow Java's stack."""
        write_records(tmp_path, {"id": 1, "l": [*[None] * 100_000, ""]})
        assert types(batch(spark, tmp_path, 0)) == "struct<id:bigint,l:array<string>>"

    @pytest.mark.nightly
    def test_name_of_another_level_is_not_added(self, spark: SparkSession, tmp_path: Path) -> None:
        log = SchemaLog()
        write_records(tmp_path, {"id": 1, "o": {"a": 1}, "l": [{"b": 1}]})
        many = {f"x{n}": n for n in range(NEW_COLUMNS)}
        good = {"id": 2, "o": {"a": 3}, "l": [{"b": 2}]}
        write_records(
            tmp_path, many, good, {"id": 3, "o": {"a": 1, "id": 4}}, {"id": 5, "l": [{"b": 2, "a": 3}]}, batch=1
        )
        batch(spark, tmp_path, 0, log)
        found = read(spark, batch(spark, tmp_path, 1, log))
        assert [row for row, _, _ in found] == [None, good, None, None]

    @pytest.mark.nightly
    def test_keys_gain_no_new_fields(self, spark: SparkSession) -> None:
        keys, log = JsonFormat(), SchemaLog()

        def decode(*texts: str) -> list[Any]:
            frame = spark.createDataFrame([(text,) for text in texts], "key string").coalesce(1)
            reader = keys.open(spark, frame, "key", Subject("orders", "key"), log)
            found = reader.decode(frame, "key", reader.schema, "error").collect()
            return [row["error"] or (row["key"] and row["key"].asDict()) for row in found]

        assert decode('{"ib": 1}', '{"id": 1}', '{"id": 2}', '{"id": 3}') == [
            "field-name",
            {"id": 1},
            {"id": 2},
            {"id": 3},
        ]
        assert decode('{"id": 4}', '{"id": 5, "x": 1}', '{"hd": 6}') == [{"id": 4}, "field-name", "field-name"]

    @pytest.mark.nightly
    def test_runs_of_one_format_are_independent(self, spark: SparkSession) -> None:
        """Both runs share the topic and the format object. A type that one run infers does not affect the other."""
        values = JsonFormat()

        def open_in(log: SchemaLog, *texts: str) -> Callable[[], list[Any]]:
            frame = spark.createDataFrame([(text,) for text in texts], "value string").coalesce(1)
            reader = values.open(spark, frame, "value", Subject("orders", "value"), log)
            decoded = reader.decode(frame, "value", reader.schema, "error")
            return lambda: [row["error"] or (row["value"] and row["value"].asDict()) for row in decoded.collect()]

        first = SchemaLog(file_types=lambda topic: {"price": "decimal(9,2)"})
        second = SchemaLog()
        read_first = open_in(first, '{"id": 1, "price": 0.5}', '{"id": 1, "ID": 2}')
        read_second = open_in(second, '{"ID": "a", "price": 0.25}')
        assert read_first() == [{"id": 1, "price": Decimal("0.50")}, "field-name"]
        assert read_second() == [{"ID": "a", "price": 0.25}]
        assert open_in(first, '{"id": 3, "price": 1}')() == [{"id": 3, "price": Decimal("1.00")}]
        assert open_in(second, '{"ID": "b", "price": 1}')() == [{"ID": "b", "price": 1.0}]

    def test_one_string_does_not_turn_objects_into_strings(self, spark: SparkSession, tmp_path: Path) -> None:
        good, bad = b'{"id": 1, "o": {"a": 1}, "s": "x"}', b'{"id": 2, "o": "lost", "s": "{}"}'
        write_records(tmp_path, good, bad)
        events = batch(spark, tmp_path, 0)
        assert types(events) == "struct<id:bigint,o:struct<a:bigint>,s:string>"
        row = {"id": 1, "o": {"a": 1}, "s": "x"}
        assert read(spark, events) == [(row, None, good), (None, "undecodable", bad)]

    def test_value_of_another_kind_keeps_new_fields_of_other_records(self, spark: SparkSession, tmp_path: Path) -> None:
        log = SchemaLog()
        write_records(tmp_path, {"id": 1, "o": {"p": {"a": 1}}, "l": [{"a": 1}]}, {"id": 2, "o": {"p": 7}, "l": [7]})
        assert (
            types(batch(spark, tmp_path, 0, log))
            == "struct<id:bigint,l:array<struct<a:bigint>>,o:struct<p:struct<a:bigint>>>"
        )
        good = {"id": 3, "o": {"p": {"a": 1, "b": True}}, "l": [{"a": 1, "b": None}, {"a": 1, "b": 2}]}
        write_records(
            tmp_path, {"id": 4, "o": {"p": [1]}}, {"id": 5, "l": {"a": 1}}, good, {"id": 6, "l": ["x"]}, batch=1
        )
        found = read(spark, batch(spark, tmp_path, 1, log))
        assert [row for row, error, _ in found if error is None] == [good]
        assert [error for _, error, _ in found].count("undecodable") == 3

    @pytest.mark.nightly
    def test_hundreds_of_new_names_in_one_batch_add_no_columns(self, spark: SparkSession, tmp_path: Path) -> None:
        log = SchemaLog()
        write_records(tmp_path, {"id": 0})
        wide_rows = [{"id": n, f"x{n}": n} for n in range(1, NEW_COLUMNS + 2)]
        write_records(tmp_path, *wide_rows, {"id": -1}, batch=1)
        write_records(tmp_path, {"id": 0, "x1": 5}, batch=2)
        batch(spark, tmp_path, 0, log)
        events = batch(spark, tmp_path, 1, log)
        assert types(events) == "struct<id:bigint>"
        *rejected, last = read(spark, events)
        assert {error for _, error, _ in rejected} == {"field-name"}
        assert last[:2] == ({"id": -1}, None)
        assert types(batch(spark, tmp_path, 2, log)) == "struct<id:bigint,x1:bigint>"

    def test_new_columns_are_added(self, spark: SparkSession, tmp_path: Path) -> None:
        log = SchemaLog()
        write_records(tmp_path, {"after": {"id": 1}})
        write_records(tmp_path, {"after": {"id": 2, "name": "Arp"}, "op": "c"}, batch=1)
        write_records(tmp_path, {"after": {"id": 3}}, batch=2)
        found = [batch(spark, tmp_path, number, log) for number in range(3)]
        assert list(map(types, found)) == [
            "struct<after:struct<id:bigint>>",
            "struct<after:struct<id:bigint,name:string>,op:string>",
            "struct<after:struct<id:bigint,name:string>,op:string>",
        ]
        assert in_order(spark, found[2]) == [{"after": {"id": 3, "name": None}, "op": None}]

    def test_column_has_no_type_before_its_first_value(self, spark: SparkSession, tmp_path: Path) -> None:
        log = SchemaLog()
        write_records(tmp_path, {"id": 1, "age": None, "tags": [], "more": {}})
        write_records(tmp_path, {"id": 2, "age": 30}, batch=1)
        found = [batch(spark, tmp_path, number, log) for number in range(2)]
        assert list(map(types, found)) == ["struct<id:bigint>", "struct<id:bigint,age:bigint>"]

    def test_empty_string_is_not_null(self, spark: SparkSession, tmp_path: Path) -> None:
        """Spark's type inference treats an empty string as null, and a column of only nulls has no type."""
        rows: list[dict[str, Any]] = [
            {"id": 1, "v": "", "o": {"w": ""}, "l": [{"x": ""}], "t": ["", None], "u": [None, ""], "n": None},
            {"id": 2, "v": None, "o": None, "l": None, "t": None, "u": None, "n": None},
        ]
        spaced = b'{"id" : 3, "v" : "", "a\\\\":"", "s": "\\"v\\":\\"\\", \\\\"}'
        write_records(tmp_path, *rows, spaced)
        events = batch(spark, tmp_path, 0)
        assert types(events) == (
            "struct<a\\:string,id:bigint,l:array<struct<x:string>>,o:struct<w:string>,"
            "s:string,t:array<string>,u:array<string>,v:string>"
        )
        all_null = {"v": None, "o": None, "l": None, "t": None, "u": None, "s": None, "a\\": None}
        first, second = ({**all_null, **{name: row[name] for name in row if name != "n"}} for row in rows)
        third = {**all_null, "id": 3, "v": "", "a\\": "", "s": '"v":"", \\'}
        assert [(row, error) for row, error, _ in read(spark, events)] == [(first, None), (second, None), (third, None)]

    def test_empty_string_does_not_turn_numbers_into_strings(self, spark: SparkSession, tmp_path: Path) -> None:
        write_records(tmp_path, {"id": 1, "n": ""}, {"id": 2, "n": 5}, {"id": 3, "o": ""}, {"id": 4, "o": {"a": 1}})
        events = batch(spark, tmp_path, 0)
        assert types(events) == "struct<id:bigint,n:bigint,o:struct<a:bigint>>"
        assert [error for _, error, _ in read(spark, events)] == ["undecodable", None, "undecodable", None]

    def test_empty_string_adds_a_column_to_known_types(self, spark: SparkSession, tmp_path: Path) -> None:
        log = SchemaLog()
        write_records(tmp_path, {"after": {"id": 1, "n": 1}})
        write_records(tmp_path, {"after": {"id": 2, "v": "", "n": 2}}, batch=1)
        found = [batch(spark, tmp_path, number, log) for number in range(2)]
        assert types(found[1]) == "struct<after:struct<id:bigint,n:bigint,v:string>>"
        assert in_order(spark, found[1]) == [{"after": {"id": 2, "n": 2, "v": ""}}]

    def test_empty_list_with_declared_type_is_not_null(self, spark: SparkSession) -> None:
        log = SchemaLog(file_types=lambda topic: {"t": "array<string>", "m": "map<string,string>", "absent": "int"})
        frame = spark.createDataFrame([('{"after": {"id": 1, "t": [], "m" : { }}}',)], "value string")
        reader = JsonFormat().open(spark, frame, "value", Subject("orders", "value"), log)
        (row,) = reader.decode(frame, "value", reader.schema, "error").collect()
        assert row["value"].asDict(recursive=True) == {"after": {"id": 1, "t": [], "m": {}}}

    def test_every_topic_has_separate_types(self, spark: SparkSession, tmp_path: Path) -> None:
        log = SchemaLog()
        for name, value in (("a", 1), ("b", "x")):
            write_lines(tmp_path / name / "x.json", [{"v": value}])
        found = {events.topic: types(events) for events in events_of(spark, tmp_path, "json", log=log)}
        assert found == {"a": "struct<v:bigint>", "b": "struct<v:string>"}


class TestLines:
    def test_undecodable_line_keeps_its_bytes(self, spark: SparkSession, tmp_path: Path) -> None:
        bad = [
            b"{not json",
            b"no json at all",
            b'"text"',
            b"7",
            b"null",
            b"[]",
            b'[{"id": 1}]',
            b'{"id": 1',
            b'{"id": "one"}',
            b'{"id": {"a": 1}}',
            b'{"id": 1.5}',
            b'{"id": 9223372036854775808}',
            b"\x00\xff\xfe",
            # Spark silently replaces bytes that are not UTF-8.
            b'{"id": 1, "t": "\xff"}',
            b'{"id": 1, "t": "x", "\xff": 1}',
            # Spark reads the first document of a line and silently ignores the others.
            b'{"id": 1}{"id": 2}',
            b'{"id": 1} {"id": 2}',
            b'{"id": 1},{"id": 2}',
            b'{"id": 1} and more',
            b'{"t": "}{"}{"id": 2}',
        ]
        write_records(tmp_path, {"id": 0, "t": "x"}, *bad)
        log = SchemaLog()
        log.remember(Subject(TOPIC, "value"), spark.createDataFrame([], "id bigint, t string").schema)
        first, *others = read(spark, batch(spark, tmp_path, 0, log))
        assert first == ({"id": 0, "t": "x"}, None, b'{"id": 0, "t": "x"}')
        assert others == [(None, "undecodable", line) for line in bad]

    def test_undecodable_record_keeps_readable_columns(self, spark: SparkSession, tmp_path: Path) -> None:
        """The mask transform hides the readable columns and does not need the bytes."""
        write_records(tmp_path, '{"id": "one", "t": "x"}', '{"id": 1, "t": "x"} more', '{"id": 1, "t": "x"', "no json")
        log = SchemaLog()
        log.remember(Subject(TOPIC, "value"), spark.createDataFrame([], "id bigint, t string").schema)
        events = batch(spark, tmp_path, 0, log)
        rows = sorted(events.load(spark, events.schema).collect(), key=lambda row: row[PLACE])
        assert {row[ERROR] for row in rows} == {"undecodable"}
        assert [row[VALUE] and tuple(row[VALUE]) for row in rows] == [(None, "x"), (1, "x"), (None, None), (None, None)]

    def test_unusual_valid_lines_are_read(self, spark: SparkSession, tmp_path: Path) -> None:
        good = {
            '{"id": 1, "t": "a } b"}': "a } b",
            '{"id": 1, "t": "}{"}': "}{",
            '{"id": 1, "t": "{\\"a\\": {}} x"}': '{"a": {}} x',
            '  {"t": "\\u00e9\\ud83d\\ude00", "id": 1}  ': "é😀",
            '{"id": 1, "t": "ä", "l": [{"a": 1}, {"a": 2}]}': "ä",
            "{'id': 1, 't': 'quoted } {'}": "quoted } {",
            '{"id": 1, "t": null}': None,
            '{"id": 1}': None,
            '{"id": 1, "t": {"a": 1}}': '{"a":1}',
        }
        write_records(tmp_path, *good)
        found = read(spark, batch(spark, tmp_path, 0))
        assert [(body["id"], body["t"], error) for body, error, _ in found] == [(1, t, None) for t in good.values()]

    def test_empty_lines_are_skipped(self, spark: SparkSession, tmp_path: Path) -> None:
        path = write_records(tmp_path, {"id": 1}, "", "  \t", "\r")
        path.write_bytes(
            b"\xef\xbb\xbf" + path.read_bytes() + b'{"id": 2}'
        )  # with a byte order mark, and no newline at the end
        assert in_order(spark, batch(spark, tmp_path, 0), "id") == [1, 2]

    def test_windows_line_endings(self, spark: SparkSession, tmp_path: Path) -> None:
        write_records(tmp_path, b'{"id": 1}\r', b'{"id": 2}\r')
        assert [raw for _, _, raw in read(spark, batch(spark, tmp_path, 0))] == [b'{"id": 1}', b'{"id": 2}']

    def test_compressed_file(self, spark: SparkSession, tmp_path: Path) -> None:
        import gzip

        path = tmp_path / TOPIC / f"{TOPIC}+0+7.json.gz"
        path.parent.mkdir()
        path.write_bytes(gzip.compress(b'{"id": 1}\n'))
        [events] = events_of(spark, tmp_path, "json")
        assert in_order(spark, events, "id") == [1]


class TestDeclaredTypes:
    """`columns:` accepts the semantic types of Connect and Debezium for values without a schema."""

    @pytest.mark.nightly
    def test_base64_and_numeric_encodings(self, spark: SparkSession) -> None:
        row = {
            "id": 7,
            "price": "MDk=",
            "free": {"scale": 3, "value": "MDk="},
            "at": 3_723_000_001_999,
            "mask": "BQE=",
            "raw": "AAE=",
            "small": 5,
            "tree": "a.b",
        }
        declared = {
            "id": "int32",
            "price": "org.apache.kafka.connect.data.Decimal(8,4)",
            "free": "io.debezium.data.VariableScaleDecimal",
            "at": "io.debezium.time.NanoTime",
            "mask": "io.debezium.data.Bits",
            "raw": "bytes",
            "small": "int16",
            "tree": "io.debezium.data.Ltree",
        }
        log = SchemaLog(file_types=lambda topic: declared)
        invalid = {**row, "price": "AJiWgAA="}  # more digits than the declared precision
        spark = Sessions(spark).of("json")
        frame = spark.createDataFrame([(json.dumps(r),) for r in (row, invalid)], "value string").coalesce(1)
        reader = JsonFormat().open(spark, frame, "value", Subject("orders", "value"), log)
        assert {field.name: field.dataType.simpleString() for field in reader.schema} == {
            "id": "int",
            "price": "decimal(8,4)",
            "free": "string",
            "at": "bigint",
            "mask": "binary",
            "raw": "binary",
            "small": "smallint",
            "tree": "string",
        }
        right, refused = reader.decode(frame, "value", reader.schema, "error").collect()
        expected = {
            "price": Decimal("1.2345"),
            "free": "12.345",
            "at": 3_723_000_001,
            "mask": b"\x05\x01",
            "raw": b"\0\1",
        }
        assert right["value"].asDict() == {**row, **expected}
        assert refused["error"] == "undecodable"

    @pytest.mark.parametrize(
        "text", ["org.apache.kafka.connect.data.Decimal", "org.apache.kafka.connect.data.Decimal(39,2)", "int128"]
    )
    def test_incomplete_type_is_rejected(self, spark: SparkSession, text: str) -> None:
        log = SchemaLog(file_types=lambda topic: {"price": text})
        frame = spark.createDataFrame([('{"price": "MDk="}',)], "value string")
        with pytest.raises(ConfigError, match="is not a type of the column 'price'"):
            JsonFormat().open(spark, frame, "value", Subject("orders", "value"), log)


def test_envelope_in_a_payload_without_schema(spark: SparkSession, tmp_path: Path) -> None:
    event = {"before": None, "after": {"id": 1}, "source": {"connector": "mysql"}, "op": "c"}
    log = SchemaLog()
    write_records(tmp_path, {"payload": event}, {"payload": event, "more": 1})
    write_records(tmp_path, event, {"payload": {**event, "op": "u"}}, batch=1)
    row = {name: value for name, value in event.items() if value is not None}
    first = batch(spark, tmp_path, 0, log)
    assert types(first) == "struct<after:struct<id:bigint>,op:string,source:struct<connector:string>>"
    assert [(value, error) for value, error, _ in read(spark, first)] == [(row, None), (None, "undecodable")]
    second = read(spark, batch(spark, tmp_path, 1, log))
    assert [value for value, _, _ in second] == [row, {**row, "op": "u"}]


def nest(levels: int, opening: str = '{"a":', closing: str = "}") -> str:
    """Return an object with the given number of levels in total."""
    return '{"id":1,"a":' + opening * (levels - 1) + "1" + closing * (levels - 1) + "}"


class TestDepth:
    """Parsers and traversals of types recurse once per level, so deep nesting would overflow the JVM's stack."""

    def test_deeply_nested_record_keeps_its_bytes(self, spark: SparkSession, tmp_path: Path) -> None:
        log = SchemaLog()
        for number, first in enumerate(({"id": 0, "b": '"{[\\'}, {"id": 0, "b": "x"})):
            deep = [nest(levels, *pair) for levels in (101, 1000, 5000) for pair in (('{"a":', "}"), ("[", "]"))]
            write_records(tmp_path, deep[0], first, *deep[1:], batch=number)
            events = batch(spark, tmp_path, number, log)
            assert types(events) == "struct<b:string,id:bigint>"
            bad = [(None, "undecodable", text.encode()) for text in deep]
            assert read(spark, events) == [bad[0], (first, None, json.dumps(first).encode()), *bad[1:]]

    @pytest.mark.nightly
    def test_hundred_levels_are_read(self, spark: SparkSession, tmp_path: Path) -> None:
        write_records(tmp_path, nest(100))
        ((row, error, _),) = read(spark, batch(spark, tmp_path, 0))
        assert error is None
        assert json.dumps(row).count("{") == 100

    @pytest.mark.nightly
    def test_sibling_brackets_are_not_levels(self, spark: SparkSession, tmp_path: Path) -> None:
        row = {"id": 1, "l": [{"a": [1], "t": "[" * 200}] * 300, "t": '\\"{{' * 200}
        write_records(tmp_path, row)
        assert read(spark, batch(spark, tmp_path, 0))[0][:2] == (row, None)


class TestNoRecords:
    def test_no_json_at_all(self, spark: SparkSession, tmp_path: Path) -> None:
        write_records(tmp_path, b"id,name", b"1,Arp")
        with pytest.raises(DataError) as raised:
            batch(spark, tmp_path, 0)
        assert str(raised.value) == (
            "topic moma.public.artists: none of the records is a JSON object\n"
            "  fix: check `format:`, and that each line is one event; if the records are damaged, set "
            "`dead.letters: {undecodable: dead-letter}`"
        )

    @pytest.mark.nightly
    def test_later_batch_without_json_keeps_all_bytes(self, spark: SparkSession, tmp_path: Path) -> None:
        log = SchemaLog()
        write_records(tmp_path, {"id": 1})
        write_records(tmp_path, b"1,Arp", batch=1)
        batch(spark, tmp_path, 0, log)
        assert read(spark, batch(spark, tmp_path, 1, log)) == [(None, "undecodable", b"1,Arp")]

    @pytest.mark.parametrize("content", [b"", b"\n\n"])
    def test_empty_file_adds_no_topic(self, spark: SparkSession, tmp_path: Path, content: bytes) -> None:
        path = write_records(tmp_path)
        path.write_bytes(content)
        assert events_of(spark, tmp_path, "json") == []

    def test_objects_without_fields(self, spark: SparkSession, tmp_path: Path) -> None:
        write_records(tmp_path, {})
        with pytest.raises(DataError, match="none of the records is a JSON object"):
            batch(spark, tmp_path, 0)


class TestOptions:
    @pytest.mark.nightly
    def test_comments(self, spark: SparkSession, tmp_path: Path) -> None:
        write_records(tmp_path, '{"id": 1} // one', '/* two */ {"id": 2}')
        assert in_order(spark, batch(spark, tmp_path, 0, allowComments=True), "id") == [1, 2]

    @pytest.mark.nightly
    def test_primitives_as_strings(self, spark: SparkSession, tmp_path: Path) -> None:
        write_records(tmp_path, {"id": 1, "x": 1.50})
        events = batch(spark, tmp_path, 0, primitivesAsString=True)
        assert in_order(spark, events) == [{"id": "1", "x": "1.5"}]

    def test_custom_line_separator(self, spark: SparkSession, tmp_path: Path) -> None:
        path = write_records(tmp_path)
        path.write_bytes(b'{"id": 1};{"id": 2}')
        assert in_order(spark, batch(spark, tmp_path, 0, lineSep=";"), "id") == [1, 2]


def test_envelopes(spark: SparkSession, tmp_path: Path) -> None:
    bronze = Bronze(tmp_path, format="json")
    artists = bronze.topic(TOPIC, key="id", columns={"id": "int", "name": "string"})
    artists.insert({"id": 1, "name": "Arp"})
    artists.delete({"id": 1, "name": "Arp"})
    artists.flush()
    [events] = events_of(spark, tmp_path, "json")
    assert [(row["op"], row["before"], row["after"]) for row in in_order(spark, events)] == [
        ("c", None, {"id": 1, "name": "Arp"}),
        ("d", {"id": 1, "name": "Arp"}, None),
    ]
