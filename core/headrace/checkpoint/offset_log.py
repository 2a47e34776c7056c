"""Offset log of a ranged source: a range is logged before it is read, and committed when it is applied."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.checkpoint.run_note import InUseError
from headrace.sdk.source import Offset
from headrace.spark.storage import Folder, parse_file

#: Ranges whose files are kept.
KEPT_RANGES = 100


@dataclass(frozen=True)
class Range:
    """Batch of the records after ``start`` up to and including ``end``."""

    id: int
    start: Offset
    end: Offset


class OffsetLog:
    """Files ``offsets/<batch>`` and ``commits/<batch>``, as Spark keeps them for its own sources, and ``initial``."""

    def __init__(self, folder: Folder) -> None:
        self._folder, self._offsets, self._commits = folder, folder.folder("offsets"), folder.folder("commits")
        self._initial: Offset | None = None
        self._last: Range | None = None
        self._open: Range | None = None
        newest = self._newest(self._offsets)
        if newest is not None:
            offsets = self._read(self._offsets, str(newest), ("start", "end"))
            self._last = Range(newest, offsets["start"], offsets["end"])
            if self._newest(self._commits) != newest:
                self._open = self._last

    @property
    def last_applied(self) -> Offset | None:
        """End of the last range, if the tables have it."""
        return self._last.end if self._last and not self._open else None

    def next(self, initial: Callable[[], Offset], latest: Callable[[Offset], Offset]) -> Range | None:
        """Return the range to apply: after a crash the uncommitted range, otherwise the next one.

        Without new records nothing is written.
        """
        if self._open is not None:
            return self._open
        start = self._last.end if self._last else self._first(initial)
        end = latest(start)
        if _same(start, end):
            return None
        planned = Range(self._last.id + 1 if self._last else 0, start, end)
        if not self._offsets.create(str(planned.id), json.dumps({"start": start, "end": end}, sort_keys=True)):
            raise InUseError("is in use by another run", where=f"checkpoint {self._folder.path}")
        self._last = self._open = planned
        return planned

    def commit(self, applied: Range) -> None:
        """Record that all tables contain the rows of a range."""
        self._commits.write(str(applied.id), "{}")
        self._open = None
        if applied.id >= KEPT_RANGES:
            self._offsets.delete(str(applied.id - KEPT_RANGES))
            self._commits.delete(str(applied.id - KEPT_RANGES))

    def _first(self, initial: Callable[[], Offset]) -> Offset:
        """Return the source's initial offset.

        It is saved: "from the newest record" means the newest at the first start.
        """
        if self._initial is None:
            if self._folder.read("initial") is None:
                self._folder.write("initial", json.dumps({"start": initial()}, sort_keys=True))
            self._initial = self._read(self._folder, "initial", ("start",))["start"]
        return self._initial

    @staticmethod
    def _read(folder: Folder, name: str, keys: tuple[str, ...]) -> dict[str, Offset]:
        def parse(text: str) -> dict[str, Offset]:
            content = json.loads(text)
            return {key: content[key] for key in keys}

        return parse_file(folder.read(name) or "", parse, f"{folder.path}/{name}")

    @staticmethod
    def _newest(folder: Folder) -> int | None:
        return max((int(name) for name in folder.names() if name.isdigit()), default=None)


def digest_offsets(offsets: Any) -> str:
    """Return a digest of offsets. Storing the offsets as JSON does not change it."""
    stored = json.loads(json.dumps(offsets))
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()[:16]


def _same(first: Offset, second: Offset) -> bool:
    return json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)
