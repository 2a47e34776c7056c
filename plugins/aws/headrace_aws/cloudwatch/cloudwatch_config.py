"""The block ``cloudwatch:`` of the pipeline file."""

from __future__ import annotations

from pydantic import Field, field_validator

from headrace.sdk import Interval
from headrace.sdk.options import seconds_of
from headrace_aws.identity_config import IdentityConfig


class CloudWatchConfig(IdentityConfig):
    """Metrics of a run in Amazon CloudWatch. Requires the extra ``aws``, and the permission ``cloudwatch:PutMetricData``."""

    region: str | None = Field(None, min_length=1)
    """Region of the metrics. Default: the region of the environment, or of the profile."""

    endpoint_url: str | None = Field(None, alias="endpoint.url", min_length=1)
    """URL of a VPC endpoint or of an emulator."""

    namespace: str = Field("headrace", pattern="^[0-9A-Za-z._/#: -]+$", max_length=255)
    """Namespace of the metrics."""

    interval: Interval = "1 minute"
    """Time between two requests. CloudWatch keeps one value per minute."""

    max_tables: int = Field(100, alias="max.tables", ge=0)
    """Number of tables and sinks with metrics of their own, which CloudWatch bills. `0`: metrics of the whole pipeline alone."""

    @field_validator("namespace")
    @classmethod
    def _namespace(cls, value: str) -> str:
        if value.startswith("AWS/"):
            raise ValueError("starts with AWS/, which CloudWatch rejects", "name another namespace")
        return value

    @field_validator("interval")
    @classmethod
    def _interval(cls, value: str) -> str:
        if seconds_of(value) < 1:
            raise ValueError("is shorter than a second", "write at least 1 second")
        return value
