"""Runner of pytest in several projects in one process, because a JVM and a server start slower than most tests run.

The jobs are a JSON list of folders with pytest arguments. The last line of the output is a JSON list of exit codes with outputs.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.registry.plugin_registry import registry
from headrace.runtime.session.session_builder import build_session
from headrace.sdk.plugin import Plugin
from headrace_stack import Postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OPTIONS = ("--import-mode=importlib", "-pno:cacheprovider", "-pno:xdist", "--color=no")


#: Objects that all projects share, by name of the fixture, and their cleanup.
_SHARED: dict[str, Any] = {}
_CLEANUP = ExitStack()


@pytest.fixture(scope="session")
def headrace_spark(headrace_plugins: Sequence[Plugin], headrace_conf: Mapping[str, str]) -> SparkSession:
    """Return the shared session; override the fixture of ``headrace.testing.spark``."""
    if "spark" not in _SHARED:
        _SHARED["spark"] = build_session(list(headrace_plugins), headrace_conf)
        _CLEANUP.callback(_SHARED["spark"].stop)
    session: SparkSession = _SHARED["spark"]
    return session


@pytest.fixture(scope="session")
def postgres() -> Postgres:
    """Return the shared server; override the fixture of ``headrace_stack.fixtures``."""
    if "postgres" not in _SHARED:
        _SHARED["postgres"] = _CLEANUP.enter_context(Postgres())
    server: Postgres = _SHARED["postgres"]
    return server


class _FixtureOverrides:
    """Pytest plugin that registers the fixtures of this module last, so they override others of the same name."""

    def pytest_configure(self, config: pytest.Config) -> None:
        config.pluginmanager.register(sys.modules[__name__])


def run_pytest(folder: Path, arguments: Sequence[str]) -> tuple[int, str]:
    """Run pytest in the folder of a project, with freshly imported modules; return exit code and output."""
    printed = io.StringIO()
    with _enter(folder), redirect_stdout(printed):
        code = pytest.main([*_OPTIONS, *arguments], plugins=[_FixtureOverrides()])
    return int(code), printed.getvalue()


@contextmanager
def _enter(folder: Path) -> Iterator[None]:
    """Change to a folder as if in a new process."""
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    registry.cache_clear()
    before = set(sys.modules)
    yield
    sys.path.remove(str(folder))
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(f"{folder}/"):
            del sys.modules[name]


if __name__ == "__main__":
    with _CLEANUP:
        results = [run_pytest(Path(folder), arguments) for folder, arguments in json.loads(sys.argv[1])]
    sys.stdout.write("\n" + json.dumps(results))
