"""The offset log of a ranged source: a range is written down before it is read, and marked when it is applied."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from headrace.contracts.source import Offset, RangedSource
from headrace.engine.storage import Folder
from headrace.errors import ConfigError

#: Ranges whose files are kept.
KEEP = 100


@dataclass(frozen=True)
class Range:
    """A batch: the records after ``start`` up to and including ``end``."""

    id: int
    start: Offset
    end: Offset


class RangedLog:
    """``offsets/<batch>`` and ``commits/<batch>``, as Spark keeps them for its own sources."""

    def __init__(self, folder: Folder) -> None:
        self._offsets, self._commits = folder.folder("offsets"), folder.folder("commits")
        self._last: Range | None = None
        planned = self._newest(self._offsets)
        self._open: Range | None = None
        if planned is not None:
            text = json.loads(self._offsets.read(str(planned)) or "null")
            self._last = Range(planned, text["start"], text["end"])
            if self._newest(self._commits) != planned:
                self._open = self._last

    def next(self, source: RangedSource, limit: int | None) -> Range | None:
        """The range to apply now: the one a crash left open, else the next there is. Nothing is written when idle."""
        if self._open is not None:
            return self._open
        start = self._last.end if self._last else source.initial()
        end = source.latest(start, limit)
        if _same(start, end):
            return None
        found = Range(self._last.id + 1 if self._last else 0, start, end)
        self._offsets.write(str(found.id), json.dumps({"start": start, "end": end}, sort_keys=True))
        self._last = self._open = found
        return found

    def commit(self, applied: Range) -> None:
        """Notes that a range is in the tables."""
        self._commits.write(str(applied.id), "{}")
        self._open = None
        if applied.id >= KEEP:
            self._offsets.delete(str(applied.id - KEEP))
            self._commits.delete(str(applied.id - KEEP))

    @staticmethod
    def _newest(folder: Folder) -> int | None:
        return max((int(name) for name in folder.names() if name.isdigit()), default=None)


def seconds_of(interval: str) -> float:
    """``"500 milliseconds"``, ``"10 seconds"``, ``"1 minute"``, ``"2 hours"`` in seconds, as Spark's triggers write them."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(millisecond|second|minute|hour|ms|s|m|h)s?\s*", interval)
    if not match:
        raise ConfigError(f"{interval!r} is not an interval", fix='write it like "10 seconds"')
    unit = {"millisecond": 0.001, "ms": 0.001, "second": 1, "s": 1, "minute": 60, "m": 60, "hour": 3600, "h": 3600}
    return float(match[1]) * unit[match[2]]


def _same(first: Offset, second: Offset) -> bool:
    return json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)
