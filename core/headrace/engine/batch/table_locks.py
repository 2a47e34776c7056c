"""Locks of tables, which batches and maintenance take in turn."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class TableLocks:
    """One lock per table."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    @contextmanager
    def hold(self, table: str) -> Iterator[None]:
        """Hold a table's lock while a batch, or a maintenance step that excludes batches, writes it."""
        with self._lock:
            lock = self._locks[table]
        with lock:
            yield
