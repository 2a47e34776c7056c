"""Data files that Iceberg writes for a table without committing them.

Iceberg's own maintenance actions write this way: they rewrite files and commit them in a separate step.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace_sinks.iceberg.table_handle import TableHandle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stage_files(handle: TableHandle, rows: DataFrame) -> list[Any]:
    """Write rows to data files as the table's properties say, and return the files."""
    coordinator = handle.jvm.org.apache.iceberg.spark.FileRewriteCoordinator.get()
    with cache_table(handle) as staged:
        try:
            # On Spark 4.1, the name alone means that Iceberg stages the files, and it ignores the option.
            writer = rows.write.format("iceberg").option("rewritten-file-scan-task-set-id", staged)
            writer.mode("append").save(staged)
            return list(coordinator.fetchNewFiles(handle.java, staged))
        finally:
            coordinator.clearRewrite(handle.java, staged)


@contextmanager
def cache_table(handle: TableHandle) -> Iterator[str]:
    """Yield a name in Iceberg's cache of tables, under which a rewrite reads and writes the table."""
    from py4j.java_gateway import JavaMember

    name, java_class = uuid.uuid4().hex, handle.jvm.org.apache.iceberg.spark.SparkTableCache
    # Py4J finds either of two methods `get`, of which one is not static. A call by name lets Java choose.
    tables = JavaMember("get", None, f"z:{java_class._fqn}", java_class._gateway_client)()  # noqa: SLF001
    tables.add(name, handle.java)
    try:
        yield name
    finally:
        tables.remove(name)
