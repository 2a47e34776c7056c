"""Kafka Connect's schemas as trees whose leaves are Spark types."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, ParamSpec

from headrace.sdk import DataError
from headrace.sdk.changes import IMAGES, PREFIX
from headrace.sdk.columns import fold_name
from headrace.sdk.schemas import find_spellings
from headrace_sources.limits import DECIMAL_SCALE, NAME_CHARACTERS, SCHEMA_COLUMNS, SCHEMA_LEVELS

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

P = ParamSpec("P")

#: Name of Connect's decimal type, and its parameters.
DECIMAL = "org.apache.kafka.connect.data.Decimal"
SCALE, PRECISION = "scale", "connect.decimal.precision"
#: headrace's name of an int8 in JSON. It is parsed as a wider type: Spark's parser reads 128 to 255 as negative numbers.
JSON_BYTE = "an int8 of JSON"
#: headrace's name of a float32 in JSON. It is parsed as a double: Spark's parser reads a number above a float as infinity.
JSON_FLOAT = "a float32 of JSON"
#: Connect's types without children whose names differ from Spark's.
LEAF_NAMES = ("int8", "int16", "int32", "int64", "float32", "float64", "bytes")


#: Names of the key schemas of Debezium's schema changes, heartbeats and transaction boundaries.
_METADATA_KEY = re.compile(
    r"io\.debezium\.connector\.\w+\.(SchemaChangeKey|ServerNameKey|HeartbeatKey|TransactionMetadataKey)"
)


#: Names that Connect's converter and Spark give to unnamed schemas.
_UNNAMED = ("io.confluent.connect.avro.ConnectDefault", "topLevelRecord")


class UnusableSchemaError(DataError):
    """Schema whose records can never be read: it is invalid, contains itself, or is too large for a table."""


@dataclass(frozen=True)
class ConnectSchema:
    """Schema of Kafka Connect. A leaf has the Spark type to parse its values with; other schemas have children.

    Connect's name and parameters are the logical type.
    """

    data_type: DataType | None = None
    name: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, ConnectSchema] | None = None
    element: ConnectSchema | None = None
    #: Values of a map, whose keys are strings.
    value: ConnectSchema | None = None

    def __eq__(self, other: object) -> bool:
        # The order of fields is part of Spark's type of a struct. Mappings are equal in any order.
        return isinstance(other, ConnectSchema) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash((self.data_type, self.name, *(self.fields or ())))

    @property
    def _parts(self) -> tuple[object, ...]:
        fields = None if self.fields is None else tuple(self.fields.items())
        return self.data_type, self.name, self.parameters, fields, self.element, self.value

    def project(self, data_type: DataType) -> ConnectSchema:
        """Return the schema restricted to a Spark type's fields, with the schema's own spelling of names."""
        from pyspark.sql.types import StructType

        if self.fields is None or not isinstance(data_type, StructType):
            return self
        names = find_spellings(data_type.names, list(self.fields))
        found = {names[f.name]: f.dataType for f in data_type if f.name in names}
        return replace(self, fields={name: self.fields[name].project(kind) for name, kind in found.items()})

    def paths(self) -> Iterator[tuple[str, ...]]:
        """Yield the path of each column, including nested ones."""
        for name, inner in (self.fields or {}).items():
            yield (name,)
            for path in inner.paths():
                yield (name, *path)
        for inner in filter(None, (self.element, self.value)):
            yield from inner.paths()

    def map_leaves(self, change: Callable[[ConnectSchema], ConnectSchema]) -> ConnectSchema:
        """Return the schema with all leaves mapped."""
        if self.fields is not None:
            return replace(self, fields={name: inner.map_leaves(change) for name, inner in self.fields.items()})
        if self.element is not None:
            return replace(self, element=self.element.map_leaves(change))
        if self.value is not None:
            return replace(self, value=self.value.map_leaves(change))
        return change(self)


def find_schema_name(schema: Any) -> str | None:
    """Return the full name of an Avro schema, the name of a Connect schema, or the title of a JSON Schema; None without a name."""
    if not isinstance(schema, dict):
        return None
    name, namespace = schema.get("name", schema.get("title")), schema.get("namespace")
    if not isinstance(name, str):
        return None
    full_name = f"{namespace}.{name}" if namespace and "." not in name else name
    return None if full_name in _UNNAMED else full_name


def is_metadata_key(schema: Any) -> bool:
    """Return whether an Avro or Connect schema describes the keys of metadata, which are not keys of rows."""
    return _METADATA_KEY.fullmatch(find_schema_name(schema) or "") is not None


def limit_schema(parse: Callable[P, ConnectSchema]) -> Callable[P, ConnectSchema]:
    """Return the parser with an UnusableSchemaError for invalid schemas, and for those that are too deep or too wide for a table."""

    @wraps(parse)
    def parse_within_limits(*arguments: P.args, **options: P.kwargs) -> ConnectSchema:
        try:
            schema = parse(*arguments, **options)
            _check_parts(schema, set())
            levels, columns = _measure(schema, {})
        except RecursionError:  # or of the schema's JSON
            levels, columns = SCHEMA_LEVELS + 1, 0
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            fix = "exclude the topic, or correct the schema at the source"
            raise UnusableSchemaError(f"the schema is not valid: {_shorten(str(error))}", fix=fix) from None
        if levels > SCHEMA_LEVELS or columns > SCHEMA_COLUMNS:
            much = (
                f"nested in more than {SCHEMA_LEVELS} levels" if levels > SCHEMA_LEVELS else f"of {columns:,} columns"
            )
            raise UnusableSchemaError(
                f"the schema is {much}, which no table can hold",
                fix="exclude the topic, or remove the fields at the source",
            )
        return schema

    return parse_within_limits


def _measure(schema: ConnectSchema, measured: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Return a schema's levels and its columns including nested ones. ``measured``: results by id, as types may be shared."""
    if id(schema) not in measured:
        inner = [*(schema.fields or {}).values(), *filter(None, (schema.element, schema.value))]
        sizes = [_measure(item, measured) for item in inner]
        measured[id(schema)] = 1 + max((levels for levels, _ in sizes), default=0), 1 + sum(n for _, n in sizes)
    return measured[id(schema)]


def drop_bad_names(schema: ConnectSchema) -> ConnectSchema:
    """Return the schema without the fields whose names cannot be columns; the same object if all names can.

    Names that Spark takes for an earlier name, as ``\u0131d`` for ``id``, cannot. Names that differ only by case stay, and
    headrace's own names inside the structs of a row.
    """
    done: dict[tuple[int, bool], ConnectSchema] = {}
    cleaned = _drop_bad_names(schema, done, is_row=True)
    fields = cleaned.fields or {}
    images = {name: _drop_bad_names(fields[name], done, is_row=True) for name in IMAGES if name in fields}
    if all(images[name] is fields[name] for name in images):
        return cleaned
    return replace(cleaned, fields={**fields, **images})


def _drop_bad_names(
    schema: ConnectSchema, done: dict[tuple[int, bool], ConnectSchema], *, is_row: bool
) -> ConnectSchema:
    key = id(schema), is_row
    if key not in done:
        changes: dict[str, Any] = {}
        if schema.fields is not None:
            names = _find_good_names(schema.fields, is_row=is_row)
            kept = {name: _drop_bad_names(schema.fields[name], done, is_row=False) for name in names}
            if len(kept) < len(schema.fields) or any(kept[name] is not schema.fields[name] for name in kept):
                changes["fields"] = kept
        for part in ("element", "value"):
            inner = getattr(schema, part)
            if inner is not None and (new := _drop_bad_names(inner, done, is_row=False)) is not inner:
                changes[part] = new
        done[key] = replace(schema, **changes) if changes else schema
    return done[key]


def _find_good_names(names: Iterable[str], *, is_row: bool) -> list[str]:
    good: dict[str, str] = {}
    found = []
    for name in names:
        is_own = is_row and name.lower().startswith(PREFIX)
        other = good.setdefault(fold_name(name), name)
        is_new = other is name or (other.isascii() and name.isascii())
        if is_new and not is_own and len(name) <= NAME_CHARACTERS and not name.isspace():
            found.append(name)
    return found


def _check_parts(schema: ConnectSchema, checked: set[int]) -> None:
    """Raise UnusableSchemaError for a decimal whose scale or precision is not a number or beyond the limit.

    TypeError or ValueError for names and parameters of other types.
    """
    if id(schema) in checked:
        return
    checked.add(id(schema))
    if not isinstance(schema.parameters, Mapping):
        raise TypeError("its parameters are not a mapping")
    names = () if schema.name is None else (schema.name,)
    for text in (*names, *(schema.fields or {})):
        if not isinstance(text, str):
            raise TypeError("a name is not a string")
        text.encode()  # Java cannot receive other strings.
    for name in (SCALE, PRECISION) if schema.name == DECIMAL else ():
        text = str(schema.parameters.get(name) or 0)
        if not re.fullmatch(r"-?\d{1,9}", text, re.ASCII) or abs(int(text)) > DECIMAL_SCALE:
            raise UnusableSchemaError(
                f"a decimal has the {name.rpartition('.')[2]} {text[:30]}, which is not a number up to {DECIMAL_SCALE:,}",
                fix="exclude the topic, or correct the column's type at the source",
            )
    for inner in [*(schema.fields or {}).values(), *filter(None, (schema.element, schema.value))]:
        _check_parts(inner, checked)


@limit_schema
def parse_connect_schema(schema: Any) -> ConnectSchema:
    """Parse a schema of Kafka Connect's JsonConverter; DataError for an invalid one."""
    return _parse(schema)


def _parse(schema: Any) -> ConnectSchema:
    from pyspark.sql.types import ShortType, StringType

    try:
        connect_type: str = schema["type"]
        logical = {"name": schema.get("name"), "parameters": schema.get("parameters") or {}}
        if connect_type == "struct":
            fields = {item["field"]: _parse(item) for item in schema.get("fields") or ()}
            return ConnectSchema(fields=fields, **logical)
        if connect_type == "array":
            return ConnectSchema(element=_parse(schema["items"]), **logical)
        if connect_type == "map":
            # Keys of another type make it a list of pairs, which has no Spark type: it stays the text that it is.
            if schema["keys"].get("type") != "string":
                return ConnectSchema(StringType())
            return ConnectSchema(value=_parse(schema["values"]), **logical)
        if connect_type == "int8":
            return ConnectSchema(ShortType(), JSON_BYTE)
        return ConnectSchema(_leaf_types()[connect_type], **logical)
    except (AttributeError, KeyError, TypeError):
        raise DataError(
            f"not a schema of Kafka Connect: {_shorten(schema)}",
            fix="write the records with org.apache.kafka.connect.json.JsonConverter",
        ) from None


def union_by_name(first: ConnectSchema, second: ConnectSchema) -> ConnectSchema | None:
    """Return a schema that parses records of both; None if a field's types conflict, or its spellings."""
    if first == second:
        return first
    if first.fields is None or second.fields is None or first.name != second.name:
        return None
    fields = dict(first.fields)
    spellings = find_spellings(list(second.fields), list(fields))
    if any(name != other for name, other in spellings.items()):
        return None
    for name, other in second.fields.items():
        both = union_by_name(fields[name], other) if name in fields else other
        if both is None:
            return None
        fields[name] = both
    return replace(first, fields=fields)


@cache
def _leaf_types() -> dict[str, DataType]:
    """Return Connect's types without children."""
    from pyspark.sql import types as T

    return {
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


def _shorten(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else text[:200] + "…"
