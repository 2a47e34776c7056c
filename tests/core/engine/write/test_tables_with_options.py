"""Tables with options of their own in one pipeline: sinks, partitions, dead letters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.bronze import write_lines
from tests.support.pipelines import pipeline, rows

from headrace import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PARTITIONS = "hoodie.datasource.write.partitionpath.field"
TABLES: list[dict[str, Any]] = [
    {
        "source": "moma.artists",
        "sink": {"hudi": {PARTITIONS: "nationality"}, "iceberg": {"partition.by": ["nationality"]}},
        "dead.letters": {"after-missing": "drop"},
    },
    {"source": "moma.artworks", "sink": {"hudi": {PARTITIONS: "department", "table.type": "COPY_ON_WRITE"}}},
    {"source": "moma.visits", "sinks": ["iceberg"], "sink": {"iceberg": {"mode": "changelog"}}},
    {"source": "moma.*", "key": ["id"]},
]


def event(op: str, lsn: int, row: dict[str, Any] | None) -> dict[str, Any]:
    source = {"connector": "postgresql", "lsn": lsn, "sequence": None, "txId": 1}
    images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    return {**images, "op": op, "ts_ms": 1_700_000_000_000, "source": source}


def deliver(folder: Path, topic: str, number: int, *events: dict[str, Any]) -> None:
    write_lines(folder / "in" / topic / f"{topic}+0+{number:010d}.json", events)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")}


@pytest.mark.nightly
@pytest.mark.one_spark  # Hudi has no jar for Spark 4.1 here
def test_tables_have_their_own_options(tmp_path: Path, spark: SparkSession) -> None:
    keyed = [{"key": ["id"], **rule} for rule in TABLES]
    source = {"files": {"path": str(tmp_path / "in"), "format": "json"}}
    job = pipeline(tmp_path, "hudi", "iceberg", source=source, tables=keyed)
    artists = [{"id": 1, "nationality": "German"}, {"id": 2, "nationality": "Swiss"}]
    deliver(tmp_path, "moma.artists", 0, *(event("c", 10, row) for row in artists), event("c", 11, None))
    deliver(tmp_path, "moma.artworks", 0, event("c", 10, {"id": 7, "department": "Prints"}), event("c", 11, None))
    deliver(tmp_path, "moma.visits", 0, event("c", 10, {"id": 1, "day": 1}), event("u", 11, {"id": 1, "day": 2}))
    checked = {item.what: item.found for item in job.check(spark)}
    assert (
        f"table moma.artists: hudi: {{path: {tmp_path}/lake/hudi, {PARTITIONS}: nationality}}"
        in (checked["options of topic moma.artists"])
    )
    job.run(spark)
    deliver(tmp_path, "moma.artists", 1, event("d", 20, artists[1]), event("u", 21, {"id": 1, "nationality": "French"}))
    job.run(spark)
    lake = tmp_path / "lake"
    assert names(lake / "hudi/moma/artists") == {"German", "Swiss", "French"}
    assert names(lake / "hudi/moma/artworks") == {"Prints"}
    assert names(lake / "iceberg/moma/artists/data") == {
        "nationality=German",
        "nationality=Swiss",
        "nationality=French",
    }
    assert not (lake / "hudi/moma/visits").exists()
    for sink in ("hudi", "iceberg"):
        assert rows(job, spark, "moma.artists", key="id", sink=sink) == [{"id": 1, "nationality": "French"}]
    assert [row["day"] for row in rows(job, spark, "moma.visits", key="day")] == [1, 2]
    with pytest.raises(
        ConfigError, match=r"table moma.visits: the table has no sink 'hudi'\n  fix: its sinks: iceberg"
    ):
        job.read("moma.visits", sink="hudi", spark=spark)
    dead_letters = job.read_dead_letters(spark)
    assert dead_letters is not None
    assert [row["table"] for row in dead_letters.collect()] == ["moma.artworks"]
    assert {(status.table, status.sink) for status in job.status(spark).tables} == {
        (f"moma.{table}", sink) for table in ("artists", "artworks") for sink in ("hudi", "iceberg")
    } | {("moma.visits", "iceberg")}
    assert {(table.table, table.sink) for table in job.measure(spark)} == {
        (f"moma.{table}", sink) for table in ("artists", "artworks") for sink in ("hudi", "iceberg")
    } | {("moma.visits", "iceberg")}
