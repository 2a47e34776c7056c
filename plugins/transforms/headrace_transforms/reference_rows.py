"""Rows of reference data, one per key, as ``lookup`` joins them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Literal

from headrace.sdk import DataError
from headrace.sdk.columns import match_names, quote_name
from headrace.sdk.options import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DuplicateKey = Literal["error", "first", "last"]

#: Struct of the looked-up columns; with periods an array of structs of these columns and the bounds, in the order of their begin.
FOUND = "found"
VALUES, BEGIN, END = "values", "begin", "end"
_ORDER, _COUNT, _GENERATION = "order", "count", "generation"
_generations = count()


def name_key(number: int) -> str:
    """Return the column of a key column."""
    return f"key{number}"


@dataclass(frozen=True)
class ReferenceShape:
    """Columns of the reference data, which rows are kept, and how many there may be."""

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    where: str
    duplicate_key: DuplicateKey = "error"
    order: tuple[str, ...] = ()
    #: Columns with the begin and the end of the period of a row.
    begin: str | None = None
    end: str | None = None
    max_rows: int = 1_000_000
    max_bytes: int = 100 * 1024 * 1024

    @property
    def key_names(self) -> list[str]:
        return [name_key(number) for number in range(len(self.keys))]

    def check_columns(self, frame: DataFrame) -> None:
        """Raise DataError for a column that the reference data lacks."""
        wanted = [*self.keys, *self.columns, *self.order, *(name for name in (self.begin, self.end) if name)]
        found = match_names(frame.sparkSession, dict.fromkeys(wanted), frame.columns).values()
        if missing := next((name for name in wanted if name not in found), None):
            fix = did_you_mean(missing, frame.columns)
            raise DataError(f"the reference data has no column {missing!r}", where=self.where, fix=fix)

    def load(self, frame: DataFrame) -> DataFrame:
        """Return the rows by key, in Spark's cache. DataError for a key with several rows, and for too many rows."""
        from pyspark.sql import functions as F

        # Spark replaces a plan that equals the plan of cached data, also if the files have changed.
        generation = F.lit(next(_generations)).alias(_GENERATION)
        rows = self._group(self._select(frame)).select("*", generation).persist()
        try:
            self._check(rows)
        except BaseException:
            rows.unpersist()
            raise
        return rows

    def _select(self, frame: DataFrame) -> DataFrame:
        """Return the columns that are needed, without rows that no key finds."""
        from pyspark.sql import functions as F

        def take(names: Sequence[str]) -> list[Column]:
            return [F.col(quote_name(name)).alias(name) for name in names]

        keys = [F.col(quote_name(name)).alias(alias) for name, alias in zip(self.keys, self.key_names, strict=True)]
        # Without the values, it would be random which of two rows with the same order is kept.
        order = F.struct(*take(self.order), F.to_json(F.struct(*take(self.columns))).alias(VALUES))
        bounds = {BEGIN: self.begin, END: self.end}
        periods = [F.col(quote_name(name)).alias(bound) for bound, name in bounds.items() if name]
        rows = frame.select(*keys, F.struct(*take(self.columns)).alias(VALUES), order.alias(_ORDER), *periods)
        return rows.dropna(subset=self.key_names).limit(self.max_rows + 1)

    def _group(self, rows: DataFrame) -> DataFrame:
        """Return one row per key, with the number of rows that have the same key (and the same begin)."""
        from pyspark.sql import functions as F

        picks = {"error": F.first(VALUES), "first": F.min_by(VALUES, _ORDER), "last": F.max_by(VALUES, _ORDER)}
        ends = {"error": F.first(END), "first": F.min_by(END, _ORDER), "last": F.max_by(END, _ORDER)}
        counted, values = F.count("*").alias(_COUNT), picks[self.duplicate_key].alias(VALUES)
        if self.begin is None:
            grouped = rows.groupBy(*self.key_names).agg(counted, values)
            return grouped.withColumnRenamed(VALUES, FOUND)
        end = [ends[self.duplicate_key].alias(END)] if self.end else []
        periods = rows.groupBy(*self.key_names, BEGIN).agg(counted, values, *end)
        period = F.struct(BEGIN, VALUES, *([END] if self.end else []))
        history = F.array_sort(F.collect_list(period), _compare_begin).alias(FOUND)
        return periods.groupBy(*self.key_names).agg(F.max(_COUNT).alias(_COUNT), history)

    def _check(self, rows: DataFrame) -> None:
        from pyspark.sql import functions as F

        size = F.sum(F.octet_length(F.to_json(F.struct(*self.key_names, FOUND))))
        number = F.sum(_COUNT if self.begin is None else F.size(FOUND))
        checked = rows.agg(number, size, F.max(_COUNT)).first()
        assert checked is not None, "an aggregate without a key has one row"
        found, size_found, most = checked
        limits = {"max.rows": (found, self.max_rows, "rows"), "max.bytes": (size_found, self.max_bytes, "bytes")}
        for option, (have, limit, unit) in limits.items():
            if (have or 0) > limit:
                raise DataError(
                    f"the reference data has more than {limit} {unit}, and the driver and each executor hold all of it",
                    where=self.where,
                    fix=f"select fewer rows with a view or a query; or raise `{option}`, and the memory of the driver",
                )
        if self.duplicate_key == "error" and (most or 0) > 1:
            raise self._describe_duplicate(most)

    def _describe_duplicate(self, most: int) -> DataError:
        # The values of keys may be personal data, which the tables mask.
        names = ", ".join(filter(None, (*self.keys, self.begin)))
        return DataError(
            f"the reference data has up to {most} rows with the same {names}",
            where=self.where,
            fix=f"search for them with GROUP BY {names} HAVING count(*) > 1, and remove all but one; or choose one with "
            "`duplicate.key: last` and `order.by`",
        )


def _compare_begin(one: Column, other: Column) -> Column:
    """Compare two periods of a key by their begin, which differs. A period without a begin is the first one."""
    from pyspark.sql import functions as F

    is_before = one[BEGIN].isNull() | F.coalesce(one[BEGIN] < other[BEGIN], F.lit(False))
    return F.when(is_before, F.lit(-1)).otherwise(F.lit(1))
