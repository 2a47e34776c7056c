"""The backlog of a table that was set aside: the batches that went by without it, written down.

``<first batch>.json`` is an entry: up to a hundred batches that will be applied as one, under the last one's number. An entry that
somebody has begun with stays as it is, so that it can be repeated. The newest batch has an entry of its own: until the next one
comes, it may be repeated itself, and would take the place of all that was applied under its number.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from headrace.progress.rates import TableFailure

if TYPE_CHECKING:
    from headrace.sdk.file_system import TextFolder
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
        self._entries = _read_entries(folder)
        #: Entries, by their first batches, that were added here and that nobody has begun with.
        self._open: set[int] = set()

    @property
    def oldest(self) -> BacklogEntry | None:
        entries = list(self._entries)  # whoever applies them takes them away meanwhile
        return entries[0] if entries else None

    @property
    def failure(self) -> TableFailure | None:
        """Why the table waits, and for how many batches; None when there is none."""
        return _find_failure(list(self._entries))

    def add(self, batch: int, ranges: ReplayRanges, since: str, error: str) -> None:
        """Adds a batch; one that is there already, for it is repeated, changes nothing."""
        with self._lock:
            if self._entries and batch <= self._entries[-1].last:
                return
            self._join_newest()
            entry = BacklogEntry(batch, batch, since, error, _join([ranges]))
            self._write(entry)
            self._entries.append(entry)
            self._open.add(batch)

    def begin(self) -> BacklogEntry | None:
        """The oldest entry, which stays as it is from now on; None when there is none."""
        with self._lock:
            entry = self.oldest
            if entry:
                self._open.discard(entry.first)
            return entry

    def finish(self, entry: BacklogEntry) -> None:
        """Removes an entry that was applied."""
        with self._lock:
            self._entries.remove(entry)
            for name in self._folder.names():
                if _file(entry.first) < name <= _file(entry.last):  # what it was joined from, and a process left
                    self._folder.delete(name)
            self._folder.delete(_file(entry.first))

    def _join_newest(self) -> None:
        """Joins the newest entry with the one before it, unless somebody has begun with either."""
        if len(self._entries) < 2:
            return
        older, newest = self._entries[-2:]
        if not {older.first, newest.first} <= self._open or newest.last >= older.first + MAX_BATCHES:
            return
        joined = replace(older, last=newest.last, places=_join([older.places, newest.places]))
        self._write(joined)
        self._folder.delete(_file(newest.first))
        self._entries[-2:] = [joined]
        self._open.discard(newest.first)

    def _write(self, entry: BacklogEntry) -> None:
        self._folder.write(_file(entry.first), json.dumps(asdict(entry), ensure_ascii=False))


def read_failures(folder: TextFolder) -> dict[str, TableFailure]:
    """Return the failures of the tables in a pipeline's ``behind/``: cause and backlog of each."""
    failures = {unquote(name): _find_failure(_read_entries(folder.folder(name))) for name in folder.names()}
    return {name: failure for name, failure in failures.items() if failure}


def _read_entries(folder: TextFolder) -> list[BacklogEntry]:
    texts = (folder.read(name) for name in folder.names())
    entries = sorted((BacklogEntry(**json.loads(text)) for text in texts if text), key=lambda e: e.first)
    # A process that ended while it joined two has left the second one.
    return [e for i, e in enumerate(entries) if e.first > max((o.last for o in entries[:i]), default=-1)]


def _find_failure(entries: list[BacklogEntry]) -> TableFailure | None:
    if not entries:
        return None
    batches = [entry.batches for entry in entries if entry.batches is not None]
    return TableFailure(entries[0].since, entries[0].error, sum(batches) if len(batches) == len(entries) else None)


def _file(first: int) -> str:
    return f"{first:010d}.json"


def _join(several: Iterable[ReplayRanges]) -> dict[str, list[Any]]:
    joined: dict[str, list[Any]] = {}
    for ranges in several:
        for topic, more in ranges.items():
            joined[topic] = [*joined.get(topic, []), *more]
    return joined
