"""Registration of tables in a Hive metastore or in a catalog with its data model, such as AWS Glue."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pydantic import Field

from headrace.sdk import Catalog, CatalogTable, Config, ConfigError, Partitions, RetriableError
from headrace_sinks.catalogs.metastore_tables import Input, make_name, make_partition, make_table, merge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Attempts for a table that other writers change, and the pause in seconds.
_ATTEMPTS, _PAUSE = 8, 0.25


class LostRaceError(Exception):
    """Another writer changed the catalog: read the table again and start over. The cause is the error of the catalog."""


class MetastoreClient(Protocol):
    """Requests to a catalog. Tables and partitions have the fields of Glue's ``TableInput`` and ``PartitionInput``."""

    #: Whether ``update_table`` rejects an update that is based on an older version.
    rejects_outdated: bool

    def input_members(self, shape: str) -> Collection[str]:
        """Return the fields of ``TableInput`` or ``PartitionInput``: the part of a response that a request can contain."""
        ...

    def count_databases(self) -> int:
        """Return the number of visible databases, at most 100."""
        ...

    def has_database(self, database: str) -> bool: ...

    def create_database(self, database: str) -> None: ...

    def get_table(self, database: str, name: str) -> Input | None: ...

    def create_table(self, database: str, table: Input) -> None: ...

    def update_table(self, database: str, table: Input, version: str | None) -> None: ...

    def list_partitions(self, database: str, name: str) -> dict[tuple[str, ...], Input]:
        """Return the partitions of a table by their values."""
        ...

    def create_partitions(self, database: str, name: str, partitions: Sequence[Input]) -> None: ...

    def update_partitions(self, database: str, name: str, partitions: Sequence[Input]) -> None: ...

    def delete_partitions(self, database: str, name: str, partitions: Sequence[tuple[str, ...]]) -> None: ...


class MetastoreConfig(Config):
    """Options of all catalogs with the data model of the Hive metastore."""

    database: str | None = Field(None, min_length=1)
    """Database of all tables: `shop.orders` becomes `shop_orders` in it. Default: the first part of the table's name, so `orders` in `shop`.
    """

    auto_create_database: bool = Field(True, alias="auto.create.database")
    """Create a missing database."""


@dataclass(frozen=True)
class _Registered:
    """Registered table and the locations of its partitions."""

    table: Input
    partitions: dict[tuple[str, ...], str]


class MetastoreCatalog(Catalog):
    """Base of the catalogs ``glue`` and ``hive``."""

    Config = MetastoreConfig
    config: MetastoreConfig
    #: The catalog in the location of an error, and in its text.
    title: ClassVar[str]
    short_title: ClassVar[str]

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        #: Dotted name → what this run registered. Unchanged tables cause no request.
        self._registered: dict[str, _Registered] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the cache, for another process."""
        return {**vars(self), "_registered": {}}

    @abstractmethod
    def open_client(self) -> AbstractContextManager[MetastoreClient]:
        """Open a client for one registration. After an error the next client reads the current credentials."""

    def spell_location(self, path: str) -> str:
        """Return a location in the spelling of the catalog."""
        return path.rstrip("/")

    def check(self, spark: SparkSession | None = None) -> None:
        if spark is None or (database := self.config.database) is None:
            return
        try:
            with self.open_client() as client:
                if not client.has_database(make_name(database)) and not self.config.auto_create_database:
                    raise self._explain_missing(make_name(database))
        except RetriableError:  # registration is retried after each batch
            return

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        with self.open_client() as client:
            if self.config.database is None:
                yield f"catalog {self.name}", f"reachable, {client.count_databases()} databases"
                return
            name = make_name(self.config.database)
            state = "exists" if client.has_database(name) else "does not exist, a run creates it"
            yield f"catalog {self.name}", f"database {name}: {state}"

    def register(
        self,
        name: str,
        describe: Callable[[], CatalogTable],
        written: Partitions,
        list_partitions: Callable[[], Partitions],
    ) -> None:
        database, table_name = self._split_name(name)
        known = self._registered.get(name)
        if known is not None and known.table == make_table(table_name, table := self._spell(describe())):
            new = {values: place for values, place in written.items() if known.partitions.get(values) != place}
            if not new:
                return
            try:
                with self.open_client() as client:
                    client.create_partitions(database, table_name, self._make_partitions(table, new))
            except LostRaceError:  # another writer added the partition, or the table was dropped
                pass
            else:
                known.partitions.update(new)
                return
        self._repeat(partial(self._put_all, name, describe, list_partitions), name)

    def _repeat(self, put: Callable[[MetastoreClient], None], name: str) -> None:
        """Register a table, and start again if another writer changed it."""
        self._registered.pop(name, None)
        for attempt in range(_ATTEMPTS):
            try:
                with self.open_client() as client:
                    put(client)
            except LostRaceError as error:
                if attempt == _ATTEMPTS - 1:
                    raise RetriableError(
                        f"other writers keep changing the table: {error}",
                        where=self._locate(*self._split_name(name)),
                        fix="find the other writers of the table; nothing is lost",
                    ) from error
                time.sleep(_PAUSE * (attempt + 1))
            else:
                return

    def _put_all(
        self,
        name: str,
        describe: Callable[[], CatalogTable],
        list_partitions: Callable[[], Partitions],
        client: MetastoreClient,
    ) -> None:
        """Create or update the table and its partitions; skip requests that would change nothing."""
        database, table_name = self._split_name(name)
        found = client.get_table(database, table_name)
        table = self._spell(describe())
        wanted = make_table(table_name, table)
        if found is None:
            self._create(client, database, wanted)
        else:
            self._check_same(found, wanted, self._locate(database, table_name))
            merged = merge(found, wanted, client.input_members("TableInput"))
            if _has_changes(merged, found):
                client.update_table(database, merged, found.get("VersionId"))
                # A slower writer may have replaced a newer description. The table in storage is never older than either.
                if not client.rejects_outdated and make_table(table_name, self._spell(describe())) != wanted:
                    raise LostRaceError("its columns changed during the update")
        partitions: dict[tuple[str, ...], str] = {}
        if table.partition_by:
            partitions = self._put_partitions(client, database, table, list_partitions, table_name)
        self._registered[name] = _Registered(wanted, partitions)

    def _create(self, client: MetastoreClient, database: str, wanted: Input) -> None:
        if not client.has_database(database):
            if not self.config.auto_create_database:
                raise self._explain_missing(database)
            client.create_database(database)
        client.create_table(database, wanted)

    def _put_partitions(
        self,
        client: MetastoreClient,
        database: str,
        table: CatalogTable,
        list_partitions: Callable[[], Partitions],
        name: str,
    ) -> dict[tuple[str, ...], str]:
        """Make the partitions of the catalog equal to those in storage, and return them."""
        # The catalog first: a partition that another writer commits and registers between the two lists is in storage only, and stays.
        found, stored = client.list_partitions(database, name), list_partitions()
        known = client.input_members("PartitionInput")
        new, changed = [], []
        for partition in self._make_partitions(table, stored):
            before = found.get(tuple(partition["Values"]))
            if before is None:
                new.append(partition)
            elif _has_changes(merged := merge(before, partition, known), before):
                changed.append(merged)
        # Partitions at other locations belong to other writers.
        root = table.location + "/"
        removed = [
            v for v, p in found.items() if v not in stored and p["StorageDescriptor"]["Location"].startswith(root)
        ]
        client.create_partitions(database, name, new)
        client.update_partitions(database, name, changed)
        client.delete_partitions(database, name, removed)
        return dict(stored)

    def _make_partitions(self, table: CatalogTable, partitions: Partitions) -> list[Input]:
        return [make_partition(table, values, self.spell_location(place)) for values, place in partitions.items()]

    def _spell(self, table: CatalogTable) -> CatalogTable:
        return replace(table, location=self.spell_location(table.location))

    def _split_name(self, name: str) -> tuple[str, str]:
        """Return the database and the table of a dotted name."""
        first, *rest = name.split(".")
        if self.config.database is not None:
            return make_name(self.config.database), make_name("_".join([first, *rest]))
        if not rest:
            fix = f"set `database` under `{self.name}:`, or give the table a `target:` of two parts: shop.orders"
            raise ConfigError(f"the table {name!r} has no database", where=f"catalog {self.name}", fix=fix)
        return make_name(first), make_name("_".join(rest))

    def _locate(self, database: str, table: str) -> str:
        return f"{self.title}, table {database}.{table}"

    def _explain_missing(self, database: str) -> ConfigError:
        return ConfigError(
            f"no such database: {database}",
            where=self.title,
            fix="create it, or correct the options of the catalog, or set `auto.create.database: true`",
        )

    def _check_same(self, found: Input, wanted: Input, where: str) -> None:
        """Raise ConfigError if the catalog has another table under the name."""
        place, own_place = (
            self.spell_location(one["StorageDescriptor"].get("Location") or "") for one in (found, wanted)
        )
        if place != own_place:
            raise ConfigError(
                f"the table in {self.short_title} is at {place or 'no location'}, and this table is at {own_place}",
                where=where,
                fix=f"set another `database` or `target:`, or drop the table in {self.short_title} if it is obsolete",
            )
        keys, own_keys = (
            [(key["Name"], key["Type"]) for key in one.get("PartitionKeys", ())] for one in (found, wanted)
        )
        if keys != own_keys:
            raise ConfigError(
                f"the table in {self.short_title} is partitioned by {keys or 'no column'}, and this table by "
                f"{own_keys or 'no column'}",
                where=where,
                fix=f"drop the table in {self.short_title}; headrace creates it again, and its files stay",
            )


def _has_changes(merged: Input, found: Input) -> bool:
    return any(merged[key] != found.get(key) for key in merged)
