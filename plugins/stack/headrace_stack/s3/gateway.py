"""S3 server versitygw on a folder, with signatures, conditional requests and multipart uploads."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from headrace_stack.download import artifacts, golang
from headrace_stack.servers.aws_server import AwsServer
from headrace_stack.servers.json_http import request

_MODULE = Path(__file__).parent
_PACKAGE = "github.com/versity/versitygw/cmd/versitygw"


class S3(AwsServer):
    """Buckets at ``endpoint_url`` with full access for ``access_key``. The first build requires Go on the PATH."""

    name = "s3"
    # Not us-east-1, which is the default region of clients.
    region: ClassVar[str] = "eu-west-1"

    access_key = "AKIAHEADRACE"

    def __init__(self) -> None:
        super().__init__()
        # Characters that a URL and an XML file must escape.
        self.secret_key = f"{secrets.token_urlsafe(24)}/+&"

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables with the credentials for AWS clients."""
        known = {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}
        return {**super().environment, **known}

    @property
    def hadoop_options(self) -> Mapping[str, str]:
        """Return the S3A options of the server; the keys come from the environment."""
        return {
            "fs.s3a.endpoint": self.endpoint_url,
            "fs.s3a.endpoint.region": self.region,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": "false",
            # versitygw rejects deleting a nonempty folder without a marker, unlike S3.
            "fs.s3a.directory.marker.retention": "keep",
        }

    def client(self) -> Any:
        """Return a boto3 client."""
        return self.open_client("s3")

    def create_bucket(self, bucket: str) -> None:
        """Create an empty bucket."""
        self.client().create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": self.region})

    def create_user(self, access_key: str, secret_key: str) -> None:
        """Create a user without access to any bucket; policies grant access."""
        admin = [f"--access={self.access_key}", f"--secret={self.secret_key}", f"--region={self.region}"]
        user = [f"--access={access_key}", f"--secret={secret_key}", "--role=user"]
        address = f"--endpoint-url={self.endpoint_url}"
        self.run(_find_program(), "admin", *admin, address, "create-user", *user)

    def put(self, bucket: str, key: str, content: bytes) -> None:
        """Write an object."""
        self.client().put_object(Bucket=bucket, Key=key, Body=content)

    def read(self, bucket: str, key: str) -> bytes:
        """Return the content of an object."""
        content: bytes = self.client().get_object(Bucket=bucket, Key=key)["Body"].read()
        return content

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Return the sorted keys with a prefix."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", ())]

    def fetch(self) -> None:
        _find_program()

    def prepare(self) -> None:
        for name in ("data", "users"):
            (self.folder / name).mkdir()

    def command(self) -> Sequence[str | Path]:
        keys = [f"--access={self.access_key}", f"--secret={self.secret_key}"]
        listen = [f"--port={self.host}:{self.port}", f"--region={self.region}", "--keep-alive"]
        return [_find_program(), *keys, *listen, f"--iam-dir={self.folder / 'users'}", "posix", self.folder / "data"]

    def ready(self) -> bool:
        try:
            # An unsigned request is rejected.
            return request("GET", self.endpoint_url)[0] == 403
        except OSError:
            return False


def _find_program() -> Path:
    return golang.build(_MODULE, _PACKAGE, artifacts.report_to_stderr)
