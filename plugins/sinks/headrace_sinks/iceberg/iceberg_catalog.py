"""Iceberg catalogs and tables of a Spark session."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from headrace.sdk import Dataset, RetriableError, Table
from headrace.sdk.columns import quote_name
from headrace.sdk.error_text import first_line, full_text
from headrace_sinks.iceberg.rest_errors import NOT_AUTHORIZED
from headrace_sinks.other_formats import check_other_formats

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_T = TypeVar("_T")

CATALOG = "org.apache.iceberg.spark.SparkCatalog"
#: The class that wraps Spark's built-in catalog, which also has the tables of other formats.
SESSION_CATALOG = "org.apache.iceberg.spark.SparkSessionCatalog"


def configure_folder_catalog(spark: SparkSession, warehouse: str) -> str:
    """Configure a catalog of a warehouse folder and return its name. The session is headrace's own clone."""
    # A catalog keeps the folder of its first use, so every folder has a catalog of its own.
    name = "headrace_" + hashlib.sha256(warehouse.encode()).hexdigest()[:32]
    prefix = f"spark.sql.catalog.{name}"
    spark.conf.set(prefix, CATALOG)
    spark.conf.set(f"{prefix}.type", "hadoop")
    spark.conf.set(f"{prefix}.warehouse", warehouse)
    return name


def locate_table(warehouse: str | None, catalog: str, properties: Mapping[str, str], table: Table) -> Dataset:
    """Return the place of a table: its folder, or its name in the catalog. No catalog is asked."""
    if folder := warehouse or (properties.get("warehouse") if properties.get("type") == "hadoop" else None):
        return Dataset.of_folder(folder, *table.parts)
    region, account = properties.get("client.region"), properties.get("glue.id")
    if region and account:
        database, _, name = table.name.rpartition(".")
        return Dataset(f"arn:aws:glue:{region}:{account}", f"table/{database}/{name}")
    # Hive's metastore may have several servers.
    address = urlsplit(properties.get("uri", "").partition(",")[0])
    scheme = {"thrift": "hive"}.get(address.scheme, address.scheme)
    return Dataset.of_server(scheme if address.netloc else "iceberg", address.netloc or catalog, table.name)


def check_folder(spark: SparkSession, name: str, table: Table) -> None:
    """Raise ConfigError for a new table in the folder of a table of another format. Only catalogs of folders have a fixed folder."""
    prefix = f"spark.sql.catalog.{_find_catalog(spark, name)}"
    kind, warehouse = (spark.conf.get(f"{prefix}.{key}", None) or "" for key in ("type", "warehouse"))
    if kind == "hadoop" and warehouse:
        check_other_formats(spark, table.name, "/".join([warehouse.rstrip("/"), *table.parts]), "iceberg")


def with_new_login(spark: SparkSession, conf: Mapping[str, str], work: Callable[[], _T]) -> _T:
    """Run ``work``. If the catalog rejects the login, authenticate again and run it a second time.

    Iceberg renews the token of a catalog in the background. If the token endpoint fails for longer than the token's life, or the token is
    revoked, the catalog object keeps the rejected token. ``conf``: the session's settings of the catalog, possibly with rotated secrets.
    """
    try:
        return work()
    except Exception as error:
        if not re.search(NOT_AUTHORIZED, full_text(error)):
            raise
        for name, value in conf.items():
            spark.conf.set(name, value)
        # The session is headrace's own clone. It creates its catalogs again on their next use.
        spark._jsparkSession.sessionState().catalogManager().reset()  # noqa: SLF001
        return work()


def list_namespaces(spark: SparkSession, catalog: str) -> list[str]:
    """List the top-level namespaces of a catalog; none when its folder does not exist yet, as the first table creates it."""
    try:
        return [row[0] for row in spark.sql(f"SHOW NAMESPACES IN {quote_name(catalog)}").collect()]
    except Exception as error:
        # The message has no name of a namespace after the colon.
        if first_line(error).endswith("NoSuchNamespaceException: Namespace does not exist:"):
            return []
        raise


def list_names(spark: SparkSession, catalog: str, parents: Sequence[str], *, of_tables: bool) -> list[str]:
    """List the tables or the namespaces in a namespace; none if it does not exist."""
    place = ".".join(map(quote_name, [catalog, *parents]))
    try:
        rows = spark.sql(f"SHOW {'TABLES' if of_tables else 'NAMESPACES'} IN {place}").collect()
    except Exception as error:
        if re.search("NoSuchNamespaceException|SCHEMA_NOT_FOUND", full_text(error)):
            return []
        raise
    # Spark returns the whole name of a namespace, with quotes around special letters.
    return [row["tableName"] if of_tables else row[0].rpartition(".")[2].strip("`") for row in rows]


def load_table(spark: SparkSession, name: str, conf: Mapping[str, str] | None = None) -> Any:
    """Load Iceberg's table object from the catalog; None when the table does not exist. ``conf``: as in ``with_new_login``."""
    from pyspark.errors import AnalysisException

    def load() -> Any:
        jvm: Any = spark._jvm  # noqa: SLF001
        # Another process may have committed to the table, or replaced it.
        evict_table(spark, name)
        return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)  # noqa: SLF001

    try:
        return with_new_login(spark, conf or {}, load)
    except AnalysisException as error:
        if not _is_missing(error):
            raise
    catalog = _find_catalog(spark, name)
    if not _is_rest(spark, catalog):
        return None
    # Iceberg takes each response with the status 404 for a missing table, also the page of a gateway. Rows that need the stored
    # values would be dropped.
    _check_answers(spark, catalog)
    try:
        return load()
    except AnalysisException as error:
        if _is_missing(error):
            return None
        raise


def _is_missing(error: Exception) -> bool:
    return any(sign in str(error) for sign in ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND"))


def _is_rest(spark: SparkSession, catalog: str) -> bool:
    kinds = [spark.conf.get(f"spark.sql.catalog.{catalog}.{key}", None) or "" for key in ("type", "catalog-impl")]
    return kinds[0].lower() == "rest" or "rest" in kinds[1].lower()


def _check_answers(spark: SparkSession, catalog: str) -> None:
    """Raise RetriableError if the responses with the status 404 are not those of a catalog, which always finds its own root."""
    try:
        list_namespaces(spark, catalog)
    except Exception as error:
        text = full_text(error)
        if "ForbiddenException" in text:
            return
        if "NoSuchNamespaceException" not in text:
            raise
        raise RetriableError(
            f"the server responds to every request that the address does not exist: {first_line(error)}",
            where=f"sink iceberg, catalog {catalog}",
            fix="check `uri` under `catalog.properties`, and the gateway in front of the catalog; nothing is lost, and headrace retries",
        ) from error


def _find_catalog(spark: SparkSession, name: str) -> str:
    """Return the catalog in the name of a table."""
    session: Any = spark._jsparkSession  # noqa: SLF001
    return str(session.sessionState().sqlParser().parseMultipartIdentifier(name).head())


def evict_table(spark: SparkSession, name: str) -> None:
    """Remove a table from the cache of the session's catalog. Every session has catalogs of its own, which cache their tables."""
    jvm: Any = spark._jvm  # noqa: SLF001
    session: Any = spark._jsparkSession  # noqa: SLF001
    # A rejected login is raised here. Iceberg takes the name of a catalog that cannot be created for a namespace of Spark's own catalog.
    session.sessionState().catalogManager().catalog(_find_catalog(spark, name))
    found = jvm.org.apache.iceberg.spark.Spark3Util.catalogAndIdentifier(session, name)
    found.catalog().invalidateTable(found.identifier())
