"""Model of a change history: a database, a connector with outages, and topics of several partitions.

The model excludes cases without a guarantee:

- ordering by offset with added partitions: only envelopes of a database, which its log orders, have a guaranteed order;
- changes from before the start of a snapshot, in the first transaction of a new slot or in the transaction after a snapshot in
  mid-stream: their LSNs do not show that they are newer than the rows of the snapshot;
- a change in a new partition with the position of an earlier change in an old partition: their offsets are not comparable;
- an older change of a key that is repeated after a tombstone whose delete was compacted: a tombstone has no log position.

tests/core/upsert/test_histories.py covers unavailable values.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

Row = dict[str, Any]
KEYS = range(1, 6)
#: Columns that are added later; the first values of ``note`` are empty strings.
LATER = ("note", "size")
TABLES = ("people", "places")
#: Added to the positions of the first table of ``Shape.is_merged``, whose server has written more.
_AHEAD = 2**36


@dataclass(frozen=True)
class Shape:
    """Constants of a history.

    ``shared``: both tables are in one topic, ``routed`` by their name or ``unrouted`` without such a rule; or both are in one
    target, ``merged`` from two topics or ``logical`` in one. ``rewrites``: a delete keeps its row; ``modes``: modes of the two
    sinks.
    """

    connector: str
    has_schemas: bool
    tables: tuple[str, ...]
    shared: str | None
    rewrites: bool
    modes: tuple[str, str]

    def topic(self, table: str) -> str:
        return f"w.{table}" if self.shared in (None, "merged") else "w.all"

    @property
    def is_merged(self) -> bool:
        """Whether the tables are shards: on two servers, in one target, and with different keys."""
        return self.shared in ("merged", "logical")

    def keys(self, table: str) -> range:
        """Return the keys that rows of a table may have."""
        start = 101 if self.is_merged and table == TABLES[1] else KEYS.start
        return range(start, start + len(KEYS))

    @property
    def removes_rows(self) -> bool:
        return "upsert" in self.modes and not self.rewrites


@dataclass(frozen=True)
class Event:
    """Change event of a row from a connector.

    ``number`` is the order in the database, ``position`` the number of the first event with the same log position.
    """

    number: int
    position: int
    table: str
    op: str
    key: int | None
    before: Row | None
    after: Row | None
    source: Row
    headers: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        marker = self.source["snapshot"]
        log = "/".join(
            str(self.source[name]) for name in ("sequence", "lsn", "file", "pos", "row") if name in self.source
        )
        of_snapshot = "" if marker == "false" else f" ({marker})"
        return f"#{self.number} {self.op} {self.table} {self.key} {self.after or ''} {log}{of_snapshot}"


@dataclass(frozen=True)
class Record:
    """Event or tombstone with its topic, partition and offset."""

    event: Event
    topic: str
    partition: int
    offset: int
    is_tombstone: bool = False

    @property
    def location(self) -> tuple[int, int]:
        return self.offset, self.partition

    def __str__(self) -> str:
        content = f"tombstone {self.event.table} {self.event.key}" if self.is_tombstone else str(self.event)
        return f"{self.topic}+{self.partition}+{self.offset} {content}"


class Clock:
    """Log position of a database and state of its connector."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance

    def begin(self) -> None:
        """Begin a transaction."""

    def change(self, *, same: bool) -> Row:
        """Return the position of a change. ``same``: that of the previous change, of another row in the same statement."""
        raise NotImplementedError

    def truncate(self) -> Row:
        """Return the position of a truncate."""
        return self.change(same=False)

    def commit(self) -> None:
        """Commit the transaction."""

    def separate(self) -> None:
        """Give the next change a position of its own."""

    def read(self) -> Row:
        """Return the position at which a snapshot starts."""
        raise NotImplementedError

    def lose(self) -> None:
        """Forget the state of the connector, as a new connector does."""


class PostgresClock(Clock):
    """LSNs, and the last commit of a slot."""

    def __init__(self, chance: Random) -> None:
        super().__init__(chance)
        # Start shortly before LSNs with one more digit.
        self._lsn = chance.choice((230, 2**24 - 300, 2**32 - 300))
        self._last_commit: int | None = None
        self._change_lsn = 0
        #: First LSN of the next transaction if it started before this one was committed.
        self._early: int | None = None
        self._next: int | None = None

    def begin(self) -> None:
        self._next, self._early = self._early, None
        if self.chance.random() < 0.2:
            self._early = self._tick()

    def change(self, *, same: bool) -> Row:
        if not same:
            self._change_lsn, self._next = self._next or self._tick(), None
        return self._block(self._change_lsn)

    def commit(self) -> None:
        self._last_commit = self._tick()

    def read(self) -> Row:
        self._early = None
        return self._block(self._tick())

    def lose(self) -> None:
        self._last_commit = self._early = None

    def _tick(self) -> int:
        self._lsn += self.chance.randint(1, 40)
        return self._lsn

    def _block(self, lsn: int) -> Row:
        commit = None if self._last_commit is None else str(self._last_commit)
        return {"schema": "public", "sequence": json.dumps([commit, str(lsn)], separators=(",", ":")), "lsn": lsn}


class MysqlClock(Clock):
    """Binlog files, positions, and rows of a statement.

    In the later files, all changes of a transaction have its position, as in a compressed transaction, or in MariaDB from 11.4 on.
    The first transaction after a snapshot starts at the position of the snapshot.
    """

    def __init__(self, chance: Random) -> None:
        super().__init__(chance)
        self._file, self._pos, self._row = chance.choice((8, 999998)), chance.choice((4, 90, 990)), 0
        self._has_rows_without_positions = self._file > 8
        #: Whether the next change has the current position.
        self._stays = False

    def begin(self) -> None:
        if self.chance.random() < 0.2:
            self._file, self._pos = self._file + 1, 4

    def change(self, *, same: bool) -> Row:
        self._row = self._row + 1 if same else 0
        step = 0 if same else self.chance.randint(1, 40)
        self._pos += 0 if self._stays else step
        self._stays = self._has_rows_without_positions
        return self._block(self._pos, self._row)

    def truncate(self) -> Row:
        self.separate()
        block = super().truncate()
        self.separate()
        return block

    def commit(self) -> None:
        self.separate()

    def separate(self) -> None:
        self._stays = False

    def read(self) -> Row:
        self._pos += 40
        self._stays = self._has_rows_without_positions
        return self._block(self._pos, 0)

    def _block(self, pos: int, row: int) -> Row:
        return {"sequence": None, "server_id": 1, "file": f"binlog.{self._file:06d}", "pos": pos, "row": row}


_CLOCKS = {"postgresql": PostgresClock, "mysql": MysqlClock}
CONNECTORS = tuple(_CLOCKS)


@dataclass
class DatabaseModel:
    """Database, connector and topics."""

    shape: Shape
    chance: Random
    partitions: int
    trace: list[str] = field(default_factory=list)
    #: Records by topic and partition; None for compacted records.
    logs: dict[tuple[str, int], list[Record | None]] = field(default_factory=dict)
    #: Number of the last change of which only a tombstone remains, by table and key.
    compacted: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clock = _CLOCKS[self.shape.connector](self.chance)
        self.rows: dict[str, dict[int, Row]] = {table: {} for table in self.shape.tables}
        self.columns = {table: ["name"] for table in self.shape.tables}
        #: Tables and keys of rows that may have been deleted without an event.
        self.unreported_deletes: set[tuple[str, int]] = set()
        #: Tables that change. The second source of a target may be added later.
        self.active = self.shape.tables
        if self.shape.is_merged and self.chance.random() < 0.7:
            self.active = (self.chance.choice(self.shape.tables),)
        self.sent: list[Event] = []
        self._number = 0
        #: Number of the first event of each log position.
        self._positions: dict[tuple[Any, ...], int] = {}
        self._salt = self.chance.randrange(100)

    @property
    def records(self) -> Iterator[Record]:
        return (record for log in self.logs.values() for record in log if record is not None)

    # Changes of the database.

    def transaction(self, *, unseen: bool = False) -> None:
        """Make a few changes. ``unseen``: no connector reports them."""
        if self.active != self.shape.tables and self.chance.random() < 0.1:
            self.active = self.shape.tables
        self.clock.begin()
        op = ""
        for _ in range(self.chance.randint(1, 4)):
            table = self.chance.choice(self.active)
            for event in self._change(table, op):
                op = "" if event.headers else event.op
                if unseen:
                    keys = self.shape.keys(table)
                    self.unreported_deletes |= {(table, key) for key in keys if key not in self.rows[table]}
                    self.trace.append(f"  unseen: {event}")
                else:
                    self._send(event)
        self.clock.commit()

    def put(self, table: str, key: int) -> None:
        """Insert or update a row in its own transaction."""
        self._send(self._put(table, "u" if key in self.rows[table] else "c", key, self.clock.change(same=False)))
        self.clock.commit()

    def truncate(self, table: str) -> None:
        """Truncate a table in its own transaction."""
        self.rows[table].clear()
        self._send(self._event(table, "t", None, None, None, self.clock.truncate()))
        self.clock.commit()

    def add_column(self) -> None:
        table = self.chance.choice(self.shape.tables)
        if new := [name for name in LATER if name not in self.columns[table]]:
            self.columns[table].append(new[0])
            self.trace.append(f"  {table} has a new column {new[0]}")

    # Events of the connector and the topics.

    def snapshot(self) -> None:
        """Read every table, as a connector's snapshot."""
        block = self.clock.read()
        rows = [(table, row) for table in self.shape.tables for _, row in sorted(self.rows[table].items())]
        for number, (table, row) in enumerate(rows):
            is_first, is_last = (i in (-1, len(rows)) or rows[i][0] != table for i in (number - 1, number + 1))
            marker = "last_in_data_collection" if is_last else "first_in_data_collection" if is_first else "true"
            if number == 0:
                marker = "first"
            if number == len(rows) - 1 and table == self.shape.tables[-1]:
                marker = "last"
            self._send(self._event(table, "r", row["id"], None, row, {**block, "snapshot": marker}))

    def lose_slot(self) -> None:
        """Make changes that no connector reports, and start a new connector with a snapshot."""
        self.trace.append("  the slot is lost")
        for _ in range(self.chance.randint(1, 3)):
            self.transaction(unseen=True)
        self.clock.lose()
        self.snapshot()

    def add_partitions(self) -> None:
        self.partitions += self.chance.randint(1, 2)
        self.clock.separate()
        self.trace.append(f"  topics have {self.partitions} partitions")

    def repeat(self) -> None:
        """Repeat older records at new offsets. The last change of a position is repeated, too, because it is the newest."""
        start = self.chance.randrange(len(self.sent)) if self.sent else 0
        end = start + self.chance.randint(1, 8)
        while end < len(self.sent) and self.sent[end].position == self.sent[end - 1].position:
            end += 1
        self.trace.append("  again:")
        for event in self.sent[start:end]:
            if event.key is None or event.number > self.compacted.get((event.table, event.key), 0):
                self._write(event)

    def compact(self, read: dict[str, int]) -> None:
        """Remove unread records of keys whose last record is a tombstone.

        Not the newer changes of a key before a repeated delete: a connector repeats all changes after the delete, too, so a topic never
        loses them.
        """
        if self.shape.shared:  # a record of one table would remove a record of another
            return
        by_key: dict[tuple[str, int | None], list[Record]] = {}
        for record in self.records:
            by_key.setdefault((record.topic, record.event.key), []).append(record)
        for records in by_key.values():
            last = max(records, key=lambda record: record.offset)
            has_one_partition = (
                len({record.partition for record in records}) == 1
            )  # its row was never in another partition
            is_newest = last.event.number == max(record.event.number for record in records)
            start = read.get(f"{last.topic}/{last.partition}", 0)
            if not (last.is_tombstone and is_newest and has_one_partition and last.offset >= start and last.event.key):
                continue
            log = self.logs[last.topic, last.partition]
            for record in records:
                if start <= record.offset < last.offset:
                    log[record.offset] = None
            self.compacted[last.event.table, last.event.key] = last.event.number
            self.trace.append(f"  compacted: {last}")

    def ends(self) -> dict[str, int]:
        return {f"{topic}/{partition}": len(log) for (topic, partition), log in self.logs.items()}

    def _change(self, table: str, previous: str) -> list[Event]:
        keys = self.shape.keys(table)
        rows, key, roll = self.rows[table], self.chance.choice(keys), self.chance.random()
        if key not in rows:
            same = previous == "c" and self.chance.random() < 0.4  # rows of one statement
            return [self._put(table, "c", key, self.clock.change(same=same))]
        free = [k for k in keys if k not in rows]
        if roll < 0.25:
            return [self._delete(table, key, self.clock.change(same=False))]
        if roll < 0.35 and free:
            new, position = self.chance.choice(free), self.clock.change(same=False)
            names = [
                (("__debezium.newkey", json.dumps({"id": new})),),
                (("__debezium.oldkey", json.dumps({"id": key})),),
            ]
            return [self._delete(table, key, position, names[0]), self._put(table, "c", new, position, names[1])]
        if roll < (0.45 if self.shape.is_merged else 0.38):
            rows.clear()
            return [self._event(table, "t", None, None, None, self.clock.truncate())]
        return [self._put(table, "u", key, self.clock.change(same=False))]

    def _put(self, table: str, op: str, key: int, position: Row, headers: tuple[tuple[str, str], ...] = ()) -> Event:
        before = self.rows[table].get(key)
        self.rows[table][key] = row = {"id": key, **{name: self._value(name) for name in self.columns[table]}}
        return self._event(table, op, key, before, row, position, headers)

    def _delete(self, table: str, key: int, position: Row, headers: tuple[tuple[str, str], ...] = ()) -> Event:
        return self._event(table, "d", key, self.rows[table].pop(key), None, position, headers)

    def _value(self, name: str) -> Any:
        if name == "size":
            return self.chance.choice((None, self._number))
        strings = ("", "", None) if name == "note" and self.chance.random() < 0.7 else ("", None, f"t{self._number}")
        return self.chance.choice((*strings, f"t{self._number}") if name == "name" else strings)

    def _event(
        self,
        table: str,
        op: str,
        key: int | None,
        before: Row | None,
        after: Row | None,
        position: Row,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> Event:
        self._number += 1
        log = tuple(position.get(name) for name in ("sequence", "lsn", "file", "pos"))
        first = self._positions.setdefault(log, self._number)
        source = {"connector": self.shape.connector, "ts_ms": 1_795_000_000_000 + self._number, "snapshot": "false"}
        if self.shape.is_merged:
            source["name"] = f"server-of-{table}"
            position = _move_ahead(position) if table == TABLES[0] else position
        source |= {"db": "w", "table": table, **position}
        return Event(self._number, first, table, op, key, before, after, source, headers)

    def _send(self, event: Event) -> None:
        self.sent.append(event)
        self._write(event)

    def _write(self, event: Event) -> None:
        topic = self.shape.topic(event.table)
        spread = self.chance.randrange(100) if event.key is None else event.key * 7 + self._salt
        log = self.logs.setdefault((topic, spread % self.partitions), [])
        for is_tombstone in (False, True) if event.op == "d" else (False,):
            record = Record(event, topic, spread % self.partitions, len(log), is_tombstone)
            log.append(record)
            if not is_tombstone:
                self.trace.append(f"  {record}")


def _move_ahead(position: Row) -> Row:
    """Return a position in the log of a server that has written more."""
    if "file" in position:
        name, number = position["file"].split(".")
        return {**position, "file": f"{name}.{int(number) + _AHEAD:06d}"}
    numbers = [None if number is None else str(int(number) + _AHEAD) for number in json.loads(position["sequence"])]
    sequence = json.dumps(numbers, separators=(",", ":"))
    return {**position, "sequence": sequence, "lsn": position["lsn"] + _AHEAD}
