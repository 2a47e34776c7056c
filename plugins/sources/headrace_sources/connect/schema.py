"""Kafka Connect's schemas, as trees whose leaves are Spark types."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from headrace.sdk import DataError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


#: Levels of a record, and of its schema. Spark's parser, and whatever walks a type, goes a call deeper for each.
MAX_DEPTH = 100


class EndlessSchemaError(DataError):
    """A schema that holds itself, or is nested too deeply: its records can never be read."""


@contextmanager
def refuse_endless() -> Iterator[None]:
    """While a schema is parsed: an EndlessSchemaError for one that ends Python's stack."""
    try:
        yield
    except RecursionError:
        raise _too_deep() from None


@dataclass(frozen=True)
class ConnectSchema:
    """A schema of Kafka Connect: a leaf has the Spark type that its values are parsed as, any other has children.

    Connect's name and parameters say what a value means, which Connect calls its logical type.
    """

    data_type: DataType | None = None
    name: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, ConnectSchema] | None = None
    element: ConnectSchema | None = None
    #: Of a map, whose keys are text.
    value: ConnectSchema | None = None

    @property
    def depth(self) -> int:
        """How many levels it has."""
        children = [*(self.fields or {}).values(), *filter(None, (self.element, self.value))]
        return 1 + max((child.depth for child in children), default=0)

    def check_depth(self) -> ConnectSchema:
        """The schema. EndlessSchemaError where it has too many levels."""
        if self.depth > MAX_DEPTH:
            raise _too_deep()
        return self

    def project(self, data_type: DataType) -> ConnectSchema:
        """The schema with those of its fields alone that a Spark type has too."""
        from pyspark.sql.types import StructType

        if self.fields is None or not isinstance(data_type, StructType):
            return self
        fields = {f.name: self.fields[f.name].project(f.dataType) for f in data_type if f.name in self.fields}
        return replace(self, fields=fields)

    def map_leaves(self, change: Callable[[ConnectSchema], ConnectSchema]) -> ConnectSchema:
        """The schema with all its leaves changed."""
        if self.fields is not None:
            return replace(self, fields={name: inner.map_leaves(change) for name, inner in self.fields.items()})
        if self.element is not None:
            return replace(self, element=self.element.map_leaves(change))
        if self.value is not None:
            return replace(self, value=self.value.map_leaves(change))
        return change(self)


def parse_connect_schema(schema: Any) -> ConnectSchema:
    """Parses a schema as Kafka Connect's JsonConverter writes it; DataError for what is none."""
    from pyspark.sql.types import StringType

    try:
        connect_type: str = schema["type"]
        logical = {"name": schema.get("name"), "parameters": schema.get("parameters") or {}}
        if connect_type == "struct":
            fields = {item["field"]: parse_connect_schema(item) for item in schema.get("fields") or ()}
            return ConnectSchema(fields=fields, **logical)
        if connect_type == "array":
            return ConnectSchema(element=parse_connect_schema(schema["items"]), **logical)
        if connect_type == "map":
            # Keys of another type make it a list of pairs, which has no Spark type: it stays the text that it is.
            if schema["keys"].get("type") != "string":
                return ConnectSchema(StringType())
            return ConnectSchema(value=parse_connect_schema(schema["values"]), **logical)
        return ConnectSchema(_leaf_types()[connect_type], **logical)
    except (AttributeError, KeyError, TypeError):
        raise DataError(
            f"this is no schema of Kafka Connect: {_shorten(schema)}",
            fix="write the records with org.apache.kafka.connect.json.JsonConverter",
        ) from None


def union_by_name(first: ConnectSchema, second: ConnectSchema) -> ConnectSchema | None:
    """One schema by which records of both can be parsed; None when a field is something else in the other."""
    if first == second:
        return first
    if first.fields is None or second.fields is None or first.name != second.name:
        return None
    fields = dict(first.fields)
    for name, other in second.fields.items():
        both = union_by_name(fields[name], other) if name in fields else other
        if both is None:
            return None
        fields[name] = both
    return replace(first, fields=fields)


@cache
def _leaf_types() -> dict[str, DataType]:
    """Connect's types without children."""
    from pyspark.sql import types as T

    return {
        "int8": T.ByteType(),
        "int16": T.ShortType(),
        "int32": T.IntegerType(),
        "int64": T.LongType(),
        "float": T.FloatType(),
        "float32": T.FloatType(),
        "double": T.DoubleType(),
        "float64": T.DoubleType(),
        "boolean": T.BooleanType(),
        "string": T.StringType(),
        "bytes": T.BinaryType(),
    }


def _too_deep() -> EndlessSchemaError:
    fix = "leave the topic out, or flatten the records where they are made"
    return EndlessSchemaError(f"the schema has more than {MAX_DEPTH} levels, or holds itself", fix=fix)


def _shorten(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else text[:200] + "…"
