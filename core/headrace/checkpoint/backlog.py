"""What a table that fails alone has still to get: the batches that went by without it, written down.

``<first batch>.json`` is a part: up to a hundred batches that will be applied as one. A part that somebody has begun with
stays as it is, so that it can be repeated.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.spark.storage import Folder

#: Topic → places in it, each as the source names them.
Places = Mapping[str, list[Any]]
#: Batches of one part.
BATCHES = 100


@dataclass(frozen=True)
class Part:
    """``first`` and ``last``: batches; ``since``: when the first of them failed, UTC, ISO 8601; ``error``: why."""

    first: int
    last: int
    since: str
    error: str
    places: dict[str, list[Any]]


class Backlog:
    """The parts of one table, oldest first. Threads may share it."""

    def __init__(self, folder: Folder) -> None:
        self._folder, self._lock = folder, threading.Lock()
        texts = (folder.read(name) for name in folder.names())
        self._parts = sorted((Part(**json.loads(text)) for text in texts if text), key=lambda part: part.first)
        self._growing = False

    @property
    def oldest(self) -> Part | None:
        return self._parts[0] if self._parts else None

    def add(self, batch: int, places: Places, since: str, error: str) -> None:
        """Adds a batch; one that is there already, for it is repeated, changes nothing."""
        with self._lock:
            last = self._parts[-1] if self._parts else None
            if last and batch <= last.last:
                return
            part = Part(batch, batch, since, error, {})
            if last and self._growing and batch < last.first + BATCHES:
                part = Part(last.first, batch, last.since, last.error, last.places)
                self._parts.pop()
            part = Part(part.first, batch, part.since, part.error, _joined([part.places, places]))
            self._folder.write(_name(part), json.dumps(asdict(part), ensure_ascii=False))
            self._parts.append(part)
            self._growing = True

    def begin(self) -> Part | None:
        """The oldest part, which stays as it is from now on; None when there is none."""
        with self._lock:
            self._growing = self._growing and len(self._parts) > 1
            return self.oldest

    def done(self, part: Part) -> None:
        """Forgets a part that was applied."""
        with self._lock:
            self._parts.remove(part)
            self._folder.delete(_name(part))


def _name(part: Part) -> str:
    return f"{part.first:010d}.json"


def _joined(several: Iterable[Places]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for places in several:
        for topic, known in places.items():
            found[topic] = [*found.get(topic, []), *known]
    return found
