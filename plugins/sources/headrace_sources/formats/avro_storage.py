"""Avro tables for Hive and engines like it, which read files with a schema in the catalog."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headrace.sdk import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_HIVE_IO = "org.apache.hadoop.hive.ql.io.avro"


def describe_avro(spark: SparkSession, schema: StructType) -> Storage:
    """Return the storage of a table, with a schema that also reads files without a column."""
    return Storage(
        "avro",
        f"{_HIVE_IO}.AvroContainerInputFormat",
        f"{_HIVE_IO}.AvroContainerOutputFormat",
        "org.apache.hadoop.hive.serde2.avro.AvroSerDe",
        {"avro.schema.literal": _write_schema(spark, schema)},
    )


def _write_schema(spark: SparkSession, schema: StructType) -> str:
    jvm: Any = spark._jvm  # noqa: SLF001
    sql = jvm.org.apache.spark.sql
    nullable = sql.types.DataType.fromJson(schema.json()).asNullable()
    text = sql.avro.SchemaConverters.toAvroType(nullable, False, "topLevelRecord", "").toString()
    return json.dumps(_default_to_null(json.loads(str(text))), ensure_ascii=False)


def _default_to_null(schema: Any) -> Any:
    """Return the Avro schema with null as the default of nullable fields."""
    if isinstance(schema, list):
        return sorted(map(_default_to_null, schema), key=lambda member: member != "null")
    if not isinstance(schema, dict):
        return schema
    made = {key: _default_to_null(value) for key, value in schema.items()}
    if "name" in made and isinstance(made.get("type"), list):
        made["default"] = None
    return made
