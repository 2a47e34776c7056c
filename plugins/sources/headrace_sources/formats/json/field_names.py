"""Field names in JSON without schemas that are not valid column names, and the records that contain them."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.sdk import DataError
from headrace.sdk.changes import PREFIX
from headrace.sdk.columns import fold_name
from headrace_sources.formats.json.map_keys import remove_maps
from headrace_sources.limits import FIRST_COLUMNS, LISTED_NAMES, NAME_CHARACTERS, NEW_COLUMNS, SCHEMA_COLUMNS

#: Path of a field, outermost name first. `ELEMENT` precedes the fields of an array's elements.
Path = tuple[str, ...]

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import DataType, StructType

ELEMENT = "[*]"
#: Fields of the keys of Debezium's schema changes and heartbeats, which are alone in their key.
_METADATA_KEYS = ("databaseName", "serverName")
#: A name with an escape other than `\"` or `\\`. Converters do not write such names, and the pattern of dropped names does not
#: match them. Neither quote of the name follows a backslash, as a quote inside a string would.
_ESCAPED = r'(?<!\\)"[^"\\]*\\[^"\\][^"]*(?<!\\)"\s*:'
#: A name with an escaped half of a surrogate pair. Spark replaces the half with a question mark.
_HALF_PAIR = (
    r"(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r'[^"]{0,1000}(?<!\\)"\s*:'
)
#: Name of a field that has a value.
_NAME = r'(?<!\\)"([^"\\]*)"\s*:(?!\s*(?:null|\[\s*\]|\{\s*\}))'


@dataclass(frozen=True)
class DroppedFields:
    """Fields of a batch whose names are not valid column names."""

    #: Names that no column has at any depth. A record with such a name is found in the string without parsing it.
    names: frozenset[str] = frozenset()
    #: Paths of fields whose names are valid column names at other paths.
    paths: frozenset[Path] = frozenset()
    #: Names of the columns at all depths, if too many names were dropped to list them.
    columns: frozenset[str] | None = None
    #: Names of maps, whose keys are not names of columns.
    maps: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.names or self.paths) or self.columns is not None


def drop_bad_names(
    inferred: StructType, known: StructType | None, frequency: Callable[[str], int]
) -> tuple[StructType, DroppedFields]:
    """Return a batch's type without the fields that cannot be columns, and those fields.

    Such fields have headrace's own names, blank or very long names, or names that Spark does not distinguish from another name, for
    example because they differ only by case. ``known`` fields are kept. Of two new fields, the one with the higher ``frequency`` is kept.

    If a batch has too many new fields, a known topic gets none of them, and a new topic gets only the frequent fields.
    """
    schema, dropped, new = _filter_names(inferred, known, frequency, grows=True)
    if new > (FIRST_COLUMNS if known is None else NEW_COLUMNS) or _count(schema) > SCHEMA_COLUMNS:
        fields = known
        if fields is None:
            most = max(map(frequency, _names(inferred)), default=0)
            fields = _keep_frequent(inferred, lambda name: 2 * frequency(name) >= most)  # type: ignore[assignment]
        schema, dropped, _ = _filter_names(inferred, fields, frequency, grows=False)
    if _count(schema) > SCHEMA_COLUMNS:
        raise DataError(
            f"the records have more than {SCHEMA_COLUMNS:,} fields, which no table can hold",
            fix="exclude the topic, or remove the fields at the source",
        )
    return schema, dropped


def keep_distinct_names(known: StructType) -> StructType:
    """Return a stored type without fields that Spark does not distinguish from an earlier field."""
    return _keep_distinct(known)  # type: ignore[return-value]


def count_names(texts: Sequence[str]) -> Callable[..., int]:
    """Return the function that returns the number of records that have all of the given names."""
    records = [frozenset(re.findall(_NAME, text)) for text in texts]
    single = Counter(name for names in records for name in names)

    def count(*names: str) -> int:
        return single[names[0]] if len(names) == 1 else sum(names_of.issuperset(names) for names_of in records)

    return count


def drop_bad_key_names(
    inferred: StructType, known: StructType | None, frequency: Callable[..., int]
) -> tuple[StructType, DroppedFields]:
    """Return the type of a record key without dropped fields, and those fields. A known key gets no new fields.

    A new field would be null in all other keys. In a first batch, the key has the fields that occur in at least half as many
    records as the most frequent field. ``frequency`` returns the number of records with all of the names.
    """
    from pyspark.sql.types import StructType

    if known is None:
        metadata = [
            name
            for name in set(_METADATA_KEYS) & set(inferred.names)
            if not any(frequency(name, other) for other in set(inferred.names) - {name})
        ]
        rows = [field for field in inferred if field.name not in metadata] or list(inferred)
        most = max((frequency(field.name) for field in rows), default=0)
        known = StructType([field for field in rows if 2 * frequency(field.name) >= most])
    schema, dropped, _ = _filter_names(inferred, known, frequency, grows=False)
    return schema, dropped


def _filter_names(
    inferred: StructType, known: StructType | None, frequency: Callable[[str], int], *, grows: bool
) -> tuple[StructType, DroppedFields, int]:
    """Return the type without bad names, the dropped fields, and the number of new columns."""
    names = _NameFilter(frequency, grows=grows)
    schema = names.apply(inferred, known)
    # A path in Spark cannot contain a quote.
    elsewhere = {name for name in _names(schema) if "'" not in name}
    paths = frozenset(path for path in names.dropped if path[-1] in elsewhere)
    dropped = DroppedFields(frozenset(path[-1] for path in names.dropped - paths), paths)
    if len(names.dropped) > LISTED_NAMES or any(len(path[-1]) > NAME_CHARACTERS for path in names.dropped):
        dropped = DroppedFields(columns=frozenset(_names(schema)))
    return schema, dropped, names.new  # type: ignore[return-value]


_CASE_SENSITIVE = "spark.sql.caseSensitive"
#: Session → its original value, and the number of current users.
_CHANGED: dict[SparkSession, tuple[str | None, int]] = {}
_LOCK = threading.Lock()


@contextmanager
def case_sensitive_names(spark: SparkSession) -> Iterator[None]:
    """Make names case sensitive while Spark infers types. Otherwise it merges names that differ by case and loses values."""
    spark.sparkContext.setLocalProperty(_CASE_SENSITIVE, "true")  # the tasks read it
    with _LOCK:  # topics are read in parallel, and the last one restores the original value
        before, users = _CHANGED.get(spark, (spark.conf.get(_CASE_SENSITIVE), 0))
        _CHANGED[spark] = before, users + 1
        spark.conf.set(_CASE_SENSITIVE, "true")
    try:
        yield
    finally:
        spark.sparkContext.setLocalProperty(_CASE_SENSITIVE, None)  # type: ignore[arg-type]
        with _LOCK:
            before, users = _CHANGED.pop(spark)
            if users > 1:
                _CHANGED[spark] = before, users - 1
            else:
                spark.conf.set(_CASE_SENSITIVE, before or "false")


def has_dropped_field(text: Column, dropped: DroppedFields) -> Column:
    """Return whether a record has a dropped field, or a field whose name Spark does not report."""
    from pyspark.sql import functions as F

    has_half_pair = has_half_pair_name(text)  # A key of a map cannot have one either.
    text = remove_maps(text, dropped.maps)
    is_bad = text.contains('"":') | has_half_pair
    columns = dropped.columns
    if columns is not None:
        names = F.regexp_extract_all(text, F.lit(_NAME), F.lit(1))
        is_bad |= F.exists(names, lambda name: ~name.isin(sorted(columns)))
    for path in sorted(dropped.paths):
        is_bad |= _at(text, path).isNotNull()
    if dropped.names:
        either = "|".join(re.escape(json.dumps(name, ensure_ascii=False)[1:-1]) for name in sorted(dropped.names))
        is_bad |= text.rlike(rf'(?<!\\)"({either})"\s*:')
    return is_bad | text.rlike(_ESCAPED) if dropped else is_bad


def has_half_pair_name(text: Column) -> Column:
    """Return whether a name in a record has half of a surrogate pair, which no column name can have."""
    return (text.contains(r"\ud") | text.contains(r"\uD")) & text.rlike(_HALF_PAIR)


def _count(data_type: DataType) -> int:
    return sum(1 for _ in _names(data_type))


def _keep_frequent(data_type: DataType, is_frequent: Callable[[str], bool]) -> DataType:
    """Return the type with only the frequent names, at all depths."""
    from pyspark.sql import types as T

    if isinstance(data_type, T.ArrayType):
        return T.ArrayType(_keep_frequent(data_type.elementType, is_frequent), data_type.containsNull)
    if not isinstance(data_type, T.StructType):
        return data_type
    fields = [field for field in data_type if is_frequent(field.name)]
    return T.StructType([T.StructField(f.name, _keep_frequent(f.dataType, is_frequent), f.nullable) for f in fields])


def _keep_distinct(data_type: DataType) -> DataType:
    from pyspark.sql import types as T

    if isinstance(data_type, T.ArrayType):
        return T.ArrayType(_keep_distinct(data_type.elementType), data_type.containsNull)
    if not isinstance(data_type, T.StructType):
        return data_type
    fields: dict[str, T.StructField] = {}
    for field in data_type:
        fields.setdefault(
            fold_name(field.name), T.StructField(field.name, _keep_distinct(field.dataType), field.nullable)
        )
    return T.StructType(list(fields.values()))


def _names(data_type: DataType) -> Iterator[str]:
    """Return the names of all fields at all depths."""
    if data_type.typeName() == "array":
        yield from _names(data_type.elementType)  # type: ignore[attr-defined]
    elif data_type.typeName() == "struct":
        for field in data_type:  # type: ignore[attr-defined]
            yield field.name
            yield from _names(field.dataType)


def _has_columns(data_type: DataType) -> bool:
    """Return whether a table can store the type. It cannot store a struct without fields."""
    if data_type.typeName() == "array":
        return _has_columns(data_type.elementType)  # type: ignore[attr-defined]
    return data_type.typeName() != "struct" or bool(data_type.names)  # type: ignore[attr-defined]


def _at(text: Column, path: Path) -> Column:
    from pyspark.sql import functions as F

    return F.get_json_object(text, "$" + "".join(name if name == ELEMENT else f"['{name}']" for name in path))


class _NameFilter:
    """Filter of a type that removes and collects the fields that cannot be columns."""

    def __init__(self, frequency: Callable[[str], int], *, grows: bool) -> None:
        self._frequency, self._grows = frequency, grows
        self.dropped: set[Path] = set()
        self.new = 0

    def apply(self, inferred: DataType, known: DataType | None, path: Path = ()) -> DataType:
        from pyspark.sql import types as T

        if isinstance(inferred, T.ArrayType):
            inner = known.elementType if isinstance(known, T.ArrayType) else None
            return T.ArrayType(self.apply(inferred.elementType, inner, (*path, ELEMENT)), inferred.containsNull)
        if not isinstance(inferred, T.StructType):
            return inferred
        have = {field.name: field.dataType for field in known} if isinstance(known, T.StructType) else {}
        names = {fold_name(name): name for name in have}
        for field in inferred:
            if self._can_be_a_column(field.name):
                other = names.setdefault(fold_name(field.name), field.name)
                if other not in have and self._frequency(field.name) > self._frequency(other):
                    names[fold_name(field.name)] = field.name
        kept = [field for field in inferred if names.get(fold_name(field.name)) == field.name]
        if not self._grows:
            kept = [field for field in kept if field.name in have]
        self.new += sum(field.name not in have for field in kept)
        self.dropped.update((*path, name) for name in set(inferred.names) - {field.name for field in kept})
        types = [self.apply(field.dataType, have.get(field.name), (*path, field.name)) for field in kept]
        return T.StructType(
            [
                T.StructField(f.name, type_, f.nullable)
                for f, type_ in zip(kept, types, strict=True)
                if _has_columns(type_)
            ]
        )

    @staticmethod
    def _can_be_a_column(name: str) -> bool:
        return len(name) <= NAME_CHARACTERS and not name.isspace() and not name.lower().startswith(PREFIX)
