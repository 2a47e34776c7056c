"""What a table's past leaves to later batches, in folders beside the checkpoint's other ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import quote

from headrace.upsert.deleted_keys import DeletedKeys
from headrace.upsert.key_changes import Moved
from headrace.upsert.truncates import TruncateMarker

if TYPE_CHECKING:
    from headrace.spark.storage import Folder


@dataclass(frozen=True)
class Memory:
    """Of one table. ``folder``: the checkpoint's; ``retention``: seconds for which keys and moved values are kept at least."""

    folder: Folder
    table: str
    retention: float

    @cached_property
    def deleted(self) -> DeletedKeys:
        return DeletedKeys(self.folder.folder(f"deleted/{self._name}"), self.retention)

    @cached_property
    def moved(self) -> Moved:
        return Moved(self.folder.folder(f"moved/{self._name}"), self.retention)

    @cached_property
    def truncated(self) -> TruncateMarker:
        return TruncateMarker(self.folder.folder("truncated"), self._name)

    @property
    def _name(self) -> str:
        return quote(self.table, safe="")
