"""Names of columns that were made to do harm: the column is there with its values, or the run says why it cannot be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines
from tests.support.bronze import write_lines

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
        "a" * 300,
        "[bold]",
        "-1",
        "'; --",
        "__",
        "null",
    ),
]


def deliver(folder: Path, *rows: dict[str, Any]) -> None:
    """Rows as PostgreSQL's connector tells of them, each an insert that is newer than the one before."""
    events = []
    for lsn, row in enumerate(rows, 1):
        source = {"connector": "postgresql", "ts_ms": 1, "lsn": lsn, "sequence": f'["{lsn}","{lsn}"]'}
        events.append({"before": None, "after": row, "source": source, "op": "c"})
    write_lines(folder / "bronze" / TOPIC / "partition=0" / f"{TOPIC}+0+0.json", events)


def pipeline(folder: Path, sink: str, **changed: Any) -> Pipeline:
    source = {"files": {"path": str(folder / "bronze"), "format": "json"}}
    return pipelines.pipeline(folder, sink, **{"source": source, **changed})


@pytest.mark.parametrize(("sink", "deletes"), [("iceberg", "drop"), ("files", "rewrite")])
def test_columns(
    sink: str, deletes: str, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    deliver(
        tmp_path,
        {KEY: 1, MASKED: "old", RENAMED: "old", **dict.fromkeys(NAMES, "old")},
        {KEY: 1, MASKED: "new", RENAMED: "new", **{name: f"{name} 1" for name in NAMES}},
        {KEY: 2},
    )
    one = pipeline(
        tmp_path,
        sink,
        tables=[{"source": TOPIC, "key": [KEY], "target": "shop.orders"}],
        transforms=[
            {"unwrap": {"delete.tombstone.handling.mode": deletes}},
            {"rename": {"columns": {RENAMED: "`;\"'"}}},
            {"mask": {"columns": {MASKED: {"sha256": {"salt": "pepper"}}}}},
        ],
    )
    one.run(spark)
    frame = one.read("shop.orders", spark=spark)
    rows = [row.asDict() for row in frame.collect()]
    assert len(rows) == {"iceberg": 2, "files": 3}[sink]
    first, second = (next(row for row in reversed(rows) if row[KEY] == key and row["null"] != "old") for key in (1, 2))
    assert {name: first[name] for name in NAMES} == {name: f"{name} 1" for name in NAMES}
    assert first["`;\"'"] == "new"
    assert re.fullmatch("[0-9a-f]{64}", first[MASKED])
    assert {second[name] for name in [*NAMES, "`;\"'", MASKED]} == {None}
    for form in ("table", "record"):
        print_frame(frame, collect_rows(one, frame, 9), 9, form)
        assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["a'b", "a\x1b[31mb", "-1", "'; --"])
def test_hudi_refuses_what_avro_cannot_name(name: str, tmp_path: Path, spark: SparkSession) -> None:
    deliver(tmp_path, {"id": 1, name: "x"})
    with pytest.raises(DataError, match="cannot keep a column called") as refused:
        pipeline(tmp_path, "hudi", tables=[{"source": TOPIC, "key": ["id"], "target": "shop.orders"}]).run(spark)
    assert repr(name) in str(refused.value)
    assert not (tmp_path / "lake/hudi/shop").exists()
