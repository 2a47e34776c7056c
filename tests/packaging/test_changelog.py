"""CHANGELOG.md and the fragments in changelog.d/, which towncrier joins into it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.dist import ROOT

import headrace

MARKER = "<!-- towncrier release notes start -->\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create a folder with the files that towncrier reads, and a fragment."""
    for name in ("CHANGELOG.md", "towncrier.toml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "changelog.d", tmp_path / "changelog.d")
    package = tmp_path / "core/headrace"
    package.mkdir(parents=True)
    shutil.copy(ROOT / "core/headrace/__init__.py", package)
    # towncrier removes fragments with Git.
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    (tmp_path / "changelog.d/+of-a-test.added.md").write_text("A fragment of a test.\n", encoding="utf-8")
    return tmp_path


def build(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "towncrier", "build", "--date", "2100-01-31", *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def test_draft_contains_fragments_and_version(project: Path) -> None:
    done = build(project, "--draft")
    assert done.returncode == 0, done.stderr
    assert f"## [{headrace.__version__}] - 2100-01-31\n" in done.stdout
    assert "### Added\n" in done.stdout
    assert "- A fragment of a test.\n" in done.stdout


def test_release_section_is_first(project: Path) -> None:
    before = (project / "CHANGELOG.md").read_text(encoding="utf-8")
    done = build(project, "--version", "9.9.9", "--yes")
    assert done.returncode == 0, done.stderr
    head, _, sections = (project / "CHANGELOG.md").read_text(encoding="utf-8").partition(MARKER)
    assert head == before.partition(MARKER)[0]
    assert sections.lstrip().startswith("## [9.9.9] - 2100-01-31\n\n### ")
    assert sections.endswith(before.partition(MARKER)[2].lstrip())
    assert [path.name for path in (project / "changelog.d").iterdir()] == ["README.md"]


def test_fragment_of_unknown_type_is_an_error(project: Path) -> None:
    (project / "changelog.d/+of-a-test.improved.md").write_text("A fragment of a test.\n", encoding="utf-8")
    assert build(project, "--draft").returncode != 0
