"""Hostile column names: the table keeps the column and its values, or the run fails with the reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines
from tests.support.bronze import Bronze, write_lines
from tests.support.tiers import nightly_after

from headrace import DataError, Pipeline
from headrace.cli.dataframe_output import collect_rows, print_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

TOPIC = "shop.public.orders"
KEY = "i'd`.\"1"
MASKED, RENAMED = "x; DROP TABLE orders; --", "../up"
NAMES = [
    *('a"b', "a'b", "a.b", "a b", "a`b", "é中😀", "${env:HOME}", "$(id)", "%s", "{x}", "a\\b", "a,b", "a(b)", "a=b"),
    *(
        "select",
        "1a",
        "*",
        "a/b",
        "a:b",
        "<b>",
        "a\tb",
        "a\nb",
        "a\x1b[31mb",
        "a" * 255,
        "[bold]",
        "-1",
        "'; --",
        "__",
        "null",
    ),
]


def write_inserts(folder: Path, *rows: dict[str, Any]) -> None:
    """Write rows as inserts of the PostgreSQL connector, each newer than the previous one."""
    events = []
    for lsn, row in enumerate(rows, 1):
        source = {"connector": "postgresql", "ts_ms": 1, "lsn": lsn, "sequence": f'["{lsn}","{lsn}"]'}
        events.append({"before": None, "after": row, "source": source, "op": "c"})
    write_lines(folder / "bronze" / TOPIC / "partition=0" / f"{TOPIC}+0+0.json", events)


def pipeline(folder: Path, sink: str, **changed: Any) -> Pipeline:
    source = {"files": {"path": str(folder / "bronze"), "format": "json"}}
    return pipelines.pipeline(folder, sink, **{"source": source, **changed})


@pytest.mark.parametrize(("sink", "deletes"), nightly_after(1, [("iceberg", "drop"), ("files", "rewrite")]))
def test_columns_with_hostile_names_keep_their_values(
    sink: str, deletes: str, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    write_inserts(
        tmp_path,
        {KEY: 1, MASKED: "old", RENAMED: "old", **dict.fromkeys(NAMES, "old")},
        {KEY: 1, MASKED: "new", RENAMED: "new", **{name: f"{name} 1" for name in NAMES}},
        {KEY: 2},
    )
    job = pipeline(
        tmp_path,
        sink,
        tables=[{"source": TOPIC, "key": [KEY], "target": "shop.orders"}],
        transforms=[
            {"unwrap": {"delete.tombstone.handling.mode": deletes}},
            {"rename": {"columns": {RENAMED: "`;\"'"}}},
            {"mask": {"columns": {MASKED: {"sha256": {"salt": "pepper"}}}}},
        ],
    )
    job.run(spark)
    frame = job.read("shop.orders", spark=spark)
    rows = [row.asDict() for row in frame.collect()]
    assert len(rows) == {"iceberg": 2, "files": 3}[sink]
    first, second = (next(row for row in reversed(rows) if row[KEY] == key and row["null"] != "old") for key in (1, 2))
    assert {name: first[name] for name in NAMES} == {name: f"{name} 1" for name in NAMES}
    assert first["`;\"'"] == "new"
    assert re.fullmatch("[0-9a-f]{64}", first[MASKED])
    assert {second[name] for name in [*NAMES, "`;\"'", MASKED]} == {None}
    for form in ("table", "record"):
        print_frame(frame, collect_rows(job, frame, 9), 9, form)
        assert "\x1b" not in capsys.readouterr().out


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["a'b", "a\x1b[31mb", "-1", "'; --"])
def test_record_with_a_name_that_avro_does_not_allow_is_a_dead_letter_in_hudi(
    name: str, tmp_path: Path, spark: SparkSession
) -> None:
    write_inserts(tmp_path, {"id": 1, name: "x"}, {"id": 2})
    job = pipeline(tmp_path, "hudi", tables=[{"source": TOPIC, "key": ["id"], "target": "shop.orders"}])
    job.run(spark)
    assert pipelines.rows(job, spark, "shop.orders", key="id") == [{"id": 2}]
    dead_letters = job.read_dead_letters(spark)
    assert dead_letters is not None
    (letter,) = dead_letters.collect()
    assert letter["reason"] == "field-name"
    assert f"does not allow the column name {name!r}" in letter["error"]


@pytest.mark.parametrize(
    ("sink", "name", "before_unwrap"),
    nightly_after(
        1,
        [
            ("iceberg", "_deleted", False),
            *([("hudi", "_hoodie_commit_time", False)] if "hudi" in pipelines.TABLE_SINKS else []),
            ("iceberg", "_headrace_note", True),
        ],
    ),
)
def test_reserved_name_fails_before_any_write_and_works_once_renamed(
    sink: str, name: str, before_unwrap: bool, tmp_path: Path, spark: SparkSession
) -> None:
    bronze = Bronze(tmp_path / "bronze")
    topic = bronze.topic(TOPIC, key="id", columns={"id": "int", name: "string"})
    topic.insert({"id": 1, name: "a"})
    topic.insert({"id": 2, name: "b"})
    bronze.flush()
    tables = [{"source": TOPIC, "key": ["id"], "target": "shop.orders"}]
    with pytest.raises(DataError) as raised:
        pipelines.pipeline(tmp_path, sink, tables=tables).run(spark)
    assert f"the column name {name!r} is reserved" in str(raised.value)
    assert not (tmp_path / f"lake/{sink}/shop").exists()
    rename: dict[str, Any] = {"rename": {"columns": {name: "kept"}}}
    transforms = [rename, {"unwrap": {}}] if before_unwrap else [{"unwrap": {}}, rename]
    job = pipelines.pipeline(tmp_path, sink, tables=tables, transforms=transforms)
    job.run(spark)
    topic.update({"id": 1, name: "a"}, {"id": 1, name: "A"})
    topic.delete({"id": 2, name: "b"})
    bronze.flush()
    job.run(spark)
    assert pipelines.rows(job, spark, "shop.orders", key="id") == [{"id": 1, "kept": "A"}]


def test_check_reports_reserved_name(tmp_path: Path, spark: SparkSession) -> None:
    bronze = Bronze(tmp_path / "bronze")
    bronze.topic(TOPIC, key="id", columns={"id": "int", "_pos": "string"}).insert({"id": 1, "_pos": "a"})
    bronze.flush()
    tables = [{"source": TOPIC, "key": ["id"], "target": "shop.orders"}]
    found = [item.error for item in pipelines.pipeline(tmp_path, tables=tables).check(spark) if item.error]
    assert ["'_pos'" in str(error) for error in found] == [True]
