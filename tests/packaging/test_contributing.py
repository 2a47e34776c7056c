"""Documents for contributors and workflows of continuous integration: files parse, and commands and paths exist."""

from __future__ import annotations

import re
import runpy
import subprocess
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.dist import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
HOOKS = ROOT / ".pre-commit-config.yaml"
PROSE = [ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "changelog.d/README.md")]
PROSE += [ROOT / ".github/pull_request_template.md"]


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def load(path: Path) -> Any:
    return yaml.safe_load(read(path))


def list_steps(workflow: Path) -> Iterator[dict[str, Any]]:
    for job in load(workflow)["jobs"].values():
        yield from job["steps"]


def list_commands() -> Iterator[tuple[str, str]]:
    """Yield each command as its file and its text: from workflows, from code blocks and from code in sentences."""
    for path in WORKFLOWS:
        for step in list_steps(path):
            for line in step.get("run", "").splitlines():
                yield path.name, line.strip()
    for path in PROSE:
        for block in re.findall(r"```sh\n(.*?)```", read(path), re.DOTALL):
            for line in block.splitlines():
                yield path.name, line.partition("#")[0].strip()
        for code in re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", read(path), flags=re.DOTALL)):
            yield path.name, code


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_have_limits_and_pinned_actions(workflow: Path) -> None:
    """Each workflow has a time limit and minimal permissions, and pins each action to a version."""
    data = load(workflow)
    assert data["name"] == workflow.stem
    assert data["permissions"] == {"contents": "read"}
    assert True in data  # YAML 1.1 parses the key `on` as a boolean
    for job in data["jobs"].values():
        assert job["timeout-minutes"] <= 360
    for step in list_steps(workflow):
        assert ("uses" in step) != ("run" in step)
        assert re.fullmatch(r"[\w./-]+@(v\d+|release/v\d+)", step.get("uses", "actions/checkout@v4"))
        # An expression inside a command would execute the text of a title or a branch name.
        assert "github." not in step.get("run", "")


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.name)
def test_issue_forms_have_fields_with_labels(form: Path) -> None:
    data = load(form)
    assert {"name", "description", "body"} <= data.keys()
    fields = [field for field in data["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["attributes"]["label"] for field in fields)


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", read(ROOT / "Makefile"), re.MULTILINE))
    named = {(file, target) for file, text in list_commands() for target in re.findall(r"^make ([\w-]+)", text)}
    assert len(named) > 10
    assert [(file, target) for file, target in named if target not in targets] == []


def test_every_tox_environment_exists() -> None:
    tox = ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    named = {(file, name) for file, text in list_commands() for name in re.findall(r"\btox run -e ([\w-]+)", text)}
    assert {name for _, name in named} >= {"changelog", "quick", "release"}
    assert [(file, name) for file, name in named if f"testenv:{name}" not in tox] == []


def test_every_path_exists() -> None:
    """NNNN and + are placeholders in the names of new files."""
    missing = []
    for file, text in list_commands():
        for word in text.split():
            is_path = re.fullmatch(
                r"(core|plugins|tests|docs|benchmarks|examples|changelog\.d|\.ci|\.github)/[\w./-]*", word
            )
            is_file = re.fullmatch(r"[\w-]+\.(md|cfg|ini|toml)|\.[\w-]+\.yaml", word)
            if (is_path or is_file) and "NNNN" not in word and not (ROOT / word).exists():
                missing.append((file, word))
    assert missing == []


def test_every_module_in_commands_exists() -> None:
    for file, text in list_commands():
        for module in re.findall(r"python -m ((?:tests|benchmarks)\.[\w.]+)", text):
            if not module.endswith("."):
                assert (ROOT / module.replace(".", "/")).with_suffix(".py").exists(), (file, module)


def test_nightly_runs_are_benchmarks() -> None:
    runs = load(ROOT / ".github/workflows/nightly.yml")["jobs"]["long-runs"]["strategy"]["matrix"]["run"]
    for run in runs:
        name, *options = run.split()
        source = read(ROOT / f"benchmarks/{name}.py")
        assert all(f'"{option}"' in source for option in options if option.startswith("--"))


def test_hooks_run_pinned_tools() -> None:
    """Each tool is in .venv, where `make dev` installs it with the version in tox.ini."""
    data = load(HOOKS)
    tox = ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    pins = dict(
        pin.split("==") for env in ("lint", "hooks") for pin in tox[f"testenv:{env}"]["deps"].split() if "==" in pin
    )
    tools = {"lint-imports": "import-linter"}
    assert [repo["repo"] for repo in data["repos"]] == ["local"]
    for hook in data["repos"][0]["hooks"]:
        tool, *arguments = hook["entry"].removeprefix(".venv/bin/").split()
        if tool == "python":
            assert (ROOT / arguments[0]).is_file()
        else:
            assert tools.get(tool, tool) in pins
    assert "pre-commit" in pins


@pytest.mark.parametrize(
    ("tag", "heading", "fragment", "state", "problem"),
    [
        ("v1.2.3", "## [1.2.3] - 2100-01-31", "README.md", "1.2.3", None),
        ("1.2.3", "## [1.2.3] - 2100-01-31", "README.md", "1.2.3", "must be v1.2.3"),
        ("v1.2.4", "## [1.2.3] - 2100-01-31", "README.md", "1.2.3", "must be v1.2.3"),
        ("v1.2.3", "## [1.2.3] - unreleased", "README.md", "1.2.3", "first section"),
        ("v1.2.3", "## [1.2.2] - 2100-01-31", "README.md", "1.2.3", "first section"),
        ("v1.2.3", "## [1.2.3] - 2100-01-31\n## [1.2.3] - unreleased", "README.md", "1.2.3", "two sections"),
        ("v1.2.3", "## [1.2.3] - 2100-01-31", "+a.fixed.md", "1.2.3", "+a.fixed.md"),
        ("v1.2.3", "## [1.2.3] - 2100-01-31", "README.md", "1.2.2", "no state of 1.2.3"),
    ],
)
def test_release_check_reports_problems(
    tmp_path: Path, tag: str, heading: str, fragment: str, state: str, problem: str | None
) -> None:
    for name, text in (
        ("core/headrace/__init__.py", '__version__ = "1.2.3"\n'),
        ("CHANGELOG.md", f"# Changelog\n\n{heading}\n"),
        (f"changelog.d/{fragment}", "A fragment.\n"),
        (f"tests/data/releases/{state}.tar.xz", ""),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    problems = list(runpy.run_path(str(ROOT / ".ci/check_release.py"))["find_problems"](tmp_path, tag))
    assert len(problems) == (0 if problem is None else 1)
    assert all(str(problem) in found for found in problems)


def test_make_lists_its_targets() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert {"dev", "hooks", "lint", "quick", "test"} <= set(re.findall(r"^  make ([\w-]+)", done.stdout, re.MULTILINE))
