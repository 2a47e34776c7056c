"""Lake tables of other writers as a source, and pipelines that copy them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import pipelines

from headrace import Pipeline
from headrace_sinks.active_session import active
from headrace_sinks.iceberg.table_handle import TableHandle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Options without pauses between two searches.
EAGER = {"poll.interval.ms": 0, "table.poll.interval.ms": 0}


class SilverCatalog:
    """Iceberg catalog of a folder, with the namespace ``silver``."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark.newSession(), folder / "silver"
        self.name = "silver_" + folder.name.replace("-", "_")
        prefix = f"spark.sql.catalog.{self.name}"
        self.spark.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
        self.spark.conf.set(f"{prefix}.type", "hadoop")
        self.spark.conf.set(f"{prefix}.warehouse", str(self.folder))

    def sql(self, *statements: str) -> None:
        """Run statements; ``{t}`` stands for the namespace of the tables, ``{c}`` for the catalog."""
        for statement in statements:
            self.spark.sql(statement.format(t=f"{self.name}.silver", c=self.name))

    def create(self, table: str = "orders", mode: str = "merge-on-read") -> None:
        modes = ", ".join(f"'write.{kind}.mode' = '{mode}'" for kind in ("delete", "update", "merge"))
        self.sql(
            f"create table {{t}}.{table} (id int, name string, at timestamp, tags map<string, int>) using iceberg "
            f"tblproperties ('format-version' = '2', {modes})"
        )

    def rows(self, table: str = "orders") -> list[dict[str, Any]]:
        frame = self.spark.table(f"{self.name}.silver.{table}").orderBy("id")
        return [row.asDict(recursive=True) for row in frame.collect()]

    def snapshots(self, table: str = "orders") -> list[int]:
        """Return the ids of the snapshots, the oldest first."""
        frame = self.spark.table(f"{self.name}.silver.{table}.snapshots").orderBy("committed_at")
        return [row.snapshot_id for row in frame.collect()]

    def load(self) -> TableHandle:
        """Load Iceberg's object of the table ``orders``."""
        with active(self.spark):
            handle = TableHandle.load(self.spark, f"{self.name}.silver.orders")
        assert handle is not None, "the table exists"
        return handle

    def rewrite(self) -> None:
        """Rewrite all data files."""
        with active(self.spark):
            handle = self.load()
            handle.actions.rewriteDataFiles(handle.java).option("rewrite-all", "true").execute()
            self.spark.catalog.refreshTable(handle.name)

    def expire(self) -> None:
        """Expire all snapshots except the newest."""
        self.load().java.expireSnapshots().expireOlderThan(2**62).retainLast(1).commit()

    def roll_back(self, snapshot: int) -> None:
        """Take the table back to a snapshot."""
        handle = self.load()
        handle.java.manageSnapshots().rollbackTo(snapshot).commit()
        self.spark.catalog.refreshTable(handle.name)

    def copy(self, folder: Path, *sinks: str, **changed: Any) -> Pipeline:
        """Return a pipeline that copies the tables, with changed keys of the file; ``options``: more options of the source."""
        options = {"warehouse": str(self.folder), "tables": ["silver.*"], **EAGER, **changed.pop("options", {})}
        return copy_tables(folder, {"iceberg": options}, *sinks, **changed)


def copy_tables(folder: Path, source: dict[str, Any], *sinks: str, **changed: Any) -> Pipeline:
    """Return a pipeline that copies ``silver.orders`` to ``gold.orders``."""
    tables = [{"source": "silver.orders", "key": ["id"], "target": "gold.orders"}]
    return pipelines.pipeline(folder, *sinks, **{"source": source, "tables": tables, "transforms": [], **changed})


def read_copy(pipeline: Pipeline, spark: SparkSession, **options: Any) -> list[dict[str, Any]]:
    return pipelines.rows(pipeline, spark, "gold.orders", key="id", **options)
