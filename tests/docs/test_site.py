"""Site of the documentation: its navigation has every page, and its Markdown is that of GitHub. `tox run -e docs` builds it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from markdown_it import MarkdownIt
from tests.support.dist import ROOT
from tests.support.pages import PAGES


@pytest.fixture(scope="module", autouse=True)
def scripts() -> Iterator[None]:
    """Import the scripts of docs/ as MkDocs does."""
    sys.path.insert(0, str(ROOT / "docs"))
    yield
    sys.path.remove(str(ROOT / "docs"))


def load(name: str) -> ModuleType:
    return import_module(name)


def list_targets(navigation: Any) -> Iterator[str]:
    if isinstance(navigation, str):
        yield navigation
    for item in navigation if isinstance(navigation, list) else ():
        yield from list_targets(item)
    for item in navigation.values() if isinstance(navigation, dict) else ():
        yield from list_targets(item)


def read_settings() -> dict[str, Any]:
    """Return mkdocs.yml without its tags, which call Python."""
    text = re.sub(r"!\S+", "", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    settings: dict[str, Any] = yaml.safe_load(text)
    return settings


def test_navigation_has_every_page_once() -> None:
    index = load("index_pages")
    found = list(list_targets(index.make_navigation()))
    assert len(found) == len(set(found))
    pages = index.list_pages()
    assert sorted(pages.values()) == sorted(PAGES)
    hidden = [line.strip("/") for line in read_settings()["not_in_nav"].split()]
    missing = sorted(name for name in pages if name not in found and not any(Path(name).match(one) for one in hidden))
    assert missing == []
    assert set(found) <= set(pages)


def test_navigation_has_the_sections_of_the_index() -> None:
    text = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    sections = [next(iter(section)) for section in load("index_pages").make_navigation()]
    assert sections[1:] == re.findall(r"^## (.+)$", text, re.MULTILINE)


def test_settings_name_existing_files_and_fail_for_broken_links() -> None:
    settings = read_settings()
    assert (ROOT / settings["docs_dir"] / "index.md").is_file()
    assert all((ROOT / hook).is_file() for hook in settings["hooks"])
    assert set(settings["validation"]["links"].values()) == {"warn"}
    assert settings["theme"]["font"] is False


def test_llms_page_links_to_existing_files() -> None:
    text = (ROOT / "llms.txt").read_text(encoding="utf-8")
    assert text.startswith("# headrace\n\n> ")
    targets = re.findall(r"^- \[[^\n]+?\]\(([^)]+)\)", text, re.MULTILINE)
    assert len(targets) > 60
    assert [target for target in targets if not (ROOT / target).is_file()] == []


def test_links_are_resolved_from_the_page() -> None:
    rewrite = load("index_pages").rewrite_links
    text = "[a](b.md#c) ![i](i.png) [d](../README.md) [e](https://example.com) [f](#g)"
    page = ROOT / "docs/contracts/sink.md"
    assert rewrite(text, page, lambda label, path, anchor: f"<{label} {path}{anchor}>") == (
        "<a docs/contracts/b.md#c> ![i](i.png) <d docs/README.md> [e](https://example.com) [f](#g)"
    )


@pytest.mark.parametrize(
    ("github", "python"),
    [
        ("text\n- item\n", "text\n\n- item\n"),
        ("text of 2 and\n3. not an item\n", "text of 2 and\n3. not an item\n"),
        ("1. one\n   more\n2. two\n", "1. one\n    more\n2. two\n"),
        ("- one\n\n  ```sh\n  a\n\n    b\n  ```\n- two\n", "- one\n\n    ```sh\n    a\n\n      b\n    ```\n\n- two\n"),
        ("- a\n  - b\n- c\n", "- a\n    - b\n- c\n"),
        ("```python run title=x.py\n- no item\n```\n", "```python\n- no item\n```\n"),
    ],
)
def test_lists_and_fences_become_those_of_python_markdown(github: str, python: str) -> None:
    assert load("markdown_of_github").to_python_markdown(github) == python


def test_pages_keep_their_items_and_fences() -> None:
    """CommonMark, which accepts four spaces too, finds the same lists and code in the page for the site."""
    convert = load("markdown_of_github").to_python_markdown
    parser = MarkdownIt("commonmark")
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        before, after = ([token.type for token in parser.parse(one)] for one in (text, convert(text)))
        for kind in ("list_item_open", "ordered_list_open", "fence", "heading_open"):
            assert before.count(kind) == after.count(kind), (page, kind)
