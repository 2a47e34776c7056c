"""Features of Iceberg tables that query engines support, from ``readers.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from headrace_sinks.reader_support import Source, Support, load_facts, read_source, read_support

#: Keys of an engine in ``readers.toml``.
FEATURES = ("position_deletes", "equality_deletes", "deletion_vectors")


@dataclass(frozen=True)
class IcebergReader:
    """Query engine. Every engine reads data files of format version 2, which suffice for copy-on-write."""

    #: Format version 2: delete files with the positions of deleted rows, as Spark's merge-on-read writes them.
    position_deletes: Support
    #: Format version 2: delete files with the keys of deleted rows. Flink writes them, and headrace if all readers support them.
    equality_deletes: Support
    #: Format version 3: what merge-on-read writes instead of position deletes.
    deletion_vectors: Support
    #: Source of the fact that the engine finds tables only in the catalog of AWS Glue.
    glue_only: Source | None = None


@cache
def load_readers() -> Mapping[str, IcebergReader]:
    """Load the engines by name."""
    readers = {}
    for name, facts in load_facts()["iceberg"].items():
        support = {feature: read_support(facts.get(feature)) for feature in FEATURES}
        readers[name] = IcebergReader(**support, glue_only=read_source(facts.get("glue_only")))
    return readers
