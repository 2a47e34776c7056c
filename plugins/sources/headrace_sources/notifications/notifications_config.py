"""Options of S3 event notifications."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from pydantic import Field

from headrace.sdk.interval import Interval
from headrace_aws.identity_config import IdentityConfig

#: Region in the host of a queue's URL, also of a VPC endpoint: `sqs.eu-west-1.amazonaws.com`.
_REGION = re.compile(r"(?:^|\.)sqs(?:-fips)?\.([a-z]+(?:-[a-z]+)+-\d+)\.")


class NotificationsConfig(IdentityConfig):
    """S3 event notifications in a queue of Amazon SQS: they name the new objects, and ``path`` is rarely listed."""

    queueUrl: str = Field(pattern=r"^https?://[^/\s]+/\S*[^/\s]$")  # noqa: N815 - Auto Loader's name
    """URL of the queue. Each pipeline needs a queue of its own."""

    region: str | None = None
    """AWS region of the queue. Default: the region in the URL, in `AWS_REGION` or in the profile."""

    backfillInterval: Interval = "1 day"  # noqa: N815 - Auto Loader's name
    """Interval of the listings that find objects without a notification. The first run always lists."""

    @property
    def endpoint(self) -> str:
        """The address of the service in the URL of the queue: of AWS, of a VPC endpoint or of an emulator."""
        parts = urlsplit(self.queueUrl)
        return f"{parts.scheme}://{parts.netloc}"

    def find_region(self) -> str | None:
        """Return the region of the options or of the URL; None if neither has one."""
        match = _REGION.search(urlsplit(self.queueUrl).netloc)
        return self.region or (match[1] if match else None)
