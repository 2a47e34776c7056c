"""What a table's batches leave to later ones, in folders of the checkpoint."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from headrace.upsert.deleted_keys import DeletedKeys
from headrace.upsert.key_changes import KeyChanges
from headrace.upsert.snapshots import NewestSnapshot
from headrace.upsert.table_modes import TableModes
from headrace.upsert.truncates import TruncateMarker

if TYPE_CHECKING:
    from headrace.spark.storage import Folder

#: The checkpoint's folder of the tables' newest snapshots.
SNAPSHOTS = "snapshots"
_MODES = "modes"
#: The folders in which a table's state is called as the table is.
_BY_TABLE = ("deleted", "moved", "truncated", SNAPSHOTS)


class TableState:
    """The durable state of one table: keys of deleted rows, values on their way to new keys, the last truncate and snapshot, modes."""

    def __init__(self, folder: Folder, table: str, retention: float) -> None:
        """``folder``: the checkpoint's; ``retention``: seconds for which keys and carried values are kept at least."""
        self._folder, self._table, self._retention = folder, quote(table, safe=""), retention
        #: Whether some of the table's changes leave values out (unavailable values); None while nobody has looked.
        self.has_unavailable: bool | None = None

    @cached_property
    def deleted_keys(self) -> DeletedKeys:
        return DeletedKeys(self._folder.folder(f"deleted/{self._table}"), self._retention)

    @cached_property
    def key_changes(self) -> KeyChanges:
        return KeyChanges(self._folder.folder(f"moved/{self._table}"), self._retention)

    @cached_property
    def truncate(self) -> TruncateMarker:
        return TruncateMarker(self._folder.folder("truncated"), self._table)

    @cached_property
    def snapshot(self) -> NewestSnapshot:
        return NewestSnapshot(self._folder.folder(SNAPSHOTS), self._table)

    @cached_property
    def modes(self) -> TableModes:
        return TableModes(self._folder.folder(_MODES), self._table)


class TableStates:
    """The state of every table of a run. Threads share it; one table's is used by one thread at a time."""

    def __init__(self, folder: Folder, retention: float) -> None:
        """``folder``: the checkpoint's; ``retention``: seconds."""
        self._folder, self._retention = folder, retention
        self._states: dict[str, TableState] = {}
        self._lock = threading.Lock()

    def names(self) -> set[str]:
        """The tables of which something was noted."""
        states = {name for of in _BY_TABLE for name in self._folder.folder(of).names()}
        modes = {name.removesuffix(TableModes.suffix) for name in self._folder.folder(_MODES).names()}
        return {unquote(name) for name in states | modes}

    def of(self, table: str) -> TableState:
        """The state of a table, the same object whenever it is asked for."""
        with self._lock:
            if table not in self._states:
                self._states[table] = TableState(self._folder, table, self._retention)
            return self._states[table]
