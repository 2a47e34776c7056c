"""Command `headrace new`: the files that it creates, and the names that it rejects."""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from tests.core.conftest import Headrace

from headrace import __version__
from headrace.registry.registration import KINDS as REGISTERED
from headrace.scaffold.project import KINDS, read_project

FILES = {
    *(".github/workflows/test.yml", "README.md", "headrace_acme_one.py", "pyproject.toml"),
    *("setup.cfg", "tests/test_acme_one.py", "tox.ini"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_kind_has_a_template() -> None:
    assert set(KINDS.values()) == set(REGISTERED) - {"command"}


@pytest.mark.parametrize("kind", KINDS)
def test_project_is_small_and_contains_no_template_names(kind: str) -> None:
    """The project has fewer than 65 lines, and every name of the template is replaced."""
    texts = dict(read_project(kind, "acme_one"))
    assert set(texts) == FILES
    assert len(texts["headrace_acme_one.py"].splitlines()) < 65
    for path, text in texts.items():
        assert not re.search("(?i:example|mypy)|KIND", text), path
    assert yaml.safe_load(texts[".github/workflows/test.yml"])["jobs"]["test"]["steps"]
    assert tomllib.loads(texts["pyproject.toml"])["build-system"]["build-backend"] == "setuptools.build_meta"
    setup = configparser.ConfigParser()
    setup.read_string(texts["setup.cfg"])
    assert setup["metadata"]["name"] == "headrace-acme-one"
    assert setup["options.entry_points"]["headrace"].split() == ["acme_one", "=", "headrace_acme_one"]
    tox = configparser.ConfigParser()
    tox.read_string(texts["tox.ini"])
    assert tox["testenv"]["commands"] == "pytest {posargs}"


@pytest.mark.parametrize("name", ["my-example", "example2", "test_example"])
def test_name_may_contain_the_name_of_the_template(name: str) -> None:
    texts, module = dict(read_project("source", name)), f"headrace_{name.replace('-', '_')}"
    assert {path for path in texts if path.endswith(".py")} == {
        f"{module}.py",
        f"tests/test_{name.replace('-', '_')}.py",
    }
    for path, text in texts.items():
        if path.endswith(".py"):
            ast.parse(text)
    assert f"from {module} import" in texts[f"tests/test_{name.replace('-', '_')}.py"]


def test_output_lists_the_next_steps(headrace: Headrace, folder: Path) -> None:
    result = headrace("new", "transform", "tidy")
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        f"written: {folder}/headrace-tidy",
        "",
        "cd headrace-tidy",
        "pip install -e '.[test]'   # `headrace plugins` lists it then",
        "pytest",
    ]
    code = (folder / "headrace-tidy/headrace_tidy.py").read_text()
    assert "class Tidy(Transform):" in code
    assert 'name = "tidy"' in code


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("Tidy", "'Tidy' cannot be the name of a plugin"),
        ("my plugin", "use lowercase letters, digits, `-` and `_`"),
        ("my-plugin-", "'my-plugin-' cannot be the name of a plugin"),
        ("demo-data", "headrace-demo-data is a distribution of headrace"),
        ("../up", "'../up' cannot be the name of a plugin"),
        ("changes", "its class Changes would hide a class that the plugin uses"),
        ("class", "'class' cannot be the name of a plugin"),
        ("sinks", "a module headrace_sinks is already installed"),
        ("stack", "headrace-stack is a distribution of headrace"),
        ("demo_data", "headrace-demo-data is a distribution of headrace"),
        ("mask", f"the name is used by the transform 'mask' of headrace {__version__}"),
    ],
)
def test_invalid_name_is_rejected(headrace: Headrace, folder: Path, name: str, error: str) -> None:
    result = headrace("new", "transform", name)
    assert result.exit_code == 2
    assert error in result.stderr
    assert not list(folder.iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_name_with_a_hyphen_has_a_module_with_an_underscore(kind: str) -> None:
    texts = dict(read_project(kind, "acme-one"))
    assert set(texts) == FILES
    setup = configparser.ConfigParser()
    setup.read_string(texts["setup.cfg"])
    assert setup["metadata"]["name"] == "headrace-acme-one"
    assert setup["options"]["py_modules"] == "headrace_acme_one"
    assert setup["options.entry_points"]["headrace"].split() == ["acme-one", "=", "headrace_acme_one"]
    code = texts["headrace_acme_one.py"]
    assert "class AcmeOne(" in code or kind == "secrets"
    assert '"acme-one"' in code
    for path in ("headrace_acme_one.py", "tests/test_acme_one.py"):
        compile(texts[path], path, "exec")


def test_project_with_a_hyphen_is_written(headrace: Headrace, folder: Path) -> None:
    assert headrace("new", "sink", "probe-sink").exit_code == 0
    assert (folder / "headrace-probe-sink/headrace_probe_sink.py").is_file()


@pytest.mark.parametrize("name", ["env", "file"])
def test_names_of_own_secret_providers_are_rejected(headrace: Headrace, folder: Path, name: str) -> None:
    result = headrace("new", "secrets", name)
    assert (result.exit_code, f"the name is used by headrace's own secrets '{name}'" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("kind", "use"),
    [
        ("connector", "It has no block in a pipeline file: headrace uses it for the topics"),
        ("filesystem", "headrace uses it for addresses `acme_one://…`"),
        ("secrets", "`${acme_one:NAME}`"),
        ("sink", "The docstring of its class in `headrace_acme_one.py` shows its block"),
    ],
)
def test_readme_describes_the_use_of_the_kind(kind: str, use: str) -> None:
    assert use in dict(read_project(kind, "acme_one"))["README.md"]


def test_existing_folder_is_not_changed(headrace: Headrace, folder: Path) -> None:
    (folder / "headrace-tidy").mkdir()
    result = headrace("new", "sink", "tidy")
    assert result.exit_code == 2
    assert f"{folder}/headrace-tidy" in result.stderr
    assert not list((folder / "headrace-tidy").iterdir())


@pytest.mark.parametrize("name", ["oracle", "db2"])
def test_words_of_comments_are_no_class_names(headrace: Headrace, folder: Path, name: str) -> None:
    assert headrace("new", "connector", name).exit_code == 0
    assert f"class {name.capitalize()}(Connector):" in (folder / f"headrace-{name}/headrace_{name}.py").read_text()
