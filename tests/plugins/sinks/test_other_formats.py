"""Tables of two formats in one folder."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from tests.support.disk_folder import DiskFolder

from headrace import ConfigError
from headrace.sdk import Sink
from headrace.spark.sessions import Sessions
from headrace.testing.tables import Target, put
from headrace_sinks import DeltaSink, FilesSink, HudiSink, IcebergSink, other_formats
from headrace_sinks.other_formats import check_other_formats

PEOPLE = "id int, name string"
SPARK: Any = None


@pytest.mark.spark
def test_no_sink_creates_a_table_in_the_folder_of_another_format(tmp_path: Path, sessions: Sessions) -> None:
    session = sessions.of("one")
    kinds = "delta", "files", "hudi", "iceberg"

    def make(kind: str, folder: Path) -> Sink:
        path = str(folder)
        return {
            "delta": DeltaSink(path=path),
            "files": FilesSink(path=path),
            "hudi": HudiSink(path=path),
            "iceberg": IcebergSink(warehouse=path),
        }[kind]

    tables = {kind: Target(make(kind, tmp_path / kind), session, name=f"shop.{kind}") for kind in kinds}
    for table in tables.values():
        table.write(PEOPLE, put(1, 1, "a"))
    for first, second in permutations(kinds, 2):
        other = Target(make(second, tmp_path / first), session, name=tables[first].name)
        error = other.refusal(lambda other=other: other.write(PEOPLE, put(1, 2, "b")))  # type: ignore[misc]
        assert isinstance(error, ConfigError), (first, second)
        assert f"its folder has a table of the format {first}" in str(error)
        assert f"table {other.name}, sink {second}, " in str(error)
    for table in tables.values():
        table.write(PEOPLE, put(2, 3, "c"))
        assert [row["id"] for row in table.rows()] == [1, 3]


@pytest.mark.parametrize(
    "file",
    [
        "_delta_log/.tmp",  # a first batch that was killed
        ".hoodie/timeline/20260101000000000.requested",
        "metadata/data/00000-0.parquet",  # a table with the name of a folder
        "metadata/metadata/v1.metadata.json",
        "_headrace/table.jsonl",
    ],
)
def test_folders_without_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    monkeypatch.setattr(other_formats, "Folder", DiskFolder)
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).touch()
    check_other_formats(SPARK, "shop", str(tmp_path), "other")


def refuse(path: Path, sink: str) -> str | None:
    try:
        check_other_formats(SPARK, "shop.orders", str(path), sink)
    except ConfigError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("file", "refused"),
    [
        (
            "_delta_log/00000000000000000000.json",
            {"files", "hudi", "iceberg"},
        ),  # the sink `delta` has a check of its own
        ("metadata/v1.metadata.json", {"delta", "files", "hudi"}),
        (".hoodie/hoodie.properties", set()),
        ("_headrace_batch=a-0000000001/part-0.json", set()),
    ],
)
def test_table_below_a_table_whose_maintenance_deletes_unknown_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, refused: set[str]
) -> None:
    monkeypatch.setattr(other_formats, "Folder", DiskFolder)
    outer = tmp_path / "lake/shop"
    (outer / file).parent.mkdir(parents=True)
    (outer / file).touch()
    sinks = ("delta", "files", "hudi", "iceberg")
    errors = {sink: error for sink in sinks if (error := refuse(outer / "data/orders", sink))}
    assert errors.keys() == refused
    for sink, error in errors.items():
        assert f"table shop.orders, sink {sink}, " in error
        assert f"its folder is in that of the table at {outer}, and VACUUM of Delta" in error
        assert "another `target:`" in error
    assert refuse(tmp_path / "lake/orders", "files") is None
