"""AWS Glue, and S3 where a catalog keeps files there, played by moto in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.testing.stack.aws import AwsServer
from headrace.testing.stack.http import request


class Glue(AwsServer):
    """A catalog in memory at ``endpoint_url``. Any keys will do, which is right for tests of tables and none of logins."""

    name = "glue"
    region = "eu-west-1"

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables by which AWS's clients find it, too."""
        return {**super().environment, "AWS_ENDPOINT_URL": self.endpoint_url}

    def client(self, service: str = "glue") -> Any:
        """boto3's client."""
        return self.open_client(service)

    def fetch(self) -> None:
        """Nothing to fetch: it is a package of the extra ``test``."""

    def command(self) -> Sequence[str | Path]:
        return [sys.executable, "-P", Path(__file__).with_name("moto_server.py"), "-H", self.host, "-p", str(self.port)]

    def ready(self) -> bool:
        try:
            return request("GET", f"{self.endpoint_url}/moto-api/data.json")[0] == 200
        except OSError:
            return False
