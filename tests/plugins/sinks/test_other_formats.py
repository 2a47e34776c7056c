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
