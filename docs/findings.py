"""Generator of the table in docs/doctor.md, from the kinds of findings that the core and the plugins define."""  # noqa: INP001 - a script

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from headrace.findings import FindingKind, Severity

#: Text of modules that define kinds.
_DEFINES = "FindingKind("


def list_kinds() -> list[FindingKind]:
    """Return the kinds of this distribution by severity and name."""
    found = {
        kind
        for module in _list_modules()
        for kind in vars(import_module(module)).values()
        if isinstance(kind, FindingKind)
    }
    return sorted(found, key=lambda kind: (list(Severity).index(kind.severity), kind.name))


def finding_table() -> str:
    """Return a table of all kinds."""
    rows = [f"| `{kind.name}` | {kind.severity} | {kind.meaning} |" for kind in list_kinds()]
    return "\n".join(["| name | severity | meaning |", "|---|---|---|", *rows])


def _list_modules() -> Iterator[str]:
    """Yield the core's module of kinds, and the modules of plugins that define kinds."""
    yield "headrace.doctor.finding_kinds"
    for package in sorted((Path(__file__).parents[1] / "plugins").glob("*/headrace_*")):
        for path in sorted(package.rglob("*.py")):
            if _DEFINES in path.read_text(encoding="utf-8"):
                yield ".".join(path.relative_to(package.parent).with_suffix("").parts)
