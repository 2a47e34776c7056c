"""Backlog of a table that was set aside: the batches that it still needs.

``<first batch>.json`` is an entry of up to a hundred batches, which are applied as one under the number of the last. An entry that
was started gets no other batches, so that it can be repeated. The newest batch has its own entry: until the next batch arrives it may
be repeated itself, and would replace everything applied under its number.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from headrace.checkpoint.layout import list_tables
from headrace.progress.rates import TableFailure
from headrace.spark.storage import parse_file

if TYPE_CHECKING:
    from headrace.sdk.file_system import TextFolder
    from headrace.spark.storage import Folder

#: Topic → its ranges to read again, as the source describes them (``Source.replay_range``).
ReplayRanges = Mapping[str, list[Any]]
#: Batches of one entry.
MAX_BATCHES = 100


@dataclass(frozen=True)
class BacklogEntry:
    """Batches that a table still needs, as they are stored.

    ``first`` and ``last``: batches; ``since``: when the first of them failed, UTC, ISO 8601; ``error``: why; ``ranges``: the ranges
    to read again; ``is_whole``: a topic of several tables could not be read, so that its tables are unknown.
    """

    first: int
    last: int
    since: str
    error: str
    ranges: dict[str, list[Any]]
    is_whole: bool = False

    @property
    def batches(self) -> int | None:
        """Number of batches in it. None: unknown, because some batches had no records of some topics."""
        counts = [len(ranges) for ranges in self.ranges.values()]
        lower, upper = max(counts, default=1), min(self.last - self.first + 1, sum(counts) or 1)
        return lower if lower == upper else None

    def has(self, batch: int, ranges: ReplayRanges) -> bool:
        """Return whether it contains the ranges of a batch."""
        if self.first == self.last == batch:  # A source may describe the records of a repeated batch in another way.
            return ranges.keys() <= self.ranges.keys()
        spans = [(topic, span) for topic, topic_spans in ranges.items() for span in topic_spans]
        return self.first <= batch <= self.last and all(span in self.ranges.get(topic, ()) for topic, span in spans)


class Backlog:
    """Entries of one table, oldest first. Threads may share it."""

    def __init__(self, folder: Folder) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._entries = _read_entries(folder, folder.path)
        #: Entries that were added by this process, may be joined and were not started, by their first batches.
        self._joinable: set[int] = set()

    @property
    def oldest(self) -> BacklogEntry | None:
        entries = list(self._entries)  # Another thread removes entries.
        return entries[0] if entries else None

    @property
    def failure(self) -> TableFailure | None:
        """Why the table waits, and for how many batches; None without a backlog."""
        return _find_failure(list(self._entries))

    @property
    def last(self) -> int:
        """Last batch; -1 without a backlog."""
        return max((entry.last for entry in list(self._entries)), default=-1)

    @property
    def whole_topics(self) -> set[str]:
        """Topics whose tables are unknown."""
        return {topic for entry in list(self._entries) if entry.is_whole for topic in entry.ranges}

    def add(
        self,
        batch: int,
        ranges: ReplayRanges,
        since: str,
        error: str,
        *,
        is_whole: bool = False,
        stays_alone: bool = False,
    ) -> bool:
        """Add a batch, and return whether the backlog has its ranges. A repeated batch adds only the topics that its entry lacks.

        ``stays_alone``: never join it with other batches, and add no topics.
        False: the backlog has this batch or a later one without these ranges, so they cannot be added in order.
        """
        added = _parse(_to_text(BacklogEntry(batch, batch, since, error, _join([ranges]), is_whole)))
        with self._lock:
            if self._entries and batch <= self._entries[-1].last:
                has_ranges = any(entry.has(batch, added.ranges) for entry in self._entries)
                return has_ranges or (not stays_alone and self._add_topics(added))
            self._join_newest()
            self._write(added)
            self._entries.append(added)
            if not stays_alone:
                self._joinable.add(batch)
            return True

    def begin(self) -> BacklogEntry | None:
        """Return the oldest entry, which no longer changes after this call; None if there is none."""
        with self._lock:
            entry = self.oldest
            if entry:
                self._joinable.discard(entry.first)
            return entry

    def finish(self, entry: BacklogEntry) -> None:
        """Remove an entry that was applied. It stays if it got more topics meanwhile; those that were applied are skipped."""
        with self._lock:
            if entry not in self._entries:
                return
            self._entries.remove(entry)
            for name in self._folder.names():
                if _file(entry.first) < name <= _file(entry.last):  # Left by a process that stopped while joining.
                    self._folder.delete(name)
            self._folder.delete(_file(entry.first))

    def _add_topics(self, repeated: BacklogEntry) -> bool:
        """Add the topics of a repeated batch that its own entry lacks; return whether it has such an entry.

        A topic that a rule splits, and that could not be read before, can be read now. The marks of its batches are its own, so the
        entry may have been started.
        """
        for i, entry in enumerate(self._entries):
            if entry.first == entry.last == repeated.first:
                extended = replace(entry, ranges={**repeated.ranges, **entry.ranges})
                self._write(extended)
                self._entries[i] = extended
                return True
        return False

    def _join_newest(self) -> None:
        """Join the newest entry with the one before it, unless one of them was started."""
        if len(self._entries) < 2:
            return
        older, newest = self._entries[-2:]
        if not {older.first, newest.first} <= self._joinable or newest.last >= older.first + MAX_BATCHES:
            return
        if older.is_whole != newest.is_whole:
            return
        joined = replace(older, last=newest.last, ranges=_join([older.ranges, newest.ranges]))
        self._write(joined)
        self._folder.delete(_file(newest.first))
        self._entries[-2:] = [joined]
        self._joinable.discard(newest.first)

    def _write(self, entry: BacklogEntry) -> None:
        self._folder.write(_file(entry.first), _to_text(entry))


def read_failures(folder: TextFolder) -> dict[str, TableFailure]:
    """Return why each table in a checkpoint's backlog folder waits, and for how many batches."""
    names = {table: quote(table, safe="") for table in list_tables(folder)}
    entries = {table: _read_entries(folder.folder(name), f"backlog/{name}") for table, name in names.items()}
    failures = {table: _find_failure(found) for table, found in entries.items()}
    return {name: failure for name, failure in failures.items() if failure}


def _read_entries(folder: TextFolder, path: str) -> list[BacklogEntry]:
    texts = {name: folder.read(name) for name in folder.names()}
    parsed = (parse_file(text, _parse, f"{path}/{name}") for name, text in texts.items() if text is not None)
    entries = sorted(parsed, key=lambda entry: entry.first)
    # A process that stopped while it joined two entries has left the second one.
    return [e for i, e in enumerate(entries) if e.first > max((earlier.last for earlier in entries[:i]), default=-1)]


def _to_text(entry: BacklogEntry) -> str:
    return json.dumps(asdict(entry), ensure_ascii=False)


def _parse(text: str) -> BacklogEntry:
    return BacklogEntry(**json.loads(text))


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
