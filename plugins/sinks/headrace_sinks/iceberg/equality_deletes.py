"""Equality deletes: files of keys, of which readers leave out what older files have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.sdk import Table
from headrace.sdk.changes import DELETED
from headrace.sdk.columns import quote_name
from headrace_sinks.iceberg.staging import stage_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Iceberg types of key columns whose values are equal in every engine when they are in Spark.
_KEY_TYPES = ("string", "int", "long", "decimal")


def can_delete_by_key(java: Any, table: Table) -> bool:
    """Whether files of a table's keys can be written. It has no partitions, and format version 2."""
    fields = java.schema().asStruct()
    keys = [fields.field(column) for column in table.key]
    # A file of keys has nulls in all other columns.
    others_are_optional = all(field.isOptional() or field.name() in table.key for field in java.schema().columns())
    return others_are_optional and all(
        key is not None and str(key.type().toString()).startswith(_KEY_TYPES) for key in keys
    )


def write_keys(spark: SparkSession, name: str, java: Any, rows: DataFrame, table: Table) -> list[Any]:
    """Files of the rows' keys, as deletes of the table."""
    from pyspark.sql import functions as F

    key_alone = [
        F.col(quote_name(field.name)) if field.name in table.key else F.lit(None).cast(field.dataType).alias(field.name)
        for field in rows.schema
        if field.name != DELETED
    ]
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    ids = gateway.new_array(gateway.jvm.int, len(table.key))
    for number, column in enumerate(table.key):
        ids[number] = java.schema().asStruct().field(column).fieldId()
    return [_as_delete(spark, java, file, ids) for file in stage_files(spark, name, java, rows.select(*key_alone))]


def _as_delete(spark: SparkSession, java: Any, file: Any, ids: Any) -> Any:
    """A file of rows as one that deletes all that is equal to them in the columns of these ids."""
    jvm: Any = spark._jvm  # noqa: SLF001
    iceberg = jvm.org.apache.iceberg
    metrics = iceberg.Metrics(
        file.recordCount(), file.columnSizes(), file.valueCounts(), file.nullValueCounts(), file.nanValueCounts(),
        file.lowerBounds(), file.upperBounds(),
    )  # fmt: skip
    builder = iceberg.FileMetadata.deleteFileBuilder(java.spec()).ofEqualityDeletes(ids)
    builder = builder.withPath(file.location()).withFormat(file.format()).withFileSizeInBytes(file.fileSizeInBytes())
    return builder.withMetrics(metrics).withSplitOffsets(file.splitOffsets()).build()
