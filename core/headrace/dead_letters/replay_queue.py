"""Dead letters that are being replayed, in ``replay/`` of the checkpoint.

Dead letters are moved here before they are applied, under a name that is never used again. Tables record that name with what they
write, so an interrupted replay continues where it stopped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    #: Returns the dead letters of a frame that are to be replayed.
    Select = Callable[[DataFrame], DataFrame]

#: Folder that is being written.
_UNFINISHED = "_taking"
#: File that names the folder that is being moved, and its name in the queue.
_CLAIM = "_claim"


@dataclass(frozen=True)
class ReplayItem:
    """Folder of claimed dead letters: ``<batch>+<unique number>+<name where it came from>``."""

    name: str
    batch: int
    #: The batch as the folder spells it.
    batch_name: str
    unique: str
    origin: str

    @classmethod
    def parse(cls, name: str) -> ReplayItem:
        """Return the item of a folder's name."""
        batch, unique, origin, *_ = name.split("+")
        return cls(name, int(batch), batch, unique, origin)


class ReplayQueue:
    """Claimed dead letters, in the order of their batches."""

    def __init__(self, spark: SparkSession, folder: Folder) -> None:
        self._spark, self._folder = spark, folder

    def items(self) -> list[ReplayItem]:
        """Return the claimed folders."""
        return [ReplayItem.parse(name) for name in self._folder.names()]

    def path(self, item: ReplayItem) -> str:
        """Return the path of a claimed folder. ConfigError for damaged files."""
        self._folder.check_complete(item.name)
        return f"{self._folder.path}/{item.name}"

    def add(self, dead_letters: DataFrame, batch: int, origin: str) -> ReplayItem:
        """Write dead letters of one batch into a new item."""
        path = f"{self._folder.path}/{_UNFINISHED}"
        dead_letters.coalesce(1).write.mode("overwrite").save(path)
        self._folder.mark_complete(_UNFINISHED)
        return self.claim(path, f"{batch:010d}", quote(origin, safe=""))

    def claim(self, path: str, batch_name: str, origin: str) -> ReplayItem:
        """Move a whole folder into the queue.

        An object store moves file by file; ``finish_claim`` completes it after a crash.
        """
        name = f"{batch_name}+{time.time_ns()}+{origin}"
        self._folder.write(_CLAIM, json.dumps([path, name]))
        self.finish_claim()
        return ReplayItem.parse(name)

    def finish_claim(self) -> None:
        """Move the remaining files of a folder whose claim was interrupted."""
        claim = self._folder.load(_CLAIM, _parse_claim)
        if claim is None:
            return
        path, name = claim
        parent_path, _, last = path.rpartition("/")
        parent, source = Folder(self._spark, parent_path), Folder(self._spark, path)
        target = self._folder.folder(name)
        if source.exists() and not target.exists():
            parent.move(last, target.path)
        for file in source.list_files():
            target.delete(file)
            source.move(file, f"{target.path}/{file}")
        parent.delete(last)
        self._folder.delete(_CLAIM)

    def remove(self, item: ReplayItem) -> None:
        """Remove an item that was applied."""
        self._folder.delete(item.name)


def _parse_claim(text: str) -> tuple[str, str]:
    path, name = json.loads(text)
    return str(path), str(name)
