"""Generator of the tables in docs/readers.md, from the data with which sinks select table formats."""  # noqa: INP001 - script

from __future__ import annotations

from collections.abc import Iterable

from headrace_sinks.hudi import hudi_readers
from headrace_sinks.iceberg import iceberg_readers
from headrace_sinks.reader_support import NAME_RULES, Reads, Support

#: The tables by their marks in the page.
TABLES = ("iceberg", "hudi", "names")


def reader_table(name: str) -> str:
    """Return a table of the page."""
    return {"iceberg": _iceberg, "hudi": _hudi, "names": _names}[name]()


def _iceberg() -> str:
    rows = [
        [f"`{name}`", _tell(reader.position_deletes), _tell(reader.equality_deletes), _tell(reader.deletion_vectors)]
        for name, reader in iceberg_readers.READERS.items()
    ]
    return _table(["reader", "position deletes", "equality deletes", "deletion vectors (version 3)"], rows)


def _hudi() -> str:
    rows = []
    for name, reader in hudi_readers.READERS.items():
        version = f"{reader.table_version} ({reader.version_source})" if reader.table_version else "not known"
        rows.append([f"`{name}`", _tell(reader.copy_on_write), _tell(reader.merge_on_read), version])
    return _table(["reader", "COPY_ON_WRITE", "MERGE_ON_READ, log files", "newest table version"], rows)


def _names() -> str:
    rows = [[f"`{name}`", f"{rule.sentence} ({rule.source})"] for name, rule in NAME_RULES.items()]
    return _table(["reader", "column names"], rows)


def _tell(fact: Support) -> str:
    reads = f"**{fact.reads}**" if fact.reads is Reads.IGNORES else str(fact.reads)
    source = f" ({fact.source})" if fact.source else ""
    return reads + source + (f": {fact.note}" if fact.note else "")


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])
