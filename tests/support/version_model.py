"""Model of the versions of rows: random changes of a key as a database makes them, and the versions that they form."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import Any


@dataclass(frozen=True)
class Event:
    """Change of a key. ``b`` is None in the event if it is left out; ``truth`` is the database's value."""

    id: int
    position: str
    ms: int
    a: int = 0
    b: int | None = 0
    truth: int | None = 0
    is_delete: bool = False
    is_left_out: bool = False
    track: tuple[str, ...] = ()

    @property
    def row(self) -> tuple[Any, ...]:
        return (self.id, self.a, self.b, self.ms, self.is_delete, self.position, (self.is_left_out,))


def write_history(chance: Random, key: int) -> list[Event]:
    """Return the changes of one key as a database makes them: inserts, updates, deletes and inserts after them."""
    events: list[Event] = []
    row: tuple[int, int] | None = None
    for number in range(chance.randrange(1, 9)):
        at = Event(key, f"{number:02}", 1000 * number + key)
        if row is not None and chance.random() < 0.25:
            row, event = None, replace(at, a=-1, b=None, truth=None, is_delete=True)
        else:
            is_left_out = row is not None and chance.random() < 0.3
            b = row[1] if row is not None and is_left_out else chance.randrange(3)
            row = (chance.randrange(2), b)
            event = replace(at, a=row[0], b=None if is_left_out else b, truth=b, is_left_out=is_left_out)
        events.append(event)
    return events


def make_model(events: Iterable[Event]) -> set[tuple[Any, ...]]:
    """Return the versions: start, end, their times, and the values."""
    by_key: dict[int, list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda e: e.position):
        by_key[event.id].append(event)
    versions = set()
    for key, changes in by_key.items():
        runs: list[list[Event]] = []
        for previous, event in zip([None, *changes], changes, strict=False):
            if event.is_delete:
                continue
            names = event.track or ("a", "truth")
            if previous is None or previous.is_delete or any(getattr(previous, n) != getattr(event, n) for n in names):
                runs.append([])
            runs[-1].append(event)
        for run in runs:
            after = next((e for e in changes if e.position > run[-1].position), None)
            start, last = run[0], run[-1]
            versions.add((key, start.position, start.ms, after and after.ms, last.a, last.truth, after is None))
    return versions
