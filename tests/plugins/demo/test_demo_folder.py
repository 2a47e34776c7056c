"""Folder of a demo: it is emptied at the start, and belongs to one process at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import ConfigError
from headrace_demo import folder as demo_folder
from headrace_demo.folder import DemoFolder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DemoFolder]:
    monkeypatch.chdir(tmp_path)  # enter() changes the working directory
    yield DemoFolder(tmp_path / "demo", ".headrace-demo")
    while demo_folder._locks:
        demo_folder._locks.pop().close()


def test_second_run_empties_the_folder(home: DemoFolder) -> None:
    home.enter()
    (home.path / "lake").mkdir()
    (home.path / "lake/rows").touch()
    (home.path / "pipeline.yaml").touch()
    demo_folder._locks.pop().close()
    home.check()
    home.enter()
    assert [path.name for path in home.path.iterdir()] == [".headrace-demo"]


def test_folder_of_a_running_demo_is_not_changed(home: DemoFolder) -> None:
    home.enter()
    (home.path / "pipeline.yaml").touch()
    with pytest.raises(ConfigError, match="is in use by another demo"):
        home.enter()
    assert (home.path / "pipeline.yaml").exists()
