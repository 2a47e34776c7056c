"""A job of Hudi Streamer, imported to take its table over: the comparison, the takeover, and the rows."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.support.dist import ROOT

from headrace import Pipeline
from headrace.errors import HeadraceError
from headrace_import.pipeline_import import ImportOptions, import_paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


def make_event(op: str, lsn: int, number: int, item: str | None) -> str:
    if op == "t":
        return make_envelope(op, lsn, None, None)
    row = {"id": number, "line": 1, "country": "de", "item": item}
    return make_envelope(op, lsn, *((row, None) if op == "d" else (None, row)))


def make_envelope(op: str, lsn: int, before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "orders", "lsn": lsn}
    return json.dumps({"before": before, "after": after, "op": op, "ts_ms": lsn, "source": source}) + "\n"


def write_events(file: Path, *events: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(events), encoding="utf-8")


def unpack_table(folder: Path) -> None:
    with tarfile.open(ROOT / "tests/data/hudi_streamer/plain.tar.xz") as archive:
        archive.extractall(folder / "silver", filter="data")


def import_job(folder: Path) -> Pipeline:
    command = (
        "spark-submit --class HoodieStreamer x.jar --op UPSERT --table-type COPY_ON_WRITE --target-table streamer_plain "
        f"--target-base-path {folder}/silver/plain --source-class org.apache.hudi.utilities.sources.JsonDFSSource "
        f"--source-ordering-field ts --hoodie-conf hoodie.streamer.source.dfs.root={folder}/landing/orders/ "
        "--hoodie-conf hoodie.datasource.write.recordkey.field=id"
    )
    (folder / "run.sh").write_text(command, encoding="utf-8")
    result = import_paths([folder / "run.sh"], ImportOptions(take_over=True))
    (folder / "job.yaml").write_text(result.pipeline, encoding="utf-8")
    changes = {"checkpoint": str(folder / "checkpoint"), "transforms": [{"unwrap": {}}]}
    return Pipeline.from_dict({**yaml.safe_load(result.pipeline), **changes})


def read(spark: SparkSession, folder: Path) -> dict[int, str]:
    rows = spark.read.format("hudi").load(f"{folder}/silver/plain").select("id", "item").collect()
    assert len({row.id for row in rows}) == len(rows), rows
    return {row.id: row.item for row in rows}


def refuse_masks(spark: SparkSession, folder: Path) -> None:
    """Check that a mask is refused, because the rows of the Streamer were not masked."""
    transforms = [{"unwrap": {}}, {"mask": {"columns": {"item": {"nullify": True}}}}]
    changes = {"checkpoint": str(folder / "masked"), "transforms": transforms}
    masked = Pipeline.from_dict({**yaml.safe_load((folder / "job.yaml").read_text(encoding="utf-8")), **changes})
    what = "continues rows of another writer, which no transform has changed, and transforms hide item"
    assert [what in str(item.error) for item in masked.check(spark, connect=True) if item.error] == [True]
    with pytest.raises(HeadraceError, match=what):
        masked.run(spark)


def test_an_imported_job_is_compared_and_continued(tmp_path: Path, spark: SparkSession) -> None:
    unpack_table(tmp_path)
    landing = tmp_path / "landing" / "orders"
    write_events(
        landing / "0.json",
        make_event("u", 30, 1, "lamp, red"),
        make_event("d", 31, 4, "shelf"),
        make_event("c", 32, 9, "sofa"),
        make_event("u", 33, 2, "__debezium_unavailable_value"),
    )
    job = import_job(tmp_path)
    items = job.check(spark, connect=True)
    assert [str(item.error) for item in items if item.error] == []
    (note,) = [item.found for item in items if item.what == "table plain"]
    for text in ("ordered by ts", "table version is 6", "record key id", "NonpartitionedKeyGenerator", "no partitions"):
        assert text in note
    assert read(spark, tmp_path) == {1: "lamp", 2: "desk, oak", 4: "shelf"}
    refuse_masks(spark, tmp_path)
    assert read(spark, tmp_path) == {1: "lamp", 2: "desk, oak", 4: "shelf"}
    job.run(spark)
    assert read(spark, tmp_path) == {1: "lamp, red", 2: "desk, oak", 9: "sofa"}
    write_events(
        landing / "1.json",
        make_event("u", 29, 1, "late"),
        make_event("u", 40, 2, "desk"),
        make_event("u", 30, 4, "late"),
    )
    job.run(spark)
    assert read(spark, tmp_path) == {1: "lamp, red", 2: "desk", 9: "sofa"}
    assert [item.found for item in job.check(spark) if item.what == "table plain"] == []


@pytest.mark.nightly
def test_a_first_batch_with_only_a_truncate_empties_the_table(tmp_path: Path, spark: SparkSession) -> None:
    unpack_table(tmp_path)
    landing = tmp_path / "landing" / "orders"
    write_events(landing / "0.json", make_event("t", 30, 0, None))
    import_job(tmp_path)
    config = yaml.safe_load((tmp_path / "job.yaml").read_text(encoding="utf-8"))
    transforms = [{"unwrap": {}}, {"mask": {"columns": {"item": {"nullify": True}}}}]
    masked = {"checkpoint": str(tmp_path / "masked"), "transforms": transforms}
    with pytest.raises(HeadraceError, match="no transform has changed, and transforms hide item"):
        Pipeline.from_dict({**config, **masked}).run(spark)
    tagged = {"tags": {"pii": ["item"]}, "transforms": [{"unwrap": {}}, {"drop": {"columns": ["item"]}}]}
    with pytest.raises(HeadraceError, match="no transform has changed, and transforms hide item"):
        Pipeline.from_dict({**config, **tagged, "checkpoint": str(tmp_path / "tagged")}).run(spark)
    added = {"checkpoint": str(tmp_path / "checkpoint"), "transforms": [{"unwrap": {"add.fields": "op"}}]}
    job = Pipeline.from_dict({**config, **added})
    (progress,) = job.run(spark).tables
    assert (progress.dead_letters, read(spark, tmp_path)) == (0, {})
    write_events(landing / "1.json", make_event("c", 29, 1, "late"), make_event("c", 31, 9, "sofa"))
    job.run(spark)
    assert read(spark, tmp_path) == {9: "sofa"}
