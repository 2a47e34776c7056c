"""Catalog plugin ``glue``: registration of tables in the AWS Glue Data Catalog."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import Field

from headrace.sdk import Catalog, CatalogTable, ConfigError, HeadraceError, Partitions, RetriableError
from headrace_aws.glue.glue_client import GlueClient, LostRaceError
from headrace_aws.glue.glue_tables import Input, make_location, make_name, make_partition, make_table, merge
from headrace_aws.identity_config import IdentityConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Attempts for a table that other writers change, and the pause in seconds.
_ATTEMPTS, _PAUSE = 8, 0.25


class GlueConfig(IdentityConfig):
    """AWS Glue Data Catalog."""

    database: str | None = Field(None, min_length=1)
    """Database of all tables: `shop.orders` becomes `shop_orders` in it. Default: the first part of the table's name, so `orders` in `shop`.
    """

    region: str | None = None
    """AWS region. Default: the region of the environment or the profile."""

    endpoint: str | None = None
    """URL of an emulator or a VPC endpoint."""

    catalog_id: str | None = Field(None, alias="catalog.id", pattern=r"^\d{12}(:.+)?$")
    """Account of the catalog, if it is another account."""

    auto_create_database: bool = Field(True, alias="auto.create.database")
    """Create a missing database."""


@dataclass(frozen=True)
class _Registered:
    """Registered table and the locations of its partitions."""

    table: Input
    partitions: dict[tuple[str, ...], str]


class GlueCatalog(Catalog):
    """Plugin of ``sync: {glue: {database: lake}}`` in a file sink."""

    name = "glue"
    api_version = 1
    Config = GlueConfig
    config: GlueConfig

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self._client: GlueClient | None = None
        #: Dotted name → what this run registered. Unchanged tables cause no request.
        self._registered: dict[str, _Registered] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the client and the cache, for another process."""
        return {**vars(self), "_client": None, "_registered": {}}

    def check(self, spark: SparkSession | None = None) -> None:
        client = self._open()
        if spark is None or (database := self.config.database) is None:
            return
        try:
            if not client.has_database(make_name(database)) and not self.config.auto_create_database:
                raise _explain_missing(make_name(database))
        except RetriableError:  # registration is retried after each batch
            return

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        client = self._open()
        if self.config.database is None:
            yield "catalog glue", f"reachable, {client.count_databases()} databases"
            return
        name = make_name(self.config.database)
        yield (
            "catalog glue",
            f"database {name}: {'exists' if client.has_database(name) else 'does not exist, a run creates it'}",
        )

    def register(
        self,
        name: str,
        describe: Callable[[], CatalogTable],
        written: Partitions,
        list_partitions: Callable[[], Partitions],
    ) -> None:
        database, table_name = self._split_name(name)
        known = self._registered.get(name)
        if known is not None and known.table == make_table(table_name, table := describe()):
            new = {values: place for values, place in written.items() if known.partitions.get(values) != place}
            if not new:
                return
            try:
                inputs = [make_partition(table, values, place) for values, place in new.items()]
                self._open().create_partitions(database, table_name, inputs)
            except LostRaceError:  # another writer added the partition, or the table was dropped
                pass
            except HeadraceError:
                self._client = None  # a new client reads the current credentials
                raise
            else:
                known.partitions.update(new)
                return
        self._repeat(partial(self._put_all, name, describe, list_partitions), name)

    def _repeat(self, put: Callable[[], None], name: str) -> None:
        """Register a table, and start again if another writer changed it."""
        self._registered.pop(name, None)
        self._client = None  # a new client reads the current credentials
        for attempt in range(_ATTEMPTS):
            try:
                put()
            except LostRaceError as error:
                if attempt == _ATTEMPTS - 1:
                    raise RetriableError(
                        f"other writers keep changing the table: {error}",
                        where=f"AWS Glue, table {'.'.join(self._split_name(name))}",
                        fix="find the other writers of the table; nothing is lost",
                    ) from error
                time.sleep(_PAUSE * (attempt + 1))
            else:
                return

    def _put_all(
        self, name: str, describe: Callable[[], CatalogTable], list_partitions: Callable[[], Partitions]
    ) -> None:
        """Create or update the table and its partitions in Glue; skip requests that would change nothing."""
        database, table_name = self._split_name(name)
        client = self._open()
        found = client.get_table(database, table_name)
        table = describe()
        wanted = make_table(table_name, table)
        if found is None:
            self._create(client, database, wanted)
        else:
            _check_same(found, wanted, f"AWS Glue, table {database}.{table_name}")
            known = client.input_members("TableInput")
            merged = merge(found, wanted, known)
            if any(merged[key] != found.get(key) for key in merged):
                client.update_table(database, merged, found.get("VersionId"))
        partitions: dict[tuple[str, ...], str] = {}
        if table.partition_by:
            partitions = self._put_partitions(client, database, table_name, table, list_partitions)
        self._registered[name] = _Registered(wanted, partitions)

    def _create(self, client: GlueClient, database: str, wanted: Input) -> None:
        if not client.has_database(database):
            if not self.config.auto_create_database:
                raise _explain_missing(database)
            client.create_database(database)
        client.create_table(database, wanted)

    def _put_partitions(
        self,
        client: GlueClient,
        database: str,
        name: str,
        table: CatalogTable,
        list_partitions: Callable[[], Partitions],
    ) -> dict[tuple[str, ...], str]:
        found = client.list_partitions(database, name)
        wanted = dict(list_partitions())
        known = client.input_members("PartitionInput")
        new, changed = [], []
        for values, place in wanted.items():
            partition = make_partition(table, values, place)
            if values not in found:
                new.append(partition)
                continue
            merged = merge(found[values], partition, known)
            if any(merged[key] != found[values].get(key) for key in merged):
                changed.append(merged)
        # Partitions at other locations belong to other writers.
        root = make_location(table.location) + "/"
        removed = [
            v for v, p in found.items() if v not in wanted and p["StorageDescriptor"]["Location"].startswith(root)
        ]
        client.create_partitions(database, name, new)
        client.update_partitions(database, name, changed)
        client.delete_partitions(database, name, removed)
        return wanted

    def _split_name(self, name: str) -> tuple[str, str]:
        """Return the database and the table of a dotted name."""
        first, *rest = name.split(".")
        if self.config.database is not None:
            return make_name(self.config.database), make_name("_".join([first, *rest]))
        if not rest:
            fix = "set `database` under `glue:`, or give the table a `target:` of two parts: shop.orders"
            raise ConfigError(f"the table {name!r} has no database", where="catalog glue", fix=fix)
        return make_name(first), make_name("_".join(rest))

    def _open(self) -> GlueClient:
        if self._client is None:
            config = self.config
            identity = config.identity(config.region)
            self._client = GlueClient(identity, endpoint=config.endpoint, catalog_id=config.catalog_id)
        return self._client


def _explain_missing(database: str) -> ConfigError:
    return ConfigError(
        f"no such database: {database}",
        where="AWS Glue",
        fix="create it, or correct `database` and `region`, or set `auto.create.database: true`",
    )


def _check_same(found: Input, wanted: Input, where: str) -> None:
    """Raise ConfigError if Glue has another table under the name."""
    place, own_place = (make_location(one["StorageDescriptor"].get("Location", "")) for one in (found, wanted))
    if place != own_place:
        raise ConfigError(
            f"the table in Glue is at {place or 'no location'}, and this table is at {own_place}",
            where=where,
            fix="set another `database` or `target:`, or drop the table in Glue if it is obsolete",
        )
    keys, own_keys = ([(key["Name"], key["Type"]) for key in one.get("PartitionKeys", ())] for one in (found, wanted))
    if keys != own_keys:
        raise ConfigError(
            f"the table in Glue is partitioned by {keys or 'no column'}, and this table by {own_keys or 'no column'}",
            where=where,
            fix="drop the table in Glue; headrace creates it again, and its files stay",
        )
