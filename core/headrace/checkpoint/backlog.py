"""The backlog of a table that was set aside: the batches that went by without it, written down.

``<first batch>.json`` is an entry: up to a hundred batches that will be applied as one. An entry that somebody has begun with
stays as it is, so that it can be repeated.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from headrace.progress.rates import TableFailure

if TYPE_CHECKING:
    from headrace.spark.storage import Folder

#: Topic → ranges of it to be read again, each as the source names them (``Source.replay_range``).
ReplayRanges = Mapping[str, list[Any]]
#: Batches of one entry.
MAX_BATCHES = 100


@dataclass(frozen=True)
class BacklogEntry:
    """Batches that a table has still to get, as they are stored.

    ``first`` and ``last``: batches; ``since``: when the first of them failed, UTC, ISO 8601; ``error``: why; ``places``: what to
    read again.
    """

    first: int
    last: int
    since: str
    error: str
    places: dict[str, list[Any]]

    @property
    def batches(self) -> int | None:
        """How many batches it holds. None: not known, for not all of them had something in each topic."""
        lengths = [len(ranges) for ranges in self.places.values()]
        least, most = max(lengths, default=1), min(self.last - self.first + 1, sum(lengths) or 1)
        return least if least == most else None


class Backlog:
    """The entries of one table, oldest first. Threads may share it."""

    def __init__(self, folder: Folder) -> None:
        self._folder, self._lock = folder, threading.Lock()
        texts = (folder.read(name) for name in folder.names())
        self._entries = sorted((BacklogEntry(**json.loads(text)) for text in texts if text), key=lambda e: e.first)
        self._grows = False

    @property
    def oldest(self) -> BacklogEntry | None:
        entries = list(self._entries)  # whoever applies them takes them away meanwhile
        return entries[0] if entries else None

    @property
    def failure(self) -> TableFailure | None:
        """Why the table waits, and for how many batches; None when there is none."""
        entries = list(self._entries)
        if not entries:
            return None
        batches = [entry.batches for entry in entries if entry.batches is not None]
        return TableFailure(entries[0].since, entries[0].error, sum(batches) if len(batches) == len(entries) else None)

    def add(self, batch: int, ranges: ReplayRanges, since: str, error: str) -> None:
        """Adds a batch; one that is there already, for it is repeated, changes nothing."""
        with self._lock:
            last = self._entries[-1] if self._entries else None
            if last and batch <= last.last:
                return
            entry = BacklogEntry(batch, batch, since, error, {})
            if last and self._grows and batch < last.first + MAX_BATCHES:
                entry = BacklogEntry(last.first, batch, last.since, last.error, last.places)
                self._entries.pop()
            entry = BacklogEntry(entry.first, batch, entry.since, entry.error, _join([entry.places, ranges]))
            self._folder.write(_file(entry), json.dumps(asdict(entry), ensure_ascii=False))
            self._entries.append(entry)
            self._grows = True

    def begin(self) -> BacklogEntry | None:
        """The oldest entry, which stays as it is from now on; None when there is none."""
        with self._lock:
            self._grows = self._grows and len(self._entries) > 1
            return self.oldest

    def finish(self, entry: BacklogEntry) -> None:
        """Removes an entry that was applied."""
        with self._lock:
            self._entries.remove(entry)
            self._folder.delete(_file(entry))


def _file(entry: BacklogEntry) -> str:
    return f"{entry.first:010d}.json"


def _join(several: Iterable[ReplayRanges]) -> dict[str, list[Any]]:
    joined: dict[str, list[Any]] = {}
    for ranges in several:
        for topic, more in ranges.items():
            joined[topic] = [*joined.get(topic, []), *more]
    return joined
