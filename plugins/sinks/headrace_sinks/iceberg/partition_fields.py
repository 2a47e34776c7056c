"""Partition fields of new Iceberg tables, as in Spark's ``PARTITIONED BY``: ``days(made)``, ``bucket(16, id)``, ``country``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from headrace.sdk.columns import quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column

_FIELD = re.compile(r"\s*(?:(\w+)\s*\(\s*(?:(\d+)\s*,\s*)?)?([^(),]*[^(),\s])\s*(\))?\s*")
_TIME_TRANSFORMS = ("years", "months", "days", "hours")


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
