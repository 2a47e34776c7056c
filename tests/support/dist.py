"""Distributions of a release: built from a clean copy of the repository."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
#: Files and folders of the repository that a build reads.
SOURCES = (
    "pyproject.toml",
    "setup.cfg",
    "LICENSE",
    "README.md",
    "core",
    "plugins",
)


def run(
    command: Sequence[str | Path],
    cwd: Path,
    *,
    seconds: float = 300,
    ok: int = 0,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command, check its exit code and its time limit, and kill its process group."""
    # Variables of this interpreter's environment must not affect another interpreter.
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV", "SPARK_HOME")}
    with subprocess.Popen(
        list(map(str, command)),
        cwd=cwd,
        env={**kept, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == ok, f"{command}: {process.returncode}\n{out}\n{err}"
    return subprocess.CompletedProcess(command, ok, out, err)


class Built(NamedTuple):
    """headrace's sdist, the wheel built from it, and the wheels of the test servers and of the demo data."""

    sdist: Path
    wheel: Path
    stack: Path
    demo_data: Path


def distributions(folder: Path) -> Built:
    """Build the distributions of this repository from a clean copy."""
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        elif (ROOT / name).is_file():
            shutil.copy(ROOT / name, source)
    run([sys.executable, "-m", "build", "--outdir", folder / "dist", source], folder)
    (sdist,), (wheel,) = (folder / "dist").glob("*.tar.gz"), (folder / "dist").glob("*.whl")
    others = [_build_wheel(source / "plugins" / name, folder / name) for name in ("stack", "demo-data")]
    return Built(sdist, wheel, *others)


def build_project_wheel(project: Path, folder: Path) -> Path:
    """Build the wheel of a third-party project."""
    copy = shutil.copytree(project, folder / project.name, ignore=shutil.ignore_patterns("__pycache__"))
    return _build_wheel(copy, folder / f"{project.name}-dist")


def _build_wheel(project: Path, folder: Path) -> Path:
    run([sys.executable, "-m", "build", "--wheel", "--outdir", folder, project], project.parent)
    (wheel,) = folder.glob("*.whl")
    return wheel
