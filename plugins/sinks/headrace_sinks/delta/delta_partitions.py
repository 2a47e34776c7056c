"""Partition columns of new Delta tables, and values that Delta cannot store in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from headrace.sdk.columns import any_of, quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

#: Maximum length of a folder name, in bytes.
_MAX_NAME = 255
#: Characters that Spark encodes with three characters in the name of a partition's folder.
_ENCODED = r"[\x01-\x1F\"#%'*/:=?\\\x7F{\[\]^]"


def find_partition_columns(table: str, rules: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Find the partition columns of the first rule whose glob matches the table."""
    return next((rules[rule] for rule in rules if fnmatchcase(table, rule)), ())


def find_unsupported_values(columns: Sequence[str], row: StructType, *, has_folders: bool) -> Column | None:
    """Return a condition for rows with a partition value that the table cannot have; None if all values are possible.

    Delta reads an empty string back as null. ``has_folders``: the value is in the name of a folder, which has a maximum length.
    """
    from pyspark.sql import functions as F

    strings = {column.name for column in row if column.dataType.typeName() == "string"}
    conditions = []
    for name in (column for column in columns if column in strings):
        text = F.col(quote_name(name))
        unsupported = text == F.lit("")
        if has_folders:
            encoded = F.regexp_replace(text, _ENCODED, "%00")
            unsupported |= F.octet_length(encoded) > _MAX_NAME - len(name.encode()) - 1
        conditions.append(F.coalesce(unsupported, F.lit(False)))
    return any_of(conditions) if conditions else None
