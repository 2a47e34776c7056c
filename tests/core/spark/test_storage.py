"""Text files in a folder: creation, replacement and concurrent reads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


def test_file_is_created_once(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(spark, str(tmp_path / "new" / "folder"))
    assert folder.create("0", "first")
    assert not folder.create("0", "second")
    assert folder.read("0") == "first"


def test_file_created_concurrently_by_another_process_is_kept(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(spark, str(tmp_path))
    folder.create("0", "first")
    monkeypatch.setattr(Folder, "read", lambda self, name: None)
    assert not folder.create("0", "second")
    assert (tmp_path / "0").read_text() == "first"
    assert folder.names() == ["0"]


def test_size_of_a_missing_file_is_zero(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "0").write_text("first")
    folder = Folder(spark, str(tmp_path))
    assert (folder.size("0"), folder.size("1"), folder.folder("no folder").size("0")) == (5, 0, 0)


def test_write_replaces_the_file(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(spark, str(tmp_path))
    folder.write("0", "first")
    folder.write("0", "sécond")
    assert (folder.read("0"), folder.read("1")) == ("sécond", None)


def test_reader_sees_the_old_text_or_the_new_one(spark: SparkSession, tmp_path: Path) -> None:
    folder, texts = Folder(spark, str(tmp_path)), ["a" * 10, "b" * 10_000]
    assert folder.create("0", texts[0])
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write, folder, texts)
        seen = []
        while not written.done():
            seen.append(folder.read("0"))
    written.result()
    assert set(seen) <= set(texts)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0"]


def write(folder: Folder, texts: list[str]) -> None:
    for turn in range(500):
        folder.write("0", texts[turn % 2])
