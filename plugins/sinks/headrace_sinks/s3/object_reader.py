"""Reader of a table's objects."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from headrace.sdk.schemas import (
    add_missing_fields,
    find_spellings,
    is_same_type,
    project,
    union_schemas,
    widen_small_ints,
)
from headrace.sdk.storage import Folder
from headrace_sinks.s3.object_formats import name_ending, reader_options
from headrace_sinks.s3.object_state import State
from headrace_sinks.s3.pending_records import VALUE
from headrace_sinks.s3.s3_config import S3SinkConfig
from headrace_sinks.stored_types import spell_as_stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType


def read_objects(spark: SparkSession, states: Sequence[State], config: S3SinkConfig) -> DataFrame:
    """Read the rows of all complete objects in the columns of all schemas; with ``bytes`` one column, ``value``."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    root = Folder(spark, config.path.rstrip("/"))
    topics = sorted({topic for state in states for topic in state.topics})
    folders = [root.folder(config.topics_prefix + topic) for topic in topics]
    paths = [folder.path for folder in folders if folder.exists()]
    if config.format == "bytes":
        texts = StructType([StructField(VALUE, StringType())])
        return _reader(spark, config, texts).load(paths).select(F.col(VALUE).cast("binary"))
    schemas = load_schemas((text for state in states for _, text in state.schemas), config)
    union = unite_schemas(schemas)
    if not paths:
        return spark.createDataFrame([], union)
    if config.format == "json" or all(_is_part(schema, union) for schema in schemas):
        return _reader(spark, config, union).load(paths)
    return _read_by_schema(spark, config, union, _reader(spark, config, union).load(paths).inputFiles())


def load_schemas(texts: Iterable[str], config: S3SinkConfig) -> list[StructType]:
    """Load schemas of rows as the format stores them."""
    from pyspark.sql.types import StructType

    schemas = [StructType.fromJson(json.loads(text)) for text in dict.fromkeys(texts)]
    return [widen_small_ints(schema) for schema in schemas] if config.format == "avro" else schemas


def unite_schemas(schemas: Sequence[StructType]) -> StructType:
    """Unite the columns of all schemas; DataError for a column whose types have no common type."""
    kinds = {str(number): schema for number, schema in enumerate(schemas)}
    return union_schemas(kinds, "sink s3", aside=False)[0]


def _is_part(schema: StructType, union: StructType) -> bool:
    """Return whether files of a schema can be read with the union: all their columns have the same types there."""
    spellings = find_spellings(schema.names, union.names)
    kinds = [(field.dataType, union[spellings[field.name]].dataType) for field in schema if field.name in spellings]
    return len(kinds) == len(schema) and all(is_same_type(add_missing_fields(kind, wide), wide) for kind, wide in kinds)


def _read_by_schema(spark: SparkSession, config: S3SinkConfig, union: StructType, files: Sequence[str]) -> DataFrame:
    """Read files of different types, each with its own schema, and cast them to the union."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for file in files:
        groups[spark.read.format(config.format).load(file).schema.json()].append(file)
    frames = [spell_as_stored(spark.read.format(config.format).load(group), union) for group in groups.values()]
    frames = [project(frame, union) for frame in frames]
    return reduce(lambda a, b: a.unionByName(b), frames)


def _reader(spark: SparkSession, config: S3SinkConfig, schema: StructType) -> DataFrameReader:
    spark_format = "text" if config.format == "bytes" else config.format
    # Objects of keys and headers are in the same folders. Their names do not end in a number.
    reader = (
        spark.read.format(spark_format).schema(schema).option("pathGlobFilter", f"*[0-9]{name_ending(VALUE, config)}")
    )
    return reader.option("recursiveFileLookup", "true").options(**reader_options(config))
