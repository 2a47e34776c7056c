"""Names of fields in JSON without schemas that no column can have, and the records that have them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.contracts.changes import PREFIX

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import DataType, StructType

#: New columns that a batch may bring to a topic that is known. More are no columns, but names that damage made.
MOST = 200
#: A name that is written with an escape, other than for a quote or a backslash: a converter writes none, and a pattern of
#: names does not find it. Both quotes are those of a name: one inside a text has a backslash before it.
_ESCAPED = r'(?<!\\)"[^"\\]*\\[^"\\][^"]*(?<!\\)"\s*:'


def nameable(
    found: StructType, known: StructType | None, frequency: Callable[[str], int]
) -> tuple[StructType, frozenset[str]]:
    """A batch's type without the fields that cannot be columns, and the names of these.

    Those are headrace's own names, blank ones, and those that differ from another by case alone, for Spark
    could not tell one from the other. What is ``known`` stays; of two that are new, the one with the higher ``frequency``.
    """
    walk = _Walk(frequency, grows=True)
    kind = walk.of(found, known)
    if known is not None and walk.new > MOST:
        walk = _Walk(frequency, grows=False)
        kind = walk.of(found, known)
    return kind, frozenset(walk.dropped)  # type: ignore[return-value]


@contextmanager
def told_apart(spark: SparkSession) -> Iterator[None]:
    """While Spark infers types: else it takes names that differ by case alone for one, and loses the values of the other."""
    name = "spark.sql.caseSensitive"
    before = spark.conf.get(name)
    spark.conf.set(name, "true")
    spark.sparkContext.setLocalProperty(name, "true")  # which the tasks look at
    try:
        yield
    finally:
        spark.sparkContext.setLocalProperty(name, None)  # type: ignore[arg-type]
        spark.conf.set(name, before or "false")


def having(text: Column, names: Collection[str]) -> Column:
    """Whether a record's text has a field of one of the names, or without a name, of which Spark says nothing."""
    unnamed = text.contains('"":')
    if not names:
        return unnamed
    either = "|".join(re.escape(json.dumps(name, ensure_ascii=False)[1:-1]) for name in sorted(names))
    return unnamed | text.rlike(rf'(?<!\\)"({either})"\s*:') | text.rlike(_ESCAPED)


class _Walk:
    def __init__(self, frequency: Callable[[str], int], *, grows: bool) -> None:
        self._frequency, self._grows = frequency, grows
        self.dropped: set[str] = set()
        self.new = 0

    def of(self, found: DataType, known: DataType | None) -> DataType:
        from pyspark.sql import types as T

        if isinstance(found, T.ArrayType):
            inner = known.elementType if isinstance(known, T.ArrayType) else None
            return T.ArrayType(self.of(found.elementType, inner), found.containsNull)
        if not isinstance(found, T.StructType):
            return found
        have = {field.name: field.dataType for field in known} if isinstance(known, T.StructType) else {}
        names = {name.lower(): name for name in have}
        for field in found:
            if self._can_be_a_column(field.name):
                other = names.setdefault(field.name.lower(), field.name)
                if other not in have and self._frequency(field.name) > self._frequency(other):
                    names[field.name.lower()] = field.name
        kept = [field for field in found if names.get(field.name.lower()) == field.name]
        if not self._grows:
            kept = [field for field in kept if field.name in have]
        self.new += sum(field.name not in have for field in kept)
        self.dropped.update(set(found.names) - {field.name for field in kept})
        return T.StructType([T.StructField(f.name, self.of(f.dataType, have.get(f.name)), f.nullable) for f in kept])

    @staticmethod
    def _can_be_a_column(name: str) -> bool:
        return not name.isspace() and not name.lower().startswith(PREFIX)
