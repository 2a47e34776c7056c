"""What a table's objects have come to: open ones, rows that wait for them, and objects that are to be moved to their places."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.sdk import MARK_SEARCH_DEPTH, FatalError

if TYPE_CHECKING:
    from headrace.sdk.storage import Folder

_FILE, _VERSION = "state.json", 1


@dataclass
class TopicPartition:
    """One partition of a topic, up to the record that was taken last.

    The records from ``start`` to ``last`` wait for their objects to be complete; with ``count`` 0 there are none.
    """

    topic: str
    partition: int
    last: int
    start: int = 0
    count: int = 0
    #: The time of the first that waits, and the encoded partition of the last, where time decides.
    base: int | None = None
    encoded: str | None = None
    #: When the first came, in milliseconds since 1970.
    opened: int = 0
    #: The number of the schema of all that wait.
    schema: int = 0


@dataclass
class Staged:
    """The rows of a batch that may be needed: the number of their schema, and topic, partition, first and last offset of each part."""

    schema: int
    parts: list[tuple[str, int, int, int]]

    def overlaps(self, topic: str, partition: int, start: int, end: int) -> bool:
        """Whether it has records of these offsets."""
        return any(part[:2] == (topic, partition) and part[2] <= end and part[3] >= start for part in self.parts)


@dataclass
class State:
    """Replaced as a whole, after the files that it speaks of are whole and before any is moved or removed."""

    partitions: dict[tuple[str, int], TopicPartition] = field(default_factory=dict)
    #: Schemas in the order in which they came: what has to be the same in an object, and the rows' columns as JSON.
    schemas: list[tuple[str, str]] = field(default_factory=list)
    #: Folder → the rows in it, as long as some wait.
    staged: dict[str, Staged] = field(default_factory=dict)
    #: The batches that were taken last.
    batches: list[int] = field(default_factory=list)
    #: Complete files that are to be moved: from where, and to where.
    moves: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Folder) -> State:
        """The state in a folder, empty where there is none."""
        text = folder.read(_FILE)
        if text is None:
            return cls()
        data: dict[str, Any] = json.loads(text)
        if data.pop("version") != _VERSION:
            raise FatalError(
                "is of a version of headrace that this one does not know",
                where=f"{folder.path}/{_FILE}",
                fix="use the headrace that wrote it, or a newer one",
            )
        partitions = [TopicPartition(**each) for each in data["partitions"]]
        return cls(
            partitions={(each.topic, each.partition): each for each in partitions},
            schemas=[(text, columns) for text, columns in data["schemas"]],
            staged={
                name: Staged(rows["schema"], [(t, p, first, last) for t, p, first, last in rows["parts"]])
                for name, rows in data["staged"].items()
            },
            batches=data["batches"],
            moves=[(source, target) for source, target in data["moves"]],
        )

    def write(self, folder: Folder) -> None:
        """Replaces the state in a folder."""
        data = {
            "version": _VERSION,
            "partitions": [asdict(partition) for partition in self.partitions.values()],
            "schemas": self.schemas,
            "staged": {name: asdict(rows) for name, rows in self.staged.items()},
            "batches": self.batches,
            "moves": self.moves,
        }
        folder.write(_FILE, json.dumps(data))

    @property
    def open(self) -> list[TopicPartition]:
        """The partitions of which records wait."""
        return [partition for partition in self.partitions.values() if partition.count]

    @property
    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self.partitions})

    def has(self, batch: int) -> bool:
        return batch in self.batches

    def note_batch(self, batch: int) -> None:
        self.batches = [*self.batches, batch][-MARK_SEARCH_DEPTH:]

    def number_schema(self, text: str, columns: str) -> int:
        """The number of a schema, which is added when it is new."""
        texts = [known for known, _ in self.schemas]
        if text not in texts:
            self.schemas.append((text, columns))
            return len(texts)
        return texts.index(text)

    def forget_staged(self) -> None:
        """Forgets the rows of batches of which none wait any more."""
        self.staged = {
            name: rows
            for name, rows in self.staged.items()
            if any(rows.overlaps(p.topic, p.partition, p.start, p.last) for p in self.open)
        }
