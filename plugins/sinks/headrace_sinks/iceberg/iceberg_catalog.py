"""Iceberg's catalogs and tables, reached through Spark's session."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace.sdk.columns import quote_name
from headrace.sdk.error_text import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

CATALOG = "org.apache.iceberg.spark.SparkCatalog"
#: Spark's own catalog can only be wrapped: it keeps the tables of other formats.
SESSION_CATALOG = "org.apache.iceberg.spark.SparkSessionCatalog"


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Make a session the one that this thread's calls into the JVM are for: there Spark and Iceberg look for settings."""
    jvm: Any = spark._jvm  # noqa: SLF001
    sessions = jvm.org.apache.spark.sql.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)  # noqa: SLF001
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def catalog_of_folder(spark: SparkSession, warehouse: str) -> str:
    """The name of a catalog that is a folder. The session is headrace's own clone: it is seen nowhere else."""
    # A catalog keeps the folder that it was first used with, so every folder has one of its own.
    name = "headrace_" + hashlib.sha256(warehouse.encode()).hexdigest()[:32]
    prefix = f"spark.sql.catalog.{name}"
    spark.conf.set(prefix, CATALOG)
    spark.conf.set(f"{prefix}.type", "hadoop")
    spark.conf.set(f"{prefix}.warehouse", warehouse)
    return name


def list_namespaces(spark: SparkSession, catalog: str) -> list[str]:
    """The namespaces at the top of a catalog. A folder that is not there yet has none: the first table makes it."""
    try:
        return [row[0] for row in spark.sql(f"SHOW NAMESPACES IN {quote_name(catalog)}").collect()]
    except Exception as error:
        if first_line(error).endswith("NoSuchNamespaceException: Namespace does not exist:"):  # and no name behind it
            return []
        raise


def load_table(spark: SparkSession, name: str) -> Any:
    """Iceberg's own table object, as the table is now; None when there is none."""
    from pyspark.errors import AnalysisException

    jvm: Any = spark._jvm  # noqa: SLF001
    # Others may have committed, or made the table anew.
    forget_table(spark, name)
    try:
        return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)  # noqa: SLF001
    except AnalysisException as error:
        if any(sign in str(error) for sign in ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")):
            return None
        raise


def forget_table(spark: SparkSession, name: str) -> None:
    """Has a session's catalog keep a table no longer. Every session has catalogs of its own, and these keep what they have loaded."""
    jvm: Any = spark._jvm  # noqa: SLF001
    place = jvm.org.apache.iceberg.spark.Spark3Util.catalogAndIdentifier(spark._jsparkSession, name)  # noqa: SLF001
    place.catalog().invalidateTable(place.identifier())


def actions_of(spark: SparkSession) -> Any:
    """Iceberg's own actions: jobs of Spark's that maintain a table."""
    jvm: Any = spark._jvm  # noqa: SLF001
    return jvm.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)  # noqa: SLF001


def format_version(java: Any) -> str:
    """The version of Iceberg's format that a table has."""
    return str(java.operations().current().formatVersion())


def version_of(java: Any) -> str | None:
    """The id of a table's newest snapshot; None where it has none."""
    snapshot = java.currentSnapshot()
    return None if snapshot is None else str(snapshot.snapshotId())


def schema_of(spark: SparkSession, java: Any) -> StructType:
    """The columns of a table in Spark's types."""
    from pyspark.sql.types import StructType

    jvm: Any = spark._jvm  # noqa: SLF001
    return StructType.fromJson(json.loads(jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(java.schema()).json()))


def sql_of(spark: SparkSession, data_type: DataType) -> str:
    """A type as SQL: Python's own text does not quote the names of fields."""
    jvm: Any = spark._jvm  # noqa: SLF001
    return str(jvm.org.apache.spark.sql.types.DataType.fromJson(data_type.json()).sql())
