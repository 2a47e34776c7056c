"""versitygw on a folder: S3 as clients see it, with its signatures, conditions and parts."""

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
    """Buckets at ``endpoint_url``, which ``access_key`` may do anything with. Building it needs Go on the PATH, once."""

    name = "s3"
    # Not us-east-1, which clients take where they were told no region.
    region: ClassVar[str] = "eu-west-1"

    access_key = "AKIAHEADRACE"

    def __init__(self) -> None:
        super().__init__()
        # Some characters want to be escaped in an address, and in a file of XML.
        self.secret_key = f"{secrets.token_urlsafe(24)}/+&"

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables by which AWS's clients log in."""
        known = {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}
        return {**super().environment, **known}

    @property
    def hadoop_options(self) -> Mapping[str, str]:
        """What S3A has to know to find it; the keys are not among them, and come from the environment."""
        return {
            "fs.s3a.endpoint": self.endpoint_url,
            "fs.s3a.endpoint.region": self.region,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": "false",
            # It refuses to delete a folder that has something in it and no marker, which S3 knows nothing of.
            "fs.s3a.directory.marker.retention": "keep",
        }

    def client(self) -> Any:
        """boto3's client."""
        return self.open_client("s3")

    def create_bucket(self, bucket: str) -> None:
        """Make an empty one."""
        self.client().create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": self.region})

    def create_user(self, access_key: str, secret_key: str) -> None:
        """Somebody who is let in, and may touch no bucket that a policy does not open to them."""
        admin = [f"--access={self.access_key}", f"--secret={self.secret_key}", f"--region={self.region}"]
        user = [f"--access={access_key}", f"--secret={secret_key}", "--role=user"]
        address = f"--endpoint-url={self.endpoint_url}"
        self.run(_find_program(), "admin", *admin, address, "create-user", *user)

    def put(self, bucket: str, key: str, content: bytes) -> None:
        """Write an object."""
        self.client().put_object(Bucket=bucket, Key=key, Body=content)

    def read(self, bucket: str, key: str) -> bytes:
        """What an object holds."""
        content: bytes = self.client().get_object(Bucket=bucket, Key=key)["Body"].read()
        return content

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """The names of all objects that begin so, in order."""
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
            # Who does not sign is refused.
            return request("GET", self.endpoint_url)[0] == 403
        except OSError:
            return False


def _find_program() -> Path:
    return golang.build(_MODULE, _PACKAGE, artifacts.report_to_stderr)
