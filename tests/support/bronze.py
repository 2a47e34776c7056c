"""Bronze folders for tests, in the format of a Debezium PostgreSQL connector and the Confluent S3 sink.

::

    bronze = Bronze(tmp_path)
    artists = bronze.topic("moma.public.artists", key="id", columns={"id": "int", "name": "string"})
    artists.snapshot({"id": 1, "name": "Arp"})
    artists.update({"id": 1, "name": "Arp"}, {"id": 1, "name": "Hans Arp"})
    artists.delete({"id": 1, "name": "Hans Arp"})
    artists.flush()        # tmp_path/topics/moma.public.artists/partition=0/moma.public.artists+0+0000000000.avro
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import fastavro

Row = Mapping[str, Any]
#: Avro types by column: ``"int"``, ``"string"``, ``{"type": "int", "logicalType": "date"}``.
Columns = Mapping[str, Any]


class Bronze:
    """Folder of topics with one write-ahead log."""

    def __init__(self, folder: Path, format: Literal["avro", "json"] = "avro") -> None:  # noqa: A002 - the name of the option
        self.folder, self.format = folder, format
        self.lsn = 1000
        self.committed: int | None = None
        self.topics: list[Topic] = []

    def topic(self, name: str, *, key: str | Sequence[str], columns: Columns, full: bool = True) -> Topic:
        """Add the topic of a table. ``full``: REPLICA IDENTITY FULL, so that ``before`` has the row, otherwise at most its key."""
        topic = Topic(self, name, (key,) if isinstance(key, str) else tuple(key), columns, full=full)
        self.topics.append(topic)
        return topic

    def flush(self) -> list[Path]:
        """Write the pending events of every topic; return the files."""
        return [topic.flush() for topic in self.topics if topic.pending]


class Topic:
    """Events of one table; unwritten ones are in ``pending``, so a test can shuffle, repeat or change them."""

    def __init__(self, bronze: Bronze, name: str, key: tuple[str, ...], columns: Columns, *, full: bool) -> None:
        self.bronze, self.name, self.key, self.full = bronze, name, key, full
        #: Modify the columns between two flushes to change the table.
        self.columns = dict(columns)
        self.offset = 0
        self.pending: list[dict[str, Any]] = []

    def snapshot(self, row: Row) -> None:
        """Add a snapshot event (``r``). All events of a snapshot share one LSN."""
        self._add("r", None, row, {"snapshot": "true"})

    def insert(self, row: Row) -> None:
        self._commit([("c", None, row)])

    def update(self, before: Row, after: Row) -> None:
        """Add an update (``u``). A changed key becomes a delete and an insert with the same source block."""
        if self._key_of(before) == self._key_of(after):
            self._commit([("u", before if self.full else None, after)])
        else:
            self._commit([("d", self._before(before), None), ("c", None, after)])

    def delete(self, row: Row) -> None:
        self._commit([("d", self._before(row), None)])

    def event(self, op: str | None, before: Row | None, after: Row | None, **source: Any) -> None:
        """Add any event, including invalid ones. ``source`` replaces fields of the source block."""
        self._add(op, before, after, source)

    def flush(self) -> Path:
        """Write the pending events to one file, named by the offset of the first."""
        suffix = self.bronze.format
        path = self.bronze.folder / "topics" / self.name / "partition=0" / f"{self.name}+0+{self.offset:010d}.{suffix}"
        if suffix == "avro":
            write_avro(path, self.schema(), self.pending)
        else:
            write_lines(path, self.pending)
        self.offset += len(self.pending)
        self.pending = []
        return path

    def schema(self) -> dict[str, Any]:
        """Return the Avro schema of the events. Only the key is NOT NULL."""
        fields = [
            {"name": name, "type": kind} if name in self.key else optional(name, kind)
            for name, kind in self.columns.items()
        ]
        row = {"type": "record", "name": "Value", "fields": fields}
        source = {"type": "record", "name": "Source", "fields": _SOURCE}
        return {
            "type": "record",
            "name": "Envelope",
            "namespace": self.name,
            "fields": [
                optional("before", row),
                optional("after", "Value"),
                {"name": "source", "type": source},
                optional("op", "string"),
                optional("ts_ms", "long"),
                optional("transaction", {"type": "record", "name": "block", "fields": _TRANSACTION}),
            ],
        }

    def _commit(self, changes: list[tuple[str, Row | None, Row | None]]) -> None:
        """Commit a transaction of one statement; its events share a log position."""
        self.bronze.lsn += 8
        for op, before, after in changes:
            self._add(op, before, after, {})
        self.bronze.lsn += 8
        self.bronze.committed = self.bronze.lsn

    def _add(self, op: str | None, before: Row | None, after: Row | None, changed: Mapping[str, Any]) -> None:
        lsn = changed.get("lsn", self.bronze.lsn)
        sequence = [None if number is None else str(number) for number in (self.bronze.committed, lsn)]
        at_ms = 1_700_000_000_000 + self.bronze.lsn
        block = {
            "version": "3.6.1.Final",
            "connector": "postgresql",
            "name": self.name.split(".")[0],
            "ts_ms": at_ms,
            "snapshot": "false",
            "db": "moma",
            "sequence": json.dumps(sequence, separators=(",", ":")),
            "schema": "public",
            "table": self.name.split(".")[-1],
            "txId": self.bronze.lsn,
            "lsn": lsn,
        }
        self.pending.append(
            {
                "before": self._image(before),
                "after": self._image(after),
                "source": {**block, **changed},
                "op": op,
                "ts_ms": at_ms + 120,
                "transaction": None,
            }
        )

    def _image(self, row: Row | None) -> dict[str, Any] | None:
        return None if row is None else {name: row.get(name) for name in self.columns}

    def _before(self, row: Row) -> Row:
        return row if self.full else {name: row[name] for name in self.key}

    def _key_of(self, row: Row) -> list[Any]:
        return [row[name] for name in self.key]


def optional(name: str, kind: Any) -> dict[str, Any]:
    """Return a nullable Avro field in the format of Connect's converter."""
    return {"name": name, "type": ["null", kind], "default": None}


def write_avro(path: Path, schema: Mapping[str, Any], records: Sequence[Mapping[str, Any]], **options: Any) -> Path:
    """Write an Avro container file; ``options`` are fastavro's (``codec``, ``sync_interval``)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    fastavro.writer(buffer, fastavro.parse_schema(dict(schema)), records, **options)
    path.write_bytes(buffer.getvalue())
    return path


def write_lines(path: Path, lines: Sequence[Mapping[str, Any] | str | bytes]) -> Path:
    """Write a file of one JSON document per line; strings and bytes are written unchanged."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(_line(line) + b"\n" for line in lines))
    return path


def _line(line: Mapping[str, Any] | str | bytes) -> bytes:
    if isinstance(line, bytes):
        return line
    return (line if isinstance(line, str) else json.dumps(line)).encode()


_SOURCE = [
    *({"name": name, "type": "string"} for name in ("version", "connector", "name")),
    {"name": "ts_ms", "type": "long"},
    {"name": "snapshot", "type": ["string", "null"], "default": "false"},
    {"name": "db", "type": "string"},
    optional("sequence", "string"),
    {"name": "schema", "type": "string"},
    {"name": "table", "type": "string"},
    optional("txId", "long"),
    optional("lsn", "long"),
]
_TRANSACTION = [
    {"name": "id", "type": "string"},
    {"name": "total_order", "type": "long"},
    {"name": "data_collection_order", "type": "long"},
]
