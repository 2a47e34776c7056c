"""Location of the demo data."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.main import cli
from headrace_demo import data


def test_clone_contains_the_data() -> None:
    assert (data.find_data("museum", "headrace demo") / "manifest.json").is_file()
    assert (data.find_data("pagila", "headrace live") / "pagila.sql.xz").is_file()


def test_installed_distribution_contains_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "_CLONE", tmp_path / "missing")
    init = tmp_path / "headrace_demo_data/__init__.py"
    spec = importlib.util.spec_from_file_location("headrace_demo_data", init)
    monkeypatch.setattr(data, "find_spec", lambda name: spec)
    assert data.find_data("museum", "headrace demo") == tmp_path / "headrace_demo_data/museum"


@pytest.mark.parametrize("command", ["demo", "live"])
def test_without_the_data_the_command_names_the_extra(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_nothing(name: str) -> ModuleSpec | None:
        return None

    monkeypatch.setattr(data, "_CLONE", tmp_path / "missing")
    monkeypatch.setattr(data, "find_spec", find_nothing)
    folder = tmp_path / "demo"
    result = CliRunner().invoke(cli, [command, "--folder", str(folder)], prog_name="headrace")
    assert result.exit_code == 2
    assert (
        f"the demo data is not installed\nwhere: headrace {command}\n  fix: pip install 'headrace[demo]'"
        in result.stderr
    )
    assert not folder.exists()
