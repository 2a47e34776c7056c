"""Generator of the tables in docs/readers.md, from the facts by which the sinks choose the layout of tables."""  # noqa: INP001 - a script

from __future__ import annotations

from collections.abc import Iterable

from headrace_sinks.delta import delta_readers
from headrace_sinks.hudi import hudi_readers
from headrace_sinks.iceberg import iceberg_readers
from headrace_sinks.reader_support import Reads, Support, load_name_rules

#: The tables by their marks in the page.
TABLES = ("iceberg", "hudi", "delta", "names")


def reader_table(name: str) -> str:
    """Return a table of the page."""
    return {"iceberg": _build_iceberg, "hudi": _build_hudi, "delta": _build_delta, "names": _build_names}[name]()


def _build_iceberg() -> str:
    rows = [
        [f"`{name}`", *[_describe(getattr(reader, feature)) for feature in iceberg_readers.FEATURES]]
        for name, reader in iceberg_readers.load_readers().items()
    ]
    return _build_table(["reader", "position deletes", "equality deletes", "deletion vectors (version 3)"], rows)


def _build_hudi() -> str:
    rows = []
    for name, reader in hudi_readers.load_readers().items():
        version = f"{reader.table_version} ({reader.version_source})" if reader.table_version else "not known"
        features = [_describe(getattr(reader, feature)) for feature in hudi_readers.FEATURES]
        rows.append([f"`{name}`", *features, version])
    return _build_table(["reader", "COPY_ON_WRITE", "MERGE_ON_READ, log files", "newest table version"], rows)


def _build_delta() -> str:
    rows = [
        [f"`{name}`", *[_describe(getattr(reader, feature)) for feature in delta_readers.FEATURES]]
        for name, reader in delta_readers.load_readers().items()
    ]
    return _build_table(["reader", "deletion vectors", "type widening", "column mapping"], rows)


def _build_names() -> str:
    rows = [[f"`{name}`", f"{rule.sentence} ({rule.source})"] for name, rule in load_name_rules().items()]
    return _build_table(["reader", "column names"], rows)


def _describe(fact: Support) -> str:
    reads = f"**{fact.reads}**" if fact.reads is Reads.IGNORES else str(fact.reads)
    source = f" ({fact.source})" if fact.source else ""
    return reads + source + (f": {fact.note}" if fact.note else "")


def _build_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])
