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

#: Plugins that a kit test must reject, by test.
Broken = dict[str, list[type[Plugin]]]


#: Further tests that each plugin fails, because they depend on the same requirement.
OTHER_FAILED_TESTS: dict[type[Plugin], set[str]] = {}


def fails(broken: Broken, test: str, *also: str) -> Any:
    """Register a plugin with the kit test that must reject it, and further tests that it fails."""

    def register(plugin: type[Plugin]) -> type[Plugin]:
        broken.setdefault(test, []).append(plugin)
        OTHER_FAILED_TESTS[plugin] = set(also)
        return plugin

    return register


def list_broken(broken: Broken) -> list[Any]:
    """Return pairs of test and plugin as parameters."""
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
    """Return the failed tests of each plugin, including the correct plugin of the kit.

    The kits of one kind skip the tests of every plugin, because those start a process for each plugin.
    """
    common_tests = list_tests(PluginConformance) if kit.__bases__ == (PluginConformance,) else set()
    disabled = dict.fromkeys(list_tests(PluginConformance) - common_tests)
    KITS.clear()
    KITS["Kit" + kit.plugin_class.__name__] = kit
    for plugin in (plugin for plugins in broken.values() for plugin in plugins):
        name = f"Kit{plugin.__name__}"
        KITS[name] = type(name, (kit,), {"plugin_class": plugin, **disabled})
    # Python caches imported modules, so each run has a different module name.
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
    with pytest.MonkeyPatch.context() as patch:
        # The options of the outer run belong to plugins that are off here.
        patch.delenv("PYTEST_ADDOPTS", raising=False)
        code = pytest.main([*options, *(f"-pno:{name}" for name in _OFF), str(module)], plugins=[outcomes])
    assert code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    return {name.removeprefix("Kit"): tests for name, tests in outcomes.failed.items()}
