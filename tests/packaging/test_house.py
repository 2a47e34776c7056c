"""The house rules that no linter has: names of functions, sizes, and tests that lie where the code lies."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.dist import ROOT

#: Parts of the tree whose functions a reader of the code meets.
CODE = ("core", "plugins", "benchmarks", "docs", "tests", "examples")
PARTICIPLE = re.compile(
    r"\w+(ed|ing)|begun|brought|built|caught|chosen|done|drawn|found|given|gone|grown|heard|held|hidden|kept|known|left|"
    r"lost|made|meant|met|paid|seen|sent|shown|spent|taken|thrown|told|won|worn|written"
)
#: First words that only look like participles, and adjectives of a noun.
ALLOWED = {"deleted", "during", "embed", "feed", "landing", "meaning", "nothing", "stored"}
#: Lines that fit a screen, and a file that is read in one go. Servers' tables and the tests' may be longer.
LONGEST_FUNCTION, LONGEST_FILE = 50, 400
#: Rooms of tests that mirror no folder of core/headrace: where a plain module is tested.
PLAIN = {"__pycache__"}


def functions(*folders: str) -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield path.relative_to(ROOT), node


def test_no_function_is_named_by_a_participle() -> None:
    """Functions are verbs, values nouns, booleans questions."""
    named = [
        f"{path}:{node.lineno}: {node.name}"
        for path, node in functions(*CODE)
        if (word := node.name.strip("_").split("_")[0]) not in ALLOWED and PARTICIPLE.fullmatch(word)
        if word.islower()  # else the name is Spark's
    ]
    assert not named, "\n" + "\n".join(named)


def test_functions_and_files_fit() -> None:
    long = [
        f"{path}:{node.lineno}: {node.name}"
        for path, node in functions("core", "plugins", "examples")
        if (node.end_lineno or 0) - node.lineno >= LONGEST_FUNCTION
    ]
    long += [
        str(path.relative_to(ROOT))
        for folder in ("core", "plugins", "examples")
        for path in (ROOT / folder).rglob("*.py")
        if len(path.read_text(encoding="utf-8").splitlines()) > LONGEST_FILE
    ]
    assert not long, "\n" + "\n".join(long)


def test_the_rooms_of_tests_are_rooms_of_the_code() -> None:
    """A test of the core lies in the folder of the room that it tests, a plugin's in its family's."""
    families = {path.name for path in (ROOT / "plugins").iterdir() if path.is_dir()}
    rooms = {path.name for path in (ROOT / "core/headrace").iterdir() if path.is_dir()}
    for tests, code in (("core", rooms), ("plugins", families)):
        folders = {path.name for path in (ROOT / "tests" / tests).iterdir() if path.is_dir()}
        assert folders - PLAIN <= code
