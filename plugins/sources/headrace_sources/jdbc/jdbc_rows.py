"""Rows of the source ``jdbc`` as events. Spark's JDBC reader reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from headrace.sdk import ConfigError, Events, RejectReason, RetriableError, events as E
from headrace.sdk.changes import PREFIX
from headrace.sdk.columns import quote_name
from headrace.sdk.positions import sortable, sortable_signed
from headrace_sources.dialects.jdbc import DETAILS, ROW
from headrace_sources.jdbc.column_sql import name_nested, select_columns
from headrace_sources.jdbc.cursor_planner import TableRange
from headrace_sources.jdbc.database_kinds import DatabaseKind
from headrace_sources.jdbc.jdbc_config import JdbcConfig
from headrace_sources.jdbc.jdbc_database import DatabaseColumn, JdbcDatabase
from headrace_sources.jdbc.jdbc_errors import explain_unknown_type
from headrace_sources.jdbc.jdbc_tables import JdbcTable, check_names
from headrace_sources.jdbc.text_values import choose_type, count_dimensions, parse_text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

#: Columns of a row's values that their types do not hold, or an empty text; and of the row as JSON, as the database writes it.
_LOST, _SOURCE = PREFIX + "lost", PREFIX + "source"
#: Most digits of numbers that become INT and BIGINT.
_INT_DIGITS, _LONG_DIGITS = 9, 18
#: Highest number by which Spark divides ranges.
_MOST = (1 << 63) - 1
#: Texts of a deleted row's mark.
_TRUE = ("true", "t", "yes", "y", "1")


@dataclass(frozen=True)
class RowColumns:
    """Columns of a table at one moment."""

    #: Columns with the types that tables get.
    row: StructType
    #: Columns that are read as texts → the types of their values.
    texts: Mapping[str, DataType]
    #: Columns as the driver describes them.
    described: Sequence[DatabaseColumn]
    #: Other arrays → their types.
    arrays: Mapping[str, DataType]

    def select(self, query: str, kind: DatabaseKind) -> str:
        """Return a query of the columns of a query, with the texts of arrays whose number of dimensions is another."""
        depths = {name: count_dimensions(kind) for name, kind in self.arrays.items()}
        return select_columns(query, self.described, kind, depths)

    def list_reader_types(self) -> dict[str, str]:
        """Return column → its type for Spark's reader, which does not know the arrays of an expression."""
        arrays = {name: kind.simpleString() for name, kind in self.arrays.items()}
        return {**dict.fromkeys(self.texts, "STRING"), **arrays}


class JdbcRows:
    """Reader of ranges."""

    def __init__(self, config: JdbcConfig, database: JdbcDatabase) -> None:
        self._config, self._database = config, database

    def open(self, spark: SparkSession, table: JdbcTable, ranges: Sequence[TableRange]) -> Events:
        """Return the events of ranges of a table."""
        from pyspark.sql import types as T

        columns = self._describe(spark, table)
        row = columns.row
        divisions = [self._divide(spark, table, planned, row) for planned in ranges]
        details = T.StructType([T.StructField("changed_ms", T.LongType()), T.StructField("deleted", T.BooleanType())])
        schema = T.StructType([T.StructField(ROW, row), T.StructField(DETAILS, details)])
        key = T.StructType([row[name] for name in table.key]) if table.key else None

        def load(session: SparkSession, wanted: StructType) -> DataFrame:
            frames = [
                self._load(table, planned, self._read_range(session, table, planned, columns, division), wanted)
                for planned, division in zip(ranges, divisions, strict=True)
            ]
            return reduce(lambda a, b: a.unionByName(b), frames)

        is_compared = self._config.finds_missing_rows and any(planned.compares_keys for planned in ranges)
        current = partial(self._load_current, table, columns) if is_compared else None
        return Events(table.topic, schema, load, key, load_current=current)

    def _load_current(
        self, table: JdbcTable, columns: RowColumns, session: SparkSession, wanted: StructType
    ) -> DataFrame:
        """Return all rows at this moment as events. Spark reads only the columns that the caller uses."""
        everything = TableRange(None, None, 0)
        # The connections read at different times. A row that moves between their divisions meanwhile would be in none.
        has_fixed_divisions = self._find_partition_column(table) in table.key
        division = self._divide(session, table, everything, columns.row) if has_fixed_divisions else {}
        frame = self._read(session, table.cursor.query.everything(), columns, division)
        return self._load(table, everything, frame, wanted)

    def _read_range(
        self,
        spark: SparkSession,
        table: JdbcTable,
        planned: TableRange,
        columns: RowColumns,
        division: Mapping[str, str],
    ) -> DataFrame:
        query = table.cursor.query
        rows = query.nothing() if planned.is_unreadable else query.rows(planned.after, planned.upto)
        return self._read(spark, rows, columns, division)

    def _find_partition_column(self, table: JdbcTable) -> str | None:
        """Return the column by which ranges are divided among connections; None without one."""
        name = self._config.partition_column or self._config.incrementing_column
        return name or (table.key[0] if len(table.key) == 1 else None)

    def _describe(self, spark: SparkSession, table: JdbcTable) -> RowColumns:
        """Return the columns of a table at this moment, with the types that its rows get."""
        from pyspark.sql import types as T

        query, where = table.cursor.query.everything(), f"source jdbc, {table.cursor.name}"
        with self._database.connect(spark) as session:
            described = session.list_query_columns(query)
        names = {column.name: column.type_name for column in described}
        check_names([column.name for column in described], self._database.kind.quote, where)
        selected = select_columns(query, described, self._database.kind)
        try:
            schema = _connect(spark, selected, self._database.reader_options()).schema
        except Exception as error:
            if (explained := explain_unknown_type(error, names, where)) is not None:
                raise explained from error
            raise
        if names.keys() != {*schema.names}:
            raise RetriableError("the columns of the table have just changed", where=where, fix="wait for the next try")
        # Spark divides a range by a column of numbers.
        divided = self._find_partition_column(table) if self._config.partitions > 1 else None
        found = {name: self._database.kind.find_text_type(kind) for name, kind in names.items() if name != divided}
        texts = {name: choose_type(kind, schema[name].dataType) for name, kind in found.items() if kind}
        types = {field.name: self._map_number(texts.get(field.name, field.dataType)) for field in schema}
        row = T.StructType([T.StructField(name, kind) for name, kind in types.items()])
        arrays = {f.name: f.dataType for f in schema if isinstance(f.dataType, T.ArrayType) and f.name not in texts}
        return RowColumns(row, texts, described, arrays)

    def _read(self, spark: SparkSession, query: str, columns: RowColumns, division: Mapping[str, str]) -> DataFrame:
        """Return the rows of a query, with _LOST and _SOURCE. ``division``: options that divide it."""
        from pyspark.sql import functions as F

        options = self._database.reader_options(columns.list_reader_types())
        frame = _connect(spark, columns.select(query, self._database.kind), {**options, **division})
        cells = {name: F.col(quote_name(name)) for name in columns.row.names}
        sources, lost = dict(cells), []
        for name, nested in name_nested(columns.arrays).items():
            lost.append(_explain_lost(F.col(nested).isNotNull(), name, columns.arrays[name]))
            sources[name] = F.coalesce(F.col(nested), F.to_json(cells[name])).alias(name)
        for name, kind in columns.texts.items():
            cells[name], is_lost = parse_text(name, kind)
            lost.append(_explain_lost(is_lost, name, kind))
        mapped = [cells[field.name].cast(field.dataType).alias(field.name) for field in columns.row]
        source = F.struct(*sources.values())
        return frame.select(*mapped, F.concat_ws("; ", *lost).alias(_LOST), F.to_json(source).alias(_SOURCE))

    def _map_number(self, kind: DataType) -> DataType:
        """Return the type of a column after ``numeric.mapping``."""
        from pyspark.sql import types as T

        mapping = self._config.numeric_mapping
        if mapping == "none" or not isinstance(kind, T.DecimalType) or kind.precision > _LONG_DIGITS:
            return kind
        if kind.scale == 0:
            return T.IntegerType() if kind.precision <= _INT_DIGITS else T.LongType()
        return T.DoubleType() if mapping == "best_fit" else kind

    def _divide(self, spark: SparkSession, table: JdbcTable, planned: TableRange, row: StructType) -> dict[str, str]:
        """Return the options with which several connections read a range; empty if one connection reads it."""
        from pyspark.sql import types as T

        name = self._find_partition_column(table)
        if self._config.partitions == 1 or name is None:
            return {}
        if name not in row.names or not isinstance(row[name].dataType, T.NumericType):
            if self._config.partition_column is None:
                return {}
            fix = "name a column of numbers, or remove the option"
            raise ConfigError(
                f"the table has no column of numbers {name!r}", where="source jdbc, partitionColumn", fix=fix
            )
        with self._database.connect(spark) as session:
            bounds = table.cursor.query.bounds(session.quote(name), planned.after, planned.upto)
            lowest, highest = (int(Decimal(value or 0)) for value in session.run(bounds)[0])
        if lowest == highest or highest > _MOST:
            return {}
        return {
            "partitionColumn": name,
            "lowerBound": f"{lowest}",
            "upperBound": f"{highest}",
            "numPartitions": f"{self._config.partitions}",
        }

    def _load(self, table: JdbcTable, planned: TableRange, frame: DataFrame, wanted: StructType) -> DataFrame:
        """Return rows as events."""
        from pyspark.sql import functions as F

        kinds: Any = wanted[ROW].dataType
        row = F.struct(*[F.col(quote_name(name)) for name in kinds.names])
        changed = self._read_time(frame)
        details = F.struct(
            (F.lit(None) if changed is None else F.unix_millis(self._to_instant(changed, table))).cast("bigint"),
            self._is_deleted(frame),
        ).cast(wanted[DETAILS].dataType)
        number = self._config.incrementing_column
        cursor = [] if changed is None else [F.unix_micros(changed)]
        cursor += [] if number is None else [F.col(quote_name(number)).cast("bigint")]
        # Rows of an equal cursor are ordered by the time of the query. The last part only distinguishes rows of one query.
        place = F.concat(
            *map(sortable_signed, cursor), sortable(F.lit(planned.read)), sortable(F.monotonically_increasing_id())
        )
        key = [F.struct(*[F.col(quote_name(name)) for name in table.key]).alias(E.KEY)] if table.key else []
        value = F.struct(row.alias(ROW), details.alias(DETAILS)).alias(E.VALUE)
        return frame.select(
            value,
            *key,
            F.when(F.col(_LOST) != "", F.lit(RejectReason.UNDECODABLE)).alias(E.ERROR),
            F.nullif(F.col(_LOST), F.lit("")).alias(E.DETAIL),
            F.lit(None).cast("int").alias(E.PARTITION),
            F.lit(None).cast("bigint").alias(E.OFFSET),
            F.lit(None).cast("string").alias(E.FILE),
            place.alias(E.PLACE),
            F.col(_SOURCE).cast("binary").alias(E.RAW),
        )

    def _read_time(self, frame: DataFrame) -> Column | None:
        """Return the cursor's time as a timestamp, in UTC as it was written; None without such a column."""
        from pyspark.sql import functions as F, types as T

        names = self._config.timestamp_columns
        if not names:
            return None
        columns = [
            F.col(quote_name(name))
            if isinstance(frame.schema[name].dataType, T.TimestampType)
            else _as_utc(F.col(quote_name(name)))
            for name in names
        ]
        return F.coalesce(*columns)

    def _to_instant(self, changed: Column, table: JdbcTable) -> Column:
        from pyspark.sql import functions as F

        return changed if table.cursor.has_zone else F.to_utc_timestamp(changed, self._config.zone)

    def _is_deleted(self, frame: DataFrame) -> Column:
        from pyspark.sql import functions as F, types as T

        name = self._config.deleted_column
        if name is None:
            return F.lit(False)
        mark, kind = F.col(quote_name(name)), frame.schema[name].dataType
        if isinstance(kind, T.StringType):
            is_deleted = F.lower(F.trim(mark)).isin(*_TRUE)
        elif isinstance(kind, T.NumericType):
            is_deleted = mark != 0
        else:
            is_deleted = mark if isinstance(kind, T.BooleanType) else mark.isNotNull()
        return F.coalesce(is_deleted, F.lit(False))


def _connect(spark: SparkSession, query: str, options: Mapping[str, str]) -> DataFrame:
    """Return the rows of a query as Spark reads them."""
    return spark.read.format("jdbc").options(**options, dbtable=f"({query}) r").load()


def _explain_lost(is_lost: Column, name: str, kind: DataType) -> Column:
    from pyspark.sql import functions as F

    return F.when(is_lost, F.lit(f"the value of {name} does not fit {kind.simpleString()}"))


def _as_utc(column: Column) -> Column:
    """Return a time without a time zone as the instant at which UTC has this time."""
    from pyspark.sql import functions as F

    # A cast would use the time zone of the session.
    return F.concat(column.cast("timestamp_ntz").cast("string"), F.lit("Z")).cast("timestamp")
