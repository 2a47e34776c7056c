"""Pytest plugin that reports the results of the kits per plugin, loaded with ``-p headrace.testing.report``.

``--headrace-badge FILE`` also writes them as JSON for a badge, in the format of shields.io's endpoint.
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
    """Add the option for the badge."""
    parser.addoption(
        "--headrace-badge", metavar="FILE", help="write the results of the kits to FILE, as JSON for a badge"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Start a report."""
    config.pluginmanager.register(_Report(config.getoption("--headrace-badge")), "headrace-report")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Attach plugin and capabilities to each test, so that its report also has them if it comes from another process."""
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
        value: Any  # any JSON
        for name, value in report.user_properties:
            if name == _PROPERTY:
                plugin, promises, unclaimed = value
                self._unclaimed[plugin] = unclaimed
                for promise in promises:
                    self._found[plugin][promise][report.outcome] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._found:
            terminalreporter.write_sep("=", "kits")
        for plugin, promises in self._found.items():
            terminalreporter.write_line(plugin)
            for promise, outcomes in promises.items():
                summary = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items()))
                terminalreporter.write_line(f"    {promise:<18} {summary}")
            for promise in self._unclaimed[plugin]:
                terminalreporter.write_line(f"    {promise:<18} not claimed")
        if self._badge and self._found:
            Path(self._badge).write_text(json.dumps(self._make_badge()), encoding="utf-8")

    def _make_badge(self) -> dict[str, Any]:
        failing = {
            plugin
            for plugin, promises in self._found.items()
            if any(outcomes["failed"] for outcomes in promises.values())
        }
        kept = [
            promise
            for promises in self._found.values()
            for promise, outcomes in promises.items()
            if not outcomes["failed"]
        ]
        message = f"{len(failing)} of {len(self._found)} fail" if failing else ", ".join(dict.fromkeys(kept))
        return {
            "schemaVersion": 1,
            "label": "headrace",
            "message": message,
            "color": "red" if failing else "brightgreen",
        }


def _describe(kit: type[PluginConformance]) -> str:
    return f"{kit.find_kind()} {kit.plugin_class.name}"


def _list_promises(kit: type[PluginConformance], test: Any) -> Iterator[str]:
    """Yield the capabilities that a test covers; otherwise the kind of plugin to which it applies."""
    kind = "plugin" if test.__name__ in vars(PluginConformance) else kit.find_kind()
    yield from getattr(test, "capabilities", ()) or [f"every {kind}"]


def _list_unclaimed(kit: type[PluginConformance]) -> list[str]:
    claimed = getattr(kit.plugin_class, "capabilities", None)
    return [] if claimed is None else [field.name for field in fields(claimed) if not getattr(claimed, field.name)]
