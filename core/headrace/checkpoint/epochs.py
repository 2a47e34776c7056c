"""Epochs: what leads every position, raised when positions begin anew: by the user for a database, by the engine for a table."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.spark.storage import Folder

_FILE = "epochs.json"


@dataclass(frozen=True)
class Epoch:
    """``number`` leads the positions of all changes from ``from_batch`` on; ``raised`` is UTC, ISO 8601.

    ``table``: the one for which it is; None: all of them.
    """

    number: int
    from_batch: int
    raised: str
    reason: str
    table: str | None = None


class Epochs:
    """The epochs that were raised, oldest first, in a file of the checkpoint. Only the thread of the batch raises one."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.all = [Epoch(**item) for item in json.loads(folder.read(_FILE) or "[]")]

    def of(self, batch: int, table: str) -> int:
        """The epoch of a table's part of a batch, also of one that is repeated after a later one was raised."""
        numbers = [e.number for e in self.all if e.from_batch <= batch and e.table in (None, table)]
        return max(numbers, default=0)

    def add(self, from_batch: int, reason: str, table: str | None = None) -> Epoch:
        """Raises it by one, from a batch on of which nothing was applied yet. A table's is raised once for a batch."""
        repeated = [e for e in self.all if table is not None and (e.table, e.from_batch) == (table, from_batch)]
        if repeated:
            return repeated[-1]
        number = self.all[-1].number + 1 if self.all else 1
        epoch = Epoch(number, from_batch, datetime.now(UTC).isoformat(timespec="seconds"), reason, table)
        self.all = [*self.all, epoch]
        self._folder.write(_FILE, json.dumps([_to_dict(item) for item in self.all], ensure_ascii=False))
        return epoch


def _to_dict(epoch: Epoch) -> dict[str, Any]:
    """The fields in the file; one for all tables names none."""
    return {name: value for name, value in asdict(epoch).items() if value is not None}
