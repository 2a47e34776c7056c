"""Public API for authors of plugins and applications as text: names, signatures, fields, constants.

::

    python -m tests.support.public_api      # writes tests/data/public_api.txt after an intended change
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from headrace.lazy_exports import read_exports
from headrace.registry.plugin_registry import registry
from headrace.registry.validation import BASES

FILE = Path(__file__).parents[1] / "data/public_api.txt"
HEAD = """\
What plugins and applications may rely on (docs/stability.md). Written by `python -m tests.support.public_api`.
"""
#: Modules in which all defined names are public: columns and hooks.
FULLY_PUBLIC = ("headrace.sdk.changes", "headrace.sdk.events", "headrace.sdk.hookspecs")
#: Helpers for plugins: modules that list their public names.
HELPERS = (
    *(
        "headrace.sdk.columns",
        "headrace.sdk.error_text",
        "headrace.sdk.findings",
        "headrace.sdk.http",
        "headrace.sdk.observer",
    ),
    *(
        "headrace.sdk.options",
        "headrace.sdk.positions",
        "headrace.sdk.schemas",
        "headrace.sdk.secrets",
        "headrace.sdk.sessions",
    ),
    "headrace.sdk.storage",
)
#: Classes of submodules of the SDK that plugins derive from or use.
SDK_CLASSES = {"headrace.sdk.commands": ("BlockCommand", "BlockGroup"), "headrace.sdk.sink": ("TableVersion",)}
#: Classes of objects that calls of `headrace` return and that users do not import.
RETURNED_CLASSES = {
    "headrace.engine.run.query": ("Query",),
    "headrace.engine.commands.preflight": ("CheckItem",),
    "headrace.engine.commands.replay": ("ReplayResult",),
    "headrace.engine.commands.resync": ("Resync",),
    "headrace.engine.commands.row_history": ("RowHistory",),
    "headrace.checkpoint.epochs": ("Epoch",),
    "headrace.progress.model": ("BatchProgress", "TableProgress"),
    "headrace.progress.status": ("CheckpointStatus", "Status", "TableStatus"),
    "headrace.progress.summary": ("TableSummary",),
    "headrace.sdk.file_system": ("TextFolder",),
}
#: Test tools for authors of plugins.
TESTING = {
    "headrace.testing.plugins": ("PluginConformance",),
    "headrace.testing.sources": ("SourceConformance", "Record"),
    "headrace.testing.formats": ("FormatConformance",),
    "headrace.testing.dialects": ("DialectConformance",),
    "headrace.testing.connectors": ("ConnectorConformance",),
    "headrace.testing.transforms": ("TransformConformance",),
    "headrace.testing.observers": ("ObserverConformance",),
    "headrace.testing.sinks": ("SinkConformance",),
    "headrace.testing.records": ("Records",),
    "headrace.testing.spark": ("headrace_plugins", "headrace_conf", "headrace_spark"),
}
STACK = "headrace_stack"
#: Special methods that are part of the API.
SPECIAL_METHODS = ("__init__", "__call__", "__enter__", "__exit__")


def write_api() -> str:
    """Return the full text."""
    sections: dict[str, Sequence[str]] = {
        name: _list_exports(name) for name in ("headrace", "headrace.sdk", *FULLY_PUBLIC, *HELPERS)
    }
    sections |= {**SDK_CLASSES, **RETURNED_CLASSES, **TESTING, STACK: _list_exports(STACK)}
    parts, bases, public = [HEAD], dict[str, type](), set[int]()
    for module, names in sections.items():
        parts.append(f"== {module}\n")
        for name in sorted(names):
            found = getattr(import_module(module), name)
            public.add(id(found))
            bases |= {f"{base.__module__}.{base.__name__}": base for base in _list_bases(found)}
            parts.append(_describe(*_find_home(module, name, found)))
    parts.append("== what classes above are derived from\n")
    parts += [_describe(base.__module__, base.__name__) for _, base in sorted(bases.items()) if id(base) not in public]
    return "\n".join(
        [*parts, "== headrace's own plugins, whose options are in docs/options.md\n", *_list_plugins(), ""]
    )


def _list_exports(module: str) -> list[str]:
    """Return the public names of a module, including lazy ones."""
    if module in FULLY_PUBLIC:
        return [name for name in _read_definitions(module) if not name.startswith("_")]
    found = import_module(module)
    return list(found.__all__)


def _list_bases(found: Any) -> list[type]:
    """Return the base classes of a class that are part of headrace."""
    mro = inspect.getmro(found)[1:] if isinstance(found, type) else ()
    return [base for base in mro if base.__module__.startswith("headrace")]


def _list_plugins() -> Iterator[str]:
    known = registry()
    for item in known.registrations():
        if not item.is_own:
            continue
        target = known.get(item.kind, item.name)
        family = target.__module__.split(".")[0] if item.kind in BASES else ""
        has_short_name = getattr(import_module(family), target.__name__, None) is target if family else False
        yield f"{item.kind} {item.name}" + (f": {family}.{target.__name__}" if has_short_name else "")


def _find_home(module: str, name: str, found: Any) -> tuple[str, str]:
    """Return the module that defines a name, and the name there."""
    if isinstance(found, type) or inspect.isfunction(found):
        return found.__module__, found.__name__
    return read_exports(module).get(name, module), name


@cache
def _read_definitions(module: str) -> dict[str, ast.stmt]:
    """Return the statements of a module by the names that they define."""
    tree = ast.parse(Path(str(import_module(module).__file__)).read_text(encoding="utf-8"))
    return {name: node for node in tree.body for name in _find_names(node)}


def _find_names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        yield node.name
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    elif isinstance(node, ast.Assign):
        targets = [part for target in node.targets for part in getattr(target, "elts", [target])]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def _describe(module: str, name: str) -> str:
    """Return the declaration of a name without its body; a constant with its value."""
    node, value = _read_definitions(module)[name], getattr(import_module(module), name)
    if isinstance(node, ast.ClassDef):
        return "\n".join(_write_class(node)) + "\n"
    is_plain = isinstance(value, str | int | tuple)
    return (f"{name} = {value!r}" if is_plain else _write_line(node)) + "\n"


def _write_class(node: ast.ClassDef) -> Iterator[str]:
    bases = ", ".join(map(ast.unparse, [*node.bases, *(keyword.value for keyword in node.keywords)]))
    yield f"{_write_decorators(node)}class {node.name}({bases})"
    for part in node.body:
        if any(name in SPECIAL_METHODS or not name.startswith(("_", "test_")) for name in _find_names(part)):
            yield f"    {_write_line(part)}"
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            attributes = (
                one.attr for one in ast.walk(part) if _is_own_attribute(one) and isinstance(one, ast.Attribute)
            )
            yield from (f"    self.{name}" for name in dict.fromkeys(attributes) if not name.startswith("_"))


def _is_own_attribute(node: ast.AST) -> bool:
    """Return whether a node assigns a value to ``self.name``."""
    is_set = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    return is_set and isinstance(node.value, ast.Name) and node.value.id == "self"  # type: ignore[attr-defined]


def _write_line(node: ast.stmt) -> str:
    """Return a statement in one line; a function without its body."""
    if not isinstance(node, ast.FunctionDef):
        return " ".join(ast.unparse(node).split())
    returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{_write_decorators(node)}def {node.name}({ast.unparse(node.args)}){returned}"


def _write_decorators(node: ast.ClassDef | ast.FunctionDef) -> str:
    return "".join(f"@{ast.unparse(decorator)} " for decorator in node.decorator_list)


if __name__ == "__main__":
    FILE.write_text(write_api(), encoding="utf-8")
    sys.stdout.write(f"{FILE}\n")
