"""Transform that adds columns of another table, looked up by a column of the row."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from headrace.sdk import Changes, Config, ConfigError, DataError, HeadraceError, Transform, changes as C, hookimpl
from headrace.sdk.changes import IMAGES
from headrace.sdk.columns import match_names, quote_name
from headrace.sdk.error_text import find_missing_file, full_text
from headrace.sdk.storage import is_under

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: Temporary columns of the join.
KEY, FOUND = "_lookup_key", "_lookup_found"
TWICE = "table_lookup: two rows have the key"


class TableLookupConfig(Config):
    """Table to read, and columns to add."""

    path: str
    """Location of the table: a file or a folder that every executor can read."""

    format: Literal["parquet", "orc", "json", "csv"] = "parquet"
    """Format of its files. The first line of a CSV file has the column names."""

    key: str
    """Key column of the table; its values must be unique."""

    column: str
    """Column of the row whose value is looked up."""

    columns: dict[str, str] = Field(min_length=1)
    """New columns → the table's columns from which they are filled."""


class TableLookup(Transform):
    """``table_lookup: {path: /tables/countries, key: code, column: country, columns: {country_name: name}}``.

    The table is read again in each batch and sent to every executor, so it should be small. Missing values are null.
    """

    name = "table_lookup"
    api_version = 1
    Config = TableLookupConfig
    config: TableLookupConfig

    @property
    def where(self) -> str:
        return f"transform table_lookup, path {self.config.path}"

    def check(self, spark: SparkSession | None = None) -> None:
        if spark is not None:
            try:
                self._load(spark)
            except Exception as error:  # noqa: BLE001 - raised by Spark or its JVM
                raise self.explain(error) or error from None

    def explain(self, error: BaseException) -> HeadraceError | None:
        if (path := find_missing_file(error)) and is_under(path, self.config.path):
            return ConfigError("no such table", where=self.where, fix="correct `path`")
        if twice := re.search(f"{TWICE} '.*'", full_text(error)):
            return DataError(twice[0], where=self.where, fix="remove the duplicate from the table")
        return None

    def reads(self) -> Collection[str]:
        return (self.config.column,)

    def apply(self, changes: Changes) -> Changes:
        from pyspark.sql import functions as F

        found = match_names(changes.frame.sparkSession, [self.config.column], changes.row_columns)
        if not found:
            return changes
        (name,) = found
        if taken := match_names(changes.frame.sparkSession, self.config.columns, changes.row_columns):
            raise DataError(
                f"the row has a column {next(iter(taken))!r}",
                where=self.where,
                fix="choose another name for the new column",
            )
        frame = changes.frame
        if not changes.envelope:
            frame = self._join(frame, F.col(quote_name(name)))
            frame = frame.withColumns({new: F.col(FOUND).getField(new) for new in self.config.columns}).drop(KEY, FOUND)
        for image in IMAGES if changes.envelope else ():
            if _has_field(frame, image, name):
                frame = self._join(frame, F.col(image).getField(name))
                frame = frame.withColumn(image, self._extend(image, F.col(FOUND))).drop(KEY, FOUND)
        if _has_field(frame, C.UNAVAILABLE, name):
            # A value that the event leaves out has not changed, and neither have the columns looked up by it.
            is_unavailable = F.struct(*[F.col(C.UNAVAILABLE).getField(name).alias(new) for new in self.config.columns])
            frame = frame.withColumn(C.UNAVAILABLE, self._extend(C.UNAVAILABLE, is_unavailable))
        return replace(changes, frame=frame)

    def _load(self, spark: SparkSession) -> DataFrame:
        table = spark.read.format(self.config.format).options(header="true").load(self.config.path)
        wanted = {self.config.key, *self.config.columns.values()}
        if lacking := wanted - set(match_names(spark, wanted, table.columns).values()):
            what = f"the table has no column {min(lacking)!r}"
            raise ConfigError(what, where=self.where, fix=f"it has {', '.join(table.columns)}")
        return table

    def _join(self, frame: DataFrame, value: Column) -> DataFrame:
        """Return all rows, each once, with the table's columns for their value."""
        from pyspark.sql import functions as F

        kind = frame.select(value).schema[0].dataType.simpleString()
        table = self._load(frame.sparkSession).withColumn(
            KEY, F.expr(f"try_cast({quote_name(self.config.key)} AS {kind})")
        )
        row = F.struct(*[F.col(quote_name(old)).alias(new) for new, old in self.config.columns.items()])
        by_key = (
            table.where(F.col(KEY).isNotNull()).groupBy(KEY).agg(F.count(KEY).alias("count"), F.first(row).alias(FOUND))
        )
        error = F.raise_error(F.concat(F.lit(f"{TWICE} '"), F.col(KEY).cast("string"), F.lit("'")))
        found = F.when(F.col("count") > 1, error).otherwise(F.col(FOUND))
        return frame.join(F.broadcast(by_key.select(KEY, found.alias(FOUND))), value == F.col(KEY), "left")

    def _extend(self, struct: str, found: Column) -> Column:
        """Return a struct with the new columns; null where the struct is null."""
        from pyspark.sql import functions as F

        column = F.col(struct)
        for new in self.config.columns:
            column = column.withField(quote_name(new), found.getField(new))
        return column


def _has_field(frame: DataFrame, struct: str, name: str) -> bool:
    return struct in frame.columns and name in getattr(frame.schema[struct].dataType, "names", ())


@hookimpl
def headrace_transforms() -> dict[str, type[Transform]]:
    """Return the transforms by the name used under ``transforms:``."""
    return {"table_lookup": TableLookup}
