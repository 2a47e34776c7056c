"""A pytest plugin, loaded by ``-p headrace.testing.report``: what each plugin was asked by its kit, and how it did.

With ``--headrace-badge FILE`` also as JSON for a badge, in the words of shields.io's endpoint.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.plugins import PluginConformance

_PROPERTY = "headrace"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option for the badge."""
    parser.addoption("--headrace-badge", metavar="FILE", help="write what the kits found to FILE, as JSON for a badge")


def pytest_configure(config: pytest.Config) -> None:
    """Begins a report."""
    config.pluginmanager.register(_Report(config.getoption("--headrace-badge")), "headrace-report")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Says in each test's report, which may come from another process, what was asked of whom."""
    for item in items:
        kit = getattr(item, "cls", None)
        if kit is not None and issubclass(kit, PluginConformance):
            test = getattr(kit, getattr(item, "originalname", item.name))
            item.user_properties.append(
                (_PROPERTY, [_describe(kit), list(_list_promises(kit, test)), _list_unclaimed(kit)])
            )


class _Report:
    def __init__(self, badge: str | None) -> None:
        self._badge = badge
        #: Plugin → promise → outcomes.
        self._found: defaultdict[str, defaultdict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
        self._unclaimed: dict[str, list[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        asked: Any  # any JSON
        for name, asked in report.user_properties:
            if name == _PROPERTY:
                plugin, promises, unclaimed = asked
                self._unclaimed[plugin] = unclaimed
                for promise in promises:
                    self._found[plugin][promise][report.outcome] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._found:
            terminalreporter.write_sep("=", "kits")
        for plugin, promises in self._found.items():
            terminalreporter.write_line(plugin)
            for promise, outcomes in promises.items():
                told = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items()))
                terminalreporter.write_line(f"    {promise:<18} {told}")
            for promise in self._unclaimed[plugin]:
                terminalreporter.write_line(f"    {promise:<18} not claimed")
        if self._badge and self._found:
            Path(self._badge).write_text(json.dumps(self._make_badge()), encoding="utf-8")

    def _make_badge(self) -> dict[str, Any]:
        bad = {plugin for plugin, promises in self._found.items() if any(one["failed"] for one in promises.values())}
        kept = [promise for promises in self._found.values() for promise, one in promises.items() if not one["failed"]]
        message = f"{len(bad)} of {len(self._found)} fail" if bad else ", ".join(dict.fromkeys(kept))
        return {"schemaVersion": 1, "label": "headrace", "message": message, "color": "red" if bad else "brightgreen"}


def _describe(kit: type[PluginConformance]) -> str:
    return f"{kit.find_kind()} {kit.plugin_class.name}"


def _list_promises(kit: type[PluginConformance], test: Any) -> Iterator[str]:
    """The capabilities that a test is about; else of whom all it asks it."""
    asked = "plugin" if test.__name__ in vars(PluginConformance) else kit.find_kind()
    yield from getattr(test, "capabilities", ()) or [f"every {asked}"]


def _list_unclaimed(kit: type[PluginConformance]) -> list[str]:
    claimed = getattr(kit.plugin_class, "capabilities", None)
    return [] if claimed is None else [one.name for one in fields(claimed) if not getattr(claimed, one.name)]
