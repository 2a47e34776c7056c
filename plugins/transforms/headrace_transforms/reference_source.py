"""Places of the reference data of ``lookup``: files, a database, and tables that a sink reads back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.sdk import (
    ConfigError,
    NoSuchTableError,
    Plugin,
    SchemaLog,
    Sink,
    Source,
    SourceContext,
    Table,
    get_plugin,
    list_plugins,
)
from headrace.sdk.events import ERROR, VALUE
from headrace.sdk.options import did_you_mean, option_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: Formats of files that Spark reads.
_FILE_FORMATS = ("csv", "json", "orc", "parquet")
#: Options of a reader that select files.
_SELECTION = ("pathGlobFilter", "recursiveFileLookup", "modifiedBefore", "modifiedAfter")
#: Formats whose values Spark replaces with null if they do not fit their type. Such a key would be missing without a trace.
_TEXT_FORMATS = ("csv", "json")
#: Part of Spark's message for a record that does not fit its types.
MALFORMED = "MALFORMED_RECORD"


class ReferenceSource(ABC):
    """Place of reference data."""

    def __init__(self, where: str, parts: Sequence[Plugin] = ()) -> None:
        """``where``: description for messages; ``parts``: plugins whose jars and settings it needs."""
        self.where, self.parts = where, parts

    @abstractmethod
    def find_version(self, spark: SparkSession) -> str | None:
        """Return a text that changes with the data; None if only reading the data shows changes. Raises an error for missing data."""

    @abstractmethod
    def read(self, spark: SparkSession, version: str | None) -> DataFrame:
        """Return the rows of a version."""


class FileReference(ReferenceSource):
    """Files of a format that Spark reads. Their version is a digest of their names, sizes and modification times."""

    def __init__(self, file_format: str, options: Mapping[str, Any]) -> None:
        self._format, self._options = file_format, {name: option_text(value) for name, value in options.items()}
        self._path, self._schema = self._options.pop("path", ""), self._options.pop("schema", None)
        super().__init__(f"{file_format} {self._path}")
        if not self._path:
            raise ConfigError(
                "`path` is missing", where=f"lookup, from, {file_format}", fix="add the path of the files"
            )

    def find_version(self, spark: SparkSession) -> str | None:
        from pyspark.sql import functions as F

        selection = {name: value for name, value in self._options.items() if name in _SELECTION}
        files = spark.read.format("binaryFile").options(**selection).load(self._path)
        digest = F.sum(F.xxhash64("path", "modificationTime", "length").cast("decimal(38,0)"))
        found = files.agg(F.count("*"), digest).first()
        if found is None or not found[0]:
            raise NoSuchTableError("there are no files", where=self.where, fix="correct `path`")
        return f"{found[0]} {found[1]}"

    def read(self, spark: SparkSession, version: str | None) -> DataFrame:
        mode = {"mode": "FAILFAST"} if self._format in _TEXT_FORMATS else {}
        # By default, Spark gives columns of a CSV file their names by their place in the first file.
        by_name = {"enforceSchema": "false"} if self._has_header else {}
        # With pruning, lines with too few columns are no errors.
        by_name |= {"columnPruning": "false"} if self._format == "csv" else {}
        reader = spark.read.format(self._format).options(**{**mode, **by_name, **self._options})
        schema = self._order_by_header(spark, self._schema) if self._has_header and self._schema else self._schema
        return (reader.schema(schema) if schema else reader).load(self._path)

    @property
    def _has_header(self) -> bool:
        return self._format == "csv" and self._options.get("header", "").lower() == "true"

    def _order_by_header(self, spark: SparkSession, schema: str) -> StructType:
        """Return a schema with the columns of the header, in the header's order."""
        from pyspark.sql import types as T

        header = spark.read.format("csv").options(**self._options).load(self._path).columns
        wanted = {field.name: field for field in spark.createDataFrame([], schema).schema}
        if missing := sorted(wanted.keys() - set(header)):
            raise ConfigError(
                f"the header has no column {missing[0]!r}", where=self.where, fix=did_you_mean(missing[0], header)
            )
        return T.StructType([wanted.get(name, T.StructField(name, T.StringType())) for name in header])


class JdbcReference(ReferenceSource):
    """Table or query of a database, with the options of the source ``jdbc``. Each refresh reads it."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        # The source adds a record without a row, which removes missing rows; without the option it notes that deleted rows stay.
        fixed = {"mode": "bulk", "topic.prefix": "lookup.", "delete.missing": True}
        self._source: Source = get_plugin("source", "jdbc")({**options, **fixed})
        super().__init__(f"jdbc {options.get('connection.url', '')}", [self._source])

    def find_version(self, spark: SparkSession) -> str | None:
        return None

    def read(self, spark: SparkSession, version: str | None) -> DataFrame:
        found = self._source.known_schemas(SourceContext(spark, SchemaLog()))
        if len(found) != 1:
            fix = "write a `query`, or one name in `table.whitelist`"
            raise NoSuchTableError(f"the options select {len(found)} tables instead of one", where=self.where, fix=fix)
        from pyspark.sql import functions as F

        [events] = found
        if events.error is not None:
            raise events.error
        schema: Any = events.schema
        # A value that its type does not hold is null in the row.
        is_lost = F.col(ERROR).isNotNull()
        row = F.when(is_lost, F.raise_error(F.lit(MALFORMED))).otherwise(F.col(VALUE))
        return events.load(spark, schema).select(row.alias(VALUE)).select(f"{VALUE}.{schema.names[0]}.*")


class TableReference(ReferenceSource):
    """Table that a sink reads back, at a version of the table if the sink reports it."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        own = dict(options)
        table = own.pop("table", None)
        if not isinstance(table, str) or not table:
            raise ConfigError(
                "`table` is missing", where=f"lookup, from, {name}", fix="add the name of the table: `shop.customers`"
            )
        self._sink: Sink = get_plugin("sink", name)(own)
        self._table = Table(table)
        super().__init__(f"{name} table {table}", [self._sink])

    def find_version(self, spark: SparkSession) -> str | None:
        return self._sink.find_version(spark, self._table)

    def read(self, spark: SparkSession, version: str | None) -> DataFrame:
        return self._sink.read_back(spark, self._table, version)


def open_reference(name: str, options: Mapping[str, Any] | None) -> ReferenceSource:
    """Return the reference data of a block. ConfigError for an unknown name or invalid options."""
    if name in _FILE_FORMATS:
        return FileReference(name, options or {})
    if name == "jdbc":
        return JdbcReference(options or {})
    sinks = [sink for sink, _ in list_plugins("sink")]
    if name not in sinks:
        known = [*_FILE_FORMATS, "jdbc", *sinks]
        raise ConfigError(
            f"no reference data of the kind {name!r}", where="lookup, from", fix=did_you_mean(name, known)
        )
    return TableReference(name, options or {})
