"""docs/plugins.md: it shows tested code, every hook, and every member of a contract."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from tests.support import public_api

from headrace.registry.registration import KINDS
from headrace.scaffold.project import KINDS as PROJECT_KINDS, read_project
from headrace.sdk import hookspecs
from headrace.sdk.auth import AuthProvider
from headrace.sdk.catalog import Catalog, CatalogTable
from headrace.sdk.connector import Connector
from headrace.sdk.dialect import Dialect
from headrace.sdk.file_system import FileSystem
from headrace.sdk.format import Format
from headrace.sdk.observer import ObservedRun, Observer, RunEvent, RunEventKind
from headrace.sdk.plugin import API_VERSION, Plugin
from headrace.sdk.sink import Batch, Capabilities, Sink, WriteResult
from headrace.sdk.source import NativeSource, RangedSource, Source
from headrace.sdk.transform import Transform

ROOT = Path(__file__).parents[2]
ACME = ROOT / "tests/packaging/headrace_acme"
PAGE = (ROOT / "docs/plugins.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
TEMPLATES = re.findall(r"^```python headrace new (\w+) (\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FILES = sorted(str(path.relative_to(ACME)) for path in ACME.rglob("*.*") if path.suffix in (".py", ".toml", ".yaml"))


@pytest.mark.parametrize(("name", "block"), BLOCKS, ids=[name for name, _ in BLOCKS])
def test_code_block_is_part_of_its_file(name: str, block: str) -> None:
    lines, part = (ACME / name).read_text(encoding="utf-8").splitlines(), block.splitlines()
    assert any(lines[start : start + len(part)] == part for start in range(len(lines) - len(part) + 1))


def test_every_file_of_the_example_is_shown() -> None:
    assert sorted({name for name, _ in BLOCKS}) == FILES


@pytest.mark.parametrize(("kind", "name", "text"), TEMPLATES, ids=[kind for kind, _, _ in TEMPLATES])
def test_new_plugin_equals_its_template(kind: str, name: str, text: str) -> None:
    assert dict(read_project(kind, name))[f"headrace_{name}.py"] == text


def test_every_kind_is_shown() -> None:
    """The page shows the source as part of a distribution, without its hook. Its sink differs from the template."""
    assert {kind for kind, _, _ in TEMPLATES} == PROJECT_KINDS.keys() - {"source", "sink"}
    source = dict(read_project("source", "acme_log"))["headrace_acme_log.py"]
    code, _, _ = source.replace(", Source, hookimpl", "").partition("\n\n@hookimpl")
    assert code == (ACME / "headrace_acme/source.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("hook", KINDS.values())
def test_every_hook_is_documented(hook: str) -> None:
    spec = getattr(hookspecs, hook)
    assert f'def {hook}() -> {inspect.signature(spec).return_annotation}:\n    """{spec.__doc__}"""\n' in PAGE


@pytest.mark.parametrize(
    "contract",
    [
        *(Plugin, Source, NativeSource, RangedSource, Format, Dialect, Connector, Transform),
        *(Observer, ObservedRun, RunEvent, RunEventKind),
        *(Sink, Capabilities, Batch, WriteResult, AuthProvider, Catalog, CatalogTable, FileSystem),
    ],
)
def test_every_part_of_a_contract_is_mentioned(contract: type) -> None:
    names = {*vars(contract), *inspect.get_annotations(contract)}
    missing = {n for n in names if not n.startswith("_") and not re.search(rf"\b{n}\b", PAGE)}
    assert not missing


def test_api_version_is_current() -> None:
    assert f"written for: `{API_VERSION}`, written out" in PAGE


def test_page_imports_only_public_modules() -> None:
    public = ("headrace.sdk", "headrace.testing", *public_api.FULLY_PUBLIC, *public_api.HELPERS)
    for module in re.findall(r"^\s*(?:from|import) (headrace\S*)", PAGE, re.MULTILINE):
        assert module in public or module.startswith(("headrace.testing.", "headrace_acme"))
