"""Correct sink with tables in this process. The kit must accept it, and the broken sinks derive from it."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headrace.errors import ConfigError, NoSuchTableError, RetriableError
from headrace.schema.promotion import promote
from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.sink import Batch, Capabilities, Sink, SinkConfig, Table, TableVersion, WriteResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

Record = dict[str, Any]
#: Types whose values do not change in JSON.
_PLAIN = ("string", "boolean", "integer", "long", "map")


@dataclass(frozen=True)
class Version:
    """Version of a table after a batch."""

    rows: tuple[Record, ...] = ()
    schema: DataType | None = None
    batches: tuple[Hashable, ...] = ()
    time: datetime = field(default_factory=lambda: datetime.now(UTC))


def commit(versions: list[Version], version: Version, seen: int) -> None:
    """Make a version the newest if it is based on the newest: the visible step of a write."""
    with _COMMITTING:
        if len(versions) != seen:
            raise RetriableError("another writer was quicker", fix="nothing is lost; start the pipeline again")
        versions.append(version)


_COMMITTING = threading.Lock()
#: Versions by store and table. Sinks keep no state, so copies of a sink find the tables.
TABLES: dict[tuple[str, str], list[Version]] = defaultdict(list)


class MemoryConfig(SinkConfig):
    """Location of the tables."""

    store: str
    """Name of a store in this process."""


class MemorySink(Sink):
    """Plugin of ``memory: {store: anything}``."""

    name = "memory"
    api_version = 1
    Config = MemoryConfig
    config: MemoryConfig
    capabilities = Capabilities(
        upsert=True,
        delete=True,
        schema_evolution=True,
        exactly_once=True,
        time_travel=True,
        single_pass=True,
        concurrent_writers=True,
    )

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        versions = self.versions(table)
        seen = len(versions)
        old = versions[-1] if versions else Version()
        if self.mark(batch) in old.batches:
            return WriteResult(version=f"v{seen}", skipped=True)
        if batch.mode == "append" and batch.is_applied(str(mark) for mark in reversed(old.batches)) is None:
            raise batch.unknown_error(f"table {table.name}", "use a new checkpoint and another store")
        incoming = self.read_rows(rows)
        schema = self.union(old, rows.drop(DELETED).schema)
        if batch.mode == "append":
            stored, changed = [*old.rows, *incoming], len(incoming)
        else:
            stored, changed = self.upsert(table, old, incoming)
        for row in stored:
            row.pop(DELETED, None)
        self.commit(versions, Version(tuple(stored), schema, (*old.batches, self.mark(batch))), seen)
        return WriteResult(upserted=changed, bytes=len(repr(stored)), version=f"v{len(versions)}")

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        from pyspark.sql import functions as F, types as T

        version = self.version(table, as_of)
        rows: Any = list(version.rows)
        schema: Any = version.schema
        if not all(field.dataType.typeName() in _PLAIN for field in schema):
            return spark.createDataFrame(rows, schema)
        text = F.lit(json.dumps(rows))  # rows of Python objects would need a Python process for each read
        return spark.range(0, 1, 1, 1).select(F.inline(F.from_json(text, T.ArrayType(schema))))

    def find_version(self, spark: SparkSession, table: Table) -> str | None:
        return f"v{len(self.versions(table))}" if self.versions(table) else None

    def list_versions(self, spark: SparkSession, table: Table) -> list[TableVersion]:
        return [
            TableVersion(f"v{number}", round(version.time.timestamp() * 1000), number == 1)
            for number, version in enumerate(self.versions(table), 1)
        ]

    def versions(self, table: Table) -> list[Version]:
        return TABLES[self.config.store, table.name]

    def version(self, table: Table, as_of: str | None) -> Version:
        versions = self.versions(table)
        if not versions:
            raise NoSuchTableError(f"there is no table {table.name!r}")
        if as_of is None:
            return versions[-1]
        if as_of.startswith("v"):
            return versions[int(as_of[1:]) - 1]
        try:
            time = datetime.fromisoformat(as_of).replace(tzinfo=UTC)
            return [version for version in versions if version.time <= time][-1]
        except (ValueError, IndexError):
            raise ConfigError(f"there is no version {as_of!r}") from None

    def commit(self, versions: list[Version], version: Version, seen: int) -> None:
        commit(versions, version, seen)

    def mark(self, batch: Batch) -> Hashable:
        return batch.mark

    def read_rows(self, rows: DataFrame) -> list[Record]:
        return [row.asDict(recursive=True) for row in rows.collect()]

    def union(self, old: Version, incoming: DataType) -> DataType:
        return incoming if old.schema is None else promote(old.schema, incoming)

    def key(self, table: Table, row: Record) -> Hashable:
        return repr([row[column] for column in table.key])

    def wins(self, row: Record, stored: Record | None) -> bool:
        return stored is None or row[POSITION] > stored[POSITION]

    def upsert(self, table: Table, old: Version, incoming: list[Record]) -> tuple[list[Record], int]:
        rows, changed = {self.key(table, row): row for row in old.rows}, 0
        for row in incoming:
            key = self.key(table, row)
            if not self.wins(row, rows.get(key)):
                continue
            if row[DELETED]:
                rows.pop(key, None)
            else:
                rows[key] = row
                changed += 1
        return list(rows.values()), changed
