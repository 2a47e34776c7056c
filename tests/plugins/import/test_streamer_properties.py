"""Properties of Hudi Streamer as Hudi reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace import ConfigError
from headrace_import.hudi.streamer_properties import read_properties


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder / next(iter(files))


@pytest.mark.parametrize(
    ("files", "options"),
    [
        ({"a": "include=b/b\nx=1", "b/b": "include=c\ny=2", "b/c": "z=3"}, {"x": "1", "y": "2", "z": "3"}),
        ({"a": "include=b\ninclude=c\n", "b": "x=b\ny=b", "c": "y=c"}, {"x": "b", "y": "c"}),
        ({"a": "x=a\ninclude=b\ny=a", "b": "x=b\ny=b"}, {"x": "b", "y": "a"}),
        ({"a": "include = s3://x/b\ninclude=b", "b": "x=1\nx=2"}, {"x": "2"}),
        ({"a": "x=C:\\temp\\\ny = a=b \r\n# z=1\nz"}, {"x": "C:\\temp\\", "y": "a=b"}),
    ],
)
def test_lines_are_read_in_their_order(files: dict[str, str], options: dict[str, str], tmp_path: Path) -> None:
    found = read_properties(write(tmp_path, files))
    found.pop("include", None)
    assert found == options


@pytest.mark.parametrize("files", [{"a": "include=a"}, {"a": "include=b", "b": "include=c", "c": "include=a"}])
def test_a_file_that_includes_itself_is_an_error(files: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the file includes itself"):
        read_properties(write(tmp_path, files))


def test_a_job_has_the_options_of_all_files(importer: Any, tmp_path: Path) -> None:
    files = {
        "a.properties": "include=b.properties\ninclude=d.properties\nhoodie.streamer.source.kafka.topic=orders\n",
        "b.properties": "include=c.properties\nhoodie.b=1\n",
        "c.properties": "bootstrap.servers=broker:9092\nhoodie.c=C:\\temp",
        "d.properties": "hoodie.b=2\n",
    }
    pipeline = yaml.safe_load(importer.run(write(tmp_path, files)).pipeline)
    assert pipeline["source"]["kafka"]["bootstrap.servers"] == "broker:9092"
    assert pipeline["tables"][0]["sink"]["hudi"] == {"hoodie.b": "2", "hoodie.c": "C:\\temp"}
