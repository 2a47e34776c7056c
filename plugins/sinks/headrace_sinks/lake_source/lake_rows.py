"""Rows of ranges of versions as events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from headrace.sdk import DataError, Events, NoSuchTableError, Table, events as E
from headrace.sdk.columns import quote_name
from headrace.sdk.positions import sortable
from headrace.sdk.schemas import project
from headrace_sinks.lake_source.lake_dialect import DETAILS, ROW
from headrace_sinks.lake_source.lake_tables import LakeTables
from headrace_sinks.lake_source.row_changes import COPY, GONE, as_comparable, compare_rows
from headrace_sinks.lake_source.version_range import VersionRange

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: Operations of changes: a row of the whole table, an added row, a row of a newer version, and a row that it lacks.
_READ, _ADD, _UPSERT, _DELETE = "r", "c", "u", "d"
#: Returns the rows of a range with the columns of a struct, and their operations.
_ReadRows = Callable[["SparkSession", "StructType"], "tuple[DataFrame, Column]"]


@dataclass(frozen=True)
class _Step:
    """Range with the function that reads its rows."""

    order: int
    read: _ReadRows


class LakeRows:
    """Reader of ranges of versions."""

    def __init__(self, tables: LakeTables, *, reloads: bool) -> None:
        self._tables, self._reloads = tables, reloads

    def open(self, spark: SparkSession, name: str, ranges: Sequence[VersionRange]) -> Events:
        """Return the events of ranges of a table. DataError for a version that has expired."""
        from pyspark.sql import types as T

        table, order = Table(name), ranges[-1].order
        readable = [found for planned in ranges if (found := self._find_readable(spark, table, planned)) is not None]
        is_reloaded = len(readable) < len(ranges)
        if is_reloaded:
            self._check_reload(spark, table, ranges)
        newest = None if is_reloaded else readable[-1].upto
        everything = [_Step(order, partial(self._read_all, table, None))]
        steps = everything if is_reloaded else [_Step(p.order, self._plan_read(spark, table, p)) for p in readable]
        row = self._tables.read(spark, table, newest).schema
        details = T.StructType([T.StructField("op", T.StringType()), T.StructField("committed_ms", T.LongType())])
        schema = T.StructType([T.StructField(ROW, row), T.StructField(DETAILS, details)])
        key = list(self._tables.find_key(spark, table))
        # A part of the key, such as one without a nested field, does not identify a row.
        key = key if set(key) <= {*row.names} else []

        def load(steps: Sequence[_Step], session: SparkSession, wanted: StructType) -> DataFrame:
            frames = [_to_events(*step.read(session, row), row, step.order, key, wanted) for step in steps]
            return reduce(lambda a, b: a.unionByName(b), frames)

        current = partial(load, everything) if is_reloaded else None
        key_schema = T.StructType([row[name] for name in key]) if key else None
        return Events(name, schema, partial(load, steps), key_schema, load_current=current)

    def _find_readable(self, spark: SparkSession, table: Table, planned: VersionRange) -> VersionRange | None:
        """Return the range with readable versions of the same rows; None if one has expired."""
        find = partial(self._tables.find_equal, spark, table)
        after, upto = None if planned.after is None else find(planned.after), find(planned.upto)
        if upto is None or (after is None) is not (planned.after is None):
            return None
        return VersionRange(after, upto, planned.order)

    def _check_reload(self, spark: SparkSession, table: Table, ranges: Sequence[VersionRange]) -> None:
        """Raise DataError unless the table is read anew when a version has expired."""
        if not self._tables.has_table(spark, table):
            fix = "create the table again, or leave it out of the options of the source"
            raise NoSuchTableError("the table no longer exists", where=f"topic {table.name}", fix=fix)
        if self._reloads:
            return
        after = ranges[0].after
        raise DataError(
            f"the version {after or ranges[-1].upto} has expired: the changes after it can no longer be found",
            where=f"{self._tables.label}, table {table.name}",
            fix="set `on.expired.version: reload`, which reads all rows of the table and removes those that it no longer has; "
            "then keep versions of the source table for longer than the pipeline may stop (`history` under `maintenance:` of the "
            "pipeline that writes it)",
        )

    def _plan_read(self, spark: SparkSession, table: Table, planned: VersionRange) -> _ReadRows:
        if planned.after is None:
            return partial(self._read_all, table, planned.upto)
        if self._tables.has_only_appends(spark, table, planned.after, planned.upto):
            return partial(self._read_appended, table, planned.after, planned.upto)
        return partial(self._read_changed, table, planned.after, planned.upto)

    def _read_all(
        self, table: Table, version: str | None, session: SparkSession, row: StructType
    ) -> tuple[DataFrame, Column]:
        from pyspark.sql import functions as F

        return _number_copies(project(self._tables.read(session, table, version), row)), F.lit(_READ)

    def _read_appended(
        self, table: Table, after: str, upto: str, session: SparkSession, row: StructType
    ) -> tuple[DataFrame, Column]:
        from pyspark.sql import functions as F

        return _number_copies(project(self._tables.read_appended(session, table, after, upto), row)), F.lit(_ADD)

    def _read_changed(
        self, table: Table, after: str, upto: str, session: SparkSession, row: StructType
    ) -> tuple[DataFrame, Column]:
        from pyspark.sql import functions as F

        versions = [self._tables.read(session, table, version) for version in (after, upto)]
        return compare_rows(versions[0], versions[1], row), F.when(F.col(GONE), _DELETE).otherwise(_UPSERT)


def _number_copies(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return frame.withColumn(COPY, F.monotonically_increasing_id())


def _to_events(
    frame: DataFrame, op: Column, row: StructType, order: int, key: Sequence[str], wanted: StructType
) -> DataFrame:
    """Return rows as events."""
    from pyspark.sql import functions as F

    kinds: Any = wanted[ROW].dataType
    cells = {name: F.col(quote_name(name)) for name in row.names}
    value = F.struct(
        F.struct(*[cells[name] for name in kinds.names]).alias(ROW),
        F.struct(op.alias("op"), F.lit(order).cast("bigint").alias("committed_ms"))
        .cast(wanted[DETAILS].dataType)
        .alias(DETAILS),
    )
    # An update is a delete and an insert of one version. Tables of other writers may have several rows of a key.
    digest = F.xxhash64(*[as_comparable(cells[field.name], field.dataType) for field in row])
    place = F.concat(
        sortable(F.lit(order)), sortable((op != _DELETE).cast("bigint")), sortable(digest), sortable(F.col(COPY))
    )
    return frame.select(
        value.alias(E.VALUE),
        *([F.struct(*[cells[name] for name in key]).alias(E.KEY)] if key else []),
        F.lit(None).cast("string").alias(E.ERROR),
        F.lit(None).cast("int").alias(E.PARTITION),
        F.lit(None).cast("bigint").alias(E.OFFSET),
        F.lit(None).cast("string").alias(E.FILE),
        place.alias(E.PLACE),
        F.to_json(F.struct(*cells.values())).cast("binary").alias(E.RAW),
    )
