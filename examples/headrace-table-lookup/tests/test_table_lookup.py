from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from headrace_table_lookup import TableLookup
from pyspark.sql import SparkSession

from headrace import Pipeline
from headrace.sdk import Changes, ConfigError, DataError, changes as C
from headrace.testing.records import Records
from headrace.testing.transforms import TransformConformance
from headrace_sinks import FilesSink
from headrace_sources import JsonFormat

COUNTRIES = ("DE,Germany,Berlin", "CH,Switzerland,", "NO,Norway,Oslo")


def write_table(folder: Path, lines: Sequence[str] = COUNTRIES) -> dict[str, Any]:
    """Return the options for a table of countries."""
    (folder / "countries.csv").write_text("\n".join(["code,name,capital", *lines]) + "\n", encoding="utf-8")
    columns = {"country_name": "name", "capital": "capital"}
    path = str(folder / "countries.csv")
    return {"path": path, "format": "csv", "key": "code", "column": "country", "columns": columns}


class TestTableLookup(TransformConformance):
    plugin_class = TableLookup
    refused = ({"columns": {}}, {"format": "xls"})
    schema = "id int, country string"
    golden = (
        ((1, "DE"), (1, "DE", "Germany", "Berlin")),
        ((2, "CH"), (2, "CH", "Switzerland", None)),
        ((3, "XX"), (3, "XX", None, None)),
        ((4, None), (4, None, None, None)),
    )

    def config(self, folder: Path) -> dict[str, Any]:
        return write_table(folder)


def people(lookup: TableLookup, folder: Path, *values: bytes) -> Pipeline:
    return Pipeline(
        name="people",
        source=Records("shop.people", *values),
        value=JsonFormat(),
        key="none",
        transforms=[lookup],
        sinks=[FilesSink(path=str(folder / "out"))],
        checkpoint=str(folder / "checkpoint"),
    )


def test_columns_are_added_in_a_pipeline(headrace_spark: SparkSession, tmp_path: Path) -> None:
    records = (b'{"id": 1, "country": "NO"}', b'{"id": 2, "country": "XX"}', b'{"id": 3, "country": "NO"}')
    pipeline = people(TableLookup(write_table(tmp_path)), tmp_path, *records)
    pipeline.run(headrace_spark)
    rows = pipeline.read("shop.people").orderBy("id").collect()
    assert [(row.id, row.country_name, row.capital) for row in rows] == [
        (1, "Norway", "Oslo"),
        (2, None, None),
        (3, "Norway", "Oslo"),
    ]


def test_duplicate_key_is_an_error_and_adds_no_row(headrace_spark: SparkSession, tmp_path: Path) -> None:
    lookup = TableLookup(write_table(tmp_path, [*COUNTRIES, "DE,Deutschland,Berlin"]))
    with pytest.raises(DataError, match="two rows have the key 'DE'") as caught:
        people(lookup, tmp_path, b'{"id": 1, "country": "NO"}').run(headrace_spark)
    assert caught.value.fix == "remove the duplicate from the table"


def test_keys_are_compared_in_the_type_of_the_row(headrace_spark: SparkSession, tmp_path: Path) -> None:
    lookup = TableLookup(
        {**write_table(tmp_path, ["1,one,", "2.0,two,", "x,none,"]), "column": "id", "columns": {"word": "name"}}
    )
    rows = headrace_spark.createDataFrame([(1,), (2,), (3,)], "id int")
    found = lookup(rows).orderBy("id").collect()
    assert [(row.id, row.word) for row in found] == [(1, "one"), (2, None), (3, None)]


def test_lookup_by_an_unavailable_value_is_unavailable(headrace_spark: SparkSession, tmp_path: Path) -> None:
    schema = f"id int, country string, {C.UNAVAILABLE} struct<id: boolean, country: boolean>"
    frame = headrace_spark.createDataFrame([(1, None, (False, True)), (2, "NO", (False, False))], schema)
    result = TableLookup(write_table(tmp_path)).apply(Changes(frame, envelope=False)).frame.orderBy("id").collect()
    assert [row[C.UNAVAILABLE].asDict() for row in result] == [
        {"id": False, "country": left_out, "country_name": left_out, "capital": left_out} for left_out in (True, False)
    ]


def test_lookup_table_is_broadcast(headrace_spark: SparkSession, tmp_path: Path) -> None:
    frame = headrace_spark.range(10).selectExpr("id", "cast(id as string) country")
    plan = TableLookup(write_table(tmp_path))(frame)._jdf.queryExecution().toString()
    assert "BroadcastHashJoin" in plan
    assert "SortMergeJoin" not in plan


@pytest.mark.parametrize(
    ("wrong", "kind", "text"),
    [
        ({"path": "/not/there"}, ConfigError, "no such table"),
        ({"key": "iso"}, ConfigError, "no column 'iso'"),
        ({"columns": {"new": "population"}}, ConfigError, "no column 'population'"),
    ],
)
def test_invalid_options_are_rejected_before_a_stream_starts(
    headrace_spark: SparkSession, tmp_path: Path, wrong: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        TableLookup({**write_table(tmp_path), **wrong}).check(headrace_spark)


def test_existing_column_is_not_overwritten(headrace_spark: SparkSession, tmp_path: Path) -> None:
    frame = headrace_spark.createDataFrame([(1, "NO", "mine")], "id int, country string, Capital string")
    with pytest.raises(DataError, match="'Capital'"):
        TableLookup(write_table(tmp_path))(frame)
