"""How new Iceberg tables are partitioned: ``days(made)``, ``bucket(16, id)``, ``country``, as Spark's ``PARTITIONED BY`` has it."""

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
_OF_TIME = ("years", "months", "days", "hours")


@dataclass(frozen=True)
class PartitionField:
    """A column, and what of its values makes the partition."""

    column: str
    transform: str = "identity"
    buckets: int | None = None

    @classmethod
    def parse(cls, text: str) -> PartitionField:
        """ValueError for what is no partition field."""
        parts = _FIELD.fullmatch(text)
        if parts:
            transform, number, column, closed = parts.groups()
            if not transform and not closed:
                return cls(column)
            if closed and transform in _OF_TIME and not number:
                return cls(column, transform)
            if closed and transform == "bucket" and int(number or 0) > 0:
                return cls(column, transform, int(number))
        forms = ", ".join(f"{name}(column)" for name in _OF_TIME)
        raise ValueError(f"{text!r} is no partition field; there are column, {forms} and bucket(number, column)")

    def spark(self) -> Column:
        """As a writer takes it."""
        from pyspark.sql import functions as F

        # The writer parses the name of a column once more, and has quoted it for that if it has a dot.
        column = F.col(quote_name(self.column if "." in self.column else quote_name(self.column)))
        transforms = getattr(F, "partitioning", F)  # where Spark 4 has them
        transform: Callable[..., Column] = getattr(transforms, self.transform, lambda identity: identity)
        return transform(self.buckets, column) if self.buckets else transform(column)


def fields_of(table: str, rules: Mapping[str, Sequence[str]]) -> list[PartitionField]:
    """The partition fields of the first rule whose glob matches the table."""
    return next(([PartitionField.parse(f) for f in rules[rule]] for rule in rules if fnmatchcase(table, rule)), [])
