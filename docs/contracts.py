"""Generator of docs/contracts/: the classes of each kind of plugin and the tests of its kit."""  # noqa: INP001 - script

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from headrace.sdk.auth import AuthProvider
from headrace.sdk.catalog import Catalog
from headrace.sdk.connector import Connector
from headrace.sdk.dialect import Dialect
from headrace.sdk.file_system import FileSystem
from headrace.sdk.format import Format, RecordReader
from headrace.sdk.observer import ObservedRun, Observer, RunEvent, RunEventKind
from headrace.sdk.plugin import Plugin
from headrace.sdk.sink import Sink
from headrace.sdk.source import NativeSource, RangedSource, Source
from headrace.sdk.transform import Transform
from headrace.testing.connectors import ConnectorConformance
from headrace.testing.dialects import DialectConformance
from headrace.testing.formats import FormatConformance
from headrace.testing.observers import ObserverConformance
from headrace.testing.plugins import PluginConformance
from headrace.testing.sinks import SinkConformance
from headrace.testing.sources import SourceConformance
from headrace.testing.transforms import TransformConformance

#: Page → its title, its classes and its kit.
CONTRACTS: dict[str, tuple[str, tuple[type, ...], type[PluginConformance]]] = {
    "plugin": ("Plugin contract", (Plugin,), PluginConformance),
    "source": ("Source contract", (Source, NativeSource, RangedSource), SourceConformance),
    "format": ("Format contract", (Format, RecordReader), FormatConformance),
    "connector": ("Connector contract", (Connector,), ConnectorConformance),
    "dialect": ("Dialect contract", (Dialect,), DialectConformance),
    "transform": ("Transform contract", (Transform,), TransformConformance),
    "sink": ("Sink contract", (Sink,), SinkConformance),
    "auth": ("Auth provider contract", (AuthProvider,), PluginConformance),
    "catalog": ("Catalog contract", (Catalog,), PluginConformance),
    "filesystem": ("File system contract", (FileSystem,), PluginConformance),
    "observer": ("Observer contract", (Observer, ObservedRun, RunEvent, RunEventKind), ObserverConformance),
}
#: Mark of a kit's tests → the plugins to which they apply.
CASES = {
    "": "General",
    "_ranged": "Ranged sources",
    "_orders": "Events with an order",
    "_maps_one_to_one": "Transforms that return one change for each",
    "_multiplies": "Transforms that multiply",
    "_keeps_envelopes": "Transforms that keep envelopes",
    "_hides": "Transforms that hide values",
    "_reports_rows": "Observers that report rows",
    "_fails": "Interrupted writes (`faults`)",
    "applies_if": "Conditional tests",
}
HEAD = """\
`python docs/generate.py` generates this page from the classes of `headrace.sdk` and the tests of `{kit}`, the
conformance kit for [your tests](../plugins.md#6-tests). [Write a plugin](../plugins.md) shows a plugin of each kind.
"""


def contract_page(kind: str) -> str:
    """Return the page of a kind of plugin."""
    title, classes, kit = CONTRACTS[kind]
    parts = [f"# {title}", HEAD.format(kit=f"{kit.__module__}.{kit.__name__}"), "## Classes"]
    for cls in classes:
        parts += [f"### {cls.__name__}", _clean(cls), "\n".join(_list_parts(cls))]
    if kind == "plugin" or kit is not PluginConformance:
        parts.append("## Conformance tests")
        for case, sentences in _group_tests(kit).items():
            parts += [f"### {case}", "\n".join(f"- {sentence}" for sentence in sentences)]
    if kind != "plugin":
        parts.append("The tests [for every plugin](plugin.md) apply too.")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _clean(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "").replace("``", "`")


def _list_parts(cls: type) -> Iterator[str]:
    """Yield the methods that the class defines, required methods first."""
    required = getattr(cls, "__abstractmethods__", frozenset())
    methods = [name for name, part in vars(cls).items() if inspect.isfunction(part) and not name.startswith("_")]
    for name in sorted(methods, key=lambda name: name not in required):
        if said := " ".join(_clean(vars(cls)[name]).split()):
            yield f"- `{name}`{' (required)' if name in required else ''}: {said}"


def _group_tests(kit: type[PluginConformance]) -> dict[str, list[str]]:
    """Return the case of each group of tests → the descriptions of the tests, from their names and docstrings."""
    own = [cls for cls in reversed(kit.__mro__) if kit is PluginConformance or cls not in PluginConformance.__mro__]
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for test in (test for cls in own for name, test in vars(cls).items() if name.startswith("test_")):
        sentence = test.__name__.removeprefix("test_").replace("_", " ").capitalize()
        summary = " ".join(_clean(test).split())
        groups[_find_case(test)].append(f"{sentence}{': ' if summary else ''}{summary}")
    return dict(sorted(groups.items(), key=lambda group: group[0] != CASES[""]))


def _find_case(test: Any) -> str:
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(test))).body
    assert isinstance(function, ast.FunctionDef)
    for mark in function.decorator_list:
        name = ast.unparse(mark).partition("(")[0]
        if isinstance(mark, ast.Call) and name in ("claims", "lacks"):
            capabilities = " and ".join(f"`{ast.literal_eval(one)}`" for one in mark.args)
            return f"Sinks {'that claim' if name == 'claims' else 'that do not claim'} {capabilities}"
        if name != "pytest.mark.parametrize":
            return CASES.get(name) or f"Plugins that are {name.strip('_').replace('_', ' ')}"
    return CASES[""]
