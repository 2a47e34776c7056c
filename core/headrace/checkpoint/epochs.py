"""Epochs: prefixes of positions, raised by the user or by the engine when positions restart."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.spark.storage import Folder

FILE = "epochs.json"


@dataclass(frozen=True)
class Epoch:
    """Prefix of positions: ``number`` leads the positions of all changes from ``from_batch``.

    ``raised``: UTC, ISO 8601; ``table``: the only table that it concerns; None: all tables.
    """

    number: int
    from_batch: int
    raised: str
    reason: str
    table: str | None = None


class Epochs:
    """The epochs that were raised, oldest first, in a file of the checkpoint. Threads may share it."""

    def __init__(self, folder: Folder) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self.all = folder.load(FILE, _parse) or []

    @property
    def initial(self) -> int:
        """Number of epochs that were raised before the first batch."""
        return sum(epoch.table is None and epoch.from_batch == 0 for epoch in self.all)

    def is_adopted(self, table: str, batch: int, reason: str) -> bool:
        """Return whether an epoch of one table starts with a batch for a reason."""
        return any((epoch.table, epoch.from_batch, epoch.reason) == (table, batch, reason) for epoch in self.all)

    def of(self, batch: int, table: str) -> int:
        """Return the epoch of a table in a batch.

        It stays the same when the batch is repeated after a later epoch was raised.
        """
        numbers = [e.number for e in self.all if e.from_batch <= batch and e.table in (None, table)]
        return max(numbers, default=0)

    def add(self, from_batch: int, reason: str, table: str | None = None) -> Epoch:
        """Raise the epoch from a batch that was not applied yet. For one table it is raised once per batch.

        Numbers of a table do not depend on other tables: a restored checkpoint raises them again, maybe in another order. If the
        table catches up with this batch, its later epochs are raised again, above the new one.
        """
        with self._lock:
            repeated = [e for e in self.all if table is not None and (e.table, e.from_batch) == (table, from_batch)]
            if repeated:
                return repeated[-1]
            numbers = [e.number for e in self.all if table is None or e.table in (None, table)]
            raised = [(from_batch, reason)]
            if table is not None:
                raised += [
                    (e.from_batch, e.reason) for e in self.all if e.table in (None, table) and e.from_batch > from_batch
                ]
            return self._append(max(numbers, default=0) + 1, raised, table)

    def adopt(self, number: int, from_batch: int, reason: str, table: str) -> Epoch:
        """Raise the epoch of a table with stored rows to a number."""
        with self._lock:
            return self._append(number, [(from_batch, reason)], table)

    def _append(self, number: int, raised: Sequence[tuple[int, str]], table: str | None) -> Epoch:
        """Add epochs with rising numbers, and return the first one. ``raised``: first batch and reason of each."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        epochs = [Epoch(n, batch, now, reason, table) for n, (batch, reason) in enumerate(raised, number)]
        self.all = [*self.all, *epochs]
        self._folder.write(FILE, json.dumps([_to_dict(item) for item in self.all], ensure_ascii=False))
        return epochs[0]


def _parse(text: str) -> list[Epoch]:
    return [Epoch(**item) for item in json.loads(text)]


def _to_dict(epoch: Epoch) -> dict[str, Any]:
    """Return the fields for the file; without ``table`` for an epoch of all tables."""
    return {name: value for name, value in asdict(epoch).items() if value is not None}
