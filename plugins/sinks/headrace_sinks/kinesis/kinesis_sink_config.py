"""Options of the sink ``kinesis``, with the names of the source, of Kafka Connect and of Debezium Server."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headrace_aws.identity_config import IdentityConfig
from headrace_sinks.name_template import NAME, NameTemplate
from headrace_sinks.placeholders import PlaceholderOptions


class KinesisSinkConfig(IdentityConfig, PlaceholderOptions):
    """Amazon Kinesis streams."""

    stream: NameTemplate = Field(NAME, min_length=1)
    """Name or ARN of the stream of a table. ``{name}`` is the whole name of the table; without it all tables have one stream."""

    region: str | None = None
    """AWS region. Default: the region in the ARN, in ``AWS_REGION`` or in the profile."""

    endpoint_url: str | None = Field(None, alias="endpoint.url")
    """URL of a VPC endpoint or an emulator."""

    null_key: str = Field("default", alias="null.key", min_length=1, max_length=256)
    """Partition key of records without a key. They are spread over the shards by a random hash (``ExplicitHashKey``)."""

    value_schemas_enable: bool = Field(True, alias="value.converter.schemas.enable")
    """Whether values contain their schema, as in Kafka Connect's JsonConverter. Partition keys never do."""

    null_values: Literal["write", "ignore"] = Field("write", alias="behavior.on.null.values")
    """Tombstones of the source: written, or left out. A delete always becomes a tombstone."""
