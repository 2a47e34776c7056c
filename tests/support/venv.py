"""Virtual environment with headrace installed from its wheel."""

from __future__ import annotations

import json
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.dist import run
from tests.support.spark_conf import interpret_plans


class Venv:
    """Virtual environment with headrace and a plugin from their wheels; other packages come from the current environment.

    Its own packages come first on the path, so the headrace of the current environment is not visible. tox tests that the
    requirements of a wheel are complete.
    """

    def __init__(self, folder: Path, *requirements: str) -> None:
        run([sys.executable, "-m", "venv", folder], folder.parent)
        self.bin = folder / "bin"
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "of_the_tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
        # The packages of the current environment are visible to pip: it would skip headrace, and requirements are satisfied.
        pip: list[str | Path] = [
            self.bin / "pip",
            "install",
            "--quiet",
            "--no-compile",
            "--no-deps",
            "--force-reinstall",
        ]
        run([*pip, *requirements], folder, seconds=900)

    def headrace(self, *arguments: str, cwd: Path, ok: int = 0, path: str = "") -> str:
        """Run a command; return its output, or its errors if it fails."""
        result = run([self.bin / "headrace", *arguments], cwd, ok=ok, environment={"PYTHONPATH": path})
        return result.stderr if ok else result.stdout

    def install(self, *projects: Path, site: Path) -> None:
        """Install projects in a folder, which tests add to ``PYTHONPATH``."""
        pip: list[str | Path] = [self.bin / "pip", "install", "--quiet", "--no-deps"]
        # All builds share one setuptools. A build environment for each project would take longer than the tests.
        tools = site.parent / "tools"
        run([*pip, "--target", tools, "setuptools>=77"], site.parent)
        run(
            [*pip, "--no-build-isolation", "--target", site, *projects],
            site.parent,
            environment={"PYTHONPATH": str(tools)},
        )

    def run_pytest(self, jobs: Sequence[tuple[Path, Sequence[str]]], path: str) -> list[tuple[int, str]]:
        """Run pytest in one process; return exit code and output for each project folder and its arguments."""
        encoded_jobs = json.dumps([[str(folder), list(arguments)] for folder, arguments in jobs])
        # -P: the folder of the script has modules with the names of standard modules.
        command: list[str | Path] = [
            self.bin / "python",
            "-P",
            Path(__file__).with_name("pytest_runs.py"),
            encoded_jobs,
        ]
        environment = {"PYTHONPATH": path, **interpret_plans(self.bin.with_name("conf"))}
        result = run(command, jobs[0][0], seconds=900, environment=environment)
        found: list[Any] = json.loads(result.stdout.splitlines()[-1])
        return [(code, printed) for code, printed in found]
