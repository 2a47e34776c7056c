"""Checks of ``headrace live`` before it downloads or starts anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.core.conftest import Headrace

WITHOUT = "import sys; sys.modules['pg8000'] = None; sys.argv = ['headrace', 'live']; from headrace.cli.main import main; main()"


def test_missing_database_client_is_reported_with_the_extra(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pg8000 is not installed" in done.stderr
    assert "pip install 'headrace[stack]'" in done.stderr
    assert not list(tmp_path.iterdir())


def test_folder_with_other_files_is_not_changed(tmp_path: Path, headrace: Headrace) -> None:
    (tmp_path / "letter.txt").touch()
    result = headrace("live", "--folder", str(tmp_path))
    assert result.exit_code == 2
    assert "is not empty" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
