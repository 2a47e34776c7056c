"""Confluent's S3 sink connector as sink ``s3``."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from headrace.sdk import ConfigError
from headrace_import.connect.smt import split_list, typed
from headrace_import.import_report import Kind
from headrace_import.pipeline_draft import Block
from headrace_import.settings import Settings

CLASS = "io.confluent.connect.s3.S3SinkConnector"
_FORMATS = {"AvroFormat": "avro", "JsonFormat": "json", "ParquetFormat": "parquet", "ByteArrayFormat": "bytes"}
_PARTITIONERS = {
    "DefaultPartitioner": "default",
    "FieldPartitioner": "field",
    "TimeBasedPartitioner": "time-based",
    "DailyPartitioner": "daily",
    "HourlyPartitioner": "hourly",
}
#: Options with the same names and values.
_SAME = (
    "s3.compression.type",
    "format.bytearray.extension",
    "format.bytearray.separator",
    "flush.size",
    "rotate.interval.ms",
    "rotate.schedule.interval.ms",
    "path.format",
    "partition.duration.ms",
    "locale",
    "timezone",
    "timestamp.extractor",
    "timestamp.field",
    "behavior.on.null.values",
    "tombstone.encoded.partition",
    "store.kafka.keys",
    "store.kafka.headers",
)
_NOT_SUPPORTED = (
    "s3.object.tagging*",
    "file.delim",
    "filename.offset.zero.pad.width",
    "directory.delim",
    "s3.object.behavior*",
)
_CODECS = {"avro": "avro.codec", "parquet": "parquet.codec"}


def read_sink(settings: Settings) -> Block:
    """Return the sink with its options."""
    options = Block(comment=settings.cite("connector.class"))
    _add_path(settings, options)
    form = _add_class(settings, options, "format.class", "format", _FORMATS) or "avro"
    _add_topics_dir(settings, options)
    for key in _SAME:
        if settings.get(key):
            options.add(key, typed(key, settings.read(key)), settings.cite(key))
    for kind, codec in _CODECS.items():
        if kind == form and settings.get(codec):
            options.add(codec, settings.read(codec), settings.cite(codec))
        settings.ignore([codec], f"the format is {form}")
    _add_class(settings, options, "partitioner.class", "partitioner", _PARTITIONERS)
    if settings.get("partition.field.name"):
        fields = split_list(settings.get("partition.field.name"))
        options.add("partition.field.name", fields, settings.cite("partition.field.name"))
    for part in ("keys", "headers"):
        _add_class(settings, options, f"{part}.format.class", f"{part}.format", _FORMATS)
    _require(settings, "flush.size")
    _check_compatibility(settings)
    _reject_unsupported(settings)
    _report_object_settings(settings)
    return Block({"s3": options})


def read_spark(settings: Settings, *, has_others: bool) -> Block:
    """Return the Spark settings for the connector's region and credentials. ``has_others``: other sinks have buckets of their own."""
    spark = Block()
    start = f"spark.hadoop.fs.s3a.bucket.{settings.get('s3.bucket.name')}" if has_others else "spark.hadoop.fs.s3a"
    pairs = {
        "s3.region": "endpoint.region",
        "aws.access.key.id": "access.key",
        "aws.secret.access.key": "secret.key",
        "store.url": "endpoint",
        "s3.path.style.access.enabled": "path.style.access",
    }
    for key, name in pairs.items():
        if settings.get(key):
            spark.add(f"{start}.{name}", settings.read(key), settings.cite(key))
    return spark


def read_bucket(settings: Settings) -> str:
    """Return the address of the bucket, as a value of the pipeline file."""
    return f"s3a://{settings.read('s3.bucket.name')}"


def _add_path(settings: Settings, options: Block) -> None:
    _require(settings, "s3.bucket.name")
    options.add("path", read_bucket(settings), settings.cite("s3.bucket.name"))


def _add_topics_dir(settings: Settings, options: Block) -> None:
    """Add the folder of the topics. Without a name, they are in the bucket itself. Report names that the sink cannot have."""
    key = "topics.dir"
    if not settings.has(key):
        return
    folder = settings.read(key)
    names = [name for name in folder.split("/") if name]
    if any(name.startswith("_") or name in (".", "..") for name in names):
        why = "readers skip folders whose names start with `_`, and `.` and `..` are no folders: objects are in the default folder `topics`"
        settings.reject([key], why, "set `topics.dir` to a folder with another name", Kind.TO_DO)
        return
    options.add(key, "/".join(names), settings.cite(key))
    if "/".join(names) != folder:
        why = "a folder has a name, so objects are not in the folder of the connector's objects"
        settings.add_to_do([key], why, "move the objects of the connector, or read both folders")


def _add_class(settings: Settings, options: Block, key: str, option: str, names: Mapping[str, str]) -> str | None:
    """Add the option for a class of the connector and return its value; report a class without one."""
    if not settings.get(key):
        return None
    name = names.get(settings.get(key).rpartition(".")[2])
    if name is None:
        why = f"the class has no counterpart, so headrace uses the default of `{option}`"
        settings.reject([key], why, f"`{option}` is one of {', '.join(names.values())}", Kind.TO_DO)
        return None
    options.add(option, name, settings.cite(key))
    return name


def _check_compatibility(settings: Settings) -> None:
    key = "schema.compatibility"
    if settings.get(key).upper() == "NONE":
        settings.ignore([key], "a new schema always starts a new object, as with NONE")
    elif settings.has(key):
        settings.reject([key], "a new schema always starts a new object, as with NONE")


def _reject_unsupported(settings: Settings) -> None:
    keys = [key for key in settings.list_remaining() if any(fnmatchcase(key, glob) for glob in _NOT_SUPPORTED)]
    settings.reject(keys, "the sink s3 has fixed object names, and no tags", "remove it")


def _report_object_settings(settings: Settings) -> None:
    """Report the encryption and the permissions of objects."""
    for names, option in {("s3.ssea.name", "s3.sse."): "encryption.*", ("s3.acl.canned",): "acl.default"}.items():
        keys = [key for key in settings.list_keys("s3.") if key.startswith(names) and settings.get(key)]
        why, fix = "objects get the defaults of their bucket", f"`spark.hadoop.fs.s3a.{option}` under `spark:`"
        settings.reject(keys, why, fix, Kind.TO_DO)


def _require(settings: Settings, key: str) -> None:
    if not settings.get(key):
        raise ConfigError(f"the connector has no `{key}`", where=settings.place, fix=f"add `{key}`")
