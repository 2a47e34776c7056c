"""The options of the sink ``s3``, by the names that Confluent's connector has for them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator, model_validator

from headrace.sdk import SinkConfig, Sync
from headrace_sinks.s3.joda import list_folder_names, translate_pattern

DAY_MS = round(timedelta(days=1).total_seconds() * 1000)
#: Partitioner → the path format and the duration that it stands for.
_PERIODS = {
    "daily": ("'year'=YYYY/'month'=MM/'day'=dd", DAY_MS),
    "hourly": ("'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", DAY_MS // 24),
}

RowFormat = Literal["avro", "json", "parquet"]


class S3SinkConfig(SinkConfig):
    """Objects on any filesystem that Hadoop knows, as Confluent's S3 sink connector lays them out."""

    path: str = Field(min_length=1)
    """The bucket, or a folder in it: ``s3a://bucket``."""

    topics_dir: str = Field("topics", alias="topics.dir", min_length=1)
    """The folder in ``path`` that has a folder for each topic."""

    format: Literal["avro", "json", "parquet", "bytes"] = "avro"
    """How objects are written; ``json`` is one record a line, ``bytes`` the values as they came."""

    compression: Literal["none", "gzip"] = Field("none", alias="s3.compression.type")
    """Of ``json`` and ``bytes``."""

    avro_codec: Literal["null", "deflate", "snappy", "bzip2", "xz", "zstandard"] = Field("null", alias="avro.codec")
    """Of ``avro``. ``null``: none."""

    parquet_codec: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field("snappy", alias="parquet.codec")
    """Of ``parquet``."""

    bytes_extension: str = Field(".bin", alias="format.bytearray.extension", min_length=1)
    """Of ``bytes``: how objects' names end, before ``.gz``."""

    bytes_separator: str | None = Field(None, alias="format.bytearray.separator", min_length=1)
    """Of ``bytes``: what follows each record. Default: a newline."""

    flush_size: int = Field(alias="flush.size", gt=0)
    """Records of one topic partition after which its objects are complete."""

    rotate_interval_ms: int = Field(-1, alias="rotate.interval.ms")
    """Objects are complete when a record comes that is so many milliseconds younger than their first, or is of another
    partition of ``partitioner``. The time is what ``timestamp.extractor`` says. -1: never.
    """

    rotate_schedule_interval_ms: int = Field(-1, alias="rotate.schedule.interval.ms")
    """Objects are complete when the clock has passed a multiple of so many milliseconds, counted from midnight, though nothing
    came. -1: never.
    """

    partitioner: Literal["default", "field", "time-based", "daily", "hourly"] = "default"
    """``default``: ``partition=N`` of the topic. ``field``: of ``partition.field.name``. The others: of the time of a record.
    """

    partition_field_name: tuple[str, ...] = Field((), alias="partition.field.name")
    """Of ``field``: columns, with dots in structs."""

    path_format: str | None = Field(None, alias="path.format")
    """Of ``time-based``: a pattern of Joda-Time: ``'year'=YYYY/'month'=MM``."""

    partition_duration_ms: int | None = Field(None, alias="partition.duration.ms", gt=0)
    """Of ``time-based``: times are rounded down to so many milliseconds."""

    locale: str = "en-US"
    """Names of months and days in a path: English ones alone."""

    timezone: str = "UTC"
    """Of times in paths, and of ``rotate.schedule.interval.ms``."""

    timestamp_extractor: Literal["Wallclock", "Record", "RecordField"] = Field("Wallclock", alias="timestamp.extractor")
    """The time of a record: when it is written, the record's own in the source, or its ``timestamp.field``."""

    timestamp_field: str = Field("timestamp", alias="timestamp.field", min_length=1)
    """A column, with dots in structs: milliseconds since 1970, a timestamp, a date, or a text by ISO 8601."""

    null_values: Literal["ignore", "fail", "write"] = Field("ignore", alias="behavior.on.null.values")
    """Of records without a value: left out, an error, or objects of their keys alone."""

    tombstone_partition: str = Field("tombstone", alias="tombstone.encoded.partition", min_length=1)
    """Where ``write`` writes."""

    store_keys: bool = Field(False, alias="store.kafka.keys")
    """Keys have objects of their own, beside those of the values."""

    keys_format: Literal["avro", "json", "parquet", "bytes"] = Field("avro", alias="keys.format")
    """As what; ``bytes``: as they came."""

    store_headers: bool = Field(False, alias="store.kafka.headers")
    """Headers have objects of their own."""

    headers_format: RowFormat = Field("avro", alias="headers.format")
    """As what."""

    sync: Sync = None
    """A catalog in which engines look the tables up. The folders of ``partitioner`` are partitions there."""

    @field_validator("avro_codec", mode="before")
    @classmethod
    def _read_null(cls, value: Any) -> Any:
        return "null" if value is None else value  # as YAML reads it

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
            raise ValueError(f"there is no time zone {value!r}: write it like Europe/Prague") from None
        return value

    @model_validator(mode="after")
    def _check_partitioner(self) -> S3SinkConfig:
        if (self.partitioner == "field") != bool(self.partition_field_name):
            raise ValueError("`partitioner: field` and `partition.field.name` need each other")
        is_free = self.partitioner == "time-based"
        if is_free and not (self.path_format and self.partition_duration_ms):
            raise ValueError("`partitioner: time-based` needs `path.format` and `partition.duration.ms`")
        if not is_free and (self.path_format or self.partition_duration_ms):
            raise ValueError("`path.format` and `partition.duration.ms` are of `partitioner: time-based`")
        if is_free:
            translate_pattern(str(self.path_format), self.locale)
        return self

    @model_validator(mode="after")
    def _check_what_is_stored(self) -> S3SinkConfig:
        if self.null_values == "write" and not self.store_keys:
            raise ValueError("`behavior.on.null.values: write` writes keys, and needs `store.kafka.keys: true`")
        is_in_row = self.partitioner == "field" or (self.needs_time and self.timestamp_extractor == "RecordField")
        if self.format == "bytes" and is_in_row:
            raise ValueError("bytes have no columns: with `format: bytes` records cannot be placed by one")
        for name in ("topics_dir", "tombstone_partition"):
            if any(part in ("", ".", "..") or part.startswith("_") for part in getattr(self, name).split("/")):
                raise ValueError(
                    f"`{self.__class__.model_fields[name].alias}` is a folder: names without a leading `_`, and `/`"
                )
        return self

    @model_validator(mode="after")
    def _check_catalog(self) -> S3SinkConfig:
        if self.sync is None:
            return self
        if self.format == "bytes":
            raise ValueError("`sync` describes columns, and `format: bytes` has none")
        if self.store_keys or self.store_headers:
            raise ValueError(
                "with `sync` readers take all objects of a folder for rows: leave out `store.kafka.keys` and `store.kafka.headers`"
            )
        if wrong := [name for name in self.partition_names if not re.fullmatch(r"\w+", name)]:
            raise ValueError(f"with `sync` a part of a path is `name=value`, and {wrong[0]!r} is no name of a column")
        return self

    @property
    def partition_names(self) -> tuple[str, ...]:
        """The names of the folders of a partition: ``year`` of ``year=2015``; where one has none, the folder as it is."""
        if self.partitioner == "default":
            return ("partition",)
        pattern = _PERIODS[self.partitioner][0] if self.partitioner in _PERIODS else self.path_format
        return self.partition_field_name or list_folder_names(str(pattern))

    @property
    def path_pattern(self) -> tuple[str, int] | None:
        """A pattern of Java's for the paths of times, and the milliseconds that they are rounded to; None where no time is in them."""
        if self.partitioner in _PERIODS:
            text, duration = _PERIODS[self.partitioner]
        elif self.path_format and self.partition_duration_ms:
            text, duration = self.path_format, self.partition_duration_ms
        else:
            return None
        return translate_pattern(text, self.locale), duration

    @property
    def needs_time(self) -> bool:
        """Whether the time of each record decides where it lies."""
        return self.path_pattern is not None or self.rotate_interval_ms > 0
