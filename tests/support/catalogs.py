"""Table in memory that several writers register in a catalog, and a catalog in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

import pytest

from headrace.sdk import Catalog, CatalogTable, Partitions, Storage
from headrace_sinks.catalogs.metastore_catalog import LostRaceError, MetastoreCatalog, MetastoreClient
from headrace_sinks.catalogs.metastore_tables import Input


class FakeStore:
    """In-memory table with several writers; each commit adds a column and a partition. It stands in for files in a store."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.columns, self.partitions = ["id"], dict[tuple[str, ...], str]()
        self._lock = threading.Lock()
        #: Called after a pipeline has read the table and before it registers the result.
        self.after_reading: Callable[[], None] = lambda: None
        #: Called after a pipeline has listed the partitions.
        self.after_listing: Callable[[], None] = lambda: None

    def commit(self, column: str) -> dict[tuple[str, ...], str]:
        with self._lock:
            self.columns.append(column)
            written: dict[tuple[str, ...], str] = {(column,): f"{self.location}/{column}"}
            self.partitions |= written
        return written

    def register(self, catalog: Catalog, name: str, written: dict[tuple[str, ...], str] | None = None) -> None:
        catalog.register(name, self._describe, written or {}, self._list_partitions)

    def _list_partitions(self) -> Partitions:
        found = dict(self.partitions)
        self.after_listing()
        return found

    def _describe(self) -> CatalogTable:
        from pyspark.sql.types import IntegerType, StructField, StructType

        with self._lock:
            schema = StructType([StructField(column, IntegerType()) for column in self.columns])
        self.after_reading()
        return CatalogTable(self.location, schema, Storage("parquet", "in", "out", "serde"), ("part",))


@contextmanager
def overtake(
    patch: pytest.MonkeyPatch, client: type[MetastoreClient], store: FakeStore, work: Callable[[], None], *, point: str
) -> Iterator[None]:
    """Run ``work`` of another writer once, before the next writer reads the catalog or after it read the table."""
    get_table = client.get_table

    def run_once() -> None:
        store.after_reading = lambda: None
        context.undo()
        work()

    def get_table_with_overtaking(self: MetastoreClient, database: str, table: str) -> Input | None:
        if point == "before the catalog is read":
            run_once()
        else:
            store.after_reading = run_once
        return get_table(self, database, table)

    with patch.context() as context:
        context.setattr(client, "get_table", get_table_with_overtaking)
        yield


#: Points at which another writer overtakes.
POINTS = ("before the catalog is read", "after the table was read")


class MemoryMetastore:
    """Catalog in memory, for the order of requests. The catalogs of AWS and Hive are tested with their servers."""

    rejects_outdated = True

    def __init__(self) -> None:
        self.table: Input | None = None
        self.partitions: dict[tuple[str, ...], Input] = {}

    def input_members(self, shape: str) -> Collection[str]:
        return ("Name", "TableType", "PartitionKeys", "Parameters", "StorageDescriptor", "Values")

    def count_databases(self) -> int:
        return 1

    def has_database(self, database: str) -> bool:
        return True

    def create_database(self, database: str) -> None:
        raise NotImplementedError("the database exists")

    def get_table(self, database: str, name: str) -> Input | None:
        return self.table

    def create_table(self, database: str, table: Input) -> None:
        self.table = table

    def update_table(self, database: str, table: Input, version: str | None) -> None:
        self.table = table

    def list_partitions(self, database: str, name: str) -> dict[tuple[str, ...], Input]:
        return dict(self.partitions)

    def create_partitions(self, database: str, name: str, partitions: Sequence[Input]) -> None:
        new = {tuple(partition["Values"]): partition for partition in partitions}
        if new.keys() & self.partitions.keys():
            raise LostRaceError("the partition exists")
        self.partitions |= new

    def update_partitions(self, database: str, name: str, partitions: Sequence[Input]) -> None:
        self.partitions |= {tuple(partition["Values"]): partition for partition in partitions}

    def delete_partitions(self, database: str, name: str, partitions: Sequence[tuple[str, ...]]) -> None:
        for values in partitions:
            del self.partitions[values]


class MemoryCatalog(MetastoreCatalog):
    """Catalog ``memory`` of one pipeline."""

    name = "memory"
    api_version = 1
    title = short_title = "memory"

    def __init__(self, metastore: MemoryMetastore) -> None:
        super().__init__()
        self._metastore = metastore

    @contextmanager
    def open_client(self) -> Iterator[MetastoreClient]:
        yield self._metastore
