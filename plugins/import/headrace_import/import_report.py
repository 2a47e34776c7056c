"""Report of an import: options without a counterpart, why, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from textwrap import fill

from headrace.sdk.options import escape_controls
from headrace_import.references import hide_salt

_WIDTH = 110


class Kind(Enum):
    """Section of the report, in the order of the report."""

    TO_DO = "to do before a run"
    NOT_IMPORTED = "not imported"
    UNKNOWN = "unknown options, not imported"
    NO_MEANING = "without meaning here"


@dataclass(frozen=True)
class Finding:
    """Options of an input with one explanation. ``keys`` may be empty: a value that no input has."""

    kind: Kind
    place: str
    keys: tuple[str, ...]
    why: str
    fix: str | None = None


@dataclass
class Report:
    """All findings of an import. The text never contains values of options, which may be secrets."""

    findings: list[Finding] = field(default_factory=list)
    #: Environment variables with a default in an input.
    lost_defaults: set[str] = field(default_factory=set)
    #: Name of a config provider of the worker → the same provider of headrace.
    providers: dict[str, str] = field(default_factory=dict)
    #: Environment variable → the value that it replaces.
    _variables: dict[str, str] = field(default_factory=dict, repr=False)

    def add(self, kind: Kind, place: str, keys: Iterable[str], why: str, fix: str | None = None) -> None:
        finding = Finding(kind, place, tuple(keys), why, fix)
        if finding not in self.findings:
            self.findings.append(finding)

    def name_variable(self, key: str, value: str) -> str:
        """Return the environment variable for a value: the name of its option, with a number for a second value."""
        name = re.sub(r"[^A-Z0-9]+", "_", key.upper()).strip("_") or "VALUE"
        names = (f"{name}_{number}" if number > 1 else name for number in count(1))
        return next(name for name in names if self._variables.setdefault(name, value) == value)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for kind in Kind:
            found = [finding for finding in self.findings if finding.kind is kind]
            if found:
                yield f"{kind.value}:"
            for finding in found:
                yield _paragraph(f"{finding.place}: {', '.join(map(write_key, finding.keys))}".removesuffix(": "), "- ")
                yield _paragraph(finding.why, "    ")
                if finding.fix:
                    yield _paragraph(f"fix: {finding.fix}", "    ")


def write_key(key: str) -> str:
    """Return the name of an option without line breaks and salts."""
    return escape_controls(hide_salt(key))


def _paragraph(text: str, start: str) -> str:
    return fill(
        text,
        _WIDTH,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )
