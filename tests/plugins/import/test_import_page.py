"""The page about imports lists every error."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support.dist import ROOT


def list_texts(node: ast.AST) -> Iterator[str]:
    """Yield the constant parts of a text, of which a format string has several."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr | ast.IfExp):
        for part in ast.iter_child_nodes(node):
            yield from list_texts(part)


def list_errors(function: ast.FunctionDef) -> Iterator[list[str]]:
    """Yield the constant parts of the first argument of each ConfigError, which may be a variable of the function."""
    values: dict[str, ast.AST] = {}
    for node in (node for node in ast.walk(function) if isinstance(node, ast.Assign)):
        names, value = node.targets[0], node.value
        pairs = (
            zip(names.elts, value.elts, strict=True)
            if isinstance(names, ast.Tuple) and isinstance(value, ast.Tuple)
            else [(names, value)]
        )
        values |= {name.id: text for name, text in pairs if isinstance(name, ast.Name)}
    for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Name) and call.func.id == "ConfigError":
            what = call.args[0]
            yield list(list_texts(values.get(what.id, what) if isinstance(what, ast.Name) else what))


def test_page_lists_every_error() -> None:
    page = (ROOT / "docs/import.md").read_text(encoding="utf-8").partition("## Errors")[2]
    found = 0
    for file in (ROOT / "plugins/import").rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            for parts in list_errors(function):
                found += 1
                longest = max((part.strip(" `:…,") for part in parts), key=len, default="")
                assert longest in page, f"docs/import.md lacks the error {''.join(parts)!r} of {file.name}"
    assert found > 40
