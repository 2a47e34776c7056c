"""Documentation pages and their code blocks."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.dist import ROOT

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += [ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "changelog.d/README.md"]
PAGES += [*sorted((ROOT / "benchmarks").glob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """Fenced block and its location."""

    page: str
    line: int
    language: str
    marks: tuple[str, ...]
    body: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def list_blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    for fence in FENCE.finditer(text):
        language, *marks = shlex.split(fence["info"]) or [""]
        line = text.count("\n", 0, fence.start()) + 1
        yield Block(str(page.relative_to(ROOT)), line, language, tuple(marks), textwrap.dedent(fence["body"]))


def find_block(page: str, language: str, part: str) -> str:
    """Return the content of the one block of a page, ``docs/aws.md``, in this language with ``part``."""
    (found,) = [block.body for block in list_blocks(ROOT / page) if block.language == language and part in block.body]
    return found
