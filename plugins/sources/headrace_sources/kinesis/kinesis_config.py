"""Options of the source ``kinesis``."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from headrace_aws.identity_config import IdentityConfig
from headrace_sources.kinesis.shard_positions import ShardPosition

STREAM_OPTIONS = ("stream", "subscribe", "subscribePattern")


def _check_zone(time: datetime) -> datetime:
    if time.tzinfo is None:
        raise ValueError("has no time zone: write it like 2026-01-31T12:00:00Z")
    return time


def _check_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from error
    return pattern


class KinesisConfig(IdentityConfig):
    """Amazon Kinesis streams."""

    stream: str | None = Field(None, min_length=1)
    """Name or ARN of the stream. Exactly one of ``stream``, ``subscribe`` and ``subscribePattern``."""

    subscribe: str | list[str] | None = None
    """Several streams: comma separated names or ARNs, or a list."""

    subscribePattern: Annotated[str, AfterValidator(_check_pattern)] | None = None  # noqa: N815 - Spark's name for Kafka
    """A regular expression that matches whole names of streams. Streams that are created later are included."""

    stream_poll_interval: int = Field(60_000, alias="stream.poll.interval.ms", gt=0)
    """With ``subscribePattern``: milliseconds between two searches for new streams."""

    region: str | None = None
    """AWS region. Default: the region in the ARN, in ``AWS_REGION`` or in the profile."""

    endpoint_url: str | None = Field(None, alias="endpoint.url")
    """URL of a VPC endpoint or an emulator."""

    starting_position: Literal["TRIM_HORIZON", "LATEST", "AT_TIMESTAMP"] = Field(
        "TRIM_HORIZON", alias="starting.position"
    )
    """Start of a stream without a checkpoint: the oldest record, the time of the first start, or ``starting.timestamp``.
    """

    starting_timestamp: Annotated[datetime, AfterValidator(_check_zone)] | None = Field(
        None, alias="starting.timestamp"
    )
    """With ``AT_TIMESTAMP``: a timestamp with a time zone."""

    fail_on_data_loss: bool = Field(True, alias="fail.on.data.loss")
    """Fail if unread records may have expired. ``false``: log a warning and continue with the oldest record."""

    max_fetch_records_per_shard: int = Field(100_000, alias="max.fetch.records.per.shard", gt=0)
    """Most records of one shard in a batch. A batch also ends after 64 MB of a shard."""

    max_fetch_records: int = Field(1_000_000, alias="max.fetch.records", gt=0)
    """Most records of a batch. The streams get equal shares, and the unused part of a share goes to the other streams."""

    max_fetch_bytes: int = Field(1 << 30, alias="max.fetch.bytes", gt=0)
    """Most bytes of a batch, approximately, divided like the records."""

    consumer_type: Literal["GetRecords", "SubscribeToShard"] = Field("GetRecords", alias="consumer.type")
    """How shards are read: by polling, which shares 2 MB/s per shard with all readers, or through a registered consumer
    with 2 MB/s of its own (enhanced fan-out, which AWS bills).
    """

    consumer_name: str | None = Field(None, alias="consumer.name", pattern=r"^[a-zA-Z0-9_.-]{1,128}$")
    """With ``SubscribeToShard``: name of the consumer, unique per pipeline. A run registers a missing consumer and never removes it.
    """

    @property
    def limit(self) -> int:
        """Most records of a batch."""
        return self.max_fetch_records

    @property
    def named_streams(self) -> list[str]:
        """Names and ARNs of streams; empty with a pattern."""
        if self.stream is not None:
            return [self.stream]
        names = self.subscribe.split(",") if isinstance(self.subscribe, str) else self.subscribe or []
        return [stripped for name in names if (stripped := name.strip())]

    @model_validator(mode="after")
    def _one_stream_option(self) -> KinesisConfig:
        named = [name for name in STREAM_OPTIONS if getattr(self, name)]
        if len(named) != 1:
            raise ValueError(f"needs one of {', '.join(STREAM_OPTIONS)}, and has {' and '.join(named) or 'none'}")
        counts = Counter(name.rpartition("/")[2] for name in self.named_streams)
        if twice := [name for name, count in counts.items() if count > 1]:
            raise ValueError(f"`subscribe` has two streams of the name {twice[0]}: use a pipeline for each of them")
        return self

    @model_validator(mode="after")
    def _name_goes_with_type(self) -> KinesisConfig:
        if (self.consumer_type == "SubscribeToShard") != (self.consumer_name is not None):
            raise ValueError("`consumer.type: SubscribeToShard` and `consumer.name` require each other")
        return self

    @model_validator(mode="after")
    def _timestamp_goes_with_position(self) -> KinesisConfig:
        if (self.starting_position == "AT_TIMESTAMP") != (self.starting_timestamp is not None):
            raise ValueError("`starting.position: AT_TIMESTAMP` and `starting.timestamp` require each other")
        return self

    def begin(self, now: int) -> ShardPosition:
        """Return the first position of a shard without a checkpoint; ``now`` is the start in milliseconds."""
        if self.starting_position == "LATEST":
            return ShardPosition(since=now)
        time = self.starting_timestamp
        return ShardPosition() if time is None else ShardPosition(since=round(time.timestamp() * 1000))
