"""Equality deletes: files of keys. Readers drop the rows of these keys from older data files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.sdk import Table
from headrace.sdk.changes import DELETED
from headrace.sdk.columns import quote_name
from headrace_sinks.iceberg.staging import stage_files
from headrace_sinks.iceberg.table_handle import TableHandle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Iceberg types of key columns on whose equality every engine agrees with Spark.
_KEY_TYPES = ("string", "int", "long", "decimal")


def can_delete_by_key(handle: TableHandle, table: Table) -> bool:
    """Return whether equality deletes can be written for an unpartitioned table of format version 2."""
    schema = handle.java.schema()
    fields = schema.asStruct()
    keys = [fields.field(column) for column in table.key]
    # A file of keys has nulls in all other columns.
    others_are_optional = all(field.isOptional() or field.name() in table.key for field in schema.columns())
    return others_are_optional and all(
        key is not None and str(key.type().toString()).startswith(_KEY_TYPES) for key in keys
    )


def write_equality_deletes(handle: TableHandle, rows: DataFrame, table: Table) -> list[Any]:
    """Write the keys of the rows to delete files, and return the files."""
    from pyspark.sql import functions as F

    key_columns = [
        F.col(quote_name(field.name)) if field.name in table.key else F.lit(None).cast(field.dataType).alias(field.name)
        for field in rows.schema
        if field.name != DELETED
    ]
    gateway: Any = handle.spark.sparkContext._gateway  # noqa: SLF001
    ids = gateway.new_array(gateway.jvm.int, len(table.key))
    for number, column in enumerate(table.key):
        ids[number] = handle.java.schema().asStruct().field(column).fieldId()
    return [_to_delete_file(handle, file, ids) for file in stage_files(handle, rows.select(*key_columns))]


def _to_delete_file(handle: TableHandle, file: Any, ids: Any) -> Any:
    """Describe a data file as a file of equality deletes on the columns of these field ids."""
    iceberg = handle.jvm.org.apache.iceberg
    metrics = iceberg.Metrics(
        file.recordCount(), file.columnSizes(), file.valueCounts(), file.nullValueCounts(), file.nanValueCounts(),
        file.lowerBounds(), file.upperBounds(),
    )  # fmt: skip
    builder = iceberg.FileMetadata.deleteFileBuilder(handle.java.spec()).ofEqualityDeletes(ids)
    builder = builder.withPath(file.location()).withFormat(file.format()).withFileSizeInBytes(file.fileSizeInBytes())
    return builder.withMetrics(metrics).withSplitOffsets(file.splitOffsets()).build()
