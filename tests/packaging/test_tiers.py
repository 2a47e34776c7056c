"""Table of docs/test-tiers.md: every test in it exists and runs in the tier of its column."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from configparser import ConfigParser
from functools import cache
from pathlib import Path

import pytest
from tests.support.dist import ROOT

PAGE = (ROOT / "docs/test-tiers.md").read_text(encoding="utf-8")
#: Guarantee, tests of `make test`, tests of `make test-all`.
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.partition("## Guarantees")[2].splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| guarantee"))
]


def list_tests(column: int) -> list[str]:
    return sorted({name for row in ROWS for name in re.findall(r"`([^`]+)`", row[column])})


@cache
def parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def find_definitions(name: str) -> Iterator[ast.AST]:
    """Yield the nodes that determine the tier: ``pytestmark`` of the module, and decorators of the classes and the function."""
    file, *names = name.split("::")
    body = parse(ROOT / "tests" / file).body
    yield from (node for node in body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark")
    for part in names:
        nodes = [node for node in ast.walk(ast.Module(body, [])) if isinstance(node, ast.ClassDef | ast.FunctionDef)]
        node = next((node for node in nodes if node.name == part), None)
        assert node is not None, f"{file} has no {part}"
        body = node.body
        yield from node.decorator_list


def find_tiers(name: str) -> set[str]:
    """Return the tiers that run at least one case of a test, a class, or a file."""
    marks = [ast.unparse(node) for node in find_definitions(name)]
    if any("mark.nightly" in mark for mark in marks):
        return {"test-all"}
    return {"test", "test-all"} if any("nightly_after(" in mark for mark in marks) else {"test"}


@pytest.mark.parametrize("name", list_tests(1))
def test_tests_of_second_column_run_in_make_test(name: str) -> None:
    assert "test" in find_tiers(name)


@pytest.mark.parametrize("name", list_tests(2))
def test_tests_of_third_column_are_nightly(name: str) -> None:
    assert "test-all" in find_tiers(name)


def test_every_invariant_has_a_test_in_make_test() -> None:
    design = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    invariants = re.findall(r"^(\d+)\. ", design.partition("## Invariants")[2], re.MULTILINE)
    assert invariants
    guarded = [row[0].partition(".")[0] for row in ROWS if row[1]]
    assert guarded[: len(invariants)] == invariants
    assert all(row[1] for row in ROWS)


def test_nightly_marker_is_found_at_every_level() -> None:
    assert find_tiers("integration/test_live_types.py::test_values") == {"test-all"}  # the file
    assert find_tiers("plugins/sinks/iceberg/test_iceberg_sink.py::TestCopyOnWrite") == {"test-all"}  # a class
    assert find_tiers("integration/test_torture.py::test_killed_twice") == {"test-all"}  # a function
    assert find_tiers("integration/test_live.py::test_tables_follow_a_database") == {"test", "test-all"}  # a parameter
    assert find_tiers("core/engine/read/test_transform_counts.py::test_filtered_rows_are_counted") == {"test"}
    with pytest.raises(AssertionError, match=r"test_malformed\.py has no test_csv"):
        find_tiers("integration/test_malformed.py::test_csv")


def test_tiers_differ_by_one_marker() -> None:
    tox = ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    lint = "{[testenv:lint]commands}"
    assert tox["testenv:test"]["commands"].split("\n")[1:] == [lint, 'pytest -m "not nightly" {posargs}']
    assert tox["testenv:test-all"]["commands"].split("\n")[1:] == [lint, "pytest {posargs}"]


@pytest.mark.xdist_group("grouped")
def test_tests_of_a_group_share_a_process(request: pytest.FixtureRequest) -> None:
    """A scheduler of pytest-xdist finds the group of a test at the end of its ID."""
    is_distributed = hasattr(request.config, "workerinput")
    assert request.node.nodeid.endswith("@grouped") == is_distributed, "install the pytest that setup.cfg requires"
