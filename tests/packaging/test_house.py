"""Project rules that no linter checks: sizes of functions and files, and the layout of the tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.dist import ROOT

#: Folders whose functions and files are limited in size. Servers' tables and tests may be longer.
CODE = ("core", "plugins", "examples")
#: Maximum number of lines of a function and of a file.
MAX_FUNCTION_LINES, MAX_FILE_LINES = 50, 400


def list_files() -> Iterator[Path]:
    for folder in CODE:
        yield from sorted((ROOT / folder).rglob("*.py"))


def list_functions(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_functions_are_short() -> None:
    too_long = [
        f"{file.relative_to(ROOT)}:{function.lineno}: {function.name}"
        for file in list_files()
        for function in list_functions(file)
        if (function.end_lineno or 0) - function.lineno >= MAX_FUNCTION_LINES
    ]
    assert not too_long, "\n" + "\n".join(too_long)


def test_files_are_short() -> None:
    too_long = [
        str(file.relative_to(ROOT))
        for file in list_files()
        if len(file.read_text(encoding="utf-8").splitlines()) > MAX_FILE_LINES
    ]
    assert not too_long, "\n" + "\n".join(too_long)


def list_folders(path: str) -> set[str]:
    return {folder.name for folder in (ROOT / path).iterdir() if folder.is_dir()} - {"__pycache__"}


def test_folders_of_tests_mirror_the_code() -> None:
    """Tests of a core package are in the folder of that package, and tests of a plugin in the folder of its family."""
    assert list_folders("tests/core") <= list_folders("core/headrace")
    assert list_folders("tests/plugins") <= list_folders("plugins")
