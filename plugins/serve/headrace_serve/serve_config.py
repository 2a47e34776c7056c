"""The block ``serve:`` of the pipeline file."""

from __future__ import annotations

import ipaddress
import re
from typing import Self

from pydantic import Field, SecretStr, field_validator, model_validator

from headrace.sdk import Config, Interval
from headrace.sdk.options import seconds_of

_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:/@\[\]]+)):(?P<port>\d{1,5})")


class ReadyConfig(Config):
    """When the tables count as ready."""

    latency: Interval = "1 minute"
    """Maximum delay of each table."""

    during_catch_up: bool = Field(default=False, alias="during.catch.up")
    """Whether a run is ready during its first catch-up, until all tables were once within the delay."""

    @property
    def seconds(self) -> float:
        """Maximum delay in seconds."""
        return seconds_of(self.latency)


class ServeConfig(Config):
    """Metrics for Prometheus, probes, the status as JSON and a page of a run, over HTTP.

    The paths are ``/metrics``, ``/healthz``, ``/readyz``, ``/status.json`` and ``/``. Off without the block; ``headrace run --serve
    HOST:PORT`` turns it on.
    """

    address: str = "127.0.0.1:8080"
    """Host and port. An address that other machines can reach requires ``token``, or ``username`` and ``password``."""

    ready: ReadyConfig = Field(default_factory=ReadyConfig)
    """When ``/readyz`` answers 200."""

    token: SecretStr | None = Field(default=None, min_length=16)
    """Token for the header ``Authorization: Bearer``."""

    username: str | None = None
    """User of a Basic login, for browsers."""

    password: SecretStr | None = Field(default=None, min_length=8)
    """Password of the user."""

    max_tables: int = Field(default=500, alias="max.tables", ge=1)
    """Number of tables and sinks with metrics of their own. The counts of further ones are added up as ``_other``."""

    @field_validator("address")
    @classmethod
    def _address(cls, value: str) -> str:
        match = _ADDRESS.fullmatch(value)
        if match is None or int(match["port"]) > 65535:
            raise ValueError(f"{value!r} is not an address", "write HOST:PORT, such as 127.0.0.1:8080")
        return value

    @model_validator(mode="after")
    def _login(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise ValueError("`username` and `password` belong together", "write both")
        if not self.has_login and not self.is_local:
            what = f"other machines can reach the `address` {self.address}, and there is no login"
            raise ValueError(what, "add `token`, or `username` and `password`, or use 127.0.0.1")
        return self

    @property
    def has_login(self) -> bool:
        """Whether requests need a login."""
        return self.token is not None or self.password is not None

    @property
    def host(self) -> str:
        """Host without brackets."""
        match = _ADDRESS.fullmatch(self.address)
        assert match
        return match["v6"] or match["host"]

    @property
    def port(self) -> int:
        """Port; 0 for any free one."""
        return int(self.address.rpartition(":")[2])

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the address."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
