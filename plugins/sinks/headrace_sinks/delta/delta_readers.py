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
FEATURES = ("deletion_vectors", "type_widening")


@dataclass(frozen=True)
class DeltaReader:
    """Query engine. Every engine reads tables without these features."""

    #: Rows that a file marks as deleted, instead of a new copy of the file.
    deletion_vectors: Support
    #: Files with a narrower type than the column of the table.
    type_widening: Support


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
    support = find_support(readers, "type_widening")
    if all_read(support):
        return None
    if incompatible_readers(support):
        return describe(support, "type widening")
    return f"it is not known whether {join_names(unknown_readers(support))} can read a column of which the type was widened"
