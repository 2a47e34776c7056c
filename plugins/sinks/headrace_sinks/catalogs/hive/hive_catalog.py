"""Catalog plugin ``hive``: registration of tables in a Hive metastore."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from headrace.sdk import ConfigError
from headrace_sinks.catalogs.hive.hive_client import URIS, HiveClient
from headrace_sinks.catalogs.metastore_catalog import MetastoreCatalog, MetastoreConfig

if TYPE_CHECKING:
    from pyspark import SparkContext


class HiveConfig(MetastoreConfig):
    """Hive metastore. Properties of its client (``hive.…``) pass through."""

    passthrough: ClassVar[tuple[str, ...]] = ("hive.*",)

    uris: str | None = Field(None, alias=URIS, pattern=r"^thrift://[^,/\s]+(,\s*thrift://[^,/\s]+)*/?$")
    """Addresses of the metastore: `thrift://HOST:9083`. Default: the metastore of the Spark session (`spark.hadoop.hive.metastore.uris`, or
    `hive-site.xml`).
    """


class HiveCatalog(MetastoreCatalog):
    """Plugin of ``sync: {hive: {database: lake}}`` in a file sink."""

    name = "hive"
    api_version = 1
    title, short_title = "Hive metastore", "the metastore"
    Config = HiveConfig
    config: HiveConfig

    @contextmanager
    def open_client(self) -> Iterator[HiveClient]:
        # A connection belongs to one thread, and is needed rarely: when a table changes, or has a new partition.
        address = {URIS: self.config.uris} if self.config.uris else {}
        client = HiveClient(_find_context(), {**self.config.options(), **address})
        try:
            yield client
        finally:
            client.close()


def _find_context() -> SparkContext:
    """Return the context of this process's Spark. ConfigError without one."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context  # noqa: SLF001 - there is no other way to find it without creating one
    if context is None:
        raise ConfigError("there is no Spark session", where="catalog hive", fix="start a session before the pipeline")
    return context
