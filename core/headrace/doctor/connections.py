"""Checks of a pipeline's plugins: their options, their connections, and findings of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from headrace.config.capabilities import CONNECT
from headrace.doctor import finding_kinds as kinds
from headrace.doctor.examination import Check, Passed, Result, Skipped
from headrace.engine.write.table_plan import check_capabilities
from headrace.errors import HeadraceError, PluginError
from headrace.findings import Checkup, Finding
from headrace.http_client import time_listener
from headrace.registry.hook_results import check_strings
from headrace.registry.validation import BASES, load_base
from headrace.sdk.error_text import causes

if TYPE_CHECKING:
    from headrace.engine.plan.pipeline_plan import Plan
    from headrace.sdk.plugin import Plugin


def list_option_checks(plan: Plan) -> Iterator[Check]:
    """Yield the checks of options that need no connection."""
    yield Check("capabilities", partial(_check_capabilities, plan), kinds.PIPELINE_IMPOSSIBLE)
    for plugin in plan.all_plugins:
        yield Check(describe(plugin), partial(_check_options, plugin), kinds.OPTION_REJECTED)


def list_connection_checks(plan: Plan, checkup: Checkup) -> Iterator[Check]:
    """Yield the checks of the plugins' own findings and, without a session, of the connections that need none."""
    skipped: dict[str, None] = {}
    for plugin in plan.plugins:
        if checkup.spark is None and not plugin.connect_needs_spark:
            yield Check(f"connection of {describe(plugin)}", partial(_connect, plugin, checkup))
        elif checkup.spark is None and CONNECT.has(type(plugin)):
            skipped[describe(plugin)] = None
        yield Check(describe(plugin), partial(_diagnose, plugin, checkup))
    if skipped:
        why = "only --spark tests logins, topics and tables"
        yield Check("connections", lambda: [Skipped(f"connections of {', '.join(skipped)}", why)])


def describe(plugin: Plugin) -> str:
    """Return a plugin for users: ``source files``."""
    kind = next((kind for kind, path in BASES.items() if isinstance(plugin, load_base(path))), "plugin")
    return f"{kind} {plugin.name}"


def _check_capabilities(plan: Plan) -> Iterator[Result]:
    check_capabilities(plan)
    yield Passed("capabilities", "the sinks can do what the pipeline requires")


def _check_options(plugin: Plugin) -> Iterator[Result]:
    where = describe(plugin)
    for text in check_strings(plugin, "warnings", plugin.warnings()):
        fix = f"change the option if it is not intended: `headrace plugins {plugin.name}` lists all"
        yield Finding(kinds.OPTION_UNWISE, text, where, fix)
    for text in check_strings(plugin, "notes", plugin.notes()):
        yield Finding(kinds.OPTION_NOTE, text, where)
    with _explained(plugin):
        plugin.check()
    yield Passed(where, "its options are valid")


def _connect(plugin: Plugin, checkup: Checkup) -> Iterator[Result]:
    time_listener.set(checkup.note_time)
    with _explained(plugin):
        for what, found in plugin.connect(None):  # type: ignore[arg-type]  # it needs none
            yield Passed(what, found)


def _diagnose(plugin: Plugin, checkup: Checkup) -> Iterator[Result]:
    time_listener.set(checkup.note_time)
    where = describe(plugin)
    with _explained(plugin):
        yield from check_findings(plugin.diagnose(checkup), where)
    yield Passed(where, "no findings of its own")


def check_findings(results: object, where: str) -> Iterator[Finding]:
    """Yield the findings that a hook of a plugin returned. PluginError for other objects."""
    for result in results if isinstance(results, Iterator | list | tuple) else [results]:
        if not isinstance(result, Finding):
            what = f"diagnose returns {type(result).__name__} instead of findings"
            raise PluginError(what, where=where, fix="report it to its author")
        yield result


@contextmanager
def _explained(plugin: Plugin) -> Iterator[None]:
    """Replace errors of libraries by the plugin's explanation, if it has one."""
    try:
        yield
    except Exception as error:
        known = next((link for link in causes(error) if isinstance(link, HeadraceError)), None) or plugin.explain(error)
        if known is None:
            raise
        raise known from error
