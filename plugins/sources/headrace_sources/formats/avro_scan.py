"""Avro container files, converted by the Kafka Connect names in their schemas."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from headrace.sdk import DataError, RejectReason, Scan, changes as C
from headrace.sdk.changes import IMAGES, PREFIX
from headrace.sdk.columns import barrier, quote_name
from headrace.sdk.schemas import promote
from headrace_sources.kafka_connect.avro_schema import has_wide_decimal, make_reader_schema, parse_avro_schema
from headrace_sources.kafka_connect.connect_schema import ConnectSchema, find_schema_name, union_by_name
from headrace_sources.kafka_connect.connect_types import (
    conversion_failed,
    convert,
    drop_unknown_names,
    logical_type,
    needs_conversion,
    table_type,
    wire_type,
)
from headrace_sources.kafka_connect.misfits import first_misfit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

#: Prefix of a column as it was read; its number follows.
_WIRE = PREFIX + "wire"
#: A record that does not fit, as it was read.
_RECORD = PREFIX + "record"


@dataclass(frozen=True)
class AvroScan(Scan):
    """Files whose records one schema can read."""

    tree: ConnectSchema
    #: Their Avro schema; None if they have several.
    avro_schema: str | None
    #: Name of the files' Avro schemas.
    name: str | None = None

    @classmethod
    def of(cls, files: tuple[str, ...], avro_schema: str) -> AvroScan:
        """Return the scan of files of one Avro schema."""
        tree = drop_unknown_names(parse_avro_schema(avro_schema))
        return cls(files, _row_type(tree), tree, avro_schema, find_schema_name(json.loads(avro_schema)))

    @property
    def record_type(self) -> str | None:
        return self.name

    @property
    def reader_schema(self) -> str | None:
        """Schema to read with, if Spark rejects the files' own: it has a decimal of too many digits."""
        is_needed = self.avro_schema is not None and has_wide_decimal(self.avro_schema)
        return make_reader_schema(self.avro_schema) if self.avro_schema and is_needed else None

    def merge(self, other: Scan) -> Scan | None:
        assert isinstance(other, AvroScan), "scans of one format"
        tree = union_by_name(self.tree, other.tree)
        if tree is None or self.name != other.name or self.reader_schema or other.reader_schema:
            return None
        return AvroScan(self.files + other.files, _row_type(tree), tree, None, self.name)

    def keep_types(self, get_table_types: Callable[[], Mapping[str, DataType]]) -> AvroScan:
        """Return the scan that ignores a column's Kafka Connect name if the table can only hold the value without it."""
        assert self.avro_schema is not None, "scans are merged after this call"
        unnamed = drop_unknown_names(parse_avro_schema(self.avro_schema, names=False))
        table_types = get_table_types() if unnamed != self.tree else {}
        if not table_types or self.tree.fields is None or unnamed.fields is None:
            return self
        fields = dict(self.tree.fields)
        images = [name for name in IMAGES if name in fields]
        for image in images:
            fields[image] = _keep_types(fields[image], unnamed.fields[image], table_types)
        tree = replace(self.tree, fields=fields) if images else _keep_types(self.tree, unnamed, table_types)
        return replace(self, schema=_row_type(tree), tree=tree)

    def read(self, spark: SparkSession, schema: StructType, options: Mapping[str, str]) -> DataFrame:
        """Return the columns of ``schema``, and ERROR, DETAIL and RAW if values may not fit."""
        tree = self.tree.project(schema)
        reader = spark.read.format("avro").schema(_row_type(tree, wire_type)).options(**options)
        if self.reader_schema:
            reader = reader.option("avroSchema", self.reader_schema)
        frame = reader.load(list(self.files))
        return _convert_columns(frame, tree, schema) if needs_conversion(tree, schema) else frame


def _row_type(tree: ConnectSchema, type_of: Callable[[ConnectSchema], DataType] = table_type) -> StructType:
    """Return the Spark type of a container's records. DataError if they are not rows."""
    if tree.fields is None or logical_type(tree):
        raise DataError("the records are single values, not rows", fix="exclude the topic")
    return type_of(tree)  # type: ignore[return-value]


def _keep_types(row: ConnectSchema, unnamed: ConnectSchema, table_types: Mapping[str, DataType]) -> ConnectSchema:
    """Return a row's fields, each without its names if the table's column can only hold it without them."""
    if row.fields is None or unnamed.fields is None:
        return row
    fields = dict(row.fields)
    for name, data_type in table_types.items():
        if name in fields and not _can_hold(data_type, fields[name]) and _can_hold(data_type, unnamed.fields[name]):
            fields[name] = unnamed.fields[name]
    return replace(row, fields=fields)


def _can_hold(data_type: DataType, field: ConnectSchema) -> bool:
    """Return whether a table's column, promoted if necessary, can hold a field's values."""
    try:
        promote(data_type, table_type(field))
    except DataError:
        return False
    return True


def _convert_columns(frame: DataFrame, tree: ConnectSchema, schema: StructType) -> DataFrame:
    """Return the files' columns in the table's types, the reason why a record does not fit, the field, and the raw record."""
    from pyspark.sql import functions as F

    fields = tree.fields or {}
    wires = {name: F.col(f"{_WIRE}{i}") for i, name in enumerate(schema.names)}
    frame = frame.select(*[F.col(quote_name(name)).alias(f"{_WIRE}{i}") for i, name in enumerate(schema.names)])
    columns = [barrier(convert(wires[f.name], fields[f.name], f.dataType)).alias(f.name) for f in schema]
    frame = frame.select("*", *columns)
    checks = [conversion_failed(wires[name], F.col(quote_name(name)), fields[name]) for name in schema.names]
    failed = reduce(lambda a, b: a | b, [check for check in checks if check is not None], F.lit(False))
    reason = F.when(failed, F.lit(RejectReason.UNDECODABLE))
    record = F.struct(*[column.alias(name) for name, column in wires.items()])
    raw = F.to_json(record).cast("binary")
    # Spark leaves out the description where no dead letters are saved.
    frame = frame.select("*", barrier(F.when(failed, record)).alias(_RECORD))
    detail = first_misfit((_RECORD,), (tree,), schema).alias(C.DETAIL)
    return frame.select(*map(quote_name, schema.names), barrier(reason).alias(C.ERROR), detail, raw.alias(C.RAW))
