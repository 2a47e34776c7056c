"""Names of findings, of the core and of plugins, in docs/doctor.md."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.doctor import finding_kinds
from headrace.findings import FindingKind

ROOT = Path(__file__).parents[3]


def test_names_are_unique_words_with_hyphens() -> None:
    page = (ROOT / "docs/doctor.md").read_text(encoding="utf-8")
    names = re.findall(r"^\| `([^`]+)` \| (?:error|warning|note) \|", page, re.MULTILINE)
    assert len(names) == len(set(names)) > 40
    assert [name for name in names if not re.fullmatch(r"[a-z]+(-[a-z]+)+", name)] == []


def test_every_kind_of_the_core_is_used() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "core/headrace/doctor").glob("*.py"))
    constants = [name for name, kind in vars(finding_kinds).items() if isinstance(kind, FindingKind)]
    assert [name for name in constants if f"kinds.{name}" not in text] == []
