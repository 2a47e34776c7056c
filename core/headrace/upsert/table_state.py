"""State that a table's batches leave to later ones, in folders of the checkpoint."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import quote

from headrace.checkpoint.layout import list_tables, table_folder
from headrace.upsert.change_feed import FeedSequence
from headrace.upsert.deleted_keys import DeletedKeys
from headrace.upsert.key_changes import KeyChanges
from headrace.upsert.remembered_changes import RememberedChanges
from headrace.upsert.snapshots import NewestSnapshot
from headrace.upsert.table_modes import TableModes
from headrace.upsert.table_sources import TableSources
from headrace.upsert.table_types import TableTypes
from headrace.upsert.truncates import TruncateMarker

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.checkpoint.layout import CheckpointFolders


class TableState:
    """Durable state of one table.

    Keys of deleted rows, values carried to new keys, changes that no version shows, sources, last truncates, newest snapshot, modes, types.
    """

    def __init__(self, folders: CheckpointFolders, table: str, retention: float) -> None:
        """``folders``: folders of the checkpoint; ``retention``: minimum seconds for which keys and carried values are kept."""
        self._folders, self.table, self._retention = folders, table, retention
        self._name = quote(table, safe="")
        #: Whether changes of the table have unavailable values; None until it was checked.
        self.has_unavailable: bool | None = None
        #: Whether the current batch has a rejected change that is half of an update of a key.
        self.has_rejected_halves = False
        self._feed_sequences: dict[str, FeedSequence] = {}

    def feed_sequence(self, sink: str) -> FeedSequence:
        """Return the sequence of the table's feed in a sink."""
        return self._feed_sequences.setdefault(sink, FeedSequence())

    @cached_property
    def deleted_keys(self) -> DeletedKeys:
        return DeletedKeys(table_folder(self._folders.deleted_keys, self.table), self._retention)

    @cached_property
    def key_changes(self) -> KeyChanges:
        return KeyChanges(table_folder(self._folders.key_changes, self.table), self._retention)

    @cached_property
    def hidden_changes(self) -> RememberedChanges:
        return RememberedChanges(table_folder(self._folders.hidden_changes, self.table), self._retention)

    @cached_property
    def sources(self) -> TableSources:
        return TableSources(self._folders.table_sources, self._name)

    def expire(self, batch: int, newest_change: int | None, *, has_rows: bool) -> None:
        """Forget expired keys and values that this run has read, after a batch with rows.

        ``newest_change`` as in ``RowStore.expire``.
        """
        for name in ("deleted_keys", "key_changes", "hidden_changes"):
            state = self.__dict__.get(name)
            if state is not None and has_rows:
                state.expire(batch, newest_change)

    @cached_property
    def truncate(self) -> TruncateMarker:
        return TruncateMarker(self._folders.truncate_markers, self._name)

    @cached_property
    def snapshot(self) -> NewestSnapshot:
        return NewestSnapshot(self._folders.snapshots, self._name)

    @cached_property
    def modes(self) -> TableModes:
        return TableModes(self._folders.table_modes, self._name)

    @cached_property
    def types(self) -> TableTypes:
        return TableTypes(self._folders.table_types, self._name)


class TableStates:
    """State of every table of a run. Threads share it; only one thread at a time uses the state of one table."""

    def __init__(self, folders: CheckpointFolders, retention: Callable[[str], float] = lambda table: 0.0) -> None:
        """``folders``: folders of the checkpoint; ``retention``: table → seconds."""
        self._folders, self._retention = folders, retention
        self._states: dict[str, TableState] = {}
        self._lock = threading.Lock()

    def names(self) -> set[str]:
        """Return the tables with any state."""
        folders = self._folders
        by_table = (
            folders.deleted_keys,
            folders.key_changes,
            folders.hidden_changes,
            folders.table_sources,
            folders.truncate_markers,
            folders.snapshots,
        )
        states = {table for folder in by_table for table in list_tables(folder)}
        return states | {name.removesuffix(TableModes.suffix) for name in list_tables(folders.table_modes)}

    def of(self, table: str) -> TableState:
        """Return the state of a table, always the same object."""
        with self._lock:
            if table not in self._states:
                self._states[table] = TableState(self._folders, table, self._retention(table))
            return self._states[table]
