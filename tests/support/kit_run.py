"""Runner of a kit on many plugins in one nested pytest; it returns the failed tests of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.sdk.plugin import Plugin
from headrace.testing.plugins import PluginConformance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Test → the plugins that it has to fail.
Broken = dict[str, list[type[Plugin]]]


#: Plugin → the tests that it fails beside the one that is meant for it: those that ask for the same and more.
ALSO: dict[type[Plugin], set[str]] = {}


def fails(broken: Broken, test: str, *also: str) -> Any:
    """Say which test of the kit notices, and which others cannot pass then."""

    def note(plugin: type[Plugin]) -> type[Plugin]:
        broken.setdefault(test, []).append(plugin)
        ALSO[plugin] = set(also)
        return plugin

    return note


def list_broken(broken: Broken) -> list[Any]:
    """Test and plugin, as parameters."""
    return [pytest.param(test, one, id=one.__name__) for test, plugins in broken.items() for one in plugins]


def list_tests(kit: type) -> set[str]:
    """Return the tests that a kit adds to those of every plugin; for the kit of every plugin, all of its tests."""
    own = set(dir(kit)) - (set() if kit is PluginConformance else set(dir(PluginConformance)))
    return {name for name in own if name.startswith("test_")}


class _Outcomes:
    """Pytest plugin that records failures and provides the current session."""

    def __init__(self, spark: SparkSession | None) -> None:
        self._spark = spark
        self.failed: defaultdict[str, set[str]] = defaultdict(set)

    @pytest.fixture(scope="session")
    def headrace_spark(self) -> SparkSession | None:
        return self._spark

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        _, kit, test = report.nodeid.split("::")
        if not report.passed:
            self.failed[kit].add(test.partition("[")[0])
        else:
            self.failed[kit] |= set()


#: The kits of a run, for the module that pytest collects.
KITS: dict[str, type[PluginConformance]] = {}
_MODULE = "from tests.support.kit_run import KITS\n\nglobals().update(KITS)\n"
_OFF = ("cacheprovider", "xdist", "timeout", "faulthandler", "terminal", "pytest_cov", "hypothesispytest")


def find_failures(
    kit: type[PluginConformance], broken: Broken, folder: Path, spark: SparkSession | None = None
) -> Mapping[str, set[str]]:
    """Plugin → the tests of the kit that it fails, the kit's own, which is right, among them.

    Who breaks a promise of one kind is not asked for those of every plugin, which would take a process for each.
    """
    asked = list_tests(PluginConformance) if kit.__bases__ == (PluginConformance,) else set()
    unasked = dict.fromkeys(list_tests(PluginConformance) - asked)
    KITS.clear()
    KITS["Kit" + kit.plugin_class.__name__] = kit
    for plugin in (plugin for plugins in broken.values() for plugin in plugins):
        name = f"Kit{plugin.__name__}"
        KITS[name] = type(name, (kit,), {"plugin_class": plugin, **unasked})
    # Python keeps imported modules, so each run has a module name of its own.
    module = folder / f"run_of_{kit.__name__}_{folder.name}.py"
    module.write_text(_MODULE)
    (folder / "pytest.ini").write_text("[pytest]\npython_classes = Kit*\n")
    outcomes = _Outcomes(spark)
    options = [
        f"-c{folder / 'pytest.ini'}",
        "--noconftest",
        "--import-mode=importlib",
        "--capture=no",
        f"--basetemp={folder / 'tmp'}",
    ]
    code = pytest.main([*options, *(f"-pno:{name}" for name in _OFF), str(module)], plugins=[outcomes])
    assert code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    return {name.removeprefix("Kit"): tests for name, tests in outcomes.failed.items()}
