"""Changes of tables that views have not applied yet, and the state of each view.

``states/<view>.json``         number of the last refresh, digests of the definition, and applied entries that still exist
``queue/<table>/<entry>/``     Parquet files with the old rows of one write, and the keys of all its rows
``queue/<table>/<entry>.json`` sink, key columns, columns and types of the entry; written last, so it marks a complete entry
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from headrace.checkpoint.layout import list_tables, table_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.spark.storage import Folder

_ENDING = ".json"


@dataclass(frozen=True)
class ViewState:
    """State of a view.

    ``number``: number of the last refresh that began; ``digest``: digest of what determines the view's rows, empty if the view
    must be computed whole; ``key``: key columns; ``done``: entries of the queue that the view has applied; ``definition``: digest of
    the view in the pipeline file alone.
    """

    number: int = 0
    digest: str = ""
    key: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    definition: str = ""


@dataclass(frozen=True)
class QueueEntry:
    """Changes of one write of a table in one sink.

    ``key``: key columns of the table, whose new rows are those stored now; empty: the entry has the new rows, because rows are
    only appended. ``columns``: columns in lower case that the entry has if the table has them; None for all. ``types``: column types of
    the entry's rows as JSON; None: any row of the table may have changed.
    """

    table: str
    name: str
    sink: str
    key: tuple[str, ...] = ()
    types: str | None = None
    columns: tuple[str, ...] | None = ()

    def has_columns(self, needed: frozenset[str] | None) -> bool:
        """Return whether the entry has columns of its table. ``needed``: in lower case; None for all."""
        return self.columns is None or (needed is not None and needed <= {*self.columns})


class ViewQueue:
    """Queue of the tables that views read. Threads may share it; one process at a time uses the folder."""

    def __init__(self, folder: Folder) -> None:
        self._states, self._queue = folder.folder("states"), folder.folder("queue")
        self._lock = threading.Lock()
        self._entries: dict[str, dict[str, QueueEntry]] = {}
        self._known_states: dict[str, ViewState] = {}
        #: Entries of writes in progress: the table may or may not have their new rows.
        self._held: set[str] = set()

    @contextmanager
    def hold(self, table: str) -> Iterator[str]:
        """Return the name of a new entry, which no view applies before the end of the block."""
        name = f"{int(time.time() * 1000):013d}-{uuid.uuid4().hex[:8]}"
        with self._lock:
            self._held.add(name)
        try:
            yield name
        finally:
            with self._lock:
                self._held.discard(name)

    def add(self, entry: QueueEntry, rows: DataFrame | None) -> None:
        """Store an entry with its rows; None: any row may have changed."""
        folder = table_folder(self._queue, entry.table)
        if rows is not None:
            rows.write.parquet(f"{folder.path}/{entry.name}")
            folder.mark_complete(entry.name)
            entry = replace(entry, types=rows.schema.json())
        folder.write(entry.name + _ENDING, json.dumps(asdict(entry)))
        with self._lock:
            self._load(entry.table)[entry.name] = entry

    def entries(self, table: str, sink: str) -> list[QueueEntry]:
        """Return all entries of a table in a sink, also those of writes in progress."""
        with self._lock:
            return [entry for entry in self._load(table).values() if entry.sink == sink]

    def finished_entries(self, table: str, sink: str) -> list[QueueEntry]:
        """Return the entries of a table in a sink whose writes have ended."""
        with self._lock:
            entries = self._load(table).values()
            return [entry for entry in entries if entry.sink == sink and entry.name not in self._held]

    def read(self, session: SparkSession, entries: Collection[QueueEntry]) -> DataFrame:
        """Return the rows of entries that have the same types."""
        (types,) = {entry.types for entry in entries}
        paths = [f"{table_folder(self._queue, entry.table).path}/{entry.name}" for entry in entries]
        return session.read.schema(_parse_types(types or "")).parquet(*paths)

    def remove(self, table: str, names: Collection[str]) -> None:
        """Remove entries. A crash leaves files that ``retain`` removes."""
        folder = table_folder(self._queue, table)
        with self._lock:
            for name in names:
                self._load(table).pop(name, None)
        for name in names:
            folder.delete(name + _ENDING)
            folder.delete(name)

    def state(self, view: str) -> ViewState:
        """Return the state of a view; the default state if the view was never computed."""
        if view not in self._known_states:
            self._known_states[view] = self._states.load(_name_state(view), _parse_state) or ViewState()
        return self._known_states[view]

    def save(self, view: str, state: ViewState) -> None:
        """Replace the state of a view."""
        self._states.write(_name_state(view), json.dumps(asdict(state)))
        self._known_states[view] = state

    def retain(self, views: Collection[str], tables: Collection[str]) -> None:
        """Remove the state of other views, the entries of other tables, and incomplete entries.

        Nothing records the changes for a view that is not in the file, so it is computed whole when it returns.
        """
        kept = {_name_state(view) for view in views}
        for name in self._states.names(hidden=True):
            if name not in kept and name.endswith(_ENDING) and not name.startswith("."):
                self._states.delete(name)
        for table in list_tables(self._queue):
            if table not in tables:
                self._queue.delete(quote(table, safe=""))
                continue
            folder = table_folder(self._queue, table)
            names = set(folder.names())
            for name in names:
                if not name.endswith(_ENDING) and name + _ENDING not in names:
                    folder.delete(name)

    def _load(self, table: str) -> dict[str, QueueEntry]:
        """Return name → entry of a table, in the order of the names. Called with the lock."""
        if table not in self._entries:
            folder = table_folder(self._queue, table)
            found = [folder.load(name, _parse_entry) for name in folder.names() if name.endswith(_ENDING)]
            self._entries[table] = {entry.name: entry for entry in found if entry is not None}
        return self._entries[table]


def _name_state(view: str) -> str:
    return quote(view, safe="") + _ENDING


def _parse_state(text: str) -> ViewState:
    data: dict[str, Any] = json.loads(text)
    lists = {name: tuple(data[name]) for name in ("key", "done")}
    return ViewState(**{**data, **lists})


def _parse_entry(text: str) -> QueueEntry:
    data: dict[str, Any] = json.loads(text)
    lists = {name: tuple(data[name]) for name in ("key", "columns") if data.get(name) is not None}
    return QueueEntry(**{**data, **lists})


def _parse_types(types: str) -> StructType:
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(types))
