"""Data of change data capture: log positions, capture instances and change tables."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from headrace_stack.sqlserver.declarations import SqlColumn
from headrace_stack.sqlserver.sql_types import Value

#: TransactionLog sequence number: virtual log file, block and slot, 4, 4 and 2 bytes.
Lsn = bytes
DELETE, INSERT, UPDATE_BEFORE, UPDATE_AFTER = 1, 2, 3, 4
#: Most capture instances of a table.
MOST_INSTANCES = 2
#: Made-up start of the log, in the format of a real one.
_LOG_FILE, _FIRST_BLOCK, _SLOTS = 0x27, 0x100, 100


class TransactionLog:
    """Counts."""

    def __init__(self) -> None:
        self._count = 0

    def next(self) -> Lsn:
        block, slot = divmod(self._count, _SLOTS)
        self._count += 1
        return struct.pack(">IIH", _LOG_FILE, _FIRST_BLOCK + block, slot + 1)


def increment(lsn: Lsn) -> Lsn:
    """Return the next position, which the log need not contain."""
    return (int.from_bytes(lsn, "big") + 1).to_bytes(len(lsn), "big")


class CdcCommit(NamedTuple):
    """Row of cdc.lsn_time_mapping."""

    lsn: Lsn
    at: datetime
    #: False if the commit changed no captured table.
    has_changes: bool


class CdcChange(NamedTuple):
    """Row of a change table."""

    commit: CdcCommit
    sequence: Lsn
    operation: int
    mask: bytes
    command: int
    values: tuple[Value, ...]

    @property
    def order(self) -> tuple[Lsn, int, Lsn, int]:
        return self.commit.lsn, self.command, self.sequence, self.operation

    def is_after(self, lsn: Lsn, sequence: Lsn, operation: int) -> bool:
        return (self.commit.lsn, self.sequence, self.operation) > (lsn, sequence, operation)


@dataclass
class CaptureInstance:
    """Capture instance: the columns at its creation, and the changes since then."""

    name: str
    object_id: int
    table: str
    columns: tuple[SqlColumn, ...]
    start: Lsn
    changes: list[CdcChange] = field(default_factory=list)

    def record(
        self,
        commit: CdcCommit,
        sequence: Lsn,
        command: int,
        before: Sequence[Value] | None,
        after: Sequence[Value] | None,
        *,
        moved: bool,
    ) -> None:
        """Record an insert, delete or update. ``moved``: the update changed the key, which is a delete and an insert."""
        width = len(self.columns)
        old = None if before is None else before[:width]
        new = None if after is None else after[:width]
        every = self._mask([True] * width)
        if old is None or new is None or moved:
            if old is not None:
                # A deleted row lacks its old large types.
                gone = [None if c.type.never_before else value for c, value in zip(self.columns, old, strict=True)]
                self.changes.append(CdcChange(commit, sequence, DELETE, every, command, tuple(gone)))
            if new is not None:
                self.changes.append(CdcChange(commit, sequence, INSERT, every, command, tuple(new)))
            return
        changed = [a != b for a, b in zip(old, new, strict=True)]
        if not any(changed):
            return
        mask = self._mask(changed)
        pairs = list(zip(self.columns, changed, strict=True))
        hidden = [c.type.large and not c_changed for c, c_changed in pairs]
        was = [
            None if hide or c.type.never_before else value
            for c, hide, value in zip(self.columns, hidden, old, strict=True)
        ]
        now = [None if hide else value for hide, value in zip(hidden, new, strict=True)]
        self.changes.append(CdcChange(commit, sequence, UPDATE_BEFORE, mask, command, tuple(was)))
        self.changes.append(CdcChange(commit, sequence, UPDATE_AFTER, mask, command, tuple(now)))

    def between(self, lsn: Lsn, sequence: Lsn, operation: int, last: Lsn) -> list[CdcChange]:
        """Return the changes after a position up to a commit, in order."""
        changes = [c for c in self.changes if c.is_after(lsn, sequence, operation) and c.commit.lsn <= last]
        return sorted(changes, key=lambda change: change.order)

    @staticmethod
    def _mask(changed: Sequence[bool]) -> bytes:
        """Return the update mask: one bit per column, the first column in the lowest bit of the first byte."""
        bits = sum(1 << place for place, is_set in enumerate(changed) if is_set)
        return bits.to_bytes((len(changed) + 7) // 8, "little")
