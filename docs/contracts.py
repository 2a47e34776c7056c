"""The pages of docs/contracts/: what a plugin of a kind is made of, and what its kit asks of it."""  # noqa: INP001 - a script's

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
from headrace.sdk.plugin import Plugin
from headrace.sdk.sink import Sink
from headrace.sdk.source import NativeSource, RangedSource, Source
from headrace.sdk.transform import Transform
from headrace.testing.connectors import ConnectorConformance
from headrace.testing.dialects import DialectConformance
from headrace.testing.formats import FormatConformance
from headrace.testing.plugins import PluginConformance
from headrace.testing.sinks import SinkConformance
from headrace.testing.sources import SourceConformance
from headrace.testing.transforms import TransformConformance

#: Page → its title, the classes of the contract, and the kit.
CONTRACTS: dict[str, tuple[str, tuple[type, ...], type[PluginConformance]]] = {
    "plugin": ("What every plugin keeps", (Plugin,), PluginConformance),
    "source": ("What a source keeps", (Source, NativeSource, RangedSource), SourceConformance),
    "format": ("What a format keeps", (Format, RecordReader), FormatConformance),
    "dialect": ("What a dialect keeps", (Dialect,), DialectConformance),
    "connector": ("What a connector keeps", (Connector,), ConnectorConformance),
    "transform": ("What a transform keeps", (Transform,), TransformConformance),
    "sink": ("What a sink keeps", (Sink,), SinkConformance),
    "auth": ("What a login keeps", (AuthProvider,), PluginConformance),
    "catalog": ("What a catalog keeps", (Catalog,), PluginConformance),
    "filesystem": ("What a file system keeps", (FileSystem,), PluginConformance),
}
#: What the kits' tests are marked with → of whom they are asked.
CASES = {
    "": "Of each",
    "_ranged": "Of a ranged source",
    "_orders": "Where events say their order",
    "_keeps_envelopes": "Of one that leaves envelopes as envelopes",
    "_hides": "Of one that hides values",
    "_fails": "Where its writes are cut off (`faults`)",
    "applies_if": "Where it applies",
}
HEAD = """\
Made by `python docs/generate.py` from the classes of `headrace.sdk` and the tests of `{kit}`, the kit by which
[your tests](../plugins.md#6-tests) ask for all of it. [Write a plugin](../plugins.md) says how.
"""


def contract_page(kind: str) -> str:
    """The page of a kind."""
    title, classes, kit = CONTRACTS[kind]
    parts = [f"# {title}", HEAD.format(kit=f"{kit.__module__}.{kit.__name__}"), "## What it is made of"]
    for cls in classes:
        parts += [f"### {cls.__name__}", _clean(cls), "\n".join(_list_parts(cls))]
    if kind == "plugin" or kit is not PluginConformance:
        parts.append("## What the kit asks")
        for case, sentences in _group_tests(kit).items():
            parts += [f"### {case}", "\n".join(f"- {sentence}" for sentence in sentences)]
    if kind != "plugin":
        parts.append("And all that is asked [of every plugin](plugin.md).")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _clean(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "").replace("``", "`")


def _list_parts(cls: type) -> Iterator[str]:
    """The methods that the class has of its own; those that have to be written first."""
    required = getattr(cls, "__abstractmethods__", frozenset())
    methods = [name for name, part in vars(cls).items() if inspect.isfunction(part) and not name.startswith("_")]
    for name in sorted(methods, key=lambda name: name not in required):
        if said := " ".join(_clean(vars(cls)[name]).split()):
            yield f"- `{name}`{' (has to be written)' if name in required else ''}: {said}"


def _group_tests(kit: type[PluginConformance]) -> dict[str, list[str]]:
    """Of whom → what, by the names of the tests and what these say of themselves."""
    own = [cls for cls in reversed(kit.__mro__) if kit is PluginConformance or cls not in PluginConformance.__mro__]
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for test in (test for cls in own for name, test in vars(cls).items() if name.startswith("test_")):
        sentence = test.__name__.removeprefix("test_").replace("_", " ").capitalize()
        said = " ".join(_clean(test).split())
        groups[_find_case(test)].append(f"{sentence}{': ' if said else ''}{said}")
    return dict(sorted(groups.items(), key=lambda group: group[0] != CASES[""]))


def _find_case(test: Any) -> str:
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(test))).body
    assert isinstance(function, ast.FunctionDef)
    for mark in function.decorator_list:
        name = ast.unparse(mark).partition("(")[0]
        if isinstance(mark, ast.Call) and name in ("claims", "lacks"):
            capabilities = " and ".join(f"`{ast.literal_eval(one)}`" for one in mark.args)
            return f"Of one that {'claims' if name == 'claims' else 'does not claim'} {capabilities}"
        if name != "pytest.mark.parametrize":
            return CASES.get(name) or f"Of one that is {name.strip('_').replace('_', ' ')}"
    return CASES[""]
