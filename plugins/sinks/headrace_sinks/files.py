"""Sink for files of rows. Every batch has a folder of its own; writing the batch again replaces the folder."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import quote

from pydantic import model_validator

from headrace.sdk import (
    Batch,
    Capabilities,
    Catalog,
    ConfigError,
    DataError,
    HeadraceError,
    NoSuchTableError,
    Plugin,
    SchemaLog,
    SinkConfig,
    Sync,
    Table,
    WriteResult,
)
from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.schemas import add_missing_fields, check_names, is_same_type, project, promote, widen_small_ints
from headrace.sdk.storage import Folder
from headrace_sinks.avro_jars import AVRO_JARS
from headrace_sinks.csv_cells import CSV_OPTIONS, CSV_READ_OPTIONS, cell_schema, decode_cells, encode_cells
from headrace_sinks.file_formats import ANCIENT_DATES, LOCAL_MICROSECONDS, MICROSECONDS, check_avro_columns
from headrace_sinks.files_catalog import BATCH, FilesTable
from headrace_sinks.folder_sink import FolderSink
from headrace_sinks.map_keys import with_text_keys
from headrace_sinks.other_formats import check_other_formats
from headrace_sinks.stored_files import explain_missing_file
from headrace_sinks.stored_types import spell_as_stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_CORRUPT = "_headrace_corrupt"
#: Hidden folder next to the batches with the schema of all of them, so that readers need not infer it.
_SCHEMAS, _SUBJECT = "_headrace", "table"


class FilesSinkConfig(SinkConfig):
    """Options of the sink ``files``. Options of Spark's writer pass through."""

    passthrough: ClassVar[tuple[str, ...]] = (
        "compression",
        "maxRecordsPerFile",
        "dateFormat",
        "timestampFormat",
        "timestampNTZFormat",
        "ignoreNullFields",
        "encoding",
        "header",
        "sep",
        "quote",
        "escape",
        "quoteAll",
        "nullValue",
        "lineSep",
    )

    path: str
    """Folder with a subfolder for each table, on any file system that Hadoop supports."""

    format: Literal["json", "csv", "avro", "parquet"] = "json"
    """File format. In CSV, structs, arrays and maps are JSON."""

    sync: Sync = None
    """Catalog in which the tables are registered for query engines. Each batch is a partition. Not for CSV."""

    @model_validator(mode="after")
    def _registers_types(self) -> FilesSinkConfig:
        if self.sync and self.format == "csv":
            raise ValueError("`sync` registers files with types, and CSV has none: use `json`, `avro` or `parquet`")
        return self

    @model_validator(mode="after")
    def _keeps_values(self) -> FilesSinkConfig:
        """Refuse options with which Spark's writer changes values."""
        options = self.options()
        if not re.fullmatch(r"(x-)?utf[-_]?(8|16|32)([-_]?[lb]e)?", options.get("encoding", "UTF-8"), re.IGNORECASE):
            raise ValueError(
                "letters that the encoding lacks become `?`", "write UTF-8 or UTF-16, or leave the option out"
            )
        if self.format != "csv":
            return self
        loses_nulls = options.get("quoteAll", "false").lower() == "true" and not options.get("nullValue")
        for name, is_wrong, what in (
            ("lineSep", options.get("lineSep", "\n") != "\n", "line breaks in texts become this text"),
            ("quote", options.get("quote", '"') != '"', "empty texts become two quotes"),
            ("quoteAll", loses_nulls, "and without `nullValue`, nulls become empty texts"),
            (
                "sep",
                len(options.get("sep", ",").replace(r"\t", "\t")) > 1,
                "parts of the separator in texts divide cells",
            ),
        ):
            if is_wrong:
                raise ValueError(f"with this value of `{name}`, {what}", f"leave `{name}` out")
        return self


class FilesSink(FolderSink):
    """``files: {path: out/, format: json}``."""

    name = "files"
    api_version = 1
    Config = FilesSinkConfig
    config: FilesSinkConfig
    capabilities = Capabilities(schema_evolution=True, exactly_once=True, single_pass=True, concurrent_writers=True)
    sql_conf = ANCIENT_DATES
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = AVRO_JARS

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        #: Table's folder and pipeline → its newest batch, of tables that this run has written.
        self._newest: dict[tuple[str, str], int] = {}

    def parts(self) -> Sequence[Plugin]:
        return [self.config.sync] if self.config.sync else []

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        yield "sink files", Folder(spark, self.config.path).probe()

    def check_columns(self, spark: SparkSession, table: Table, columns: Collection[str]) -> None:
        if self.config.format == "avro":
            check_avro_columns(columns, "Avro")

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        folder = Folder(rows.sparkSession, self._path(table))
        name = self._choose_folder(folder, batch)
        schemas = SchemaLog(folder.folder(_SCHEMAS))
        rows, stored = rows.drop(DELETED, POSITION), schemas.get(_SUBJECT)
        if stored is None:
            check_other_formats(rows.sparkSession, table.name, folder.path, self.name)
        rows = rows if stored is None else spell_as_stored(rows, stored)
        schema = self._widen(stored, rows.schema)
        schemas.remember(_SUBJECT, schema)
        options = {**(LOCAL_MICROSECONDS if self.config.format == "json" else {}), **self._options()}
        rows = project(rows, schema)
        if self.config.format == "csv" and len(schema) == 1 and not options.get("nullValue"):
            raise DataError(
                f"Spark's writer of CSV omits rows whose only column, {schema.names[0]!r}, is null",
                where=f"sink files, table {table.name}",
                fix="set `nullValue`, for example to NULL, or use `format: json`",
            )
        rows = encode_cells(rows) if self.config.format == "csv" else rows
        rows = with_text_keys(rows) if self.config.format == "json" else rows
        writer = rows.write.format(self.config.format).options(**options)
        writer.mode("overwrite").save(f"{folder.path}/{name}")
        if self.config.sync:
            self._register(self.config.sync, table, rows.sparkSession, name)
        return WriteResult()

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        if as_of is not None:
            raise ConfigError("the sink files keeps no older versions", where="sink files", fix="leave out --as-of")
        folder = Folder(spark, self._path(table))
        schema = SchemaLog(folder.folder(_SCHEMAS)).get(_SUBJECT)
        if schema is None:
            raise NoSuchTableError(
                f"there is no table {table.name!r}",
                where=f"sink files, path {self.config.path}",
                fix="run the pipeline, or correct the name",
            )
        is_csv = self.config.format == "csv"
        reader = spark.read.schema(cell_schema(schema) if is_csv else schema).format(self.config.format)
        reader = reader.options(**{**(CSV_READ_OPTIONS if is_csv else {}), **self._options()})
        # A column may have the name of Spark's default column for corrupt records.
        reader = reader.option("columnNameOfCorruptRecord", _CORRUPT).option("basePath", folder.path)
        # The folder may contain those of other tables: `orders.archive` is in the folder of `orders`.
        batches = [name for name in folder.names(hidden=True) if name.startswith(f"{BATCH}=")]
        frame = reader.load([f"{folder.path}/{name}" for name in batches] or folder.path)
        return decode_cells(frame, schema) if is_csv else frame

    def explain(self, error: BaseException) -> HeadraceError | None:
        return explain_missing_file(error, self.config.path)

    def _register(self, catalog: Catalog, table: Table, spark: SparkSession, name: str) -> None:
        """Register the table and the batch in the folder ``name`` with a catalog."""
        folder = Folder(spark, self._path(table))

        def read_schema() -> StructType:
            schema = SchemaLog(folder.folder(_SCHEMAS)).get(_SUBJECT)
            assert schema is not None, "the table has a batch"
            return schema

        files = FilesTable(spark, folder, self.config.format, self._options(), read_schema)
        catalog.register(table.name, files.describe, files.locate([name]), files.list_partitions)

    def _widen(self, stored: StructType | None, incoming: StructType) -> StructType:
        """Widen the table's schema to hold the batch; DataError for a type that existing files cannot be read with."""
        from pyspark.sql.types import StructType

        if self.config.format == "avro":
            check_names(incoming, "Avro")
            incoming = widen_small_ints(incoming)
        if stored is None:
            return incoming
        schema = promote(stored, incoming)
        assert isinstance(schema, StructType)
        if self.config.format not in ("json", "csv"):
            for column, wider in zip(stored, schema, strict=False):
                if not is_same_type(add_missing_fields(column.dataType, wider.dataType), wider.dataType):
                    raise DataError(
                        f"column {column.name!r} has type {incoming[column.name].dataType.simpleString()} in the batch and "
                        f"{column.dataType.simpleString()} in existing files, and one schema cannot read both",
                        where="sink files",
                        fix="write to another path, or use `format: json`",
                    )
        return schema

    def _choose_folder(self, folder: Folder, batch: Batch) -> str:
        """Return the name of a batch's folder. Existing folders are listed once per run, and again for a repeated batch."""
        key = folder.path, batch.pipeline
        if batch.id > self._newest.get(key, batch.id):
            name = _folder_name(batch)
        else:
            name = _find_folder(folder, batch) or _folder_name(batch)
        self._newest[key] = batch.id
        return name

    def _path(self, table: Table) -> str:
        return "/".join([self.config.path.rstrip("/"), *table.parts])

    def _options(self) -> dict[str, str]:
        json = {"timestampFormat": MICROSECONDS}
        defaults = {"json": json, "csv": CSV_OPTIONS}.get(self.config.format, {})
        return {**defaults, **self.config.options()}


def _folder_name(batch: Batch) -> str:
    """Return the name of a new folder for a batch."""
    suffix = f"-{batch.digest}" if batch.digest else ""
    return f"{_folder_prefix(batch.pipeline)}{batch.id:010d}{suffix}"


def _folder_prefix(pipeline: str) -> str:
    return f"{BATCH}={quote(pipeline, safe='')}-"


def _find_folder(folder: Folder, batch: Batch) -> str | None:
    """Return the name of a batch's existing folder, which its repetition replaces; None for a new batch.

    ConfigError if rows of the batch may be in folders of other batches.
    """
    # An older format of the name has eight characters of the pipeline's id.
    # The id of a replay contains a slash, and no folder of the older format belongs to it.
    older = None if "/" in batch.pipeline else _folder_prefix(batch.pipeline[:8])
    names = {
        f"{batch.mark_prefix}{int(number)}{':' * bool(digest)}{digest}": name
        for name in folder.names(hidden=True)
        for prefix in (older, _folder_prefix(batch.pipeline))
        if prefix and name.startswith(prefix)
        for number, _, digest in [name.removeprefix(prefix).partition("-")]
    }
    marks = sorted(names, key=lambda mark: int(mark.split(":")[1]), reverse=True)
    is_applied = batch.is_applied(marks)
    if is_applied is None:
        raise batch.unknown_error(
            f"sink files, {folder.path}",
            f"if the source still has their records, delete the folders from {_folder_name(replace(batch, digest=''))} "
            "on: their records are read again",
        )
    return next(names[mark] for mark in marks if batch.is_applied([mark])) if is_applied else None
