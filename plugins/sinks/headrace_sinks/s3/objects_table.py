"""A topic's objects as a table that readers find in a catalog: the folders of a partitioner are its partitions."""

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
    """The objects of a topic that are there. ``read_states``: of all pipelines that write it."""

    def __init__(
        self, spark: SparkSession, topic: str, config: S3SinkConfig, read_states: Callable[[], Sequence[State]]
    ) -> None:
        self._spark, self._config, self._read_states = spark, config, read_states
        self._folder = Folder(spark, f"{config.path.rstrip('/')}/{config.topics_dir}/{topic}")

    def describe(self) -> CatalogTable:
        """The table as it is now."""
        config = self._config
        schema = find_columns(self._read_states(), config)
        options = {key: value for key, value in reader_options(config).items() if key == "timestampFormat"}
        storage = get_plugin("format", config.format)().describe_storage(self._spark, schema, options)
        return CatalogTable(
            self._folder.path, schema, storage, config.partition_names, {"classification": config.format}
        )

    def list_partitions(self) -> Partitions:
        """All folders that the partitioner has made, or somebody who calls them so."""
        paths = [""]
        for name in self._config.partition_names:
            folders = [(path, Folder(self._spark, self._folder.path + path).names()) for path in paths]
            paths = [f"{path}/{one}" for path, found in folders for one in found if one.startswith(f"{name}=")]
        return self._locate(path.strip("/") for path in paths)

    def locate(self, objects: Iterable[str]) -> Partitions:
        """The partitions of objects, whose names are from the sink's ``path`` on."""
        above = self._config.topics_dir.count("/") + 2
        return self._locate("/".join(name.split("/")[above:-1]) for name in objects)

    def _locate(self, paths: Iterable[str]) -> Partitions:
        places = {path: tuple(unquote(part.partition("=")[2]) for part in path.split("/")) for path in paths}
        return {values: f"{self._folder.path}/{path}" for path, values in places.items()}


def find_columns(states: Sequence[State], config: S3SinkConfig) -> StructType:
    """The columns that a table's objects have, and its path has not. DataError where nobody could read them as one table."""
    from pyspark.sql.types import StructType

    topics = sorted({topic for state in states for topic in state.topics})
    if len(topics) > 1:
        raise DataError(
            f"a catalog's table is one folder, and this one has those of {len(topics)} topics: {', '.join(topics)}",
            where="sink s3",
            fix="give each topic a `target:` of its own, or leave out `sync`",
        )
    schema = unite_schemas(load_schemas((text for state in states for _, text in state.schemas), config))
    names = {name.lower() for name in config.partition_names}
    if config.partitioner == "field":
        # What the path says is all that readers see of it: in the objects the column has a null where that says `null`.
        return StructType([field for field in schema if field.name.lower() not in names])
    if both := [field.name for field in schema if field.name.lower() in names]:
        raise DataError(
            f"the column {both[0]!r} is called as a part of the path, and a catalog's table has it once",
            where="sink s3",
            fix="give the column another name with `rename`, or leave out `sync`",
        )
    return schema
