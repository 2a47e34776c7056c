"""Writes the project of a new plugin from the templates, in which it is called ``example``."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from headrace.errors import ConfigError, PluginError
from headrace.registry.plugin_registry import registry

#: What a user asks for → how the registry calls it.
KINDS: Mapping[str, str] = {
    **{
        kind: kind
        for kind in ("source", "format", "dialect", "connector", "transform", "sink", "auth", "catalog", "filesystem")
    },
    "secrets": "secret",
}
_TEMPLATES = files("headrace.scaffold") / "templates"
#: Template → where its text goes.
_PROJECT = {
    "setup.cfg": "setup.cfg",
    "pyproject.toml": "pyproject.toml",
    "tox.ini": "tox.ini",
    "readme.md": "README.md",
    "workflow.yml": ".github/workflows/test.yml",
    "{kind}.py": "headrace_example.py",
    "test_{kind}.py": "tests/test_example.py",
}
_CODE = ("{kind}.py", "test_{kind}.py")
#: For the type checker of this repository alone, where no plugin is called so.
_PRAGMA = "# mypy: disable-error-code="


def write_project(kind: str, name: str, parent: Path) -> Path:
    """Create the folder ``headrace-NAME`` in ``parent`` with a plugin of that kind, its tests and its release files.

    ConfigError for an invalid or registered name, and when the folder exists.
    """
    _check_name(kind, name)
    folder = parent / _rename("headrace-example", name)
    if folder.exists():
        raise ConfigError("it is there already", where=str(folder), fix="name another, or remove it")
    for path, text in read_project(kind, name):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


def read_project(kind: str, name: str) -> Iterator[tuple[str, str]]:
    """Path → text of a new plugin's project."""
    for template, path in _PROJECT.items():
        text = (_TEMPLATES / template.format(kind=kind)).read_text(encoding="utf-8")
        lines = [line for line in text.splitlines(keepends=True) if not line.startswith(_PRAGMA)]
        yield _rename(path, name), _rename("".join(lines).replace("KIND", kind), name)


def _rename(text: str, name: str) -> str:
    text = text.replace("headrace-example", f"headrace-{name.replace('_', '-')}")
    return text.replace("example", name).replace("Example", _class_name(name))


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _check_name(kind: str, name: str) -> None:
    if not re.fullmatch("[a-z][a-z0-9_]*[a-z0-9]", name) or keyword.iskeyword(name):
        fix = "begin with a letter, and use small letters, digits and `_`"
        raise ConfigError(f"{name!r} cannot be the name of a plugin", fix=fix)
    code = "".join((_TEMPLATES / template.format(kind=kind)).read_text(encoding="utf-8") for template in _CODE)
    if re.search(rf"\b{(taken := _class_name(name))}\b", code):
        raise ConfigError(f"its class would be called {taken}, as one that it uses", fix="name the plugin otherwise")
    module = f"headrace_{name}"
    if find_spec(module):
        raise ConfigError(f"there is a module {module} already", fix="name the plugin otherwise")
    try:
        owner = registry().find(KINDS[kind], name)
    except PluginError:
        return
    raise ConfigError(f"the name is taken, by {owner}", fix="name the plugin otherwise")
