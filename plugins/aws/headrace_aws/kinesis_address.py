"""Address of a Kinesis stream, for readers and writers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Protocol, Self

from headrace.sdk import Dataset
from headrace_aws.identity import Identity

_ARN = re.compile(r"arn:[\w-]+:kinesis:(?P<region>[\w-]+):\d*:stream/(?P<name>[\w.-]+)")


class KinesisOptions(Protocol):
    """Options of the source and of the sink."""

    @property
    def region(self) -> str | None: ...

    @property
    def endpoint_url(self) -> str | None: ...

    def identity(self, region: str | None) -> Identity: ...


@dataclass(frozen=True)
class KinesisAddress:
    """Stream, region and identity. Executors receive it."""

    name: str
    region: str | None = None
    endpoint: str | None = None
    #: None: the name identifies the stream in the account of the identity.
    arn: str | None = None
    identity: Identity = field(default_factory=Identity)

    @classmethod
    def of(cls, stream: str, options: KinesisOptions) -> Self:
        """Create it from a name or an ARN. An ARN contains the region."""
        match = _ARN.fullmatch(stream)
        name, region = (match["name"], options.region or match["region"]) if match else (stream, options.region)
        return cls(name, region, options.endpoint_url, stream if match else None, options.identity(region))

    @property
    def where(self) -> str:
        """Description in errors."""
        stream = f"Kinesis stream {self.name}" if self.name else "Kinesis"
        return ", ".join(filter(None, [stream, self.region, self.endpoint]))

    @property
    def dataset(self) -> Dataset | None:
        """Place of the stream for lineage; None if only the environment names the region."""
        return Dataset(f"kinesis://{self.region}", self.name) if self.region else None

    @property
    def parameters(self) -> dict[str, str]:
        """The stream in a request."""
        return {"StreamARN": self.arn} if self.arn else {"StreamName": self.name}
