"""Iceberg catalogs and tables of a Spark session."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.sdk.columns import quote_name
from headrace.sdk.error_text import first_line, full_text
from headrace_sinks.iceberg.rest_errors import NOT_AUTHORIZED

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


def load_table(spark: SparkSession, name: str) -> Any:
    """Load Iceberg's table object from the catalog; None when the table does not exist."""
    from pyspark.errors import AnalysisException

    def load() -> Any:
        jvm: Any = spark._jvm  # noqa: SLF001
        # Another process may have committed to the table, or replaced it.
        evict_table(spark, name)
        return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)  # noqa: SLF001

    try:
        return with_new_login(spark, {}, load)
    except AnalysisException as error:
        if any(sign in str(error) for sign in ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")):
            return None
        raise


def evict_table(spark: SparkSession, name: str) -> None:
    """Remove a table from the cache of the session's catalog. Every session has catalogs of its own, which cache their tables."""
    jvm: Any = spark._jvm  # noqa: SLF001
    session: Any = spark._jsparkSession  # noqa: SLF001
    state = session.sessionState()
    # A rejected login is raised here. Iceberg takes the name of a catalog that cannot be created for a namespace of Spark's own catalog.
    state.catalogManager().catalog(state.sqlParser().parseMultipartIdentifier(name).head())
    found = jvm.org.apache.iceberg.spark.Spark3Util.catalogAndIdentifier(session, name)
    found.catalog().invalidateTable(found.identifier())
