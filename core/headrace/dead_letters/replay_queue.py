"""Dead letters that are being replayed, in ``replay/`` of the checkpoint.

Dead letters are moved here before they are applied, under a name that is never used again. Tables record that name with what they
write, so an interrupted replay continues where it stopped, with the same selection.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import reduce
from typing import TYPE_CHECKING
from urllib.parse import quote

from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    #: Returns the dead letters of a frame that are to be replayed.
    Select = Callable[[DataFrame], DataFrame]

#: Folder that is being written.
_UNFINISHED = "_taking"
#: File that names the folder that is being moved, and its name in the queue.
_CLAIM = "_claim"
#: Folder with the selection of each item whose replay has begun.
_SELECTIONS = "_selections"


@dataclass(frozen=True)
class Selection:
    """Dead letters of an item that a replay applies: those of a reason and of a table, or all; without those of missing files.

    ``is_restored``: the others are back in their store.
    """

    reason: str | None = None
    table: str | None = None
    missing_files: tuple[str, ...] = ()
    is_restored: bool = False

    def condition(self) -> Column:
        """Return the condition that selects the dead letters of the reason and the table."""
        from pyspark.sql import functions as F

        pairs = (("reason", self.reason), ("table", self.table))
        conditions = [F.col(column) == value for column, value in pairs if value is not None]
        return reduce(lambda a, b: a & b, conditions, F.lit(True))


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

    def read_selection(self, item: ReplayItem) -> Selection | None:
        """Return the selection of the first attempt at an item; None if there was none."""
        return self._folder.folder(_SELECTIONS).load(item.unique, _parse_selection)

    def save_selection(self, item: ReplayItem, selection: Selection) -> None:
        """Store the selection of an item before anything is written, and when the others are restored.

        A table that has the item may skip it in a later attempt.
        """
        self._folder.folder(_SELECTIONS).write(item.unique, json.dumps(asdict(selection), ensure_ascii=False))

    def remove(self, item: ReplayItem) -> None:
        """Remove an item that was applied."""
        self._folder.delete(item.name)
        self._folder.folder(_SELECTIONS).delete(item.unique)

    def read(self, session: SparkSession) -> DataFrame | None:
        """Return the claimed dead letters; None if there are none. Those that are back in their store are left out."""
        frames = [self._read_item(session, item) for item in self.items()]
        return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames) if frames else None

    def _read_item(self, session: SparkSession, item: ReplayItem) -> DataFrame:
        dead_letters, selection = session.read.load(self.path(item)), self.read_selection(item)
        return dead_letters.where(selection.condition()) if selection and selection.is_restored else dead_letters


def _parse_selection(text: str) -> Selection:
    found = json.loads(text)
    # Earlier releases did not store whether the others are restored.
    is_restored = found.get("is_restored", False)
    return Selection(found["reason"], found["table"], tuple(found["missing_files"]), is_restored)


def _parse_claim(text: str) -> tuple[str, str]:
    path, name = json.loads(text)
    return str(path), str(name)
