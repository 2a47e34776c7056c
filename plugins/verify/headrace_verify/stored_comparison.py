"""Comparison of a table with a stored one, in Spark alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from headrace_verify.compared_table import ComparedTable, write_bucket
from headrace_verify.comparison import MAX_KEYS, Comparison, Difference

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

#: Rows of a key in the other table, and in the table.
_WANTED, _STORED = "wanted", "stored"
#: Kind of a difference → its condition, in the order in which they apply. A further row of a key is missing or extra.
_KINDS = {"missing": f"{_WANTED} > {_STORED}", "extra": f"{_WANTED} < {_STORED}"}


@dataclass(frozen=True)
class StoredComparison:
    """Comparison of a table with another one. Rows are matched by the texts of their keys.

    Both tables are read in one plan, which sums the digests of each key and column: those of the other table are added, those of the table
    are subtracted. Only counts leave Spark, and the keys that differ.
    """

    other: DataFrame
    stored: DataFrame
    table: ComparedTable
    #: The buckets before this one are compared; None for all.
    limit: str | None = None

    def compare(self, *, list_keys: bool) -> Comparison:
        """Return the number of rows that differ, of each kind and column; with the first keys that differ if they are listed."""
        if not list_keys:
            return self._count()
        self._keys.persist()  # Both tables are read once: the keys are those that are counted.
        try:
            found = self._count()
            if found.is_different:
                found.differences += self._list_differences()
        finally:
            self._keys.unpersist()
        return found

    def _count(self) -> Comparison:
        names = [column.name for column in self.table.columns]
        sums = {
            "rows": _WANTED,
            "missing": f"greatest({_WANTED} - {_STORED}, 0)",
            "extra": f"greatest({_STORED} - {_WANTED}, 0)",
            "different": f"if({self._differs}, {_WANTED}, 0)",
            **{_place(n): f"if({self._differs} and {_place(n)} <> 0, {_WANTED}, 0)" for n in range(len(names))},
        }
        totals = [f"cast(coalesce(sum({sql}), 0) as bigint) as {name}" for name, sql in sums.items()]
        [row] = self._keys.selectExpr(*totals).collect()
        found = Comparison(rows=row["rows"])
        found.counts.update({kind: row[kind] for kind in ("missing", "extra", "different")})
        found.columns.update({name: rows for n, name in enumerate(names) if (rows := row[_place(n)])})
        return found

    def _list_differences(self) -> list[Difference]:
        """Return the first keys that differ, at most MAX_KEYS, sorted."""
        names = [column.name for column in self.table.columns]
        differs = " or ".join((*_KINDS.values(), self._differs))
        rows = self._keys.where(differs).orderBy(*self._key_names).limit(MAX_KEYS)
        return [self._describe(row, names) for row in rows.collect()]

    def _describe(self, row: Row, names: Sequence[str]) -> Difference:
        key = tuple(row[name] for name in self._key_names)
        if row[_WANTED] != row[_STORED]:
            return Difference(key, "missing" if row[_WANTED] > row[_STORED] else "extra")
        return Difference(key, "different", tuple(name for n, name in enumerate(names) if row[_place(n)]))

    @cached_property
    def _key_names(self) -> list[str]:
        return [f"key_{n}" for n in range(len(self.table.key))]

    @cached_property
    def _differs(self) -> str:
        sums = " or ".join(f"{_place(n)} <> 0" for n in range(len(self.table.columns)))
        return f"({_WANTED} = {_STORED} and ({sums}))"

    @cached_property
    def _keys(self) -> DataFrame:
        """A row for each key of both tables, with its number of rows and the difference of its digests."""
        other = self._digest(self.other, "source", 1)
        both = other.unionAll(self._digest(self.stored, "spark", -1))
        names = (_WANTED, _STORED, *map(_place, range(len(self.table.columns))))
        grouped = both.groupBy(*self._key_names).agg(dict.fromkeys(names, "sum"))
        return grouped.selectExpr(*self._key_names, *(f"`sum({name})` as {name}" for name in names))

    def _digest(self, frame: DataFrame, side: str, sign: int) -> DataFrame:
        """Return key and digests of each row. ``side``: attribute of a column with the SQL for the frame; ``sign``: that of the digests."""
        key = [getattr(column, side) for column in self.table.key]
        sample = "true" if self.limit is None else f"{write_bucket(key, len(self.limit))} < '{self.limit}'"
        # A digest has 56 bits, so that the sum of some digests does not overflow.
        digests = [
            f"{sign} * shiftright(xxhash64({getattr(column, side)}), 8) as {_place(n)}"
            for n, column in enumerate(self.table.columns)
        ]
        counts = (f"{int(sign > 0)} as {_WANTED}", f"{int(sign < 0)} as {_STORED}")
        texts = (f"{text} as {name}" for text, name in zip(key, self._key_names, strict=True))
        return frame.where(sample).selectExpr(*texts, *counts, *digests)


def _place(column: int) -> str:
    return f"column_{column}"
