"""Formats of objects: Spark's writers and options, and the endings of names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk import DataError
from headrace.sdk.schemas import check_names
from headrace_sinks.file_formats import LOCAL_MICROSECONDS, MICROSECONDS
from headrace_sinks.map_keys import with_text_keys
from headrace_sinks.s3.pending_records import HEADERS, RECORD_KEY, VALUE
from headrace_sinks.s3.s3_config import S3SinkConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Column by which Spark's writer separates objects: a number, because a path of an object may be too long for a folder's name.
OBJECT = "_headrace_object"
#: No process reads the files before the job ends. Version 1 of the algorithm would copy each file again on an object store.
QUICK_COMMIT = {"mapreduce.fileoutputcommitter.algorithm.version": "2"}
#: Parquet's codec → extension before `.parquet`, as in Parquet's own file names.
_PARQUET_NAMES = {"none": "", "gzip": ".gz", "snappy": ".snappy", "lz4": ".lz4", "zstd": ".zstd"}
#: Avro's name of a codec → Spark's.
_AVRO_CODECS = {"null": "uncompressed"}
_NEWLINE = "\n"
_GZIP = {"none": "", "gzip": ".gz"}
#: Stored part of a record → extension before the format's extension.
_KINDS = {VALUE: "", RECORD_KEY: ".keys", HEADERS: ".headers"}


def list_kinds(config: S3SinkConfig) -> dict[str, str]:
    """List the stored parts of each record with their formats."""
    kinds: dict[str, str] = {VALUE: config.format}
    if config.store_keys:
        kinds[RECORD_KEY] = config.keys_format
    if config.store_headers:
        kinds[HEADERS] = config.headers_format
    return kinds


def find_kinds(records: DataFrame, config: S3SinkConfig) -> list[str]:
    """Find the parts of staged records to store. Records may have been staged with other options.

    DataError when they are staged as rows and the format is bytes, or the other way round.
    """
    kinds = []
    for kind, file_format in list_kinds(config).items():
        if kind not in records.columns:
            continue
        if kind != HEADERS and (records.schema[kind].dataType.typeName() == "binary") != (file_format == "bytes"):
            raise DataError(
                f"pending records were staged for another format of their {kind}s than {file_format!r}",
                where="sink s3",
                fix="restore the previous format, or start with a new checkpoint and another `topics.dir`",
            )
        kinds.append(kind)
    return kinds


def name_ending(kind: str, config: S3SinkConfig) -> str:
    """Return the ending of the names of objects of a kind."""
    endings = {
        "avro": ".avro",
        "json": f".json{_GZIP[config.compression]}",
        "parquet": f"{_PARQUET_NAMES[config.parquet_codec]}.parquet",
        "bytes": f"{config.bytes_extension}{_GZIP[config.compression]}",
    }
    return _KINDS[kind] + endings[list_kinds(config)[kind]]


def write_files(records: DataFrame, kind: str, folder: str, config: S3SinkConfig) -> None:
    """Write one file for each object of sorted records, in a folder of its own; DataError for an unsupported column name."""
    from pyspark.sql import functions as F

    file_format = list_kinds(config)[kind]
    if file_format == "bytes":
        # Spark does not change bytes in a string, valid UTF-8 or not.
        columns, spark_format = [F.col(kind).cast("string")], "text"
    elif kind == HEADERS and file_format == "json":
        columns, spark_format = [F.to_json(kind)], "text"
    elif kind == HEADERS:
        columns, spark_format = [F.col(kind)], file_format
    else:
        columns, spark_format = [F.col(f"{kind}.*")], file_format
    frame = records.select(OBJECT, *columns)
    if file_format == "json":
        frame = with_text_keys(frame)
    if file_format == "avro":
        check_names(frame.drop(OBJECT).schema, "Avro")
    writer = frame.write.format(spark_format).partitionBy(OBJECT).mode("overwrite")
    writer = writer.option("partitionOverwriteMode", "static").option("maxRecordsPerFile", 0).options(**QUICK_COMMIT)
    writer.options(**_writer_options(file_format, spark_format, config)).save(folder)


def reader_options(config: S3SinkConfig) -> dict[str, str]:
    """Return the options of Spark's reader for objects of values."""
    if config.format == "bytes":
        return {"lineSep": config.bytes_separator or _NEWLINE}
    # A column may have the name of Spark's default column for corrupt records.
    return (
        {"columnNameOfCorruptRecord": "_headrace_corrupt", "timestampFormat": MICROSECONDS}
        if config.format == "json"
        else {}
    )


def _writer_options(file_format: str, spark_format: str, config: S3SinkConfig) -> dict[str, str]:
    if file_format == "avro":
        return {"compression": _AVRO_CODECS.get(config.avro_codec, config.avro_codec)}
    if file_format == "parquet":
        return {"compression": config.parquet_codec}
    options: dict[str, str] = {"compression": config.compression}
    if file_format == "bytes":
        options["lineSep"] = config.bytes_separator or _NEWLINE
    if spark_format == "json":
        # Nulls are written: otherwise a reader would take a column of nulls for a missing column.
        options |= {"ignoreNullFields": "false", "timestampFormat": MICROSECONDS, **LOCAL_MICROSECONDS}
    return options
