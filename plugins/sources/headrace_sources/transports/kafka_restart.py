"""Restart of a Kafka stream whose last batch is not complete, on Spark 4.1.

After each batch, Spark's stream computes how far it is behind the newest offsets. It reads the newest offsets only to plan a batch. The
first batch of a restarted stream may be planned already; the stream then ends with a NullPointerException (SPARK-55271), at every restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Spark sets this property in the thread that runs a stream.
_QUERY_ID = "sql.streaming.queryId"


def read_newest_offsets(spark: SparkSession) -> None:
    """Make the Kafka streams of this thread's query read the newest offsets. Called during the first batch of a stream."""
    query = spark.sparkContext.getLocalProperty(_QUERY_ID)
    if not query or spark.version.startswith("3."):
        return
    session: Any = spark  # no public API has the query's sources
    jvm, shared = session._jvm, session._jsparkSession.sharedState()  # noqa: SLF001
    execution = shared.activeStreamingQueries().get(jvm.java.util.UUID.fromString(query))
    if execution is None:
        return
    streams, limits = execution.sources().iterator(), jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit
    while streams.hasNext():
        stream = streams.next()
        if stream.getClass().getSimpleName() == "KafkaMicroBatchStream":
            stream.latestOffset(stream.initialOffset(), limits.allAvailable())
