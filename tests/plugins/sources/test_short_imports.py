"""``from headrace_sources import FilesSource``: the names that stay where a class moves."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import headrace_sources

HOOKS = (
    headrace_sources.headrace_sources,
    headrace_sources.headrace_formats,
    headrace_sources.headrace_dialects,
    headrace_sources.headrace_connectors,
)
PATHS = [path for hook in HOOKS for path in hook().values()]


@pytest.mark.parametrize("path", PATHS)
def test_every_plugin_has_one(path: str) -> None:
    module, _, name = path.partition(":")
    plugin = getattr(headrace_sources, name)
    assert (plugin.__module__, plugin.__name__) == (module, name)


def test_type_checkers_see_the_same() -> None:
    tree = ast.parse(Path(headrace_sources.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    seen = {f"{node.module}:{name.name}" for node in imports for name in node.names if name.asname == name.name}
    assert seen == set(PATHS)


def test_looking_for_hooks_imports_none() -> None:
    assert not {path.partition(":")[2] for path in PATHS} & set(dir(headrace_sources))


def test_another_name_is_none() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'FileSource'"):
        headrace_sources.FileSource  # noqa: B018 - the access is the test
