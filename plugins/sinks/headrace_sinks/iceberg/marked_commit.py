"""Commits that carry the mark of a batch. A repeated batch finds its mark and is skipped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.sdk import Batch
from headrace_sinks.iceberg.table_handle import MARK, TableHandle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def commit_with_mark(
    spark: SparkSession, batch: Batch, work: Callable[[], None], properties: Mapping[str, str] | None = None
) -> None:
    """Run ``work`` so that every snapshot it commits has the batch's mark and ``properties`` in its summary.

    Spark 3.5 has no setting for it: Iceberg takes the properties from the thread that commits, inside this call.
    """
    from pyspark.java_gateway import ensure_callback_server_started

    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    jvm: Any = spark._jvm  # noqa: SLF001
    raised: list[BaseException] = []

    class Call:
        def call(self) -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - a Python error must not cross the JVM; it is raised below
                raised.append(error)

        class Java:
            implements = ["java.util.concurrent.Callable"]  # noqa: RUF012 - py4j reads it

    summary = jvm.java.util.HashMap()
    for key, value in {**(properties or {}), MARK: batch.mark}.items():
        summary.put(key, value)
    try:
        jvm.org.apache.iceberg.spark.CommitMetadata.withCommitProperties(
            summary, Call(), jvm.java.lang.Class.forName("java.lang.RuntimeException")
        )
    finally:
        _drop_duplicate_connections(gateway)
    if raised:
        raise raised[0]


def _drop_duplicate_connections(gateway: Any) -> None:
    """Leave this thread's connection once in py4j's list of connections.

    A call to Java that calls Python, which calls Java again, adds the connection a second time. When the thread ends, py4j
    removes one entry; the socket and Java's thread at its other end would stay until the process ends.
    """
    client = gateway._gateway_client  # noqa: SLF001 - py4j has no public interface for it
    if hasattr(client, "get_thread_connection"):  # without pinned threads a connection belongs to no thread
        connection = client.get_thread_connection()
        for _ in range(client.deque.count(connection) - 1):
            client.deque.remove(connection)


def commit_files(handle: TableHandle, update: Any, files: Sequence[Any]) -> None:
    """Commit an update that adds files, and delete the files when Iceberg rejects the commit."""
    from py4j.java_gateway import is_instance_of
    from py4j.protocol import Py4JJavaError

    try:
        update.commit()
    except Py4JJavaError as error:
        gateway: Any = handle.spark.sparkContext._gateway  # noqa: SLF001
        # After any other failure it is unknown whether the commit exists, so its files stay.
        if is_instance_of(gateway, error.java_exception, "org.apache.iceberg.exceptions.CleanableFailure"):
            for file in files:
                handle.java.io().deleteFile(file.location())
        raise
