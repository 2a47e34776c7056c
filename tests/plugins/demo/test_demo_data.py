"""Location of the demo data."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.main import cli
from headrace_demo import data, extras


def test_clone_contains_the_data() -> None:
    assert (data.find_data("museum") / "manifest.json").is_file()
    assert (data.find_data("pagila") / "pagila.sql.xz").is_file()


def test_installed_distribution_contains_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "_CLONE", tmp_path / "missing")
    init = tmp_path / "headrace_demo_data/__init__.py"
    spec = importlib.util.spec_from_file_location("headrace_demo_data", init)
    monkeypatch.setattr(data, "find_spec", lambda name: spec)
    assert data.find_data("museum") == tmp_path / "headrace_demo_data/museum"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (
            "demo",
            "the extras are not installed: demo, spark\nwhere: headrace demo\n  fix: pip install 'headrace[demo,spark]'",
        ),
        ("live", "the extras are not installed: demo, spark, stack\nwhere: headrace live\n"),
    ],
)
def test_one_error_names_all_missing_extras(
    command: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_nothing(name: str) -> ModuleSpec | None:
        return None

    monkeypatch.setattr(data, "_CLONE", tmp_path / "missing")
    monkeypatch.setattr(data, "find_spec", find_nothing)
    monkeypatch.setattr(extras, "find_spec", find_nothing)
    folder = tmp_path / "demo"
    result = CliRunner().invoke(cli, [command, "--folder", str(folder)], prog_name="headrace")
    assert (result.exit_code, text in result.stderr) == (2, True), result.stderr
    assert not folder.exists()
