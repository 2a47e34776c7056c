"""State of a table's objects: open objects, their pending records, and complete objects to move."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.sdk import MARK_SEARCH_DEPTH, Batch, ConfigError

if TYPE_CHECKING:
    from headrace.sdk.storage import Folder

_FILE, _VERSION = "state.json", 1


@dataclass
class TopicPartition:
    """Partition of a topic up to its last record.

    The records from ``start`` to ``last`` are pending until their objects are complete; with ``count`` 0 none is pending.
    """

    topic: str
    partition: int
    last: int
    start: int = 0
    count: int = 0
    #: Timestamp of the first pending record, and encoded partition of the last one, if objects are rotated by time.
    base: int | None = None
    encoded: str | None = None
    #: Arrival of the first pending record, in milliseconds since 1970.
    opened: int = 0
    #: Number of the schema of the pending records.
    schema: int = 0


@dataclass
class Staged:
    """Staged rows of a batch: the number of their schema, and topic, partition, first and last offset of each part."""

    schema: int
    parts: list[tuple[str, int, int, int]]

    def overlaps(self, topic: str, partition: int, start: int, end: int) -> bool:
        """Return whether the batch has records of these offsets."""
        return any(part[:2] == (topic, partition) and part[2] <= end and part[3] >= start for part in self.parts)


@dataclass
class State:
    """State of a table, replaced as a whole: after its files are complete, and before any of them is moved or deleted."""

    partitions: dict[tuple[str, int], TopicPartition] = field(default_factory=dict)
    #: Schemas in order of arrival: the schema that all records of an object share, and the columns of the rows as JSON.
    schemas: list[tuple[str, str]] = field(default_factory=list)
    #: Folder → its staged rows, as long as some are pending.
    staged: dict[str, Staged] = field(default_factory=dict)
    #: Marks of the newest applied batches, the newest last. States of older versions have only batch numbers.
    batches: list[str | int] = field(default_factory=list)
    #: Complete files to move: source and target.
    moves: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Folder) -> State:
        """Read the state from a folder; an empty state without a file."""
        return folder.load(_FILE, lambda text: cls._parse(text, f"{folder.path}/{_FILE}")) or cls()

    @classmethod
    def _parse(cls, text: str, where: str) -> State:
        data: dict[str, Any] = json.loads(text)
        if data.pop("version") != _VERSION:
            raise ConfigError(
                "the state has a format of a newer version of headrace",
                where=where,
                fix="use the version of headrace that wrote it, or a newer one",
            )
        partitions = [TopicPartition(**entry) for entry in data["partitions"]]
        return cls(
            partitions={(partition.topic, partition.partition): partition for partition in partitions},
            schemas=[(text, columns) for text, columns in data["schemas"]],
            staged={
                name: Staged(rows["schema"], [(t, p, first, last) for t, p, first, last in rows["parts"]])
                for name, rows in data["staged"].items()
            },
            batches=data["batches"],
            moves=[(source, target) for source, target in data["moves"]],
        )

    def write(self, folder: Folder) -> None:
        """Replace the state in a folder."""
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
        """Partitions with pending records."""
        return [partition for partition in self.partitions.values() if partition.count]

    @property
    def topics(self) -> list[str]:
        """Topics of the table's records."""
        return sorted({topic for topic, _ in self.partitions})

    def has(self, batch: Batch) -> bool | None:
        """Return whether a batch is among the newest applied batches; None if the checkpoint is older than the state."""
        return batch.is_applied(f"{batch.mark_prefix}{m}" if isinstance(m, int) else m for m in reversed(self.batches))

    def note_batch(self, batch: Batch) -> None:
        """Add an applied batch."""
        self.batches = [*self.batches, batch.mark][-MARK_SEARCH_DEPTH:]

    def number_schema(self, text: str, columns: str) -> int:
        """Return the number of a schema, and add the schema when it is new."""
        texts = [known for known, _ in self.schemas]
        if text not in texts:
            self.schemas.append((text, columns))
            return len(texts)
        return texts.index(text)

    def forget_staged(self) -> None:
        """Remove staged batches without pending records."""
        self.staged = {
            name: rows
            for name, rows in self.staged.items()
            if any(rows.overlaps(p.topic, p.partition, p.start, p.last) for p in self.open)
        }
