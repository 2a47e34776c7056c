"""Catalog entries of a topic's objects: the folders of the partitioner are partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from headrace.sdk import CatalogTable, DataError, Partitions, get_plugin
from headrace.sdk.storage import Folder
from headrace_sinks.s3.object_formats import reader_options
from headrace_sinks.s3.object_reader import load_schemas, unite_schemas
from headrace_sinks.s3.object_state import State
from headrace_sinks.s3.s3_config import S3SinkConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


class ObjectsTable:
    """Existing objects of a topic. ``read_states``: reads the states of all pipelines that write the table."""

    def __init__(
        self, spark: SparkSession, topic: str, config: S3SinkConfig, read_states: Callable[[], Sequence[State]]
    ) -> None:
        self._spark, self._config, self._read_states = spark, config, read_states
        self._folder = Folder(spark, f"{config.path.rstrip('/')}/{config.topics_prefix}{topic}")

    def describe(self) -> CatalogTable:
        """Describe the current table."""
        config = self._config
        schema = find_columns(self._read_states(), config)
        options = {key: value for key, value in reader_options(config).items() if key == "timestampFormat"}
        storage = get_plugin("format", config.format)().describe_storage(self._spark, schema, options)
        return CatalogTable(
            self._folder.path, schema, storage, config.partition_names, {"classification": config.format}
        )

    def list_partitions(self) -> Partitions:
        """List all folders with the names of the partitioner."""
        paths = [""]
        for name in self._config.partition_names:
            folders = [(path, Folder(self._spark, self._folder.path + path).names()) for path in paths]
            paths = [f"{path}/{folder}" for path, found in folders for folder in found if folder.startswith(f"{name}=")]
        return self._locate(path.strip("/") for path in paths)

    def locate(self, objects: Iterable[str]) -> Partitions:
        """Return the partitions of objects, whose names are relative to the sink's ``path``."""
        above = self._config.topics_prefix.count("/") + 1
        return self._locate("/".join(name.split("/")[above:-1]) for name in objects)

    def _locate(self, paths: Iterable[str]) -> Partitions:
        values_by_path = {path: tuple(unquote(part.partition("=")[2]) for part in path.split("/")) for path in paths}
        return {values: f"{self._folder.path}/{path}" for path, values in values_by_path.items()}


def find_columns(states: Sequence[State], config: S3SinkConfig) -> StructType:
    """Find the columns of a table's objects that are not in its path; DataError when the objects are not one table."""
    from pyspark.sql.types import StructType

    topics = sorted({topic for state in states for topic in state.topics})
    if len(topics) > 1:
        raise DataError(
            f"a table in a catalog is one folder, and this table has the folders of {len(topics)} topics: {', '.join(topics)}",
            where="sink s3",
            fix="set a separate `target:` for each topic, or remove `sync`",
        )
    schema = unite_schemas(load_schemas((text for state in states for _, text in state.schemas), config))
    names = {name.lower() for name in config.partition_names}
    if config.partitioner == "field":
        # Readers take the column from the path: its value there is `null` where the objects have a null.
        return StructType([field for field in schema if field.name.lower() not in names])
    if both := [field.name for field in schema if field.name.lower() in names]:
        raise DataError(
            f"column {both[0]!r} has the name of a partition, and a table in a catalog cannot have both",
            where="sink s3",
            fix="rename the column with `rename`, or remove `sync`",
        )
    return schema
