"""Partition columns of Delta tables, and types and values that Delta cannot store in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError
from headrace.sdk.columns import any_of, fold_name, quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

#: Types whose values Delta stores as another value: Delta 3 parses times in the zone of the JVM instead of the session, and the repeated
#: hour of a zone with daylight saving time is one value; bytes are read as text.
_LOSSY = ("timestamp", "binary")
#: The name of the folder of null.
_NULL = "__HIVE_DEFAULT_PARTITION__"
#: Maximum length of a folder name, in bytes.
_MAX_NAME = 255
#: Characters that Spark encodes with three characters in the name of a partition's folder.
_ENCODED = r"[\x01-\x1F\"#%'*/:=?\\\x7F{\[\]^]"


def find_partition_columns(table: str, rules: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Find the partition columns of the first rule whose glob matches the table."""
    return next((rules[rule] for rule in rules if fnmatchcase(table, rule)), ())


def check_partition_types(columns: Sequence[str], schema: StructType, where: str) -> None:
    """Raise ConfigError for a partition column whose values Delta does not read back unchanged."""
    names = set(map(fold_name, columns))
    for field in schema:
        if fold_name(field.name) in names and field.dataType.typeName() in _LOSSY:
            raise ConfigError(
                f"Delta does not read values of the type {field.dataType.simpleString()} back unchanged from partitions, and the table is "
                f"partitioned by {field.name!r}",
                where=where,
                fix="name another column under `partition.by`, such as a date; an existing table needs another `target:`",
            )


def find_unsupported_values(
    columns: Sequence[str], row: StructType, *, has_folders: bool, has_limit: bool
) -> Column | None:
    """Return a condition for rows with a partition value that the table cannot have; None if all values are possible.

    Delta reads an empty string and the name of null's folder back as null. ``has_folders``: the value is in the name of a folder;
    ``has_limit``: such a name has a maximum length.
    """
    from pyspark.sql import functions as F

    names = set(map(fold_name, columns))
    strings = [column.name for column in row if column.dataType.typeName() == "string"]
    conditions = []
    for name in (column for column in strings if fold_name(column) in names):
        text = F.col(quote_name(name))
        unsupported = text.isin("", _NULL)
        if has_folders:
            unsupported |= text.contains("\0")
        if has_folders and has_limit:
            encoded = F.regexp_replace(text, _ENCODED, "%00")
            unsupported |= F.octet_length(encoded) > _MAX_NAME - len(name.encode()) - 1
        conditions.append(F.coalesce(unsupported, F.lit(False)))
    return any_of(conditions) if conditions else None
