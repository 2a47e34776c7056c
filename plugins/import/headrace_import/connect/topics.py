"""Topics that a connector writes or reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from headrace_import.pipeline_draft import Block

_GROUP = re.compile(r"\$(?:(\d)|\{(\w+)\})")


@dataclass(frozen=True)
class Topics:
    """Names of topics, or a Java regular expression of names. ``comment``: their origin."""

    names: Sequence[str] = ()
    pattern: str = ""
    comment: str = ""

    def write(self, kafka: Block) -> None:
        """Add the option of the source."""
        if self.pattern:
            kafka.add("subscribePattern", self.pattern, self.comment)
        else:
            kafka.add("subscribe", list(self.names), self.comment)

    def is_same(self, other: Topics) -> bool:
        return (set(self.names), self.pattern) == (set(other.names), other.pattern)

    def join(self, other: Topics) -> Topics:
        """Return the topics of both."""
        comment = f"{self.comment}; {other.comment}"
        if not self.pattern and not other.pattern:
            return Topics(tuple(dict.fromkeys([*self.names, *other.names])), "", comment)
        patterns = dict.fromkeys([self.as_pattern(), other.as_pattern()])
        return Topics((), "|".join(patterns), comment)

    def as_pattern(self) -> str:
        """Return a regular expression of the topics."""
        return self.pattern or f"(?:{'|'.join(map(quote_pattern, self.names))})"

    def has(self, name: str) -> bool:
        """Return whether a topic is one of these; True if the pattern cannot be evaluated here."""
        if not self.pattern:
            return name in self.names
        try:
            return bool(re.fullmatch(self.pattern, name))
        except re.error:
            return True


def quote_pattern(name: str) -> str:
    """Return a regular expression for a name. A name with a reference stays as it is."""
    if "${" in name:
        return name
    return re.sub(r"([^\w-])", r"[\1]", name).replace("[^]", r"\^").replace("[\\]", r"\\")


def route_name(name: str, regex: str, replacement: str) -> str | None:
    """Return the name for a topic whose whole name matches a regular expression; None for one that cannot be evaluated here."""

    def replace(match: re.Match[str]) -> str:
        return _GROUP.sub(lambda group: match[int(group[1]) if group[1] else group[2]] or "", replacement)

    try:
        return re.sub(regex, replace, name, count=1) if re.fullmatch(regex, name) else name
    except (re.error, IndexError):
        return None
