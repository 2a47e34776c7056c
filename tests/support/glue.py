"""AWS Glue, and S3 where a catalog keeps files there, played by moto in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.testing.stack.http import request
from headrace.testing.stack.server import Server


class Glue(Server):
    """A catalog in memory at ``endpoint_url``. Any keys will do, which is right for tests of tables and none of logins."""

    name = "glue"
    region = "eu-west-1"

    @property
    def endpoint_url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def address(self) -> str:
        return self.endpoint_url

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables by which boto3 finds it."""
        return {
            "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "example",
            "AWS_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ENDPOINT_URL": self.endpoint_url,
        }

    def client(self, service: str = "glue") -> Any:
        """boto3's client."""
        import boto3

        session = boto3.Session(aws_access_key_id="AKIDEXAMPLE", aws_secret_access_key="example")
        return session.client(service, endpoint_url=self.endpoint_url, region_name=self.region)

    def fetch(self) -> None:
        """Nothing to fetch: it is a package of the extra ``test``."""

    def command(self) -> Sequence[str | Path]:
        return [sys.executable, "-P", Path(__file__).with_name("moto_server.py"), "-H", self.host, "-p", str(self.port)]

    def ready(self) -> bool:
        try:
            return request("GET", f"{self.endpoint_url}/moto-api/data.json")[0] == 200
        except OSError:
            return False
