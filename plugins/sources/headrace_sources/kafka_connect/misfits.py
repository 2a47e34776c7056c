"""Descriptions of the fields of a rejected record that do not fit their types, without their values.

They are computed for dead letters only, from the record itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, islice
from typing import TYPE_CHECKING, TypeVar

from headrace.sdk.changes import PREFIX
from headrace.sdk.columns import barrier, quote_name, reuse_columns
from headrace.sdk.schemas import find_spellings
from headrace_sources.kafka_connect.connect_schema import ConnectSchema
from headrace_sources.kafka_connect.connect_types import conversion_failed, convert, logical_type, wire_type
from headrace_sources.kafka_connect.json_values import parse_json
from headrace_sources.limits import DESCRIBED_FIELDS

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

_CORRUPT, _PARSED = PREFIX + "corrupt", PREFIX + "misfit"
_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
Item = TypeVar("Item")


def take_newest(schemas: Sequence[Item], tree_of: Callable[[Item], ConnectSchema]) -> Sequence[Item]:
    """Return the last schemas, as many as have at most ``DESCRIBED_FIELDS`` together, but at least one."""
    sizes = accumulate(sum(1 for _ in tree_of(schema).paths()) for schema in reversed(schemas))
    return schemas[-max(1, sum(size <= DESCRIBED_FIELDS for size in sizes)) :]


@dataclass(frozen=True)
class JsonMisfits:
    """Description of what does not fit in the JSON string of a column."""

    #: Name of the column.
    text: str
    #: Alternative schemas of the record.
    trees: tuple[ConnectSchema, ...]
    #: Type into which the record is converted.
    schema: StructType
    #: Options of Spark's JSON reader.
    options: Mapping[str, str]
    #: Whether the string is a record key.
    key: bool
    #: Fields around the record.
    root: tuple[str, ...] = ()

    def parse(self) -> list[Column]:
        """Return the columns that ``describe`` reads."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructField, StructType

        columns = []
        for tree, name in zip(self.trees, self._names, strict=True):
            data_type: DataType = wire_type(tree)
            for field in reversed(self.root):
                data_type = StructType([StructField(field, data_type)])
            record_type = StructType([*data_type, StructField(_CORRUPT, StringType())])  # type: ignore[misc]
            parsed = parse_json(F.col(self.text), record_type, {**self.options, **_OPTIONS})
            columns.append(barrier(reduce(lambda column, field: column.getField(field), self.root, parsed)).alias(name))
        return columns

    def describe(self) -> Column:
        """Return the description; null if the string is null or everything fits."""
        from pyspark.sql import functions as F

        misfit = first_misfit(self._names, self.trees, self.schema, self.text, self.key, self.root)
        if any(option.startswith("allow") and value == "true" for option, value in self.options.items()):
            return misfit  # The string may be no standard JSON.
        return F.coalesce(_describe_document(F.col(self.text), key=self.key), misfit)

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(f"{_PARSED}_{self.text}_{number}" for number in range(len(self.trees)))


def _describe_document(text: Column, *, key: bool) -> Column:
    """Return why a string is not one JSON object; null if it is one."""
    from pyspark.sql import functions as F

    what = "the record key" if key else "the record"
    is_one = F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))).eqNullSafe(F.lit(1))
    is_empty_object = text.rlike(r"^\s*\{\s*\}\s*$")
    return (
        F.when(text.isNull(), F.lit(None).cast("string"))
        .when(~is_one, F.lit(f"{what} is not valid JSON, or not a single JSON document"))
        .when(F.json_object_keys(text).isNull() & ~is_empty_object, F.lit(f"{what} is not a JSON object"))
    )


@dataclass(frozen=True)
class _Read:
    """Field of a record that was parsed with one of its schemas."""

    value: Column
    tree: ConnectSchema

    def field(self, name: str) -> _Read:
        assert self.tree.fields is not None, "the schema of a struct"
        return _Read(self.value.getField(name), self.tree.fields[name])


@reuse_columns
def first_misfit(
    parsed: tuple[str, ...],
    trees: tuple[ConnectSchema, ...],
    schema: StructType,
    text: str | None = None,
    key: bool = False,  # noqa: FBT001, FBT002 - arguments of a cached function
    root: tuple[str, ...] = (),
) -> Column:
    """Return the description of the first field that does not fit in any of the parsed structs; null if all fit.

    ``parsed``: column → its schema in ``trees``; ``text``: column with the JSON string that was parsed.
    """
    from pyspark.sql import functions as F

    reads = [_Read(F.col(name), tree.project(schema)) for name, tree in zip(parsed, trees, strict=True)]
    document = _Document(text, root, "the record key's field" if key else "the field")
    found = list(islice(document.misfits(reads, schema, ()), DESCRIBED_FIELDS))
    return F.coalesce(*found, F.lit(None).cast("string"))


@dataclass(frozen=True)
class _Document:
    """Record, and the column with its JSON; None for other encodings."""

    text: str | None
    root: tuple[str, ...]
    noun: str

    def misfits(self, reads: Sequence[_Read], into: DataType, path: tuple[str, ...]) -> Iterator[Column]:
        """Yield a column per field: its description if it does not fit, or null."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructType

        fields = reads[0].tree.fields
        if fields is None or logical_type(reads[0].tree) is not None or not isinstance(into, StructType):
            checks = [self._has_failed(read, into, path) for read in reads]
            failures = [check for check in checks if check is not None]
            if failures and len(failures) == len(checks):
                yield self._describe(reduce(lambda a, b: a & b, failures), into, path)
            return
        if path and (value := self._value(path)) is not None:
            yield self._describe(value.isNotNull() & ~F.coalesce(value, F.lit("")).startswith("{"), into, path)
        spellings = find_spellings(into.names, list(fields))
        for field in into:
            if name := spellings.get(field.name):
                yield from self.misfits([read.field(name) for read in reads], field.dataType, (*path, name))

    def _has_failed(self, read: _Read, into: DataType, path: tuple[str, ...]) -> Column | None:
        """Return whether a field cannot be parsed or converted; None if that is impossible."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructField, StructType

        failed = conversion_failed(read.value, convert(read.value, read.tree, into), read.tree)
        value = self._value(path)
        if value is None:
            return failed
        data_type = wire_type(read.tree)
        is_unparsed = read.value.isNull() & value.isNotNull()
        if data_type.typeName() in ("array", "map", "struct"):
            wrapped = StructType([StructField("v", data_type), StructField(_CORRUPT, StringType())])
            again = parse_json(F.concat(F.lit('{"v":'), value, F.lit("}")), wrapped, _OPTIONS)
            is_unparsed |= value.isNotNull() & again.getField(_CORRUPT).isNotNull()
        return is_unparsed if failed is None else is_unparsed | F.coalesce(failed, F.lit(False))

    def _value(self, path: tuple[str, ...]) -> Column | None:
        """Return the JSON of a field; None for other encodings, and for names that Spark's paths cannot contain."""
        from pyspark.sql import functions as F

        names = (*self.root, *path)
        if self.text is None or any(name == "*" or not {"'", "?"}.isdisjoint(name) for name in names):
            return None
        return F.get_json_object(self.text, "$" + "".join(f"['{name}']" for name in names))

    def _describe(self, condition: Column, into: DataType, path: tuple[str, ...]) -> Column:
        from pyspark.sql import functions as F

        name = quote_name(".".join(path))
        return F.when(condition, F.lit(f"{self.noun} {name} does not fit its type {_name_type(into)}"))


def _name_type(data_type: DataType) -> str:
    """Return a type's name, without the fields of structs."""
    kind = data_type.typeName()
    if kind == "struct":
        return kind
    if kind == "array":
        return f"array<{_name_type(data_type.elementType)}>"  # type: ignore[attr-defined]
    if kind == "map":
        return f"map<string,{_name_type(data_type.valueType)}>"  # type: ignore[attr-defined]
    return data_type.simpleString()
