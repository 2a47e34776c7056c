"""Snapshots of whole tables. ``headrace resync`` removes rows that are older than the newest one and not in it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from headrace.spark.storage import Folder


@dataclass(frozen=True)
class SeenSnapshot:
    """Newest snapshot with rows in a batch.

    ``position``: where it started; ``has_ended``: whether its last row was among them.
    """

    position: str
    has_ended: bool

    @classmethod
    def of(cls, aggregates: Mapping[str, Any]) -> Self | None:
        """Return the snapshot with the highest start position.

        ``aggregates``: ``began`` and ``ended``, the highest positions of a snapshot that started, and of one that ended.
        """
        began = aggregates.get("began")
        return None if began is None else cls(began, aggregates.get("ended") == began)


@dataclass(frozen=True)
class Snapshot:
    """Newest snapshot of a table with applied rows, as it is stored.

    ``batch``: the first with such rows; ``seen``: when, UTC, ISO 8601; ``key``: the table's key columns.
    """

    position: str
    has_ended: bool
    batch: int
    seen: str
    key: tuple[str, ...]


class NewestSnapshot:
    """Newest snapshot of a table, in a file of the checkpoint."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder, self._name = folder, name
        #: None until a row of a snapshot was applied.
        self.value = folder.load(name, _parse)

    def note(self, seen: SeenSnapshot | None, batch: int, key: Sequence[str]) -> None:
        """Record the snapshot of a batch after its rows were applied.

        A snapshot that is older than the recorded one is ignored.
        """
        newest = self.value
        if seen is not None and (newest is None or seen.position > newest.position):
            now = datetime.now(UTC).isoformat(timespec="seconds")
            newest = Snapshot(seen.position, seen.has_ended, batch, now, tuple(key))
        elif seen is not None and newest is not None and seen.position == newest.position:
            newest = replace(newest, has_ended=newest.has_ended or seen.has_ended)
        if newest is not None and newest != self.value:
            self._folder.write(self._name, json.dumps(asdict(newest), ensure_ascii=False))
            self.value = newest


def _parse(text: str) -> Snapshot:
    stored = json.loads(text)
    known = {field.name: stored[field.name] for field in fields(Snapshot)}
    return Snapshot(**{**known, "key": tuple(known["key"])})
