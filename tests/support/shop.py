"""Pipeline of a shop for tests of views: customers and orders from files, and views over them in tables of this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.bronze import Bronze
from tests.support.memory_sink import MemorySink

from headrace import Pipeline
from headrace.progress.model import BatchProgress, TableProgress
from headrace.sdk.changes import PREFIX
from headrace.sdk.sink import Sink, Table
from headrace_sources.transports.files import FilesSource
from headrace_transforms.unwrap import Unwrap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


CUSTOMERS, ORDERS = "shop.customers", "shop.orders"
TOTALS: dict[str, Any] = {
    "name": "shop.totals",
    "key": "customer_id",
    "sql": """
        SELECT c.id AS customer_id, c.region, COUNT(*) AS orders, SUM(o.amount) AS total, MIN(o.amount) AS least
        FROM shop.orders o JOIN shop.customers c ON o.customer_id = c.id
        GROUP BY c.id, c.region
    """,
}
REGIONS: dict[str, Any] = {
    "name": "shop.regions",
    "key": ["region"],
    "sql": "SELECT region, COUNT(*) AS customers, SUM(total) AS total FROM shop.totals GROUP BY region",
}


class Shop:
    """Files of two topics, and runs of a pipeline over them."""

    def __init__(
        self, spark: SparkSession, folder: Path, *views: Mapping[str, Any], sinks: Sequence[Sink] = ()
    ) -> None:
        self.spark, self.folder, self.views = spark, folder, views
        self.sinks = sinks or [MemorySink(store=str(folder))]
        self.bronze = Bronze(folder / "landing", format="json")
        self.customers = self.bronze.topic(CUSTOMERS, key="id", columns={"id": "int", "region": "string"})
        self.orders = self.bronze.topic(
            ORDERS, key="id", columns={"id": "int", "customer_id": "int", "amount": "long", "at": "long"}, full=False
        )
        #: Progress of the batches of the last run.
        self.batches: list[BatchProgress] = []

    def pipeline(self, **options: Any) -> Pipeline:
        tables = [{"source": name, "key": ["id"]} for name in (CUSTOMERS, ORDERS)]
        source = FilesSource(path=str(self.folder / "landing"), format="json")
        arguments = {"tables": tables, "transforms": [Unwrap()], "views": self.views, **options}
        return Pipeline("shop", source, self.sinks, str(self.folder / "checkpoint"), **arguments)

    def run(self, **options: Any) -> None:
        """Write the pending events, and apply them."""
        self.bronze.flush()
        self.batches = []
        self.pipeline(**options).run(self.spark, on_progress=self.batches.append)

    def progress_of(self, table: str) -> list[TableProgress]:
        return [progress for batch in self.batches for progress in batch.tables if progress.table == table]

    def rows(self, table: str, sink: Sink | None = None) -> list[tuple[Any, ...]]:
        """Return the stored rows of a table without columns of headrace and of the table format, sorted."""
        sink = sink or self.sinks[0]
        frame = sink.read_back(self.spark, Table(table))
        columns = [name for name in frame.columns if not name.startswith((PREFIX, *sink.hidden_prefixes))]
        return sorted((tuple(row) for row in frame.select(*columns).collect()), key=repr)

    def recompute(self, view: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a view that Spark computes from the stored tables, sorted."""
        sql = str(view["sql"])
        for table in (CUSTOMERS, ORDERS, *(str(other["name"]) for other in self.views)):
            if table in sql:
                name = table.replace(".", "_")
                self.sinks[0].read_back(self.spark, Table(table)).createOrReplaceTempView(name)
                sql = sql.replace(table, name)
        return sorted((tuple(row) for row in self.spark.sql(sql).collect()), key=repr)

    def check(self) -> None:
        """Compare each view with its computation from the stored tables."""
        for view in self.views:
            assert self.rows(str(view["name"])) == self.recompute(view)
