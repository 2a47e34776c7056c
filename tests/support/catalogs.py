"""Table in memory that several writers register in a catalog."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headrace.sdk import Catalog, CatalogTable, Storage


class FakeStore:
    """In-memory table with several writers; each commit adds a column and a partition. It stands in for files in a store."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.columns, self.partitions = ["id"], dict[tuple[str, ...], str]()
        self._lock = threading.Lock()
        #: Called after a pipeline has read the table and before it registers the result.
        self.after_reading: Callable[[], None] = lambda: None

    def commit(self, column: str) -> dict[tuple[str, ...], str]:
        with self._lock:
            self.columns.append(column)
            written: dict[tuple[str, ...], str] = {(column,): f"{self.location}/{column}"}
            self.partitions |= written
        return written

    def register(self, catalog: Catalog, name: str, written: dict[tuple[str, ...], str] | None = None) -> None:
        catalog.register(name, self._describe, written or {}, lambda: dict(self.partitions))

    def _describe(self) -> CatalogTable:
        from pyspark.sql.types import IntegerType, StructField, StructType

        with self._lock:
            schema = StructType([StructField(column, IntegerType()) for column in self.columns])
        self.after_reading()
        return CatalogTable(self.location, schema, Storage("parquet", "in", "out", "serde"), ("part",))
