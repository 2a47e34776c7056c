"""The mark of a batch in the snapshot that it commits: what makes applying it again do nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.sdk import MARK_SEARCH_DEPTH, Batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The snapshot property that names the batch.
MARK = "headrace.batch"


def commit_with_mark(
    spark: SparkSession, batch: Batch, work: Callable[[], None], properties: Mapping[str, str] | None = None
) -> None:
    """Run ``work`` so that every snapshot it commits has the batch's mark among its properties, and others.

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
        keep_one_connection(gateway)
    if raised:
        raise raised[0]


def keep_one_connection(gateway: Any) -> None:
    """Has py4j's list of connections name this thread's once.

    A call to Java in which Java calls Python, which calls Java again, leaves it there twice, and when the thread ends py4j removes
    one of them: the socket, and Java's thread at its other end, would stay as long as the process.
    """
    client = gateway._gateway_client  # noqa: SLF001 - py4j has no way of its own
    if hasattr(client, "get_thread_connection"):  # else threads of Python have no connections of their own
        connection = client.get_thread_connection()
        for _ in range(client.deque.count(connection) - 1):
            client.deque.remove(connection)


def commit_files(spark: SparkSession, java: Any, update: Any, files: Sequence[Any]) -> None:
    """Commits an update that adds files; those of one that is refused are removed."""
    from py4j.java_gateway import is_instance_of
    from py4j.protocol import Py4JJavaError

    try:
        update.commit()
    except Py4JJavaError as error:
        gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
        # Of any other failure nobody knows whether the commit is there.
        if is_instance_of(gateway, error.java_exception, "org.apache.iceberg.exceptions.CleanableFailure"):
            for file in files:
                java.io().deleteFile(file.location())
        raise


def is_applied(java: Any, batch: Batch) -> bool | None:
    """Whether the pipeline's newest snapshot is of this batch: only its last batch can come again.

    None when that is unknown: none is the pipeline's among the newest, and older ones are expired or too many.
    """
    mark, is_first = _newest_mark(java, batch)
    if mark is not None:
        return bool(mark.summary().get(MARK) == batch.mark)
    return False if is_first else None


def find_marked(java: Any, batch: Batch) -> Any:
    """The snapshot of a batch that was just written; others may have committed since. None when it committed nothing."""
    snapshot, _ = _newest_mark(java, batch)
    return snapshot if snapshot is not None and snapshot.summary().get(MARK) == batch.mark else None


def _newest_mark(java: Any, batch: Batch) -> tuple[Any, bool]:
    """The newest snapshot of the batch's pipeline, None where it is none of the newest; and whether none was older than those seen."""
    snapshot = java.currentSnapshot()
    for _ in range(MARK_SEARCH_DEPTH):
        if snapshot is None:
            return None, False
        mark = snapshot.summary().get(MARK)
        if mark is not None and mark.startswith(batch.mark_prefix):
            return snapshot, False
        parent = snapshot.parentId()
        if parent is None:
            return None, True
        snapshot = java.snapshot(parent)
    return None, False
