"""A table's objects as rows."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from headrace.sdk.schemas import add_missing_fields, is_same_type, project, union_schemas, widen_small_ints
from headrace.sdk.storage import Folder
from headrace_sinks.s3.object_formats import name_ending, reader_options
from headrace_sinks.s3.object_state import State
from headrace_sinks.s3.pending_records import VALUE
from headrace_sinks.s3.s3_config import S3SinkConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType


def read_objects(spark: SparkSession, states: Sequence[State], config: S3SinkConfig) -> DataFrame:
    """The rows of all objects that are complete, in the columns of all; of ``bytes`` one column, ``value``."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    root = Folder(spark, f"{config.path.rstrip('/')}/{config.topics_dir}")
    topics = sorted({topic for state in states for topic in state.topics})
    folders = [root.folder(topic) for topic in topics]
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
    return _read_apart(spark, config, union, _reader(spark, config, union).load(paths).inputFiles())


def load_schemas(texts: Iterable[str], config: S3SinkConfig) -> list[StructType]:
    """Schemas of rows as the format keeps them."""
    from pyspark.sql.types import StructType

    schemas = [StructType.fromJson(json.loads(text)) for text in dict.fromkeys(texts)]
    return [widen_small_ints(schema) for schema in schemas] if config.format == "avro" else schemas


def unite_schemas(schemas: Sequence[StructType]) -> StructType:
    """The columns of all. DataError where nobody could read a column as one."""
    kinds = {str(number): schema for number, schema in enumerate(schemas)}
    return union_schemas(kinds, "sink s3", aside=False)[0]


def _is_part(schema: StructType, union: StructType) -> bool:
    """Whether files of a schema can be read in the other: all that they have is of the same type there."""
    return all(
        is_same_type(add_missing_fields(field.dataType, union[field.name].dataType), union[field.name].dataType)
        for field in schema
    )


def _read_apart(spark: SparkSession, config: S3SinkConfig, union: StructType, files: Sequence[str]) -> DataFrame:
    """Files whose types differ, each in its own, as the wider ones."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for file in files:
        groups[spark.read.format(config.format).load(file).schema.json()].append(file)
    frames = [project(spark.read.format(config.format).load(group), union) for group in groups.values()]
    return reduce(lambda a, b: a.unionByName(b), frames)


def _reader(spark: SparkSession, config: S3SinkConfig, schema: StructType) -> DataFrameReader:
    spark_format = "text" if config.format == "bytes" else config.format
    # Beside the values' objects lie those of keys and headers, whose names do not end in a number.
    reader = (
        spark.read.format(spark_format).schema(schema).option("pathGlobFilter", f"*[0-9]{name_ending(VALUE, config)}")
    )
    return reader.option("recursiveFileLookup", "true").options(**reader_options(config))
