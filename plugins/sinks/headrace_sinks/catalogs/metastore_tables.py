"""Descriptions of tables and partitions for the Hive metastore, Glue, and the engines that read them.

The fields have the names of Glue's API. They are the fields of Hive's metastore.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.sdk import CatalogTable, ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField

Input = dict[str, Any]

#: Properties with Spark's schema, because Hive's schema is lower case. A value in Hive's metastore has up to 4,000 characters.
_SPARK_SCHEMA, _PART_LENGTH = "spark.sql.sources.schema", 4000
#: Characters that Athena rejects in a table's name, and field names that Hive's types accept.
_ODD, _FIELD = re.compile(r"[^a-z0-9_]"), re.compile(r"[\w.$ ]+")
_LONGEST_NAME = 255


def make_name(text: str) -> str:
    """Return a name for Hive, Glue and Athena: lower case, with ``_`` for all characters except a-z and 0-9."""
    return _ODD.sub("_", text.lower())[:_LONGEST_NAME]


def make_table(name: str, table: CatalogTable) -> Input:
    """Return the TableInput of a table."""
    data, partitions = _split_columns(table)
    return {
        "Name": name,
        "TableType": "EXTERNAL_TABLE",
        "PartitionKeys": _make_columns(partitions),
        "Parameters": {"EXTERNAL": "TRUE", **table.properties, **_spark_properties(table, data, partitions)},
        "StorageDescriptor": _make_descriptor(table, _make_columns(data), table.location),
    }


def make_partition(table: CatalogTable, values: Sequence[str], location: str) -> Input:
    """Return a PartitionInput with the table's columns; Athena rejects a partition with other types."""
    columns = _make_columns(_split_columns(table)[0])
    return {"Values": list(values), "StorageDescriptor": _make_descriptor(table, columns, location)}


def merge(found: Input, wanted: Input, known: Collection[str]) -> Input:
    """Merge ``wanted`` into an entry of the catalog and keep additions of others. ``known``: fields that the catalog accepts."""
    merged = {key: value for key, value in found.items() if key in known}
    before = {c["Name"]: c for c in found["StorageDescriptor"].get("Columns", ())}
    descriptor = {**found["StorageDescriptor"], **wanted["StorageDescriptor"]}
    # Comments on columns stay.
    descriptor["Columns"] = [{**before.get(c["Name"], {}), **c} for c in descriptor["Columns"]]
    serde = found["StorageDescriptor"].get("SerdeInfo", {})
    new_serde = wanted["StorageDescriptor"]["SerdeInfo"]
    descriptor["SerdeInfo"] = {
        **serde,
        **new_serde,
        "Parameters": {**serde.get("Parameters", {}), **new_serde["Parameters"]},
    }
    merged |= {key: value for key, value in wanted.items() if key != "PartitionKeys"} | {
        "StorageDescriptor": descriptor
    }
    if "Parameters" in wanted:
        kept = {k: v for k, v in found.get("Parameters", {}).items() if not k.startswith(_SPARK_SCHEMA)}
        merged["Parameters"] = kept | wanted["Parameters"]
    return merged


def _split_columns(table: CatalogTable) -> tuple[list[StructField], list[StructField]]:
    """Return the columns of the files, and the partition columns in the order of their values."""
    from pyspark.sql.types import StringType, StructField

    by_name = {field.name.lower(): field for field in table.schema}
    partitions = [by_name.get(name.lower(), StructField(name, StringType())) for name in table.partition_by]
    return [field for field in table.schema if field not in partitions], partitions


def _make_descriptor(table: CatalogTable, columns: list[Input], location: str) -> Input:
    storage = table.storage
    return {
        "Columns": columns,
        "Location": location,
        "InputFormat": storage.input_format,
        "OutputFormat": storage.output_format,
        # Spark reads the location of a data source table from this property.
        "SerdeInfo": {
            "SerializationLibrary": storage.serde,
            "Parameters": {"path": table.location, **storage.serde_properties},
        },
    }


def _make_columns(fields: Sequence[StructField]) -> list[Input]:
    seen = dict[str, str]()
    for field in fields:
        if (other := seen.setdefault(field.name.lower(), field.name)) != field.name or "," in field.name:
            columns = (
                f"the columns {other!r} and {field.name!r}" if other != field.name else f"the column {field.name!r}"
            )
            raise _name_error(f"a Hive table cannot have {columns}: names have no comma and are case-insensitive")
    return [{"Name": field.name.lower(), "Type": _hive_type(field.dataType, field.name)} for field in fields]


def _hive_type(kind: DataType, path: str) -> str:
    """Return a type in the syntax of Hive, Athena and Glue. ``path`` names the column."""
    from pyspark.sql import types as T

    if isinstance(kind, T.StructType):
        for field in kind:
            if not _FIELD.fullmatch(field.name):
                raise _name_error(f"a Hive type cannot have the field {field.name!r} of the column {path!r}")
        inner = (f"{field.name}:{_hive_type(field.dataType, path)}" for field in kind)
        return f"struct<{','.join(inner)}>"
    if isinstance(kind, T.ArrayType):
        return f"array<{_hive_type(kind.elementType, path)}>"
    if isinstance(kind, T.MapType):
        return f"map<{_hive_type(kind.keyType, path)},{_hive_type(kind.valueType, path)}>"
    if isinstance(kind, T.TimestampNTZType):
        return "timestamp"
    return "string" if isinstance(kind, T.NullType) else kind.simpleString()


def _name_error(message: str) -> ConfigError:
    return ConfigError(message, fix="rename it with `rename` under `transforms:`")


def _spark_properties(
    table: CatalogTable, data: Sequence[StructField], partitions: Sequence[StructField]
) -> dict[str, str]:
    """Return the table properties that Spark reads the table by."""
    fields = [_simplify(field.jsonValue()) for field in (*data, *partitions)]
    text = json.dumps({"type": "struct", "fields": fields}, ensure_ascii=False, separators=(",", ":"))
    parts = {f"part.{i}": part for i, part in enumerate(_cut(text))}
    columns = {f"partCol.{i}": field.name for i, field in enumerate(partitions)}
    counts = {"numParts": str(len(parts))} | ({"numPartCols": str(len(columns))} if columns else {})
    schema = {f"{_SPARK_SCHEMA}.{key}": value for key, value in {**counts, **parts, **columns}.items()}
    return {"spark.sql.sources.provider": table.storage.provider, **schema}


def _cut(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PART_LENGTH):
        yield text[start : start + _PART_LENGTH]


def _simplify(value: Any) -> Any:
    """Remove nullability from a schema; it differs between batches."""
    if isinstance(value, list):
        return [_simplify(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    constant = {"nullable": True, "containsNull": True, "valueContainsNull": True, "metadata": {}}
    return {key: constant.get(key, _simplify(inner)) for key, inner in value.items()}
