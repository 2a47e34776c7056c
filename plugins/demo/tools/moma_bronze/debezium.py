"""Avro schemas and events of Debezium's PostgreSQL connector 3.6.1."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from moma_bronze.history import ArtworkChange, Row
from moma_bronze.table import Table

Event = dict[str, Any]
Schema = dict[str, Any]

_VERSION = "3.6.1.Final"
_SNAPSHOT_VALUES = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
_TRANSACTION_ROWS, _TRANSACTION_MS = 100, 7
_CHANGE_BYTES = 256  # bytes of a change in the write-ahead log
_LAG_MS = 120  # from the commit to the event


class Connector:
    """Generator of a database's events. Each call continues in the write-ahead log after the previous one."""

    def __init__(self, lsn: int = 3_600_591_880_192, transaction: int = 138_039) -> None:
        self._lsn = self._committed = lsn
        self._transaction = transaction

    def snapshot(self, table: Table, rows: Sequence[Row], at_ms: int) -> Iterator[Event]:
        """Yield one `r` event per row. All of them have the log position at which the snapshot was taken."""
        last = len(rows) - 1
        for i, row in enumerate(rows):
            marker = "first" if i == 0 else "last" if i == last else "true"
            yield self._event(table, ArtworkChange("r", None, row), marker, [None, self._lsn], at_ms)
        self._commit()

    def stream(self, table: Table, changes: Sequence[ArtworkChange], at_ms: int) -> Iterator[Event]:
        """Yield one event per change, with complete row images. A transaction has a hundred changes."""
        for start in range(0, len(changes), _TRANSACTION_ROWS):
            commit_ms = at_ms + start // _TRANSACTION_ROWS * _TRANSACTION_MS
            for change in changes[start : start + _TRANSACTION_ROWS]:
                self._lsn += _CHANGE_BYTES
                yield self._event(table, change, "false", [self._committed, self._lsn], commit_ms)
            self._commit()

    def _commit(self) -> None:
        self._lsn += _CHANGE_BYTES
        self._committed = self._lsn
        self._transaction += 1

    def _event(
        self, table: Table, change: ArtworkChange, snapshot: str, position: Iterable[int | None], at_ms: int
    ) -> Event:
        sequence = [None if lsn is None else str(lsn) for lsn in position]
        source = {
            "version": _VERSION,
            "connector": "postgresql",
            "name": "moma",
            **_times(at_ms),
            "snapshot": snapshot,
            "db": "moma",
            "sequence": json.dumps(sequence, separators=(",", ":")),
            "schema": "public",
            "table": table.name,
            "txId": self._transaction,
            "lsn": self._lsn,
            "xmin": None,
            "origin": None,
            "origin_lsn": None,
        }
        return {
            "before": table.image(change.before),
            "after": table.image(change.after),
            "source": source,
            "transaction": None,
            "op": change.op,
            **_times(at_ms + _LAG_MS),
        }


def envelope_schema(table: Table) -> Schema:
    """Return the Avro schema of a table's events."""
    value = _record("Value", f"{table.topic}.Value", row_fields(table))
    return {
        **_record("Envelope", f"{table.topic}.Envelope", [], version=2),
        "namespace": table.topic,
        "fields": [
            optional("before", value),
            optional("after", "Value"),
            {"name": "source", "type": _source_schema()},
            optional("transaction", _transaction_schema()),
            {"name": "op", "type": "string"},
            *(optional(name, "long") for name in ("ts_ms", "ts_us", "ts_ns")),
        ],
    }


def row_fields(table: Table) -> list[Schema]:
    """Return the Avro fields of a row; only the key is NOT NULL."""
    key, *others = table.columns
    return [{"name": key.name, "type": key.type}, *(optional(column.name, column.type) for column in others)]


def optional(name: str, kind: Any) -> Schema:
    """Return a nullable Avro field in the format of Connect's converter."""
    return {"name": name, "type": ["null", kind], "default": None}


def _source_schema() -> Schema:
    snapshot: Schema = {
        "type": "string",
        "connect.version": 1,
        "connect.parameters": {"allowed": _SNAPSHOT_VALUES},
        "connect.default": "false",
        "connect.name": "io.debezium.data.Enum",
    }
    fields: list[Schema] = [
        *({"name": name, "type": "string"} for name in ("version", "connector", "name")),
        {"name": "ts_ms", "type": "long"},
        {"name": "snapshot", "type": [snapshot, "null"], "default": "false"},
        {"name": "db", "type": "string"},
        optional("sequence", "string"),
        optional("ts_us", "long"),
        optional("ts_ns", "long"),
        *({"name": name, "type": "string"} for name in ("schema", "table")),
        *(optional(name, "long") for name in ("txId", "lsn", "xmin")),
        optional("origin", "string"),
        optional("origin_lsn", "long"),
    ]
    namespace = "io.debezium.connector.postgresql"
    return {**_record("Source", f"{namespace}.Source", fields, version=1), "namespace": namespace}


def _transaction_schema() -> Schema:
    fields = [
        {"name": "id", "type": "string"},
        {"name": "total_order", "type": "long"},
        {"name": "data_collection_order", "type": "long"},
    ]
    return {**_record("block", "event.block", fields, version=1), "namespace": "event"}


def _record(name: str, connect_name: str, fields: list[Schema], version: int | None = None) -> Schema:
    versioned = {} if version is None else {"connect.version": version}
    return {"type": "record", "name": name, "fields": fields, **versioned, "connect.name": connect_name}


def _times(ms: int) -> dict[str, int]:
    return {"ts_ms": ms, "ts_us": ms * 1000, "ts_ns": ms * 1_000_000}
