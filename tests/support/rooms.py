"""Which tests share a process of the run, and how long each room of tests took."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

_ROOT = Path(__file__).parents[2]
#: Where the seconds of each room are written, beside the table on the screen.
TIMES = "HEADRACE_TEST_TIMES"
#: What a file's text has → those files share a process: each process starts servers, or a JVM, of its own.
_SHARED = {"headrace_stack.fixtures": "servers", "pytest.mark.steps": "steps"}


class ByRoom(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """The tests of a file run in one process, and so do those of files that share what takes long to start."""

    def _split_scope(self, nodeid: str) -> str:
        return process_of(super()._split_scope(nodeid))


@cache
def process_of(file: str) -> str:
    """The group that a test file belongs to: its own name, or what it shares with others."""
    if file.startswith("tests/packaging/"):
        return "packaging"
    text = (_ROOT / file).read_text(encoding="utf-8")
    return next((group for what, group in _SHARED.items() if what in text), file)


def room_of(nodeid: str) -> str:
    """``core/engine`` of ``tests/core/engine/test_query.py::test_it``, ``docs`` of ``tests/docs/test_docs.py::test_it``."""
    return "/".join(Path(nodeid.partition("::")[0]).parts[1:-1][:2])


class Times:
    """A pytest plugin of the process that reports: adds up what the tests of each room took."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.tests: defaultdict[str, int] = defaultdict(int)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        room = room_of(report.nodeid)
        self.seconds[room] += report.duration
        self.tests[room] += report.when == "call"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_sep("=", "seconds of each room, of all processes together")
        for room, seconds in sorted(self.seconds.items(), key=lambda item: -item[1]):
            terminalreporter.write_line(f"{seconds:8.0f} s  {self.tests[room]:5} tests  {room}")
        if file := os.environ.get(TIMES):
            rooms = {room: [self.seconds[room], self.tests[room]] for room in self.seconds}
            Path(file).write_text(json.dumps(rooms), encoding="utf-8")
