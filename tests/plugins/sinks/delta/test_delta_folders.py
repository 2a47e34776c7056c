"""Files of others in the folder of a table. Folders of a disk stand in for those of Hadoop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.disk_folder import DiskFolder

from headrace import ConfigError
from headrace_sinks.delta import delta_folders
from headrace_sinks.delta.delta_folders import check_other_files, find_other_file

SPARK: Any = None


@pytest.fixture(autouse=True)
def use_folders_of_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_folders, "Folder", DiskFolder)


def fill(folder: Path, *files: str) -> str:
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()
    return str(folder)


@pytest.mark.parametrize("file", ["part-0.parquet", "day=1/000000_0", "_SUCCESS", "orders.csv"])
def test_files_without_a_log_belong_to_another_program(tmp_path: Path, file: str) -> None:
    with pytest.raises(ConfigError, match="has files of another program, for example "):
        check_other_files(SPARK, "shop", fill(tmp_path, file))


def test_killed_first_batch_leaves_a_log_without_commits(tmp_path: Path) -> None:
    check_other_files(SPARK, "shop", str(tmp_path / "missing"))
    files = ("_delta_log/.tmp", "part-0.parquet", "a%20day=1/part-0.parquet")
    check_other_files(SPARK, "shop", fill(tmp_path, *files), ["a day", "hour"])


@pytest.mark.parametrize(
    "file",
    [
        "orders/part-0.parquet",
        "metadata/1.metadata.json",
        "export.csv",
        "year=2020/_delta_log/0.json",
        "hour=1/part-0.parquet",
        "part-a/part-0.parquet",
    ],
)
def test_files_of_others_in_the_folder_of_a_table(tmp_path: Path, file: str) -> None:
    own = "_delta_log/0.json", "part-0.parquet", "day=1/part-0.parquet", "deletion_vector_1.bin", "_symlinks/manifest"
    columns = ("day", "hour")
    assert find_other_file(SPARK, fill(tmp_path, *own), columns) is None
    assert find_other_file(SPARK, fill(tmp_path, file), columns) == file.partition("/")[0]


def test_folders_with_random_names(tmp_path: Path) -> None:
    path = fill(tmp_path, "aZ/part-0.parquet")
    assert find_other_file(SPARK, path) == "aZ"
    assert find_other_file(SPARK, path, prefix_length=2) is None
    assert find_other_file(SPARK, fill(tmp_path, "orders/part-0.parquet"), prefix_length=2) == "orders"
