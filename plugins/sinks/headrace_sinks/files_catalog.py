"""Catalog entries of the sink ``files``: each batch is a partition of its table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

from headrace.sdk import CatalogTable, Partitions, get_plugin
from headrace.sdk.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

#: The partition column with the name of the batch.
BATCH = "_headrace_batch"


class FilesTable:
    """Existing table of files. ``options``: the options of Spark's writer."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Folder,
        file_format: str,
        options: Mapping[str, str],
        read_schema: Callable[[], StructType],
    ) -> None:
        self._spark, self._folder = spark, folder
        self._format, self._options, self._read_schema = file_format, options, read_schema

    def describe(self) -> CatalogTable:
        """Describe the current table."""
        schema = self._read_schema()
        storage = get_plugin("format", self._format)().describe_storage(self._spark, schema, self._options)
        return CatalogTable(self._folder.path, schema, storage, (BATCH,), {"classification": self._format})

    def list_partitions(self) -> Partitions:
        """List all batches."""
        return self.locate(name for name in self._folder.names(hidden=True) if name.startswith(f"{BATCH}="))

    def locate(self, names: Iterable[str]) -> Partitions:
        """Return the partitions of batches by the names of their folders."""
        return {(unquote(name.removeprefix(f"{BATCH}=")),): f"{self._folder.path}/{name}" for name in names}
