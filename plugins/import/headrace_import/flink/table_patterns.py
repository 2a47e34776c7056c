r"""Names and patterns of tables in Flink CDC: ``db.table``, with ``\.`` for the dot of a regular expression."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.sdk import ConfigError

_PLAIN = re.compile(r"[\w$-]+")
#: Parts of a pattern that a glob of headrace can express.
_WILD = re.compile(r"[\w$-]*(\.\*[\w$-]*)*")


@dataclass(frozen=True)
class TablePattern:
    """Pattern of tables. ``parts``: regular expressions of the database or schema, and of the table."""

    parts: tuple[str, ...]

    @property
    def is_name(self) -> bool:
        return all(_PLAIN.fullmatch(part) for part in self.parts)

    @property
    def is_all(self) -> bool:
        return all(part == ".*" for part in self.parts)

    @property
    def text(self) -> str:
        """Regular expression of the name, for a list of Debezium."""
        return ".".join(self.parts) if self.is_name else "[.]".join(self.parts)

    @property
    def glob(self) -> str | None:
        """Glob of the name; None if a glob cannot express the pattern."""
        if not all(_WILD.fullmatch(part) for part in self.parts):
            return None
        return ".".join(part.replace(".*", "*") for part in self.parts)

    def matches(self, name: str) -> bool:
        """Return whether the pattern matches a name; False if its regular expression does not compile here."""
        try:
            return re.fullmatch("[.]".join(f"(?:{part})" for part in self.parts), name) is not None
        except re.error:
            return False

    def overlaps(self, other: TablePattern) -> bool:
        """Return whether a table may match both. Two regular expressions overlap unless the names of a part differ."""
        for one, two in ((self, other), (other, self)):
            if one.is_name:
                return two.matches(one.text)
        pairs = zip(self.parts, other.parts, strict=True)
        return not any(_PLAIN.fullmatch(one) and _PLAIN.fullmatch(two) and one != two for one, two in pairs)

    def fill_target(self, target: str, name: str) -> str:
        """Return the target of a table with this name: with its table and the groups of the pattern."""
        match = re.fullmatch("[.]".join(f"(?:{part})" for part in self.parts), name)
        target = target.replace("{table}", name.rpartition(".")[2])
        return re.sub(r"\{(\d)\}", lambda group: (match[int(group[1])] or "") if match else "", target)


@dataclass(frozen=True)
class TableSelection:
    """Tables of a route or a transform: a list of patterns."""

    patterns: tuple[TablePattern, ...]

    @property
    def is_all(self) -> bool:
        return any(pattern.is_all for pattern in self.patterns)

    def overlaps(self, other: TableSelection) -> bool:
        """Return whether a table may be in both."""
        return any(one.overlaps(two) for one in self.patterns for two in other.patterns)


def parse_patterns(text: str, levels: int, where: str) -> list[TablePattern]:
    """Return the patterns of a list with commas. ``levels``: number of parts of the names in the topics."""
    return [parse_pattern(item, levels, where) for item in re.split(r",(?![^\[({]*[\])}])", text) if item.strip()]


def parse_pattern(text: str, levels: int, where: str) -> TablePattern:
    r"""Return a pattern. A dot with a backslash belongs to the regular expression, others separate the parts.

    A pattern with fewer parts than the names matches any database. ConfigError for a part such as ``*``, which repeats nothing.
    """
    parts = [part.replace("\\.", ".") for part in re.split(r"(?<!\\)\.", text.strip())]
    for part in parts:
        if part.startswith(("*", "+", "?")):
            fix = r"write `\.*` for any name, such as `db.\.*`"
            raise ConfigError(f"the pattern of tables repeats nothing: {part}", where=where, fix=fix)
    return TablePattern((*[".*"] * (levels - len(parts)), *parts[-levels:]))
