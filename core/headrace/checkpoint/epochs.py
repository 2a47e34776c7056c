"""Epochs: what leads every position, raised by the user when a database begins its own positions anew."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.spark.storage import Folder

_FILE = "epochs.json"


@dataclass(frozen=True)
class Epoch:
    """``number`` leads the positions of all changes from ``from_batch`` on; ``raised`` is UTC, ISO 8601."""

    number: int
    from_batch: int
    raised: str
    reason: str


class Epochs:
    """The epochs that were raised, oldest first, in a file of the checkpoint."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.all = [Epoch(**item) for item in json.loads(folder.read(_FILE) or "[]")]

    def of(self, batch: int) -> int:
        """The epoch of a batch, also of one that is repeated after a later one was raised."""
        return max((epoch.number for epoch in self.all if epoch.from_batch <= batch), default=0)

    def add(self, from_batch: int, reason: str) -> Epoch:
        """Raises it by one, from a batch on that was not planned yet."""
        number = self.all[-1].number + 1 if self.all else 1
        epoch = Epoch(number, from_batch, datetime.now(UTC).isoformat(timespec="seconds"), reason)
        self.all.append(epoch)
        self._folder.write(_FILE, json.dumps([asdict(item) for item in self.all], ensure_ascii=False))
        return epoch
