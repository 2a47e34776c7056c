"""Pages of docs/index.md: the navigation of the site, and llms.txt."""  # noqa: INP001 - a script

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
#: Pages outside docs/ that the site has, as patterns from the root of the repository.
_OUTSIDE = ("*.md", "benchmarks/*.md", "changelog.d/README.md", "examples/**/*.md")
#: Page of the repository → page of the site, where the names differ: the site has an index already.
_RENAMED = {"README.md": "overview.md"}
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
#: Section of the pages that the first paragraph names.
_START = "Start"
_SUMMARY = (
    "headrace is a plugin SDK on PySpark. It applies change events of databases (Debezium over Kafka, Kinesis or files) to Iceberg, Hudi, "
    "Delta and S3 tables. A pipeline is one YAML file; `headrace run FILE` runs it."
)


@dataclass(frozen=True)
class Entry:
    """Page of the index. ``target``: path from the root of the repository. ``starts``: the link starts its line."""

    title: str
    target: str
    note: str
    starts: bool


def read_index() -> dict[str, list[Entry]]:
    """Return the sections of the index with their pages, each page once."""
    start, *parts = (DOCS / "index.md").read_text(encoding="utf-8").split("\n## ")
    sections, seen = {_START: list(_read(start))}, set()
    for part in parts:
        heading, _, body = part.partition("\n")
        lines = re.findall(r"^- (.+(?:\n  .+)*)", body, re.MULTILINE)
        sections[heading] = [entry for line in lines for entry in _read(line)]
    for heading, entries in sections.items():
        sections[heading] = [entry for entry in entries if not (entry.target in seen or seen.add(entry.target))]
    return sections


def _read(line: str) -> Iterator[Entry]:
    line = re.sub(r"\s+", " ", line)
    for link in _LINK.finditer(line):
        title, target = link[1], link[2]
        if "#" not in target and "://" not in target:
            rest = _LINK.sub(r"\1", line[link.end() :]).lstrip(":,; ") if link.start() == 0 else ""
            yield Entry(title, posixpath.normpath(f"docs/{target}"), rest, starts=link.start() == 0)


def list_pages() -> dict[str, Path]:
    """Return page of the site → file, also for pages outside docs/."""
    pages = {page.relative_to(DOCS).as_posix(): page for page in sorted(DOCS.rglob("*.md"))}
    outside = {page for pattern in _OUTSIDE for page in ROOT.glob(pattern)}
    return pages | {to_site(page.relative_to(ROOT).as_posix()): page for page in sorted(outside)}


def to_site(path: str) -> str:
    """Return the page of the site for a page of the repository."""
    return _RENAMED.get(path, path.removeprefix("docs/"))


def make_navigation() -> list[object]:
    """Return the navigation for MkDocs: the index, its sections, and all decisions."""
    decisions = sorted(page for page in list_pages() if page.startswith("decisions/0"))
    navigation: list[object] = []
    for section, entries in read_index().items():
        pages: list[object] = ["index.md"] if section == _START else []
        for entry in entries:
            page = to_site(entry.target)
            if page == "decisions/README.md":
                pages.append({entry.title: [page, *decisions]})
            else:
                pages.append({entry.title: page} if entry.starts else page)
        navigation.append({section: pages})
    return navigation


def rewrite_links(text: str, page: Path, replace: Callable[[str, str, str], str]) -> str:
    """Return a page with its relative links replaced. ``replace``: label, path from the root of the repository, anchor → link."""

    def rewrite(link: re.Match[str]) -> str:
        target, mark, anchor = link[2].partition("#")
        if "://" in target or not target:
            return link[0]
        return replace(link[1], (page.parent / target).resolve().relative_to(ROOT).as_posix(), mark + anchor)

    return _LINK.sub(rewrite, text)


def llms_page() -> str:
    """Return llms.txt: the index for language models, with links to the sources of the pages."""
    parts = ["# headrace", f"> {_SUMMARY}"]
    for section, entries in read_index().items():
        parts += [f"## {section}", "\n".join(map(_format_entry, entries))]
    return "\n\n".join(parts) + "\n"


def _format_entry(entry: Entry) -> str:
    """Return a line of llms.txt. A link inside a sentence has a name that needs the sentence, so the page's title replaces it."""
    title = (
        entry.title if entry.starts else (ROOT / entry.target).read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
    )
    return f"- [{title}]({entry.target})" + (f": {entry.note}" if entry.note else "")
