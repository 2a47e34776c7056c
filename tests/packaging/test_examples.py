"""Plugins under examples/, installed from their own wheels.

They pass the conformance kits for all capabilities that they declare.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.support.dist import ROOT
from tests.support.tutorial import Tutorial, find_missing
from tests.support.venv import Venv

from headrace.scaffold.project import read_project

pytestmark = [pytest.mark.dist, pytest.mark.spark, pytest.mark.one_spark]

SINK, PAGE = "headrace-postgres-sink", ROOT / "docs/tutorial-sink.md"
#: Files of the sink that the tutorial page writes.
FILES = (
    *(
        "headrace_postgres_sink.py",
        "headrace_postgres_types.py",
        "tests/test_postgres_sink.py",
        "setup.cfg",
        "pyproject.toml",
        "tox.ini",
    ),
)
EXAMPLES = sorted(path for path in (ROOT / "examples").iterdir() if (path / "setup.cfg").exists())
#: Kind and name that `headrace new` received, by example.
TEMPLATES = {
    "headrace-http-source": ("source", "http_source"),
    "headrace-table-lookup": ("transform", "table_lookup"),
    "headrace-postgres-sink": ("sink", "postgres_sink"),
}
#: Lines of the kit report of each example. A declared capability without a line has no test that passed.
KITS = {
    "headrace-http-source": ("source http_source", "every plugin", "every source"),
    "headrace-table-lookup": ("transform table_lookup", "every plugin", "every transform"),
    "headrace-postgres-sink": (
        *("sink postgres_sink", "every sink", "every plugin", "exactly_once", "upsert", "delete", "schema_evolution"),
        *("single_pass", "time_travel"),
    ),
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_have_the_layout_of_new_projects(example: Path) -> None:
    new = dict(read_project(*TEMPLATES[example.name]))
    files = {str(path.relative_to(example)) for path in example.rglob("*") if path.is_file()}
    assert files >= set(new)
    assert (example / ".github/workflows/test.yml").read_text(encoding="utf-8") == new[".github/workflows/test.yml"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_import_only_public_names(example: Path) -> None:
    for file in example.rglob("*.py"):
        allowed = r"headrace(\.sdk(\.\w+)?)?|headrace_\w+" + (
            r"|headrace\.testing\.\w+" if file.parent.name == "tests" else ""
        )
        found = re.findall(r"^\s*(?:from|import) (headrace\S*)", file.read_text(encoding="utf-8"), re.MULTILINE)
        assert not [module for module in found if not re.fullmatch(allowed, module)], file


@pytest.fixture(scope="module")
def tutorial(venv: Venv, tmp_path_factory: pytest.TempPathFactory) -> Tutorial:
    """Follow the tutorial page up to its pytest commands, and install the other examples in `site` next to the project."""
    folder = tmp_path_factory.mktemp("examples")
    copies = [shutil.copytree(example, folder / example.name) for example in EXAMPLES if example.name != SINK]
    venv.install(*copies, site=folder / "site")
    return Tutorial(PAGE, folder, venv, path=str(folder / "tools"))


@pytest.mark.nightly
def test_tutorial_writes_the_sink(tutorial: Tutorial) -> None:
    written = {path: (tutorial.project / path).read_text(encoding="utf-8") for path in FILES}
    assert written == {path: (ROOT / "examples" / SINK / path).read_text(encoding="utf-8") for path in FILES}


@pytest.mark.nightly
def test_examples_pass_their_kits(venv: Venv, tutorial: Tutorial) -> None:
    """The jobs are the steps of the tutorial, the last of which runs all tests of the sink, and the other examples."""
    folder = tutorial.project.parent
    others: list[tuple[Path, list[str]]] = [(folder / name, []) for name in KITS if name != SINK]
    found = venv.run_pytest([*tutorial.jobs, *others], path=str(folder / "site"))
    for expected, (_, printed) in zip(tutorial.expected, found, strict=False):
        assert find_missing(expected, printed) == [], printed
    last = found[len(tutorial.jobs) - 1 :]
    for name, (code, printed) in zip([SINK, *(folder.name for folder, _ in others)], last, strict=True):
        assert code == 0, printed
        report = [re.split("  +", line.strip()) for line in printed.partition(" kits ")[2].splitlines()[1:]]
        assert [line[0] for line in report[: len(KITS[name])]] == list(KITS[name]), printed
        assert all(re.fullmatch(r"\d+ passed|not claimed", line[1]) for line in report[1 : len(KITS[name])]), printed
