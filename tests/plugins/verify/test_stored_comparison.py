"""Comparison of stored tables: values are compared regardless of their types, and each difference is counted and named."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from headrace_verify import stored_comparison
from headrace_verify.compared_table import ComparedTable, choose_columns
from headrace_verify.comparison import Comparison
from headrace_verify.source_table import SourceColumn, SourceTable
from headrace_verify.stored_comparison import StoredComparison
from headrace_verify.stored_texts import SparkSql, find_stored_form
from headrace_verify.stored_verification import OtherTables, StoredVerifier
from headrace_verify.table_verification import Verified, VerifyOptions, limit_sample
from headrace_verify.verify_report import list_keys
from tests.support.bronze import Bronze
from tests.support.pipelines import COLUMNS, TABLE, TOPIC, configure, pipeline, sink_block

from headrace.sdk import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark]

ARTIST = {"name": "Arp", "nationality": None, "born": 1_000_001, "tags": ["a", "b"]}
#: Column → a value of both tables with another type or another writing, and a value of the table that differs from it.
VALUES: dict[str, tuple[str, str, str]] = {
    "whole": ("1", "1L", "2L"),
    "price": ("1.50BD", "cast(1.5 as decimal(20,4))", "cast(1.5001 as decimal(20,4))"),
    "count": ("100L", "100.00BD", "100.01BD"),
    "tiny": (
        "cast('0.0000000001' as decimal(20,10))",
        "cast('1e-10' as decimal(38,18))",
        "cast('1e-11' as decimal(38,18))",
    ),
    "none": ("cast(0 as decimal(20,10))", "0BD", "cast(null as decimal(1,0))"),
    "huge": (
        "cast('9999999999999999999999999999.9' as decimal(38,1))",
        "cast('9999999999999999999999999999.9' as decimal(38,10))",
        "cast(null as decimal(38,10))",
    ),
    "ratio": ("float('0.5')", "double('0.5')", "double('0.5000000000000001')"),
    "odd": ("double('NaN')", "double('NaN')", "double('-0.0')"),
    "flag": ("true", "true", "false"),
    "text": ("'N'", "'N'", "cast(null as string)"),
    "raw": ("X'00FF'", "X'00FF'", "X'00FE'"),
    "day": ("date '0001-01-01'", "date '0001-01-01'", "date '0001-01-02'"),
    "moment": (
        "timestamp '2024-02-29 01:02:03.000001Z'",
        "timestamp_ntz '2024-02-29 01:02:03.000001'",
        "timestamp_ntz '2024-02-29 01:02:03'",
    ),
    "list": ("array(1, null)", "array(1L, null)", "array(null, 1L)"),
    "words": ("array('a', 'b,1:c')", "array('a', 'b,1:c')", "array('a', 'b', 'c')"),
    "nested": (
        "array(named_struct('a', 1, 'b', array(1.0BD)), null)",
        "array(named_struct('B', array(1.00BD), 'A', 1L), null)",
        "array(named_struct('B', array(1.01BD), 'A', 1L), null)",
    ),
    "point": (
        "named_struct('x', 1, 'y', cast(null as int))",
        "named_struct('x', 1, 'y', cast(null as int))",
        "cast(null as struct<x: int, y: int>)",
    ),
    "labels": ("map('a', 1, 'b', null)", "map('b', null, 'a', 1L)", "map('b', 1L, 'a', null)"),
    "groups": ("map('a', map('b', array('c')))", "map('a', map('b', array('c')))", "map('a', map('b', array('d')))"),
}


def choose(other: DataFrame, stored: DataFrame, key: tuple[str, ...] = ("id",)) -> ComparedTable:
    types = {field.name: field.dataType for field in other.schema}
    columns = tuple(SourceColumn(name, kind.simpleString().upper()) for name, kind in types.items())
    source = SourceTable("shop", "orders", columns, key)
    return choose_columns(SparkSql(), lambda c, kind: find_stored_form(types[c.name], kind), source, stored.schema, ())


def compare(other: DataFrame, stored: DataFrame, *, list_keys: bool = True, limit: str | None = None) -> Comparison:
    return StoredComparison(other, stored, choose(other, stored), limit).compare(list_keys=list_keys)


def make(spark: SparkSession, *rows: Sequence[Any]) -> DataFrame:
    return spark.createDataFrame(rows, "id int, name string, fee int")


def describe(found: Comparison) -> list[tuple[str, ...]]:
    return [(*item.key, item.kind, *item.columns) for item in found.differences]


def test_values_are_compared_regardless_of_their_types(spark: SparkSession) -> None:
    def build(equal: int, different: int) -> DataFrame:
        images = (
            [f"{n} as id", *(f"{v[place]} as `{name}`" for name, v in VALUES.items())]
            for n, place in ((1, equal), (2, different))
        )
        one, other = (spark.sql(f"select {', '.join(image)}") for image in images)
        return one.unionAll(other)

    other, stored = build(0, 0), build(1, 2)
    assert choose(other, stored).left_out == {}
    found = compare(other, stored)
    assert describe(found) == [("2", "different", *VALUES)]
    assert (found.rows, found.equal, found.columns) == (2, 1, dict.fromkeys(VALUES, 1))


def test_types_without_a_common_form_are_left_out(spark: SparkSession) -> None:
    other = spark.sql("select 1 as ID, '1' as price, named_struct('a', 1) as nested, array('a') as tags, 1 as old")
    stored = spark.sql("select 1 as id, 1.0BD as price, named_struct('b', 1) as nested, array(1) as tags, 1 as new")
    assert choose(other, stored, key=("ID",)).left_out == {
        "price": "STRING is not compared with DECIMAL(2,1)",
        "nested": "STRUCT<A:INT> is not compared with STRUCT<B:INT>",
        "tags": "ARRAY<STRING> is not compared with ARRAY<INT>",
        "old": "only in the other table",
        "new": "only in the table",
    }


def test_each_kind_of_difference_is_counted(spark: SparkSession) -> None:
    other = make(spark, (1, "a", 1), (2, "b", 2), (3, "c", 3), (4, None, 4), (5, "e", 5), (5, "e", 5), (6, "f", 6))
    stored = make(spark, (1, "a", 1), (2, "b", 9), (4, "d", 9), (5, "e", 5), (6, "f", 6), (6, "f", 6), (7, "g", 7))
    found = compare(other, stored)
    assert describe(found) == [
        ("2", "different", "fee"),
        ("3", "missing"),
        ("4", "different", "name", "fee"),
        ("5", "missing"),
        ("6", "extra"),
        ("7", "extra"),
    ]
    assert found.counts == {"missing": 2, "extra": 2, "different": 2}
    assert (found.rows, found.equal, found.columns) == (7, 3, {"fee": 2, "name": 1})


def test_two_rows_of_a_key_are_compared_with_two_others(spark: SparkSession) -> None:
    twice = make(spark, (1, "a", 1), (1, "b", 2))
    assert not compare(twice, make(spark, (1, "b", 2), (1, "a", 1))).is_different
    assert describe(compare(twice, make(spark, (1, "c", 1), (1, "c", 2)))) == [("1", "different", "name")]


def test_empty_tables(spark: SparkSession) -> None:
    empty = make(spark, (1, "a", 1)).where("false")
    assert not compare(empty, empty).is_different
    assert describe(compare(empty, make(spark, (1, "a", 1)))) == [("1", "extra")]


def test_sample_has_the_same_keys_of_both_tables(spark: SparkSession) -> None:
    other, stored = (spark.range(1000).selectExpr("id", "'a' as name", f"{fee} as fee") for fee in (1, 2))
    found = compare(other, stored, limit=limit_sample(0.1))
    assert 50 < found.rows < 150
    assert found.counts == {"missing": 0, "extra": 0, "different": found.rows}


def test_all_rows_are_counted_and_some_keys_are_listed(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_comparison, "MAX_KEYS", 10)
    monkeypatch.setattr("headrace_verify.verify_report.MAX_KEYS", 10)
    other, stored = (spark.range(1000).selectExpr("id", f"{fee} as fee") for fee in (1, 2))
    table = choose(other, stored)
    found = StoredComparison(other, stored, table).compare(list_keys=True)
    assert (found.counts["different"], len(found.differences)) == (1000, 10)
    assert (
        list_keys(Verified("shop.orders", compared=table, comparison=found))[-1]
        == "shop.orders: … and the other keys of 1,000 rows"
    )


@pytest.fixture
def bronze(tmp_path: Path) -> Bronze:
    """Return the events of five artists."""
    born = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
    columns = {**COLUMNS, "born": born, "tags": {"type": "array", "items": "string"}}
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(TOPIC, key="artist_id", columns=columns)
    for n in range(5):
        artists.snapshot({**ARTIST, "artist_id": n})
    bronze.flush()
    return bronze


@pytest.mark.one_spark
def test_tables_of_two_pipelines(tmp_path: Path, spark: SparkSession, bronze: Bronze) -> None:
    old = pipeline(tmp_path, checkpoint=str(tmp_path / "old"))
    old.run(spark)
    [artists] = bronze.topics
    artists.update({**ARTIST, "artist_id": 1}, {**ARTIST, "artist_id": 1, "tags": ["b"], "born": 1_000_003})
    artists.delete({**ARTIST, "artist_id": 2})
    bronze.flush()
    new = pipeline(tmp_path, name="new", sinks=[sink_block("iceberg", tmp_path / "new")], checkpoint=f"{tmp_path}/c2")
    new.run(spark)
    verifier = StoredVerifier(new, spark, OtherTables(old, "old.yaml"), VerifyOptions(keys=True))
    [result] = verifier.verify([TABLE])
    assert result.error is None
    assert (result.source, result.comparison.rows, result.comparison.equal) == (f"old.yaml: {TABLE}", 5, 3)
    assert describe(result.comparison) == [("1", "different", "born", "tags"), ("2", "missing")]
    with pytest.raises(ConfigError, match=r"the pipeline has not written a table moma\.artist"):
        list(verifier.verify(["moma.artist"]))
    missing = OtherTables(pipeline(tmp_path, sinks=[sink_block("iceberg", tmp_path / "nowhere")]), "none.yaml")
    [failed] = StoredVerifier(new, spark, missing, VerifyOptions()).verify(())
    assert "none.yaml: the other table cannot be read: there is no table 'moma.artists'" in str(failed.error)


@pytest.mark.nightly
@pytest.mark.one_spark
def test_command_compares_two_table_formats(tmp_path: Path, spark: SparkSession, bronze: Bronze) -> None:
    """Each file needs jars that the other one does not."""
    files = []
    for kind in ("iceberg", "hudi"):
        options = {"name": kind, "sinks": [sink_block(kind, tmp_path)], "checkpoint": f"{tmp_path}/{kind}"}
        pipeline(tmp_path, **options).run(spark)
        files.append(tmp_path / f"{kind}.yaml")
        files[-1].write_text(yaml.safe_dump(configure(tmp_path, **options)), encoding="utf-8")
    program = [sys.executable, "-m", "headrace", "verify", str(files[0]), "--against", str(files[1]), "--json"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    [table] = json.loads(done.stdout)["tables"]
    assert (table["source"], table["rows"], table["equal"]) == (f"{files[1]}: {TABLE}", 5, 5)
    assert (table["left_out"], table["keys"]) == ({}, [])
