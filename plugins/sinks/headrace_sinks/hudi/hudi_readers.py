"""Features of Hudi tables that query engines support, from ``readers.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from headrace_sinks.reader_support import Source, Support, load_facts, read_source, read_support

#: Keys of an engine in ``readers.toml``.
FEATURES = ("copy_on_write", "merge_on_read")


@dataclass(frozen=True)
class HudiReader:
    """Query engine."""

    #: COPY_ON_WRITE: base files only.
    copy_on_write: Support
    #: MERGE_ON_READ: base files and log files. An engine that ignores log files returns rows as of the last compaction.
    merge_on_read: Support
    #: The newest `hoodie.table.version` that the engine reads, and the source of the fact; None when unknown.
    table_version: int | None = None
    version_source: Source | None = None


@cache
def load_readers() -> Mapping[str, HudiReader]:
    """Load the engines by name."""
    readers = {}
    for name, facts in load_facts()["hudi"].items():
        support = {feature: read_support(facts.get(feature)) for feature in FEATURES}
        version = facts.get("table_version", {})
        readers[name] = HudiReader(
            **support, table_version=version.get("newest"), version_source=read_source(version.get("source"))
        )
    return readers
