"""What a release would ship, built and installed as a user gets it."""

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
#: What of the repository a build may see.
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
    """A command's result; it must end with the code ``ok`` and in time. Nothing that it started outlives it."""
    # Nothing of this interpreter's may reach another one.
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
    """headrace's sdist, the wheel that is built from it, and the wheel of the test servers."""

    sdist: Path
    wheel: Path
    stack: Path


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
    run([sys.executable, "-m", "build", "--wheel", "--outdir", folder / "stack", source / "plugins/stack"], folder)
    (stack,) = (folder / "stack").glob("*.whl")
    return Built(sdist, wheel, stack)


def wheel_of(project: Path, folder: Path) -> Path:
    """A third party's wheel."""
    copy = shutil.copytree(project, folder / project.name, ignore=shutil.ignore_patterns("__pycache__"))
    run([sys.executable, "-m", "build", "--wheel", "--outdir", folder / "dist", copy], folder)
    (wheel,) = (folder / "dist").glob(f"{project.name}-*.whl")
    return wheel
