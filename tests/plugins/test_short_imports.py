"""Short imports such as ``from headrace_sinks import IcebergSink``: lazy, and equal to the classes behind the hooks."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

FAMILIES = ["headrace_sources", "headrace_sinks", "headrace_transforms"]


def list_plugin_paths(package: ModuleType) -> dict[str, str]:
    """Return class name → module of each plugin that the hooks of a package list. Commands are not classes."""
    hooks = [
        value
        for name, value in vars(package).items()
        if name.startswith("headrace_") and name != "headrace_commands" and callable(value)
    ]
    paths = [path.partition(":") for hook in hooks for path in hook().values()]
    return {name: module for module, _, name in paths}


@pytest.mark.parametrize("family", FAMILIES)
def test_each_plugin_class_has_a_short_import(family: str) -> None:
    package = import_module(family)
    paths = list_plugin_paths(package)
    assert paths
    for name, module in paths.items():
        assert getattr(package, name) is getattr(import_module(module), name)
    with pytest.raises(AttributeError, match=f"module '{family}' has no attribute 'Nothing'"):
        package.Nothing  # noqa: B018 - the access is the test


@pytest.mark.parametrize("family", FAMILIES)
def test_type_checkers_see_the_same_classes(family: str) -> None:
    package = import_module(family)
    tree = ast.parse(Path(str(package.__file__)).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    seen = {name.name: node.module for node in imports for name in node.names if name.asname == name.name}
    assert seen == list_plugin_paths(package)


@pytest.mark.parametrize("family", FAMILIES)
def test_hook_discovery_imports_no_plugin_class(family: str) -> None:
    # pluggy reads every attribute that dir() lists.
    script = (
        f"import sys, {family} as family\n"
        "for name in dir(family): getattr(family, name)\n"
        "print(*sorted({'pydantic', 'pyspark'} & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert printed.strip() == ""
