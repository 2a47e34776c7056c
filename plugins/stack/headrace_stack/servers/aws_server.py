"""Base class of stand-ins for AWS services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from headrace_stack.servers.server import Server


class AwsServer(Server):
    """Stand-in for AWS services at ``endpoint_url``. It accepts any credentials unless a subclass checks them."""

    region: ClassVar[str] = "us-east-1"

    @property
    def endpoint_url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def address(self) -> str:
        return self.endpoint_url

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables with credentials for AWS clients; any keys are accepted."""
        return {
            "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "example",
            "AWS_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def open_client(self, service: str) -> Any:
        """Return a boto3 client of a service."""
        import boto3

        known = self.environment
        keys = {name.lower(): known[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
        return boto3.Session(**keys).client(service, endpoint_url=self.endpoint_url, region_name=self.region)
