"""How objects are written: what of Spark's writers stands behind a format, and how objects' names end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk import DataError
from headrace.sdk.schemas import check_names
from headrace_sinks.s3.pending_records import HEADERS, RECORD_KEY, VALUE
from headrace_sinks.s3.s3_config import S3SinkConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The columns by which Spark's writer tells objects apart. The first offset leads: by it most are told apart when they are sorted.
FIRST, NUMBER, TOPIC_NUMBER, FOLDER = "_headrace_first", "_headrace_partition", "_headrace_topic", "_headrace_folder"
OBJECT = (FIRST, NUMBER, TOPIC_NUMBER, FOLDER)
#: Nobody looks at files before their job has ended. By Hadoop's older way each would be copied once more on an object store.
QUICK_COMMIT = {"mapreduce.fileoutputcommitter.algorithm.version": "2"}
#: Spark's own default cuts a time at milliseconds.
_MICROSECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
#: Parquet's codec → how names of its files begin to end, as Parquet itself has it.
_PARQUET_NAMES = {"none": "", "gzip": ".gz", "snappy": ".snappy", "lz4": ".lz4", "zstd": ".zstd"}
#: Avro's name of a codec → Spark's.
_AVRO_CODECS = {"null": "uncompressed"}
_NEWLINE = "\n"
_GZIP = {"none": "", "gzip": ".gz"}
#: What is stored of a record → what the names of its objects have before the format's ending.
_KINDS = {VALUE: "", RECORD_KEY: ".keys", HEADERS: ".headers"}


def list_kinds(config: S3SinkConfig) -> dict[str, str]:
    """What is stored of each record → its format."""
    kinds: dict[str, str] = {VALUE: config.format}
    if config.store_keys:
        kinds[RECORD_KEY] = config.keys_format
    if config.store_headers:
        kinds[HEADERS] = config.headers_format
    return kinds


def find_kinds(records: DataFrame, config: S3SinkConfig) -> list[str]:
    """What is to be stored of staged records: they may have been staged before the options said so.

    DataError where they wait as rows and are to be bytes, or the other way round.
    """
    kinds = []
    for kind, file_format in list_kinds(config).items():
        if kind not in records.columns:
            continue
        if kind != HEADERS and (records.schema[kind].dataType.typeName() == "binary") != (file_format == "bytes"):
            raise DataError(
                f"records wait that were not taken for the format {file_format!r} of their {kind}s",
                where="sink s3",
                fix="write the format that it was before, or begin with a new checkpoint and another `topics.dir`",
            )
        kinds.append(kind)
    return kinds


def name_ending(kind: str, config: S3SinkConfig) -> str:
    """How the names of objects of a kind end."""
    endings = {
        "avro": ".avro",
        "json": f".json{_GZIP[config.compression]}",
        "parquet": f"{_PARQUET_NAMES[config.parquet_codec]}.parquet",
        "bytes": f"{config.bytes_extension}{_GZIP[config.compression]}",
    }
    return _KINDS[kind] + endings[list_kinds(config)[kind]]


def write_files(records: DataFrame, kind: str, folder: str, config: S3SinkConfig) -> None:
    """Writes one file for each object of sorted records, in a folder of its own. DataError for a name that the format cannot keep."""
    from pyspark.sql import functions as F

    file_format = list_kinds(config)[kind]
    if file_format == "bytes":
        # Spark keeps bytes as they are in a text, valid or not.
        columns, spark_format = [F.col(kind).cast("string")], "text"
    elif kind == HEADERS and file_format == "json":
        columns, spark_format = [F.to_json(kind)], "text"
    elif kind == HEADERS:
        columns, spark_format = [F.col(kind)], file_format
    else:
        columns, spark_format = [F.col(f"{kind}.*")], file_format
    frame = records.select(*OBJECT, *columns)
    if file_format == "avro":
        check_names(frame.drop(*OBJECT).schema, "Avro")
    writer = frame.write.format(spark_format).partitionBy(*OBJECT).mode("overwrite")
    writer = writer.option("partitionOverwriteMode", "static").option("maxRecordsPerFile", 0).options(**QUICK_COMMIT)
    writer.options(**_writer_options(file_format, spark_format, config)).save(folder)


def reader_options(config: S3SinkConfig) -> dict[str, str]:
    """What Spark's reader has to know of values' objects."""
    if config.format == "bytes":
        return {"lineSep": config.bytes_separator or _NEWLINE}
    # A column may be called as Spark calls what it cannot parse.
    return (
        {"columnNameOfCorruptRecord": "_headrace_corrupt", "timestampFormat": _MICROSECONDS}
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
        # A value that is null is a value: left out, a reader takes the column for one that is not there.
        options |= {"ignoreNullFields": "false", "timestampFormat": _MICROSECONDS}
    return options
