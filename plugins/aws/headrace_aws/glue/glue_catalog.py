"""The Data Catalog of AWS Glue, where Athena, EMR and Glue's jobs look tables up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import Field

from headrace.sdk import Catalog, CatalogTable, ConfigError, Partitions, RetriableError
from headrace_aws.glue.glue_client import GlueClient, LostRaceError
from headrace_aws.glue.glue_tables import Input, make_location, make_name, make_partition, make_table, merge
from headrace_aws.identity_config import IdentityConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How often a table is begun anew that others change meanwhile, and the seconds before.
_TRIES, _PAUSE = 8, 0.25


class GlueConfig(IdentityConfig):
    """AWS Glue's Data Catalog."""

    database: str | None = Field(None, min_length=1)
    """The database of all tables: `shop.orders` becomes `shop_orders` in it. Default: a table's first part, so that it becomes `orders` in `shop`.
    """

    region: str | None = None
    """Default: that of the environment or the profile."""

    endpoint: str | None = None
    """An emulator or a VPC endpoint."""

    catalog_id: str | None = Field(None, alias="catalog.id", pattern=r"^\d{12}(:.+)?$")
    """The account whose catalog it is, where that is another."""

    auto_create_database: bool = Field(True, alias="auto.create.database")
    """Whether a database that is missing is made."""


@dataclass(frozen=True)
class _Known:
    """What was written down of a table: of its partitions, where they are."""

    table: Input
    partitions: dict[tuple[str, ...], str]


class GlueCatalog(Catalog):
    """``sync: {glue: {database: lake}}`` of a sink whose tables are files."""

    name = "glue"
    api_version = 1
    Config = GlueConfig
    config: GlueConfig

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self._client: GlueClient | None = None
        #: Dotted name → what this run wrote down of a table: while that is so, Glue is not asked.
        self._known: dict[str, _Known] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Another process has a connection of its own, and knows nothing yet."""
        return {**vars(self), "_client": None, "_known": {}}

    def check(self, spark: SparkSession | None = None) -> None:
        client = self._open()
        if spark is None or (database := self.config.database) is None:
            return
        try:
            if not client.has_database(make_name(database)) and not self.config.auto_create_database:
                raise _explain_missing(make_name(database))
        except RetriableError:  # the tables will wait for it
            return

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        client = self._open()
        if self.config.database is None:
            yield "catalog glue", f"answers, {client.count_databases()} databases"
            return
        name = make_name(self.config.database)
        yield "catalog glue", f"database {name}: {'is there' if client.has_database(name) else 'will be made'}"

    def register(
        self,
        name: str,
        describe: Callable[[], CatalogTable],
        written: Partitions,
        list_partitions: Callable[[], Partitions],
    ) -> None:
        database, table_name = self._place(name)
        known = self._known.get(name)
        if known is not None and known.table == make_table(table_name, table := describe()):
            new = {values: place for values, place in written.items() if known.partitions.get(values) != place}
            if not new:
                return
            try:
                inputs = [make_partition(table, values, place) for values, place in new.items()]
                self._open().create_partitions(database, table_name, inputs)
            except LostRaceError:  # another writer has it, or somebody dropped the table
                pass
            else:
                known.partitions.update(new)
                return
        self._repeat(partial(self._put_all, name, describe, list_partitions), name)

    def _repeat(self, put: Callable[[], None], name: str) -> None:
        """Puts a table until nobody is quicker."""
        self._known.pop(name, None)
        self._client = None  # with the credentials that there are now
        for attempt in range(_TRIES):
            try:
                put()
            except LostRaceError as error:
                if attempt == _TRIES - 1:
                    raise RetriableError(
                        f"others keep changing it: {error}",
                        where=f"AWS Glue, table {'.'.join(self._place(name))}",
                        fix="look who else writes it; nothing is lost",
                    ) from error
                time.sleep(_PAUSE * (attempt + 1))
            else:
                return

    def _put_all(
        self, name: str, describe: Callable[[], CatalogTable], list_partitions: Callable[[], Partitions]
    ) -> None:
        """Makes table and partitions in Glue what they are; asks for nothing that is so already."""
        database, table_name = self._place(name)
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
        self._known[name] = _Known(wanted, partitions)

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
        # What lies elsewhere somebody else has added.
        root = make_location(table.location) + "/"
        gone = [v for v, p in found.items() if v not in wanted and p["StorageDescriptor"]["Location"].startswith(root)]
        client.create_partitions(database, name, new)
        client.update_partitions(database, name, changed)
        client.delete_partitions(database, name, gone)
        return wanted

    def _place(self, name: str) -> tuple[str, str]:
        """Database and table of a dotted name."""
        first, *rest = name.split(".")
        if self.config.database is not None:
            return make_name(self.config.database), make_name("_".join([first, *rest]))
        if not rest:
            fix = "name a `database` under `glue:`, or give the table a `target:` of two parts: shop.orders"
            raise ConfigError(f"the table {name!r} is of no database", where="catalog glue", fix=fix)
        return make_name(first), make_name("_".join(rest))

    def _open(self) -> GlueClient:
        if self._client is None:
            config = self.config
            identity = config.identity(config.region)
            self._client = GlueClient(identity, endpoint=config.endpoint, catalog_id=config.catalog_id)
        return self._client


def _explain_missing(database: str) -> ConfigError:
    return ConfigError(
        f"there is no database {database}",
        where="AWS Glue",
        fix="make it, or correct `database` and `region`, or set `auto.create.database: true`",
    )


def _check_same(found: Input, wanted: Input, where: str) -> None:
    """ConfigError when what Glue has under the name is another table."""
    place, own_place = (make_location(one["StorageDescriptor"].get("Location", "")) for one in (found, wanted))
    if place != own_place:
        raise ConfigError(
            f"it is a table at {place or 'no place'}, and this one is at {own_place}",
            where=where,
            fix="name another `database` or `target:`, or drop it in Glue when nobody needs it any more",
        )
    keys, own_keys = ([(key["Name"], key["Type"]) for key in one.get("PartitionKeys", ())] for one in (found, wanted))
    if keys != own_keys:
        raise ConfigError(
            f"it is partitioned by {keys or 'nothing'}, and the table by {own_keys or 'nothing'}",
            where=where,
            fix="drop it in Glue, and it is made anew; its files stay",
        )
