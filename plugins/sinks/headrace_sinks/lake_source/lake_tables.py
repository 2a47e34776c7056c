"""Tables of a lake, read by a source through the sink of their format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.sdk import Sink, Table
from headrace.sdk.columns import quote_name
from headrace.sdk.sink import TableVersion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class LakeTables(ABC):
    """Versions and rows of the tables of one catalog or folder."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    @property
    def label(self) -> str:
        """Name of the source in messages."""
        return f"source {self.sink.name}"

    @abstractmethod
    def list_namespaces(self, spark: SparkSession, parents: Sequence[str]) -> list[str]:
        """List the namespaces in a namespace."""

    @abstractmethod
    def list_tables(self, spark: SparkSession, parents: Sequence[str]) -> list[str]:
        """List the tables of a namespace; none if the namespace does not exist."""

    @abstractmethod
    def has_table(self, spark: SparkSession, table: Table) -> bool:
        """Return whether the table exists."""

    def list_versions(self, spark: SparkSession, table: Table) -> Sequence[TableVersion]:
        """List the readable versions of a table, the oldest first."""
        return self.sink.list_versions(spark, table)

    def find_newest(self, spark: SparkSession, table: Table) -> TableVersion | None:
        """Find the newest version of a table; None without a table or a commit."""
        version = self.sink.find_version(spark, table)
        return next((v for v in self.list_versions(spark, table) if v.version == version), None)

    def list_later(self, spark: SparkSession, table: Table, version: str) -> list[TableVersion]:
        """List the versions after a version, the oldest first; none if the version is unknown."""
        versions = list(self.list_versions(spark, table))
        known = next((number for number, found in enumerate(versions, 1) if found.version == version), len(versions))
        return versions[known:]

    def find_equal(self, spark: SparkSession, table: Table, version: str) -> str | None:
        """Find a readable version with the rows of a version, usually itself; None if it has expired."""
        versions = self.list_versions(spark, table)
        return version if any(found.version == version for found in versions) else None

    def find_key(self, spark: SparkSession, table: Table) -> Sequence[str]:
        """Find the key that the table itself has; empty without one."""
        return ()

    def has_only_appends(self, spark: SparkSession, table: Table, after: str, upto: str) -> bool:
        """Return whether the versions after one up to another only add rows."""
        return False

    def read_appended(self, spark: SparkSession, table: Table, after: str, upto: str) -> DataFrame:
        """Read the rows that versions add."""
        raise NotImplementedError(f"{type(self).__name__} does not read added rows")

    def read(self, spark: SparkSession, table: Table, version: str | None = None) -> DataFrame:
        """Read the rows of a version, by default the newest, without columns of headrace and of the format."""
        return self.hide_own_columns(self.sink.read_back(spark, table, version))

    def hide_own_columns(self, frame: DataFrame) -> DataFrame:
        """Return rows without columns of headrace and of the format."""
        prefixes = self.sink.hidden_prefixes
        return frame.select(*[quote_name(name) for name in frame.columns if not name.lower().startswith(prefixes)])
