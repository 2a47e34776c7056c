"""Use of the kit by a sink's author: a test module and a conftest in a separate pytest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.nightly, pytest.mark.spark, pytest.mark.slow, pytest.mark.one_spark]

CONFTEST = """
import pytest
from acme import MemorySink

pytest_plugins = ["headrace.testing.spark"]

@pytest.fixture(scope="session")
def headrace_plugins():
    return [MemorySink(store="any")]
"""

TESTS = """
from acme import MemorySink
from headrace.testing.sinks import SinkConformance

class Forgetful(MemorySink):
    def wins(self, row, stored):
        return True

class TestAcme(SinkConformance):
    plugin_class = Forgetful

    def config(self, folder):
        return {"store": str(folder)}
"""


def test_author_sees_passed_and_failed_capabilities(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        acme=(Path(__file__).parents[2] / "support/memory_sink.py").read_text(encoding="utf-8"), test_acme=TESTS
    )
    options = ("-p", "headrace.testing.report", "--headrace-badge=badge.json", "-p", "no:cacheprovider")
    result = pytester.runpytest_subprocess("-k", "late_row or first_write or registered", *options)
    result.assert_outcomes(passed=2, failed=1, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines(["*test_late_row_is_ignored*", "E  *'name': 'late'*"])
    result.stdout.fnmatch_lines(
        [
            "*= kits =*",
            "sink memory",
            "    every plugin * 1 passed",
            "    every sink * 1 passed",
            "    upsert * 1 failed",
        ]
    )
    assert json.loads((pytester.path / "badge.json").read_text()) == {
        "schemaVersion": 1,
        "label": "headrace",
        "message": "1 of 1 fail",
        "color": "red",
    }
