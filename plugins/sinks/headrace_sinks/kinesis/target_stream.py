"""Streams of the sink: their clients, errors and summaries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from headrace.sdk import ConfigError, HeadraceError
from headrace_aws.clients import error_code, explain_error, make_client
from headrace_aws.identity import Identity
from headrace_aws.kinesis_address import KinesisAddress


@dataclass(frozen=True)
class TargetStream(KinesisAddress):
    """Stream that the sink writes."""

    def read_summary(self) -> dict[str, Any]:
        """Request the summary of the stream. ConfigError if it does not exist."""
        try:
            client = _open_client(self.region, self.endpoint, self.identity, "the driver")
            summary: dict[str, Any] = client.describe_stream_summary(**self.parameters)["StreamDescriptionSummary"]
        except Exception as error:
            raise self.explain(error, "DescribeStreamSummary") from error
        return summary

    def keep_client(self) -> Any:
        """Return the client of this Python process of an executor. It does not repeat requests: the writer does."""
        return _keep_client(self.region, self.endpoint, self.identity)

    def explain(self, error: Exception, operation: str) -> HeadraceError:
        """Translate an error of ``operation``."""
        if error_code(error) == "ResourceNotFoundException":
            fix = "create the stream, or correct `stream:` or `region:`"
            return ConfigError("no such stream", where=self.where, fix=fix)
        return explain_error(error, f"kinesis:{operation}", where=self.where)


def _open_client(
    region: str | None, endpoint: str | None, identity: Identity, place: str, attempts: int | None = None
) -> Any:
    """Return a client. ``place`` of this process: its credentials and its region may differ from those of other places."""
    where = ", ".join(filter(None, ["Kinesis", region, endpoint, f"on {place}"]))
    session = identity.open_session("kinesis")
    return make_client("kinesis", region, session, endpoint=endpoint, attempts=attempts, where=where)


@lru_cache(maxsize=8)
def _keep_client(region: str | None, endpoint: str | None, identity: Identity) -> Any:
    return _open_client(region, endpoint, identity, "an executor", attempts=1)
