"""``from headrace_sinks import IcebergSink``: a family's classes are had from its package, and imported when they are asked for."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

FAMILIES = ["headrace_sinks", "headrace_transforms"]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_class_of_a_family(family: str) -> None:
    package = import_module(family)
    places = [place.partition(":") for place in getattr(package, family)().values()]
    for module, _, name in places:
        assert getattr(package, name) is getattr(import_module(module), name)
    with pytest.raises(AttributeError, match=f"module '{family}' has no attribute 'Nothing'"):
        package.Nothing  # noqa: B018
    # Type checkers see the same classes.
    tree = ast.parse(Path(str(package.__file__)).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    seen = {name.name for node in imports if str(node.module).startswith(family) for name in node.names}
    assert seen == {name for _, _, name in places}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_listed_without_its_classes(family: str) -> None:
    # Who looks for hooks asks a package for all of its names.
    script = (
        f"import sys, {family} as family\n"
        "for name in dir(family): getattr(family, name)\n"
        "print(*sorted({'pydantic', 'pyspark'} & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert printed.strip() == ""
