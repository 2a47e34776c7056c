"""The options of the source ``kinesis``."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from headrace_aws.identity_config import IdentityConfig
from headrace_sources.kinesis.shard_positions import Place


def _check_zone(time: datetime) -> datetime:
    if time.tzinfo is None:
        raise ValueError("says no time zone: write it like 2026-01-31T12:00:00Z")
    return time


class KinesisConfig(IdentityConfig):
    """An Amazon Kinesis stream."""

    stream: str = Field(min_length=1)
    """Its name, or its ARN."""

    region: str | None = None
    """Its region; else that of the ARN, of ``AWS_REGION`` or of the profile."""

    endpoint_url: str | None = Field(None, alias="endpoint.url")
    """The URL of a VPC endpoint or an emulator."""

    starting_position: Literal["TRIM_HORIZON", "LATEST", "AT_TIMESTAMP"] = Field(
        "TRIM_HORIZON", alias="starting.position"
    )
    """Where a stream without a checkpoint starts: the oldest record, the second of the first start, or ``starting.timestamp``.
    """

    starting_timestamp: Annotated[datetime, AfterValidator(_check_zone)] | None = Field(
        None, alias="starting.timestamp"
    )
    """With ``AT_TIMESTAMP``: a time with its zone."""

    fail_on_data_loss: bool = Field(True, alias="fail.on.data.loss")
    """Stop when records may be gone that were not read. ``false``: say so, and go on with the oldest there are."""

    max_fetch_records_per_shard: int = Field(100_000, alias="max.fetch.records.per.shard", gt=0)
    """Records of one shard that a batch takes at most; it also ends after 64 MB of a shard."""

    consumer_type: Literal["GetRecords", "SubscribeToShard"] = Field("GetRecords", alias="consumer.type")
    """How shards are read: they are asked for their records and share two megabytes a second with all who ask, or they send them to a
    consumer that has two megabytes of its own (enhanced fan-out, which AWS bills).
    """

    consumer_name: str | None = Field(None, alias="consumer.name", pattern=r"^[a-zA-Z0-9_.-]{1,128}$")
    """With ``SubscribeToShard``: the consumer's name, which no other pipeline may have. It is registered when it is not there, and stays.
    """

    @model_validator(mode="after")
    def _name_goes_with_type(self) -> KinesisConfig:
        if (self.consumer_type == "SubscribeToShard") != (self.consumer_name is not None):
            raise ValueError("`consumer.type: SubscribeToShard` and `consumer.name` need each other")
        return self

    @model_validator(mode="after")
    def _timestamp_goes_with_position(self) -> KinesisConfig:
        if (self.starting_position == "AT_TIMESTAMP") != (self.starting_timestamp is not None):
            raise ValueError("`starting.position: AT_TIMESTAMP` and `starting.timestamp` need each other")
        return self

    def begin(self, now: int) -> Place:
        """Where a shard begins for a stream without a checkpoint that starts at a millisecond."""
        if self.starting_position == "LATEST":
            return Place(since=now)
        time = self.starting_timestamp
        return Place() if time is None else Place(since=round(time.timestamp() * 1000))
