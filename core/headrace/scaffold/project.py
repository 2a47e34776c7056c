"""Project of a new plugin, from templates in which the plugin is called ``example``."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Collection, Iterator, Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from headrace.errors import ConfigError, PluginError
from headrace.registry.plugin_registry import registry

#: Kind on the command line → kind in the registry.
KINDS: Mapping[str, str] = {
    **{
        kind: kind
        for kind in (
            "source",
            "format",
            "dialect",
            "connector",
            "transform",
            "sink",
            "auth",
            "catalog",
            "filesystem",
            "observer",
        )
    },
    "secrets": "secret",
}
#: Kind → how a pipeline uses the plugin, where it has no block in the pipeline file.
_USAGE = {
    "connector": "It has no block in a pipeline file: headrace uses it for the topics whose events it matches.",
    "filesystem": "It has no block in a pipeline file: headrace uses it for addresses `example://…`. Its options are Hadoop's, "
    "under `spark:`.",
    "secrets": "A pipeline file refers to its secrets with `${example:NAME}`.",
}
_BLOCK = "The docstring of its class in `headrace_example.py` shows its block in a pipeline file."
#: Names of headrace's own distributions: headrace-stack and headrace-demo-data.
_DISTRIBUTIONS = ("stack", "demo_data")
#: Keys next to a source in the pipeline file.
_SOURCE_KEYS = ("value", "key")
_TEMPLATES = files("headrace.scaffold") / "templates"
#: Template → file of the project.
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
#: For the type checker of this repository, which has no plugin of this name.
_PRAGMA = "# mypy: disable-error-code="
_FIX = "choose another name"


def write_project(kind: str, name: str, parent: Path) -> Path:
    """Create the folder ``headrace-NAME`` in ``parent`` with a plugin of that kind, its tests and its release files.

    ConfigError for an invalid or registered name, and when the folder exists.
    """
    _check_name(kind, name)
    folder = parent / _rename("headrace-example", name)
    if folder.exists():
        raise ConfigError("the folder exists", where=str(folder), fix="choose another name, or remove the folder")
    for path, text in read_project(kind, name):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


def read_project(kind: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the content of each file of a new plugin's project."""
    for template, path in _PROJECT.items():
        text = (_TEMPLATES / template.format(kind=kind)).read_text(encoding="utf-8")
        lines = [line for line in text.splitlines(keepends=True) if not line.startswith(_PRAGMA)]
        text = "".join(lines).replace("KIND", kind).replace("USAGE", _USAGE.get(kind, _BLOCK))
        yield _rename(path, name), _rename(text, name)


def _rename(text: str, name: str) -> str:
    """Replace the template's names in one pass, because the new name may contain them."""
    names = {
        "headrace-example": f"headrace-{name.replace('_', '-')}",
        "headrace_example": f"headrace_{_module_name(name)}",
        "test_example": f"test_{_module_name(name)}",
        "example": name,
        "Example": _class_name(name),
    }
    return re.sub("|".join(names), lambda found: names[found[0]], text)


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in _module_name(name).split("_"))


def _module_name(name: str) -> str:
    """Return the part of a Python module's name: ``my_sink`` for the plugin ``my-sink``."""
    return name.replace("-", "_")


def _check_name(kind: str, name: str) -> None:
    if keyword.iskeyword(name) or keyword.iskeyword(_class_name(name)):
        raise ConfigError(f"{name!r} cannot be the name of a plugin: it is a keyword of Python", fix=_FIX)
    if not re.fullmatch("[a-z][a-z0-9_-]*[a-z0-9]", name):
        fix = "begin with a letter, and use lowercase letters, digits, `-` and `_`"
        raise ConfigError(f"{name!r} cannot be the name of a plugin", fix=fix)
    if kind == "filesystem" and "_" in name:
        raise ConfigError(f"{name!r} cannot be the scheme of an address", fix="use lowercase letters, digits and `-`")
    if name in _list_keys(kind):
        place = "`source:` in a pipeline file" if kind == "source" else "the pipeline file"
        raise ConfigError(f"{name!r} is a key of {place}", fix=_FIX)
    if (taken := _class_name(name)) in _list_names(kind):
        raise ConfigError(f"its class {taken} would hide a class that the plugin uses", fix=_FIX)
    if _module_name(name) in _DISTRIBUTIONS:
        raise ConfigError(f"headrace-{name.replace('_', '-')} is a distribution of headrace", fix=_FIX)
    if kind == "secrets" and name in _list_own_secrets():
        raise ConfigError(f"the name is used by headrace's own secrets {name!r}", fix=_FIX)
    module = f"headrace_{_module_name(name)}"
    if find_spec(module):
        raise ConfigError(f"a module {module} is already installed", fix=_FIX)
    try:
        owner = registry().find(KINDS[kind], name)
    except PluginError:
        return
    raise ConfigError(f"the name is used by {owner}", fix=_FIX)


def _list_keys(kind: str) -> Collection[str]:
    """Return headrace's own keys beside which the name of such a plugin is written."""
    if kind != "observer":
        return _SOURCE_KEYS if kind == "source" else ()
    from headrace.config.model import PipelineConfig  # imports pydantic

    return PipelineConfig.keys()


def _list_own_secrets() -> list[str]:
    from headrace.config.references import PROVIDERS  # imports pydantic

    return list(PROVIDERS)


def _list_names(kind: str) -> set[str]:
    """Return the names that the code of a kind's templates uses."""
    code = "\n".join((_TEMPLATES / template.format(kind=kind)).read_text(encoding="utf-8") for template in _CODE)
    nodes = [*ast.walk(ast.parse(code))]
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    return used | {node.name for node in nodes if isinstance(node, ast.alias | ast.ClassDef)}
