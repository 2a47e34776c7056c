"""Model of a pipeline: decodes a pack's bytes, orders the changes and applies them. It shares no code with headrace."""

from __future__ import annotations

import fnmatch
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.support.oracle.decode import Raw, Row, Types, plain, read_files, read_messages
from tests.support.oracle.encode import encode_files, encode_messages

#: Sorts before every part of a position.
_NONE = -1
COUNTS = ("rows_in", "applied", "late", "superseded", "filtered", "dead_letters")


@dataclass
class Change:
    """Change of a row. ``row``: the row to store, or the key of a deleted row."""

    raw: Raw
    op: str | None = None
    deleted: bool = False
    key: tuple[Any, ...] | None = None
    row: Row = field(default_factory=dict)
    position: tuple[Any, ...] = ()
    error: str | None = None
    source_table: str | None = None

    @property
    def source(self) -> tuple[str, str | None]:
        """Topic and table of the change."""
        return self.raw.topic, self.source_table


@dataclass
class Table:
    """State of a target."""

    rows: dict[tuple[Any, ...], Change] = field(default_factory=dict)
    log: list[Row] = field(default_factory=list)
    deleted: dict[tuple[Any, ...], tuple[Any, ...]] = field(default_factory=dict)
    #: Position of the last truncate of each source table.
    truncated: dict[Any, tuple[Any, ...]] = field(default_factory=dict)
    #: Spelling of column names, by their lower case.
    names: dict[str, str] = field(default_factory=dict)


@dataclass
class Result:
    """Expected or observed result of a pack, as plain JSON."""

    tables: dict[str, list[Any]] = field(default_factory=dict)
    dead_letters: list[list[Any]] = field(default_factory=list)
    runs: list[dict[str, dict[str, int | None]]] = field(default_factory=list)


def expect(pack: Mapping[str, Any]) -> Result:
    """Return the expected result of a pack."""
    model = Model(pack)
    batches: Iterable[Iterable[Raw]]
    if pack["transport"] == "files":
        batches = (read_files(files) for files in encode_files(pack))
    else:
        messages, schemas = encode_messages(pack)
        batches = (read_messages(found, pack["format"], schemas) for found in messages)
    for records in batches:
        model.batch(list(records))
    return model.result()


class Model:
    """Tables, dead letters and counts of a pipeline after its batches."""

    def __init__(self, pack: Mapping[str, Any]) -> None:
        self._pack = pack
        self._rules = [rule for case in pack["cases"] for rule in case["rules"]]
        self._types = Types()
        self._tables: dict[str, Table] = {}
        self._source_tables: dict[str, str] = {}
        self._dead_letters: list[list[Any]] = []
        self._runs: list[dict[str, dict[str, int | None]]] = []

    def batch(self, records: list[Raw]) -> None:
        """Apply a batch."""
        # A record whose values do not fit the columns may still name its table.
        names = {id(record): _target(self._rule(record.topic), record) for record in records}
        if self._pack["format"] == "json":
            self._fit_types(records)
        targets: dict[str, list[Change]] = {}
        for record in records:
            # A tombstone follows its delete. Boundaries of transactions are no rows.
            if record.is_tombstone or {"status", "id", "event_count"} <= (record.value or {}).keys():
                continue
            rule = self._rule(record.topic)
            change = read_change(record, rule["key"], self._pack)
            self._check_table(change, rule)
            targets.setdefault(names[id(record)], []).append(change)
        self._runs.append({target: dict(self._apply(target, changes)) for target, changes in targets.items()})

    def _fit_types(self, records: list[Raw]) -> None:
        """Convert JSON without schemas to the types of its topic and table."""
        groups: dict[str, list[Raw]] = {}
        for record in records:
            groups.setdefault(f"{record.topic} {_target(self._rule(record.topic), record)}", []).append(record)
        for name, found in groups.items():
            columns = self._rule(found[0].topic).get("columns", {})
            # The row before a change is only read to keep a deleted row.
            self._types.fit(name, columns, found, reads_before=self._pack["deletes"] == "rewrite")

    def result(self) -> Result:
        """Return the tables, dead letters and counts so far."""
        tables = {}
        for name, table in self._tables.items():
            rows = [change.row for change in table.rows.values()] if self._pack["mode"] == "upsert" else table.log
            tables[name] = sorted((plain(row) for row in rows), key=_text)
        return Result(tables, sorted(self._dead_letters, key=_text), self._runs)

    def _rule(self, topic: str) -> Row:
        return next(rule for rule in self._rules if fnmatch.fnmatchcase(topic, rule["source"]))

    def _check_table(self, change: Change, rule: Row) -> None:
        """Reject a change of another table than its topic's, regardless of its other faults."""
        if change.source_table is None or rule.get("route.by.field") or rule.get("logical.table"):
            return
        if change.error == "op-not-a-row":
            return
        if self._source_tables.setdefault(change.raw.topic, change.source_table) != change.source_table:
            change.error = "other-table"

    def _apply(self, target: str, changes: list[Change]) -> Counter[str]:
        table = self._tables.setdefault(target, Table())
        counts = Counter(dict.fromkeys(COUNTS, 0))
        for change in changes:
            self._spell(table, change)
        counts["rows_in"] = len(changes)
        truncates = [change for change in changes if change.error == "truncated"]
        is_emptied = self._pack["mode"] == "upsert" and self._pack["deletes"] == "tombstone"
        for change in changes:
            if change.error and not (is_emptied and change.error == "truncated"):
                raw = change.raw
                offset = raw.offset
                self._dead_letters.append([target, change.error, raw.topic, raw.partition, offset])
                counts["dead_letters"] += 1
        accepted = [change for change in changes if change.error is None]
        if self._pack["deletes"] == "drop":
            counts["filtered"] = sum(change.deleted for change in accepted)
            accepted = [change for change in accepted if not change.deleted]
        if self._pack["mode"] == "upsert":
            self._upsert(table, accepted, counts)
        else:
            counts["applied"] = len(accepted)
            table.log += [self._log_row(change) for change in accepted]
        for change in truncates if is_emptied else ():
            table.truncated[change.source] = max(change.position, table.truncated.get(change.source, ()))
        table.rows = {
            key: stored
            for key, stored in table.rows.items()
            if stored.position >= table.truncated.get(stored.source, ())
        }
        return counts

    def _spell(self, table: Table, change: Change) -> None:
        """Use the first spelling of each column."""
        if change.error is None:
            for name in change.row:
                table.names.setdefault(name.lower(), name)
            change.row = {table.names[name.lower()]: value for name, value in change.row.items() if value is not None}

    def _upsert(self, table: Table, changes: list[Change], counts: Counter[str]) -> None:
        latest: dict[Any, Change] = {}
        for change in changes:
            if change.source in table.truncated and change.position <= table.truncated[change.source]:
                continue
            assert change.key is not None
            if change.key not in latest or latest[change.key].position < change.position:
                latest[change.key] = change
        counts["superseded"] = len(changes) - len(latest)
        for key, change in latest.items():
            stored = table.rows.get(key)
            if change.deleted:
                counts["applied"] += 1
                table.deleted[key] = max(table.deleted.get(key, ()), change.position)
                if stored and stored.position < change.position:
                    del table.rows[key]
            elif change.position < table.deleted.get(key, ()) or (stored and stored.position >= change.position):
                counts["late"] += 1
            else:
                counts["applied"] += 1
                table.rows[key] = change

    def _log_row(self, change: Change) -> Row:
        return {**change.row, "__op": change.op} if self._pack["mode"] == "changelog" else change.row


def read_change(raw: Raw, key: list[str], pack: Mapping[str, Any]) -> Change:
    """Return the change of a record. Its key is the record's, or for files and AWS DMS the key columns of the rule."""
    change, deletes, value = Change(raw, error=raw.error), pack["deletes"], raw.value
    if value is None:
        return change
    is_dms = isinstance(value.get("metadata"), dict) and "operation" in value["metadata"]
    if "source" in value:
        _read_envelope(change, value, deletes)
    elif is_dms:
        _read_dms(change, value)
    else:
        _read_flat(change, value, deletes)
    if value.get("ddl") is not None:
        change.error = "op-not-a-row"
    change.error = raw.error or change.error
    image = change.row if pack["transport"] == "files" or is_dms else raw.key or {}
    change.key = tuple(_text(plain(image.get(name))) for name in key)
    if change.error is None and any(image.get(name) is None for name in key):
        change.error = "key-missing"
    if change.deleted and change.error is None and "source" in value and deletes == "tombstone":
        change.row = {name: change.row.get(name) for name in key}
    return change


def position(source: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the position of a source block in the database's log; an empty one if it has none."""
    if "commit_lsn" in source:
        lsns = [source.get(name) or "" for name in ("commit_lsn", "change_lsn")]
        return (*((len(lsn), lsn) for lsn in lsns), _or_none(source.get("event_serial_no")))
    if "file" in source and "pos" in source:
        number = re.search(r"(\d+)$", source["file"] or "")
        file = int(number[1]) if number else _NONE
        return (file, _or_none(source["pos"]))
    if "lsn" in source or source.get("sequence"):
        pair = [None if part is None else int(part) for part in json.loads(source.get("sequence") or "[null,null]")]
        lsn = source.get("lsn") if source.get("lsn") is not None else pair[1]
        commit = pair[0] if pair[0] is not None else lsn
        return (_or_none(commit), _or_none(lsn))
    return ()


def _read_envelope(change: Change, value: Row, deletes: str) -> None:
    source = value.get("source") or {}
    after, before, op = value.get("after"), value.get("before"), value.get("op")
    change.op, change.deleted = op, op == "d"
    change.position = (*position(source), change.raw.place)
    if source.get("table") is not None:
        change.source_table = ".".join(str(source[name]) for name in ("db", "schema", "table") if source.get(name))
    change.row = dict((before if op == "d" else after) or after or before or {})
    if op is None:
        change.error = "op-missing"
    elif op == "t":
        change.error = "truncated"
    elif op == "m":
        change.error = "op-not-a-row"
    elif op not in ("c", "r", "u", "d"):
        change.error = "op-unknown"
    elif op != "d" and after is None:
        change.error = "after-missing"
    if deletes == "rewrite":
        change.row["__deleted"] = "true" if change.deleted else "false"
        change.deleted = False


def _read_flat(change: Change, value: Row, deletes: str) -> None:
    change.op = value.get("__op")
    change.deleted = deletes != "rewrite" and (value.get("__deleted") == "true" or value.get("__op") == "d")
    source = {
        name.removeprefix("__").removeprefix("source_"): inner for name, inner in value.items() if name[:2] == "__"
    }
    change.position = (*position(source), change.raw.place)
    if source.get("table") is not None:
        change.source_table = ".".join(str(source[name]) for name in ("db", "schema", "table") if source.get(name))
    change.row = dict(value)


def _read_dms(change: Change, value: Row) -> None:
    metadata = value["metadata"]
    operation, table = metadata.get("operation"), metadata.get("table-name")
    time = metadata.get("timestamp")
    micros = _NONE if time is None else int(datetime.fromisoformat(time).timestamp() * 1_000_000)
    change.position = (micros, change.raw.place)
    change.row = dict(value.get("data") or {})
    change.op = {"delete": "d", "update": "u", "insert": "c", "load": "r"}.get(operation)
    change.deleted = change.op == "d"
    if metadata.get("record-type") == "control" or (table or "").startswith("awsdms_"):
        change.error = "op-not-a-row"
    elif operation is None:
        change.error = "op-missing"
    elif change.op is None:
        change.error = "op-unknown"
    elif value.get("data") is None:
        change.error = "after-missing"
    if table is not None and change.error != "op-not-a-row":
        change.source_table = ".".join(filter(None, [metadata.get("schema-name"), table]))


def _target(rule: Row, raw: Raw) -> str:
    topic = raw.topic
    if fields := rule.get("route.by.field"):
        values = [_at(raw.value or raw.misread, path) for path in fields]
        if all(value is not None for value in values):
            topic = ".".join(str(value) for value in values)
    return str(rule["target"]).replace("{topic}", topic).replace("{table}", topic.split(".")[-1])


def _at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _or_none(number: Any) -> int:
    return _NONE if number is None else int(number)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
