"""Partition fields of new Iceberg tables, as in Spark's ``PARTITIONED BY``: ``days(made)``, ``bucket(16, id)``, ``country``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING
from urllib.parse import quote_plus

from headrace.sdk.columns import any_of, fold_name, quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

_FIELD = re.compile(r"\s*(?:(\w+)\s*\(\s*(?:(\d+)\s*,\s*)?)?([^(),]*[^(),\s])\s*(\))?\s*")
_TIME_TRANSFORMS = ("years", "months", "days", "hours")
#: Maximum length of a folder name, in bytes.
_MAX_NAME = 255


@dataclass(frozen=True)
class PartitionField:
    """Column and the transform that derives partition values from it."""

    column: str
    transform: str = "identity"
    buckets: int | None = None

    @classmethod
    def parse(cls, text: str) -> PartitionField:
        """Parse a partition field; ValueError for an invalid one."""
        parts = _FIELD.fullmatch(text)
        if parts:
            transform, number, column, closed = parts.groups()
            if not transform and not closed:
                return cls(column)
            if closed and transform in _TIME_TRANSFORMS and not number:
                return cls(column, transform)
            if closed and transform == "bucket" and int(number or 0) > 0:
                return cls(column, transform, int(number))
        forms = ", ".join(f"{name}(column)" for name in _TIME_TRANSFORMS)
        raise ValueError(f"{text!r} is not a partition field; use column, {forms} or bucket(number, column)")

    def to_column(self) -> Column:
        """Build the column for Spark's ``partitionedBy``."""
        from pyspark.sql import functions as F

        # The writer parses the column's name a second time, and needs quotes inside if it has a dot.
        column = F.col(quote_name(self.column if "." in self.column else quote_name(self.column)))
        transforms = getattr(F, "partitioning", F)  # the module of Spark 4
        transform: Callable[..., Column] = getattr(transforms, self.transform, lambda identity: identity)
        return transform(self.buckets, column) if self.buckets else transform(column)


def find_partition_fields(table: str, rules: Mapping[str, Sequence[str]]) -> list[PartitionField]:
    """Find the partition fields of the first rule whose glob matches the table."""
    return next(([PartitionField.parse(f) for f in rules[rule]] for rule in rules if fnmatchcase(table, rule)), [])


def find_long_values(columns: Sequence[str], row: StructType) -> Column | None:
    """Return a condition for rows with a value of partition ``columns`` that is too long for a folder name; None if no value can be.

    Iceberg writes a file into the folder ``column=value``, both URL-encoded.
    """
    from pyspark.sql import functions as F

    names = set(map(fold_name, columns))
    strings = [column.name for column in row if column.dataType.typeName() == "string"]
    conditions = []
    for name in (column for column in strings if fold_name(column) in names):
        text, limit = F.col(quote_name(name)), _MAX_NAME - len(quote_plus(name)) - 1
        # A byte has up to three characters. Few values are so long that the exact length matters.
        is_long = F.when(3 * F.octet_length(text) > limit, F.octet_length(F.url_encode(text)) > limit)
        conditions.append(F.coalesce(is_long, F.lit(False)))
    return any_of(conditions) if conditions else None
