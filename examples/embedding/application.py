"""Spark application of a museum. headrace maintains two tables in the application's session and catalog, next to the application's own query.

::

    spark-submit --packages org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.12.0 application.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from headrace import Pipeline
from headrace_sinks import IcebergSink
from headrace_sources import FilesSource
from headrace_transforms import Unwrap

HERE = Path(__file__).parent

REPORT = """
    SELECT works.title, artists.name, artists.country, sum(visits.visitors) AS visitors
    FROM museum.public.works JOIN museum.public.artists ON works.artist_id = artists.id
    JOIN visits ON visits.work_id = works.id
    GROUP BY ALL ORDER BY visitors DESC
"""


class Diary(StreamingQueryListener):
    """Listener that prints the start and end of every query, including headrace's, which have the names of their pipelines."""

    def onQueryStarted(self, event: Any) -> None:
        print(f"{event.name} began")

    def onQueryProgress(self, event: Any) -> None:
        """Ignore the event."""

    def onQueryIdle(self, event: Any) -> None:
        """Ignore the event."""

    def onQueryTerminated(self, event: Any) -> None:
        print(f"a query ended: {event.exception or 'no error'}")


def build_session(folder: Path) -> SparkSession:
    """Build the session of the application, with an Iceberg catalog in ``folder``. Nothing in it is specific to headrace."""
    return (
        SparkSession.builder.appName("museum")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.catalog.museum", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.museum.type", "hadoop")
        .config("spark.sql.catalog.museum.warehouse", str(folder / "lake"))
        .getOrCreate()
    )


def make_pipeline(table: str, folder: Path) -> Pipeline:
    """Make the pipeline of one table of the museum's database."""
    return Pipeline(
        name=table,
        source=FilesSource(path=str(HERE / "events" / f"museum.public.{table}"), format="json"),
        tables=[{"source": f"museum.public.{table}", "key": "id", "target": f"public.{table}"}],
        transforms=[Unwrap()],
        sinks=[IcebergSink(catalog="museum")],
        checkpoint=str(folder / "checkpoints" / table),
    )


def main(folder: Path) -> None:
    """Process artists, works and visits until each has been read once, and print the most visited work."""
    spark = build_session(folder)
    spark.streams.addListener(Diary())
    visits = spark.readStream.schema("work_id BIGINT, day DATE, visitors INT").json(str(HERE / "visits"))
    mine = visits.writeStream.format("memory").queryName("visits").start()

    queries = [make_pipeline(table, folder).start(spark, trigger="1 second") for table in ("artists", "works")]
    for query in queries:
        while query.last_progress is None:
            query.await_termination(0.2)  # raises the error of a failed query
    mine.processAllAvailable()
    spark.sql(REPORT).show(truncate=False)

    for query in queries:
        query.stop()  # after the current batch
    mine.stop()
    spark.stop()  # stop Spark last, because a running pipeline fails without it


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
