"""Options of the sink ``s3``, with the names of Confluent's connector."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator, model_validator

from headrace.sdk import SinkConfig, Sync
from headrace_sinks.s3.joda import list_folder_names, translate_pattern

DAY_MS = round(timedelta(days=1).total_seconds() * 1000)
#: Partitioner → its path format and duration.
_PERIODS = {
    "daily": ("'year'=YYYY/'month'=MM/'day'=dd", DAY_MS),
    "hourly": ("'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", DAY_MS // 24),
}

RowFormat = Literal["avro", "json", "parquet"]


class S3SinkConfig(SinkConfig):
    """Options of the sink ``s3``, which lays out objects like Confluent's S3 sink connector on any file system that Hadoop supports."""

    path: str = Field(min_length=1)
    """Bucket, or a folder in it: ``s3a://bucket``."""

    topics_dir: str = Field("topics", alias="topics.dir")
    """Folder in ``path`` with a subfolder for each topic. Empty: the subfolders are in ``path`` itself."""

    format: Literal["avro", "json", "parquet", "bytes"] = "avro"
    """Format of objects. ``json``: one record per line; ``bytes``: the raw values."""

    compression: Literal["none", "gzip"] = Field("none", alias="s3.compression.type")
    """Compression of ``json`` and ``bytes``."""

    avro_codec: Literal["null", "deflate", "snappy", "bzip2", "xz", "zstandard"] = Field("null", alias="avro.codec")
    """Codec of ``avro``. ``null``: no compression."""

    parquet_codec: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field("snappy", alias="parquet.codec")
    """Codec of ``parquet``."""

    bytes_extension: str = Field(".bin", alias="format.bytearray.extension", min_length=1)
    """Extension of ``bytes`` objects, before ``.gz``."""

    bytes_separator: str | None = Field(None, alias="format.bytearray.separator", min_length=1)
    """Separator after each record of ``bytes``. Default: a newline."""

    flush_size: int = Field(alias="flush.size", gt=0)
    """Number of records of a topic partition after which its objects are complete."""

    rotate_interval_ms: int = Field(-1, alias="rotate.interval.ms")
    """Objects are complete at a record whose timestamp is this many milliseconds after their first record's, or that belongs to
    another partition. ``timestamp.extractor`` selects the timestamp. -1: off.
    """

    rotate_schedule_interval_ms: int = Field(-1, alias="rotate.schedule.interval.ms")
    """Objects are complete each time the clock passes a multiple of this many milliseconds since midnight, even without new
    records. -1: off.
    """

    partitioner: Literal["default", "field", "time-based", "daily", "hourly"] = "default"
    """``default``: by the topic's partition (``partition=N``). ``field``: by ``partition.field.name``. Others: by the record's timestamp.
    """

    partition_field_name: tuple[str, ...] = Field((), alias="partition.field.name")
    """Columns of ``field``, with dots for fields of structs."""

    path_format: str | None = Field(None, alias="path.format")
    """Path of ``time-based``, as a Joda-Time pattern: ``'year'=YYYY/'month'=MM``."""

    partition_duration_ms: int | None = Field(None, alias="partition.duration.ms", gt=0)
    """Duration of ``time-based``: timestamps are rounded down to a multiple of this many milliseconds."""

    locale: str = "en-US"
    """Language of the names of months and days in paths. Only English is supported."""

    timezone: str = "UTC"
    """Time zone of paths and of ``rotate.schedule.interval.ms``."""

    timestamp_extractor: Literal["Wallclock", "Record", "RecordField"] = Field("Wallclock", alias="timestamp.extractor")
    """Timestamp of a record: the time of the write, the record's timestamp in the source, or its ``timestamp.field``."""

    timestamp_field: str = Field("timestamp", alias="timestamp.field", min_length=1)
    """Column of the timestamp, with dots for fields of structs: milliseconds since 1970, a timestamp, a date, or an ISO 8601 string.
    """

    null_values: Literal["ignore", "fail", "write"] = Field("ignore", alias="behavior.on.null.values")
    """Records without a value: left out, an error, or stored as objects of their keys."""

    tombstone_partition: str = Field("tombstone", alias="tombstone.encoded.partition", min_length=1)
    """Partition for the objects of ``write``."""

    store_keys: bool = Field(False, alias="store.kafka.keys")
    """Store keys in separate objects next to those of the values."""

    keys_format: Literal["avro", "json", "parquet", "bytes"] = Field("avro", alias="keys.format")
    """Format of the keys. ``bytes``: the raw keys."""

    store_headers: bool = Field(False, alias="store.kafka.headers")
    """Store headers in separate objects."""

    headers_format: RowFormat = Field("avro", alias="headers.format")
    """Format of the headers."""

    sync: Sync = None
    """Catalog in which the tables are registered for query engines. The folders of ``partitioner`` are partitions."""

    @field_validator("avro_codec", mode="before")
    @classmethod
    def _read_null(cls, value: Any) -> Any:
        return "null" if value is None else value  # YAML parses `null` as None

    @field_validator("partition_field_name", mode="before")
    @classmethod
    def _split_names(cls, value: Any) -> Any:
        return tuple(name.strip() for name in value.split(",")) if isinstance(value, str) else value

    @field_validator("timezone")
    @classmethod
    def _check_timezone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError):
            raise ValueError(f"unknown time zone {value!r}: write it like Europe/Prague") from None
        return value

    @model_validator(mode="after")
    def _check_partitioner(self) -> S3SinkConfig:
        if (self.partitioner == "field") != bool(self.partition_field_name):
            raise ValueError("`partitioner: field` and `partition.field.name` require each other")
        is_free = self.partitioner == "time-based"
        if is_free and not (self.path_format and self.partition_duration_ms):
            raise ValueError("`partitioner: time-based` requires `path.format` and `partition.duration.ms`")
        if not is_free and (self.path_format or self.partition_duration_ms):
            raise ValueError("`path.format` and `partition.duration.ms` require `partitioner: time-based`")
        if is_free:
            translate_pattern(str(self.path_format), self.locale)
        return self

    @model_validator(mode="after")
    def _check_stored_parts(self) -> S3SinkConfig:
        if self.null_values == "write" and not self.store_keys:
            raise ValueError("`behavior.on.null.values: write` requires `store.kafka.keys: true`")
        is_in_row = self.partitioner == "field" or (self.needs_time and self.timestamp_extractor == "RecordField")
        if self.format == "bytes" and is_in_row:
            raise ValueError("`format: bytes` has no columns to partition by")
        for name in ("topics_dir", "tombstone_partition"):
            if (name != "topics_dir" or self.topics_dir) and any(
                part in ("", ".", "..") or part.startswith("_") for part in getattr(self, name).split("/")
            ):
                raise ValueError(
                    f"`{self.__class__.model_fields[name].alias}` is not a folder path: its names must not be empty or start with `_`"
                )
        return self

    @model_validator(mode="after")
    def _check_catalog(self) -> S3SinkConfig:
        if self.sync is None:
            return self
        if self.format == "bytes":
            raise ValueError("`sync` requires columns, and `format: bytes` has none")
        if self.store_keys or self.store_headers:
            raise ValueError(
                "with `sync`, readers read all objects of a folder as rows: remove `store.kafka.keys` and `store.kafka.headers`"
            )
        if wrong := [name for name in self.partition_names if not re.fullmatch(r"\w+", name)]:
            raise ValueError(
                f"with `sync`, each folder of a path is `name=value`, and {wrong[0]!r} is not a column name"
            )
        return self

    @property
    def topics_prefix(self) -> str:
        """Path of the folder of all topics, relative to ``path``: empty, or with a slash at its end."""
        return f"{self.topics_dir}/" if self.topics_dir else ""

    @property
    def partition_names(self) -> tuple[str, ...]:
        """Names of the partition folders: ``year`` of ``year=2015``; a folder without ``=`` as it is."""
        if self.partitioner == "default":
            return ("partition",)
        pattern = _PERIODS[self.partitioner][0] if self.partitioner in _PERIODS else self.path_format
        return self.partition_field_name or list_folder_names(str(pattern))

    @property
    def path_pattern(self) -> tuple[str, int] | None:
        """Java pattern of the paths, and the milliseconds that timestamps are rounded to; None for paths without a timestamp."""
        if self.partitioner in _PERIODS:
            text, duration = _PERIODS[self.partitioner]
        elif self.path_format and self.partition_duration_ms:
            text, duration = self.path_format, self.partition_duration_ms
        else:
            return None
        return translate_pattern(text, self.locale), duration

    @property
    def needs_time(self) -> bool:
        """Whether the timestamp of each record decides about its object."""
        return self.path_pattern is not None or self.rotate_interval_ms > 0
