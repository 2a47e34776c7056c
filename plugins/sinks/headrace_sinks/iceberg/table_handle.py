"""Iceberg table of a session, with its version, schema and batch marks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from headrace.sdk import MARK_SEARCH_DEPTH, Batch
from headrace.sdk.changes import DELETED
from headrace.sdk.schemas import project
from headrace.sdk.sink import TableVersion
from headrace_sinks.iceberg.iceberg_catalog import load_table
from headrace_sinks.iceberg.iceberg_schema import build_alter_clauses, can_widen, check_paths
from headrace_sinks.stored_types import spell_as_stored, union_by_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

#: The snapshot property that names the batch.
MARK = "headrace.batch"
#: Operation of a snapshot that has the rows of its parent in other files.
_REWRITE = "replace"


class TableHandle:
    """Existing table: its name in Spark, the session, and Iceberg's table object (``java``) as it was loaded."""

    def __init__(self, spark: SparkSession, name: str, java: Any) -> None:
        self.spark, self.name, self.java = spark, name, java

    @classmethod
    def load(cls, spark: SparkSession, name: str, conf: Mapping[str, str] | None = None) -> TableHandle | None:
        """Load the table from the catalog; None when it does not exist. ``conf``: the session's settings of the catalog."""
        java = load_table(spark, name, conf)
        return None if java is None else cls(spark, name, java)

    @property
    def jvm(self) -> Any:
        """The session's view of the JVM."""
        return self.spark._jvm  # noqa: SLF001

    @property
    def snapshot(self) -> Any:
        """Iceberg's current snapshot; None when the table has none."""
        return self.java.currentSnapshot()

    @property
    def version(self) -> str | None:
        """Id of the current snapshot; None when the table has none."""
        snapshot = self.snapshot
        return None if snapshot is None else str(snapshot.snapshotId())

    @property
    def format_version(self) -> str:
        """Version of Iceberg's format that the table has."""
        return str(self.java.operations().current().formatVersion())

    @property
    def properties(self) -> Any:
        """Table properties, as a map of the JVM."""
        return self.java.properties()

    @property
    def schema(self) -> StructType:
        """Columns of the table in Spark's types."""
        from pyspark.sql.types import StructType

        convert = self.jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert
        return StructType.fromJson(json.loads(convert(self.java.schema()).json()))

    @property
    def identity_columns(self) -> list[str]:
        """Columns whose values are the table's partition values."""
        schema, fields = self.java.schema(), self.java.spec().fields()
        return [str(schema.findColumnName(field.sourceId())) for field in fields if field.transform().isIdentity()]

    @property
    def actions(self) -> Any:
        """Iceberg's maintenance actions, which run as Spark jobs."""
        return self.jvm.org.apache.iceberg.spark.actions.SparkActions.get(self.spark._jsparkSession)  # noqa: SLF001

    def refresh(self) -> None:
        """Read the table's metadata again."""
        self.java.refresh()

    def refresh_if_unchanged(self, version: str | None) -> None:
        """Read the metadata again unless the table already has another version than before a commit.

        Spark commits with a table object of its own where its catalog does not cache tables.
        """
        if self.version == version:
            self.refresh()

    def read(self) -> DataFrame:
        """Read the rows of the table."""
        return self.spark.table(self.name)

    def read_metadata(self, table: str) -> DataFrame:
        """Read one of the table's metadata tables, such as ``data_files``."""
        return self.spark.table(f"{self.name}.{table}")

    def evolve(self, rows: DataFrame, stored: StructType, *, has_deletes: bool) -> DataFrame:
        """Add columns and widen types of the table to hold the rows, and return the rows in the table's columns and types.

        ``stored``: the table's current schema. ``has_deletes``: as in ``guard_required``.
        """
        rows = spell_as_stored(rows, stored)
        schema = union_by_name(stored, rows.drop(DELETED).schema, can_widen, has_deletes=has_deletes)
        check_paths(schema)
        for clause in build_alter_clauses(stored, schema, self._to_sql):
            self.spark.sql(f"ALTER TABLE {self.name} {clause}")
        return project(rows, schema.add(DELETED, "boolean"))

    def walk_snapshots(self) -> Iterator[Any]:
        """Iterate over the current snapshot and its ancestors, the newest first; ``MARK_SEARCH_DEPTH`` of them at most."""
        return islice(self._walk_ancestors(), MARK_SEARCH_DEPTH)

    def list_versions(self) -> list[TableVersion]:
        """List the current snapshot and its ancestors, the oldest first, without those that only rewrite files."""
        found: list[TableVersion] = []
        for snapshot in reversed(list(self._walk_ancestors())):
            if not found or snapshot.operation() != _REWRITE:
                version, is_first = str(snapshot.snapshotId()), snapshot.parentId() is None
                found.append(TableVersion(version, int(snapshot.timestampMillis()), is_first))
        return found

    def _walk_ancestors(self) -> Iterator[Any]:
        snapshot = self.snapshot
        while snapshot is not None:
            yield snapshot
            parent = snapshot.parentId()
            snapshot = None if parent is None else self.java.snapshot(parent)

    def find_snapshot(self, batch: Batch) -> Any:
        """Find the snapshot of a batch that was just written; None when it committed nothing.

        Other writers may have committed since.
        """
        for snapshot in self.walk_snapshots():
            mark = snapshot.summary().get(MARK)
            if mark is not None and mark.startswith(batch.mark_prefix):
                return snapshot if mark == batch.mark else None
        return None

    def _to_sql(self, data_type: DataType) -> str:
        # PySpark's own string of a type does not quote the names of fields.
        return str(self.jvm.org.apache.spark.sql.types.DataType.fromJson(data_type.json()).sql())
