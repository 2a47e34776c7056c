"""Features of Delta tables that query engines support, from ``readers.toml``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from headrace_sinks.reader_support import (
    Support,
    all_read,
    describe,
    incompatible_readers,
    join_names,
    load_facts,
    read_support,
    unknown_readers,
)

#: Keys of an engine in ``readers.toml``.
FEATURES = ("deletion_vectors", "type_widening", "column_mapping")


@dataclass(frozen=True)
class DeltaReader:
    """Query engine. Every engine reads tables without these features."""

    #: Rows that a file marks as deleted, instead of a new copy of the file.
    deletion_vectors: Support
    #: Files with a narrower type than the column of the table.
    type_widening: Support
    #: Columns with other names in files, which allows all characters in names (``delta.columnMapping.mode``).
    column_mapping: Support


@cache
def load_readers() -> Mapping[str, DeltaReader]:
    """Load the engines by name."""
    return {
        name: DeltaReader(**{feature: read_support(facts.get(feature)) for feature in FEATURES})
        for name, facts in load_facts()["delta"].items()
    }


def find_support(readers: Sequence[str], feature: str) -> dict[str, Support]:
    """Find the readers' support for a feature."""
    return {reader: getattr(load_readers()[reader], feature) for reader in readers}


def explain_widening(readers: Sequence[str]) -> str | None:
    """Return the reason why the type of a column must not be widened; None if all readers read such a table."""
    return _explain(readers, "type_widening", "type widening", "a column of which the type was widened")


def explain_mapping(readers: Sequence[str]) -> str | None:
    """Return the reason why columns must not be mapped; None if all readers read such a table."""
    return _explain(readers, "column_mapping", "column mapping", "mapped columns")


def _explain(readers: Sequence[str], feature: str, name: str, effect: str) -> str | None:
    support = find_support(readers, feature)
    if all_read(support):
        return None
    if incompatible_readers(support):
        return describe(support, name)
    return f"it is not known whether {join_names(unknown_readers(support))} can read {effect}"
