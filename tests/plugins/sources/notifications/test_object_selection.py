"""Selection of objects: the same files as in Spark's listing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.files import set_mtime

from headrace_sources.notifications.object_selection import (
    ObjectFile,
    ObjectSelection,
    list_objects,
    name_file,
    open_selection,
)
from headrace_sources.notifications.pending_log import encode_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = "s3a://landing"
FILES = [
    "topics/a/x.json",
    "topics/a/x.avro",
    "topics/a/day=2026-01-31/x.json",
    "topics/a/_day=1/x.json",
    "topics/a/_temporary/0/x.json",
    "topics/a/.hidden/x.json",
    "topics/a/.x.json",
    "topics/a/_SUCCESS",
    "topics/a/_metadata",
    "topics/a/x.json._COPYING_",
    "topics/a/a b+c%20é#?.json",
    "topics/b/c/x.json",
    "topics/b.json",
    "topics2/a/x.json",
    "_raw/a/x.json",
    "x.json",
]


def compile_folders(*folders: str) -> list[list[re.Pattern[str]]]:
    """Return the expressions of folders without globs."""
    return [[re.compile(re.escape(part)) for part in folder.split("/") if part] for folder in folders]


@pytest.mark.parametrize(
    ("path", "is_selected"),
    [
        ("s3a://landing/topics/a/x.json", True),
        ("s3a://landing/topics/x.json", True),
        ("s3a://landing/topics/", False),
        ("s3a://landing/topics/a/", False),
        ("s3a://landing/topics2/x.json", False),
        ("s3a://landing2/topics/x.json", False),
        ("s3a://landing/topics/a/_SUCCESS", False),
        ("s3a://landing/topics/.tmp/x.json", False),
    ],
)
def test_folder(path: str, is_selected: bool) -> None:
    selection = ObjectSelection(ROOT, compile_folders("topics"))
    assert selection.selects(ObjectFile(path, 1, 1)) is is_selected


def test_bounds_of_the_modification_time() -> None:
    selection = ObjectSelection(ROOT, [[]], after=10, before=20)
    found = [time for time in range(30) if selection.selects(ObjectFile(f"{ROOT}/x", 1, time))]
    assert found == list(range(11, 20))


def test_paths_have_the_file_system_of_the_option() -> None:
    assert name_file("s3://landing", "landing", "a//b c.json") == "s3://landing/a/b c.json"


@pytest.mark.spark
@pytest.mark.parametrize("glob", ["", "topics", "topics/", "topics/*", "t*/{a,b/c}", "topics/?/*.json", "[!t]*"])
def test_same_files_as_a_listing_of_spark(spark: SparkSession, tmp_path: Path, glob: str) -> None:
    for file in FILES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        set_mtime(_write(tmp_path / file), 1_700_000_000 if file.endswith("b.json") else 1_800_000_000)
    for options in ({}, {"pathGlobFilter": "*.json"}, {"modifiedAfter": "2024-01-01T00:00:00"}):
        reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true").options(**options)
        found = [_to_local(uri) for uri in reader.load(f"{tmp_path}/{glob}").inputFiles()]
        selection = open_selection(spark, f"{ROOT}/{glob}", options)
        listed = [
            ObjectFile(f"{ROOT}/{_to_local(file.path).removeprefix(f'{tmp_path}/')}", file.size, file.time)
            for file in list_objects(spark, f"{tmp_path}/{glob}")
        ]
        selected = [file for file in listed if selection.selects(file)]
        expected = [f"{ROOT}/{_decode(spark, file).removeprefix(f'{tmp_path}/')}" for file in found]
        assert sorted(file.path for file in selected) == sorted(expected)
        assert {file.size for file in listed} == {3}


@pytest.mark.spark
def test_paths_in_the_log_are_those_of_java(spark: SparkSession) -> None:
    java: Any = spark._jvm.org.apache.hadoop.fs.Path  # type: ignore[union-attr]
    names = [chr(code) for code in [*range(32, 0x2100), 0x3000, 0x4E00, 0xFEFF, 0x1F600] if chr(code) not in "/:"]
    text = "".join(name for name in names if name != "\\")
    assert encode_path(f"{ROOT}/x{text}") == str(java(f"{ROOT}/x{text}").toUri().toString())


def _write(file: Path) -> Path:
    file.write_text("{}\n")
    return file


def _to_local(uri: str) -> str:
    return re.sub("^file:/+", "/", uri)


def _decode(spark: SparkSession, uri: str) -> str:
    return str(spark._jvm.java.net.URI(f"file:{uri}").getPath())  # type: ignore[union-attr]
