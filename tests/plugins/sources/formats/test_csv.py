"""CSV files: columns by name, types of the pipeline file, and damaged lines that become dead letters."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines
from tests.support.files import events_of, in_order

from headrace.errors import ConfigError, DataError
from headrace.sdk import events as E
from headrace.sdk.events import Events
from headrace.sdk.schema_log import SchemaLog
from headrace.spark.sessions import Sessions
from headrace_sources.transports.files import FilesSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HEADER: dict[str, Any] = {"header": "true"}


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> SparkSession:
    """Return a session with the settings of the source: a task reads one block of one file."""
    return Sessions(spark, FilesSource(path="in", format="csv").sql_conf).of("csv")


def write_files(folder: Path, *texts: str | bytes) -> None:
    """Write the files of a topic in their order; a name ends with ``.gz`` if the content is compressed."""
    (folder / "t").mkdir(exist_ok=True)
    for number, text in enumerate(texts):
        data = text.encode() if isinstance(text, str) else text
        suffix = ".gz" if data.startswith(b"\x1f\x8b") else ""
        (folder / "t" / f"t+0+{number * 100:010d}.csv{suffix}").write_bytes(data)


def open_events(
    spark: SparkSession, folder: Path, *texts: str | bytes, types: Mapping[str, str] | None = None, **options: Any
) -> Events:
    """Return the events of files of one topic. ``types``: `columns:` of its rule."""
    write_files(folder, *texts)
    log = SchemaLog(file_types=lambda topic: types or {})
    [events] = events_of(spark, folder, "csv", log, **{**HEADER, **options})
    return events


def read_rows(
    spark: SparkSession, folder: Path, *texts: str | bytes, types: Mapping[str, str] | None = None, **options: Any
) -> list[Any]:
    return in_order(spark, open_events(spark, folder, *texts, types=types, **options))


def read_errors(spark: SparkSession, events: Events) -> list[tuple[Any, ...]]:
    """Return value, error, description and bytes of each record."""
    frame = events.load(spark, events.schema).orderBy(E.PLACE)
    rows = frame.select(E.VALUE, E.ERROR, E.DETAIL, E.RAW).collect()
    return [(row[0] and tuple(row[0]), row[1], row[2], bytes(row[3])) for row in rows]


def test_columns_are_matched_by_name(spark: SparkSession, tmp_path: Path) -> None:
    """Another order of columns, a new one, and a missing one; empty files, and a header without records."""
    files = [
        "id,name\n1,Arp\n",
        "name,id\nKlee,2\n",
        "id,country\r\n3,CH\r\n",
        "",
        "\n\n",
        "id,name\n",
        "id,name\n4,Münter",
    ]
    assert read_rows(spark, tmp_path, *files) == [
        {"id": "1", "name": "Arp", "country": None},
        {"id": "2", "name": "Klee", "country": None},
        {"id": "3", "name": None, "country": "CH"},
        {"id": "4", "name": "Münter", "country": None},
    ]


def test_files_without_records_are_no_topic(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path, "", "\n \n")
    assert events_of(spark, tmp_path, "csv", **HEADER) == []


def test_encodings_and_compression(spark: SparkSession, tmp_path: Path) -> None:
    text = 'id,name\r\n1,"Arp, ""Hans"""\r\n'
    bom = b"\xef\xbb\xbf" + text.replace("1,", "2,").encode()
    zipped = gzip.compress(text.replace("1,", "3,").encode())
    rows = read_rows(spark, tmp_path, text, bom, zipped, escape='"')
    assert rows == [{"id": str(number), "name": 'Arp, "Hans"'} for number in (1, 2, 3)]
    (tmp_path / "other").mkdir()
    latin = "größe;ort\n5;Zürich\n".encode("latin-1")
    assert read_rows(spark, tmp_path / "other", latin, sep=";", encoding="ISO-8859-1") == [
        {"größe": "5", "ort": "Zürich"}
    ]


def test_nulls_quotes_and_line_breaks(spark: SparkSession, tmp_path: Path) -> None:
    text = "id|note\n# no record\n1|\n2|\"\"\n3|NULL\n4|'a\nb|c'\n"
    options: dict[str, Any] = {"sep": "|", "quote": "'", "nullValue": "NULL", "multiLine": "true", "comment": "#"}
    assert read_rows(spark, tmp_path, text, **options) == [
        {"id": "1", "note": None},
        {"id": "2", "note": '""'},
        {"id": "3", "note": None},
        {"id": "4", "note": "a\nb|c"},
    ]


def test_empty_text_in_quotes_is_not_null(spark: SparkSession, tmp_path: Path) -> None:
    rows = read_rows(spark, tmp_path, 'id,note,size\n1,,\n2,"",""\n', types={"size": "int"})
    assert rows == [{"id": "1", "note": None, "size": None}, {"id": "2", "note": "", "size": None}]


TYPES = {
    "ID": "bigint",
    "price": "decimal(6,2)",
    "day": "date",
    "at": "timestamp",
    "ok": "boolean",
    "local": "timestamp_ntz",
}


def test_types_of_the_rule(spark: SparkSession, tmp_path: Path) -> None:
    text = "id,price,day,at,ok,local,note\n7,1.50,2026-01-31,2026-01-31T10:00:00.123456Z,true,2026-01-31 10:00:00,07\n8,,,,,,\n"
    events = open_events(spark, tmp_path, text, types=TYPES)
    assert events.schema.simpleString() == (
        "struct<id:bigint,price:decimal(6,2),day:date,at:timestamp,ok:boolean,local:timestamp_ntz,note:string>"
    )
    rows = events.load(spark, events.schema).orderBy(E.PLACE).select("value.*", "value.at").collect()
    first = dict(zip(events.schema.names, rows[0], strict=False))
    assert first["at"].astimezone(UTC) == datetime(2026, 1, 31, 10, 0, 0, 123456, UTC)
    assert {**first, "at": None} == {
        "id": 7,
        "price": Decimal("1.50"),
        "day": date(2026, 1, 31),
        "at": None,
        "ok": True,
        "local": datetime(2026, 1, 31, 10),  # noqa: DTZ001 - a time without a zone
        "note": "07",
    }
    assert list(rows[1])[1:] == [None] * 7


def test_formats_of_times(spark: SparkSession, tmp_path: Path) -> None:
    text = "day,at\n31.01.2026,31.01.2026 10:00 +0100\n"
    types = {"day": "date", "at": "timestamp"}
    options = {"dateFormat": "dd.MM.yyyy", "timestampFormat": "dd.MM.yyyy HH:mm Z"}
    [row] = read_rows(spark, tmp_path, text, types=types, **options)
    assert row["day"] == date(2026, 1, 31)
    assert row["at"].astimezone(UTC) == datetime(2026, 1, 31, 9, tzinfo=UTC)


def test_times_that_a_type_does_not_hold_are_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    fits = {
        "day": ["2026-01-02", "2026-1-2", "2026-01-02 00:00:00", "2026-01-02T00:00"],
        "at": ["2026-01-02", "2026-01-02 03:04", "2026-01-02T03:04:05+02:00", "2026-01-02 03:04:05 Europe/Zurich"],
        "local": ["2026-01-02", "2026-01-02 03:04:05.123", "2026-01-02T03:04:05", "0987-01-02"],
    }
    misfits = {
        "day": ["2026-01-02T23:00", "2026-01-02 garbage", "2026-02-30"],
        "at": ["12:30:00", "T12:30", "2026-01-02T25:00"],
        "local": ["2026-01-02T03:04:05+02:00", "2026-01-02 03:04:05Z", "12:30:00"],
    }
    cells = [*zip(*fits.values(), strict=True), *zip(*misfits.values(), strict=True)]
    text = "\n".join(["day,at,local", *map(",".join, cells)])
    events = open_events(spark, tmp_path, text, types={"day": "date", "at": "timestamp", "local": "timestamp_ntz"})
    found = read_errors(spark, events)
    assert [[value is None for value in row] for row, *_ in found] == [[False] * 3] * 4 + [[True] * 3] * 3
    assert [error for _, error, *_ in found] == [None] * 4 + ["undecodable"] * 3


def test_damaged_lines_and_values_are_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        "1,1.5,a",
        "2,2.5",
        "3,3.5,c,d",
        '4,4.5,"e',
        "x5,5.5,f",
        "6,6.555,g",
        "7,77777,h",
        "8,85e-1,i",
        "9,9e-400000000,j",
        "10,,k",
    ]
    text = "\n".join(["id,price,note", *lines, ""]).encode() + b"11,1.5,\xff\n"
    events = open_events(spark, tmp_path, text, types={"id": "int", "price": "decimal(4,2)"})
    bad, misfit = "undecodable", "the field `price` does not fit its type decimal(4,2)"
    damaged = (
        "the line does not have 3 columns, or a quoted value does not end in it: set `multiLine: true` if values contain "
        "line breaks"
    )
    found = read_errors(spark, events)
    assert [(value, error, detail) for value, error, detail, _ in found] == [
        ((1, Decimal("1.50"), "a"), None, None),
        (None, bad, damaged),
        (None, bad, damaged),
        (None, bad, damaged),
        ((None, Decimal("5.50"), "f"), bad, "the field `id` does not fit its type int"),
        ((6, None, "g"), bad, misfit),
        ((7, None, "h"), bad, misfit),
        ((8, Decimal("8.50"), "i"), None, None),
        ((9, None, "j"), bad, misfit),
        ((10, None, "k"), None, None),
        (None, bad, "the line is not UTF-8: set `encoding` next to `path:`"),
    ]
    assert [raw for *_, raw in found] == [line.encode() for line in lines] + [b"11,1.5,\xff"]


def test_numbers_beyond_their_type_are_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    text = "d,f\n1e400,1\n1,-1e39\n-Infinity,inf\n1e308,3e38\n"
    found = read_errors(spark, open_events(spark, tmp_path, text, types={"d": "double", "f": "float"}))
    assert [detail for _, _, detail, _ in found] == [
        "the field `d` does not fit its type double",
        "the field `f` does not fit its type float",
        None,
        None,
    ]
    assert found[2][0] == (float("-inf"), float("inf"))


def test_damaged_values_with_line_breaks(spark: SparkSession, tmp_path: Path) -> None:
    """Spark keeps only the records that it cannot split. The others are JSON."""
    text = 'id,note\n1,"a\nb"\n2\nx,"c"\n'
    events = open_events(spark, tmp_path, text, types={"id": "int"}, multiLine="true")
    found = [(value, error, raw.decode()) for value, error, _, raw in read_errors(spark, events)]
    assert found == [
        ((1, "a\nb"), None, '{"id":"1","note":"a\\nb"}'),
        (None, "undecodable", "2"),
        ((None, "c"), "undecodable", '{"id":"x","note":"c"}'),
    ]


def test_only_the_first_line_is_a_header(spark: SparkSession, tmp_path: Path) -> None:
    files = ["\n# made today\nid,note\n1,a\nid,note\n", "id,note\nid,note\n"]
    rows = read_rows(spark, tmp_path, *files, comment="#")
    assert [row["id"] for row in rows] == ["1", "id", "id"]


def test_long_comments_before_the_header(spark: SparkSession, tmp_path: Path) -> None:
    """They are longer than the part of a file that is read at once, which ends within the header."""
    for length in (40_000, (1 << 14) - 4):
        comments = "# made today\n" * (length // 13)
        folder = tmp_path / str(length)
        folder.mkdir()
        text = f"{comments}#{'-' * (length - len(comments) - 2)}\nid,note\n1,a\n"
        assert read_rows(spark, folder, text, comment="#") == [{"id": "1", "note": "a"}]


def test_unquoted_quotes_are_values(spark: SparkSession, tmp_path: Path) -> None:
    text = 'id,note\n1,5" pipe\n2,"""Hello,"" he said"\n'
    assert [row["note"] for row in read_rows(spark, tmp_path, text, escape='"')] == ['5" pipe', '"Hello," he said']


def test_files_without_a_header_have_the_columns_of_the_rule(spark: SparkSession, tmp_path: Path) -> None:
    types = {"id": "int", "name": "string"}
    rows = read_rows(spark, tmp_path, "1,Arp\n", "2,Klee\n", types=types, header="false")
    assert rows == [{"id": 1, "name": "Arp"}, {"id": 2, "name": "Klee"}]


@pytest.mark.parametrize(
    ("text", "types", "options", "message"),
    [
        ("1,a\n", {}, {"header": "false"}, "the files have no header, and no rule names their columns"),
        ("id,id\n", {}, {}, "the header names the column 'id' more than once"),
        ("id\n1\n", {"id": "array<int>"}, {}, "'array<int>' is not a type of the column 'id' in a CSV file"),
        ("id\n1\n", {}, {"encoding": "latin-99"}, "'latin-99' is not an encoding"),
        ("id\n1\n".encode("utf-16"), {}, {"encoding": "UTF-16"}, "lines in UTF-16 cannot be found by their bytes"),
        ('"id\n1\n', {}, {"multiLine": "true"}, "a quoted name in the header has no end"),
        (b"\x1f\x8b\x08\x00damaged", {}, {}, "its first line cannot be read"),
    ],
)
def test_wrong_input(
    spark: SparkSession, tmp_path: Path, text: str | bytes, types: dict[str, str], options: dict[str, str], message: str
) -> None:
    with pytest.raises((ConfigError, DataError)) as caught:
        open_events(spark, tmp_path, text, types=types, **options)
    assert message in caught.value.what
    assert caught.value.where
    assert caught.value.fix


def test_plan_runs_no_python(spark: SparkSession, tmp_path: Path) -> None:
    from headrace.testing.transforms import PYTHON

    events = open_events(spark, tmp_path, "id,price\n1,2\n", types={"id": "int", "price": "decimal(4,2)"})
    frame = events.load(spark, events.schema)
    assert not PYTHON.search(str(frame._jdf.queryExecution()))


def test_dead_letters_name_the_file_and_the_record(tmp_path: Path, spark: SparkSession) -> None:
    """A line that cannot be split stays whole although the pipeline masks a column; a value that does not fit is masked."""
    write_files(tmp_path, "id,email\n1,a@b.ch\n", "email,id\nc@d.ch,2\nno line\ne@f.ch,x3\n")
    source = {"files": {"path": str(tmp_path / "t"), "format": "csv", "header": True}}
    tables = [{"source": "t", "key": "id", "columns": {"id": "int"}}]
    transforms: list[Any] = [{"mask": {"columns": {"email": {"replacement": "hidden"}}}}]
    pipeline = pipelines.pipeline(tmp_path, source=source, tables=tables, transforms=transforms)
    pipeline.run(spark)
    assert pipelines.rows(pipeline, spark, "t", key="id") == [
        {"id": 1, "email": "hidden"},
        {"id": 2, "email": "hidden"},
    ]
    dead = pipeline.read("dead_letters", spark=spark).orderBy("offset").collect()
    found = [
        (row["reason"], row["file"].rsplit("/", 1)[-1], row["offset"], bytes(row["value"]).decode()) for row in dead
    ]
    file = "t+0+0000000100.csv"
    assert found == [
        ("undecodable", file, 101, "no line"),
        ("undecodable", file, 102, '{"email":"hidden"}'),
    ]


def test_tab_of_two_characters_and_times_without_a_zone(spark: SparkSession, tmp_path: Path) -> None:
    """Times without a zone are those of UTC in each session."""
    text = "id\tat\n1\t2026-03-29 02:30:00\n2\t2026-03-29T02:30:00+02:00\n3\t2026-03-29\n"
    events = open_events(spark, tmp_path, text, types={"at": "timestamp"}, sep=r"\t")
    zurich = spark.newSession()
    zurich.conf.set("spark.sql.session.timeZone", "America/New_York")
    rows = events.load(zurich, events.schema).selectExpr("value.id", "unix_seconds(value.at) at", E.ERROR).collect()
    half_past_two = 1774751400
    assert sorted(tuple(row) for row in rows) == [
        ("1", half_past_two, None),
        ("2", half_past_two - 7200, None),
        ("3", half_past_two - 9000, None),
    ]
