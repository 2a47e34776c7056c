"""Distribution of tests to processes, order of groups, and times of each folder of tests."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest
from xdist.scheduler import LoadGroupScheduling

#: Environment variable that names a file for the seconds of each folder, in addition to the printed table.
TIMES = "HEADRACE_TEST_TIMES"
#: Group of the tests that use a fixture. A group runs in one process, so each of its servers starts once.
GROUPS = {
    "venv": "packaging",
    "distributions": "packaging",
    "connect": "databases",
    "postgres": "databases",
    "mariadb": "databases",
    "mysql": "databases",
    "sqlserver": "databases",
    "kinesis": "kinesis",
    "s3": "s3",
    "kafka": "kafka",
}
#: Estimated seconds of a test by marker; the highest value counts. Exact figures would not order groups better.
SECONDS = {"slow": 20, "dist": 3, "spark": 1}


class FileAndGroupScheduling(LoadGroupScheduling):  # type: ignore[misc]  # xdist has no types
    """Scheduler that runs the tests of a group in one process, and those of a file that have no group."""

    def _split_scope(self, nodeid: str) -> str:
        scope = str(super()._split_scope(nodeid))
        return scope.partition("::")[0]


def add_groups(items: Iterable[pytest.Item]) -> None:
    """Mark every test that shares servers, a built distribution or the JVM of the steps with its ``xdist_group``."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None and (group := find_group(item)):
            item.add_marker(pytest.mark.xdist_group(group))


def find_group(item: pytest.Item) -> str | None:
    """Return the group of a test by its fixtures, or by its marker ``steps``; None when its file is its group."""
    if item.get_closest_marker("steps"):
        return "steps"
    fixtures = set(getattr(item, "fixturenames", ()))
    return next((group for fixture, group in GROUPS.items() if fixture in fixtures), None)


def sort_longest_first(items: list[pytest.Item]) -> None:
    """Sort groups by their estimated seconds, longest first: a long group that starts late runs alone at the end."""
    seconds: Counter[str] = Counter()
    for item in items:
        seconds[_name_group(item)] += max(
            (SECONDS[mark.name] for mark in item.iter_markers() if mark.name in SECONDS), default=0
        )
    items.sort(key=lambda item: -seconds[_name_group(item)])


def _name_group(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark else str(item.path)


def folder_of(nodeid: str) -> str:
    """Return the folder of a test: ``core/engine`` for ``tests/core/engine/test_query.py::test_stop``."""
    return "/".join(Path(nodeid.partition("::")[0]).parts[1:-1][:2])


class Times:
    """Pytest plugin of the reporting process that adds up the seconds of each folder of tests."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.tests: defaultdict[str, int] = defaultdict(int)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder = folder_of(report.nodeid)
        self.seconds[folder] += report.duration
        self.tests[folder] += report.when == "call"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.seconds:
            return
        terminalreporter.write_sep("=", "seconds of each folder, sum of all processes")
        for folder, seconds in sorted(self.seconds.items(), key=lambda item: -item[1]):
            terminalreporter.write_line(f"{seconds:8.0f} s  {self.tests[folder]:5} tests  {folder}")
        if file := os.environ.get(TIMES):
            folders = {folder: [self.seconds[folder], self.tests[folder]] for folder in self.seconds}
            Path(file).write_text(json.dumps(folders), encoding="utf-8")
