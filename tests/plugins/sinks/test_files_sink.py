from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines
from tests.support.kit import skip_format_independent_tests
from tests.support.tiers import nightly_after

from headrace import ConfigError, DataError
from headrace.spark.sessions import Sessions
from headrace.testing.sinks import SinkConformance
from headrace.testing.tables import Target, put
from headrace_sinks.files import FilesSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PEOPLE = "id int, name string"


class TestJson(SinkConformance):
    plugin_class = FilesSink
    faults = 4

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"path": str(folder)}


# With the second Spark version, the sink `s3` runs Avro's kit, and Iceberg's tables are Parquet.
@pytest.mark.nightly
@pytest.mark.one_spark
@skip_format_independent_tests
class TestAvro(SinkConformance):
    plugin_class = FilesSink
    faults = 0  # the write steps are the same

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"path": str(folder), "format": "avro"}


@pytest.mark.nightly
@pytest.mark.one_spark
@skip_format_independent_tests
class TestParquet(SinkConformance):
    plugin_class = FilesSink
    faults = 0

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"path": str(folder), "format": "parquet"}


@pytest.mark.nightly
@pytest.mark.one_spark
@skip_format_independent_tests
class TestCsv(SinkConformance):
    plugin_class = FilesSink
    faults = 0

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"path": str(folder), "format": "csv"}


def target(folder: Path, sessions: Sessions, **options: Any) -> Target:
    return Target(FilesSink({"path": str(folder), **options}), sessions.of("one"), name="people")


def test_each_batch_has_a_folder_and_repeated_batch_replaces_it(tmp_path: Path, sessions: Sessions) -> None:
    table = target(tmp_path, sessions)
    table.write(PEOPLE, put(1, 1, "a"), put(2, 2, "b"))
    table.write(PEOPLE, put(3, 3, "c"))
    table.write_again(PEOPLE, put(4, 4, "d"))
    folders = sorted(folder.name for folder in (tmp_path / "people").iterdir() if "=" in folder.name)
    assert folders == [f"_headrace_batch={table.pipeline}-{number:010d}-1" for number in range(2)]
    assert [row["id"] for row in table.rows()] == [1, 2, 4]


def test_pipelines_with_equal_id_prefixes_keep_their_rows(tmp_path: Path, sessions: Sessions) -> None:
    table = target(tmp_path, sessions)
    table.write(PEOPLE, put(1, 1, "a"))
    other = replace(table, pipeline=table.pipeline[:8] + "f" * 24, batch=-1)
    other.write(PEOPLE, put(2, 2, "b"))
    assert [row["id"] for row in table.rows()] == [1, 2]


def test_batch_in_folder_with_old_short_name_is_replaced(tmp_path: Path, sessions: Sessions) -> None:
    table = target(tmp_path, sessions)
    table.write(PEOPLE, put(1, 1, "a"))
    (made,) = (tmp_path / "people").glob("_headrace_batch=*")
    made.rename(made.with_name(f"_headrace_batch={table.pipeline[:8]}-0000000000"))
    table.write_again(PEOPLE, put(1, 1, "a"))
    assert table.rows() == [{"id": 1, "name": "a"}]


def test_readers_read_only_rows(tmp_path: Path, sessions: Sessions, spark: SparkSession) -> None:
    table = target(tmp_path, sessions)
    table.write(PEOPLE, put(1, 1, "a"))
    table.write(f"{PEOPLE}, born int", put(2, 2, "b", 1886))
    found = spark.read.json(f"{tmp_path}/people")
    assert set(found.columns) == {"id", "name", "born", "_headrace_batch"}
    assert found.count() == 2


def test_options_pass_through(tmp_path: Path, sessions: Sessions) -> None:
    table = target(tmp_path, sessions, compression="gzip", timestampFormat="dd.MM.yyyy HH:mm", ignoreNullFields=False)
    time = datetime(2024, 2, 29, 12, 30)  # noqa: DTZ001 - as PySpark returns it
    table.write("id int, at timestamp, no string", put(1, 1, time, None))
    assert table.rows() == [{"id": 1, "at": time, "no": None}]
    texts = [gzip.decompress(file.read_bytes()) for file in (tmp_path / "people").glob("*/part-*.json.gz")]
    assert b"".join(texts) == b'{"id":1,"at":"29.02.2024 12:30","no":null}\n'
    with pytest.raises(ConfigError, match="unknown key"):
        FilesSink(path="out", compresion="gzip")


def test_csv_has_a_header_and_quoted_texts(tmp_path: Path, sessions: Sessions) -> None:
    table = target(tmp_path, sessions, format="csv")
    schema = "id int, note string, tags array<string>, raw binary"
    values = [(' a "b",\r\nc\\', ["x", None], b"\x00"), ("", [], b""), (None, None, None)]
    table.apply(table.frame(schema, *[put(number, number, *row) for number, row in enumerate(values)]).coalesce(1))
    (data,) = [file.read_bytes() for file in (tmp_path / "people").glob("*/part-*.csv")]
    assert data.decode() == ('id,note,tags,raw\n0," a ""b"",\r\nc\\","[""x"",null]",AA==\n1,"",[],""\n2,,,\n')
    assert [(row["note"], row["tags"], row["raw"]) for row in table.rows()] == values
    single = target(tmp_path / "single", sessions, format="csv")
    with pytest.raises(DataError, match="omits rows whose only column, 'id', is null"):
        single.apply(single.frame("id int", put(1, 1)))
    with pytest.raises(ConfigError, match="`sync` registers files with types"):
        FilesSink({"path": "out", "format": "csv", "sync": {"hive": {}}})


def test_json_keeps_types_without_a_json_equivalent(tmp_path: Path, sessions: Sessions) -> None:
    table = target(tmp_path, sessions)
    time = datetime(2024, 2, 29, 23, 59, 59, 123456)  # noqa: DTZ001 - as PySpark returns it
    schema = "id int, at timestamp, local timestamp_ntz, price decimal(9,2), raw binary"
    table.write(schema, put(1, 1, time, time, Decimal("1.10"), b"\x00"))
    texts = [file.read_text() for file in (tmp_path / "people").glob("*/part-*.json")]
    assert '"at":"2024-02-29T23:59:59.123456Z","local":"2024-02-29T23:59:59.123456"' in "".join(texts)
    assert table.rows()[0]["local"] == time
    assert dict(table.read().dtypes)["price"] == "decimal(9,2)"
    maps = target(tmp_path / "maps", sessions)
    maps.write("id int, days map<date, int>", put(1, 1, {time.date(): 1}))
    texts = [file.read_text() for file in (tmp_path / "maps" / "people").glob("*/part-*.json")]
    assert '"days":{"2024-02-29":1}' in "".join(texts)


@pytest.mark.parametrize("format", ["avro", "parquet"])
def test_incompatible_files_are_not_written(tmp_path: Path, sessions: Sessions, format: str) -> None:  # noqa: A002
    table = target(tmp_path, sessions, format=format)
    table.write("id int, size int", put(1, 1, 10))
    error = table.refusal(lambda: table.write("id int, size bigint", put(2, 2, 2**40)))
    assert isinstance(error, DataError)
    assert "'size' has type bigint in the batch and int in existing files" in str(error)
    table.write("id int, size smallint, lines map<string, struct<a: int>>", put(3, 3, 7, {"x": (1,)}))
    table.write("id int, lines map<string, struct<a: int, b: string>>", put(4, 4, {"x": (2, "new")}))
    assert [(row["size"], row["lines"]) for row in table.rows()] == [
        (10, None),
        (7, {"x": {"a": 1, "b": None}}),
        (None, {"x": {"a": 2, "b": "new"}}),
    ]


@pytest.mark.parametrize("format", ["json", "csv"])
def test_files_of_different_types_are_readable(tmp_path: Path, sessions: Sessions, format: str) -> None:  # noqa: A002
    table = target(tmp_path, sessions, format=format)
    table.write("id int, size int", put(1, 1, 10))
    table.write("id int, size bigint", put(2, 2, 2**40))
    assert [row["size"] for row in table.rows()] == [10, 2**40]


def test_pipeline_with_row_deletes_is_rejected(tmp_path: Path) -> None:
    pipeline = pipelines.pipeline(tmp_path, "files")
    with pytest.raises(ConfigError, match="cannot remove rows that the database deletes") as caught:
        pipeline.run()
    assert "`drop` to leave it out" in str(caught.value)
    assert not (tmp_path / "checkpoint").exists()


def test_column_with_the_name_of_corrupt_records(tmp_path: Path, sessions: Sessions) -> None:
    table = target(tmp_path, sessions)
    table.write("id int, _corrupt_record string, _metadata int", put(1, 1, "a", 7))
    assert table.rows() == [{"id": 1, "_corrupt_record": "a", "_metadata": 7}]


#: Stored type, incoming type, and a value of each.
CONTRADICTIONS = (
    ("string", "binary", "t", b"\x00\xff"),
    ("bigint", "float", 2**53 + 1, 0.5),
    ("double", "bigint", 0.5, 2**53 + 1),
    ("int", "string", 7, "t"),
)


@pytest.mark.parametrize("format", nightly_after(1, ["json", "csv", "avro", "parquet"]))
def test_incompatible_types_are_rejected_and_rows_stay(
    tmp_path: Path,
    sessions: Sessions,
    format: str,  # noqa: A002
) -> None:
    table = target(tmp_path, sessions, format=format)
    columns = [f"c{number}" for number in range(len(CONTRADICTIONS))]
    stored = ", ".join(f"{name} {kind}" for name, (kind, *_) in zip(columns, CONTRADICTIONS, strict=True))
    old = [value for *_, value, _ in CONTRADICTIONS]
    table.write(f"id int, {stored}", put(1, 1, *old))
    for name, (_, incoming, _, new) in zip(columns, CONTRADICTIONS, strict=True):
        error = table.refusal(partial(table.write, f"id int, {name} {incoming}", put(2, 2, new)))
        assert isinstance(error, DataError)
        assert f"'{name}'" in str(error)
    assert table.rows() == [{"id": 1, **dict(zip(columns, old, strict=True))}]


def test_table_in_the_folder_of_another(tmp_path: Path, sessions: Sessions) -> None:
    outer = target(tmp_path, sessions)
    inner = replace(outer, name="people.archive")
    outer.write(PEOPLE, put(1, 1, "a"))
    inner.write(PEOPLE, put(2, 2, "b"))
    outer.write(PEOPLE, put(3, 3, "c"))
    assert ([row["id"] for row in outer.rows()], [row["id"] for row in inner.rows()]) == ([1, 3], [2])


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"encoding": "ISO-8859-1"}, "letters that the encoding lacks become"),
        ({"lineSep": "\r\n"}, "line breaks in texts become this text"),
        ({"quote": "'"}, "empty texts become two quotes"),
        ({"quoteAll": True}, "nulls become empty texts"),
        ({"sep": "||"}, "divide cells"),
    ],
)
def test_options_that_change_values_of_csv_are_refused(options: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError) as error:
        FilesSink({"path": "out", "format": "csv", **options})
    assert what in str(error.value)


def test_options_that_keep_values_of_csv_are_accepted() -> None:
    FilesSink({"path": "out", "format": "csv", "encoding": "UTF-16LE", "sep": r"\t", "lineSep": "\n"})
    FilesSink({"path": "out", "format": "csv", "quoteAll": True, "nullValue": "NULL"})
    FilesSink({"path": "out", "format": "json", "lineSep": "\r\n"})
