"""Records that the format of a table cannot hold: they become dead letters, and the table gets all others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.tiers import nightly_after

from headrace import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

LONG = "č" * 60  # 360 bytes in the name of a folder
ICEBERG, HUDI = {"partition.by": {"*": ["city"]}}, {"hoodie.datasource.write.partitionpath.field": "city"}


def make_pipeline(folder: Path, sink: str, transforms: Any = (), **options: Any) -> Pipeline:
    location = "warehouse" if sink == "iceberg" else "path"
    return Pipeline.from_dict(
        {
            "name": "visits",
            "source": {"files": {"path": f"{folder}/bronze", "format": "json"}},
            "tables": [{"source": "visits", "key": ["id"], "target": "shop.visits"}],
            "transforms": list(transforms),
            "sink": {sink: {location: f"{folder}/lake", **options}},
            "checkpoint": f"{folder}/checkpoint",
        }
    )


def write(folder: Path, number: int, *rows: dict[str, Any]) -> None:
    (folder / "bronze/visits").mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"bronze/visits/{number}.json").write_text(text, encoding="utf-8")


RESERVED = "a sink reserves the name {!r}: rename it under `transforms:`"


@pytest.mark.parametrize(
    ("sink", "options", "name", "why"),
    nightly_after(
        1,
        [
            ("iceberg", ICEBERG, "_deleted", RESERVED.format("_deleted")),
            ("hudi", HUDI, "_hoodie_commit_time", RESERVED.format("_hoodie_commit_time")),
            (
                "iceberg",
                {**ICEBERG, "readers": ["athena"]},
                "order id",
                "athena does not support the column name 'order id': a name consists of",
            ),
            ("hudi", HUDI, "order-id", "Hudi does not allow the column name 'order-id': names consist of"),
        ],
    ),
)
def test_record_with_a_name_that_a_sink_refuses_does_not_stop_its_table(
    tmp_path: Path, spark: SparkSession, sink: str, options: dict[str, Any], name: str, why: str
) -> None:
    job = make_pipeline(tmp_path, sink, **options)
    for turn in (1, 2):
        row = {"city": "Brno", "turn": turn}
        write(tmp_path, turn, {"id": 1, **row}, {"id": 2, **row, name: "x"}, {"id": 3, **row, name: None})
        (progress,) = job.run(spark).tables
        assert (progress.applied, progress.dead_letters) == (2, 1)
    assert sorted(job.read("shop.visits", spark=spark).select("id", "turn").collect()) == [(1, 2), (3, 2)]
    dead_letters = job.read_dead_letters(spark)
    assert dead_letters is not None
    found = {
        (row["reason"], row["error"][: len(why)], json.loads(row["value"])[name]) for row in dead_letters.collect()
    }
    assert found == {("field-name", why, "x")}


@pytest.mark.nightly
def test_nested_field_with_a_name_that_a_sink_refuses_does_not_stop_its_table(
    tmp_path: Path, spark: SparkSession
) -> None:
    """In a struct, in a list, and in text of which `expand` infers the type."""
    job = make_pipeline(tmp_path, "hudi", transforms=[{"expand": {"columns": ["j"]}}])
    for turn in (1, 2):
        good = {"o": {"a": turn, "p": {"b": 1}}, "l": [{"c": 1}], "j": '{"d": 1}'}
        bad: list[dict[str, Any]] = [
            {"o": {"a": 1, "1st": "x"}},
            {"o": {"p": {"b": 1, "no.": 2}}},
            {"l": [{"c": 1}, {"c": 2, "2nd item": 3}]},
            {"j": '{"d": 1, "4th": {"e": 1}}'},
            {"only": {"5th": 1}},
        ]
        write(tmp_path, turn, {"id": 0, **good}, *[{"id": n, **row} for n, row in enumerate(bad, 1)])
        (progress,) = job.run(spark).tables
        assert (progress.applied, progress.dead_letters) == (1, len(bad))
    (row,) = job.read("shop.visits", spark=spark).select("id", "o", "l", "j").collect()
    expected = {"id": 0, "o": {"a": 2, "p": {"b": 1}}, "l": [{"c": 1}], "j": {"d": 1}}
    assert row.asDict(recursive=True) == expected
    dead_letters = job.read_dead_letters(spark)
    assert dead_letters is not None
    found = {(row["reason"], row["error"].split(":")[0]) for row in dead_letters.collect()}
    names = ("1st", "no.", "2nd item", "4th", "5th")
    assert found == {("field-name", f"Hudi does not allow the column name {name!r}") for name in names}


@pytest.mark.nightly
def test_new_name_that_a_delta_table_does_not_allow_does_not_stop_it(tmp_path: Path, spark: SparkSession) -> None:
    """A new table that has such a name from its first batch on allows all of them."""
    job = make_pipeline(tmp_path, "delta")
    write(tmp_path, 1, {"id": 1, "o": {"a": 1}})
    job.run(spark)
    bad: list[dict[str, Any]] = [{"b c": "x"}, {"o": {"a": 2, "d,e": 1}}, {"l": [{"f": 1}, {"g=h": 2}]}]
    write(tmp_path, 2, {"id": 1, "o": {"a": 3}}, *[{"id": n, **row} for n, row in enumerate(bad, 2)])
    (progress,) = job.run(spark).tables
    assert (progress.applied, progress.dead_letters) == (1, len(bad))
    (row,) = job.read("shop.visits", spark=spark).select("id", "o.a").collect()
    assert row == (1, 3)
    dead_letters = job.read_dead_letters(spark)
    assert dead_letters is not None
    found = {(row["reason"], row["error"].split(":")[0]) for row in dead_letters.collect()}
    assert found == {("field-name", f"Delta does not allow the column name {name!r}") for name in ("b c", "d,e", "g=h")}
    write(tmp_path / "mapped", 1, *[{"id": n, **row} for n, row in enumerate(bad, 1)])
    other = make_pipeline(tmp_path / "mapped", "delta")
    (progress,) = other.run(spark).tables
    assert (progress.applied, progress.dead_letters) == (len(bad), 0)
    assert sorted(other.read("shop.visits", spark=spark).select("id", "b c", "o.`d,e`").collect()) == [
        (1, "x", None),
        (2, None, 1),
        (3, None, None),
    ]


@pytest.mark.nightly
def test_partition_value_that_is_too_long_for_a_folder_does_not_stop_its_table(
    tmp_path: Path, spark: SparkSession
) -> None:
    job = make_pipeline(tmp_path, "iceberg", **ICEBERG)
    for turn in (1, 2):
        longest = "x" * (255 - len("city="))
        cities = ["Brno", longest, LONG, longest + "x", None]
        write(tmp_path, turn, *[{"id": number, "city": city, "turn": turn} for number, city in enumerate(cities)])
        (progress,) = job.run(spark).tables
        assert (progress.applied, progress.dead_letters) == (3, 2)
    rows = job.read("shop.visits", spark=spark).select("id", "city", "turn").collect()
    assert sorted(rows) == [(0, "Brno", 2), (1, longest, 2), (4, None, 2)]
    dead_letters = job.read_dead_letters(spark)
    assert dead_letters is not None
    assert {row["reason"] for row in dead_letters.collect()} == {"unsupported-value"}


def test_long_value_is_stored_in_a_table_without_partitions(tmp_path: Path, spark: SparkSession) -> None:
    """The options of partitions are those of new tables."""
    for turn, options in enumerate([{}, ICEBERG]):
        write(tmp_path, turn, {"id": 1, "city": LONG, "turn": turn})
        (progress,) = make_pipeline(tmp_path, "iceberg", **options).run(spark).tables
        assert (progress.applied, progress.dead_letters) == (1, 0)
