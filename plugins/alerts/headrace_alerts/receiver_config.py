"""Receivers under ``to:`` of the block ``alerts:``."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from headrace.sdk import Config, Interval
from headrace.sdk.options import seconds_of
from headrace_aws.identity_config import ARN, IdentityConfig

_ADDRESS = re.compile(r"https?://[^/?#\s@]+([/?#][!-~]*)?")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_MAIL = re.compile(r"[^@\s,;<>\x00-\x1f]+@[^@\s,;<>\x00-\x1f]+")
_SMARTHOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]+):(\d{1,5})")


def _check_address(address: SecretStr) -> SecretStr:
    text = address.get_secret_value()
    try:
        is_address = _ADDRESS.fullmatch(text) is not None and (urlsplit(text).port or 0) >= 0
    except ValueError:  # a port or brackets that no address has
        is_address = False
    if not is_address:  # The message does not repeat the address, which may contain a token.
        raise ValueError("is not an address", "write https://HOST/PATH, without a login before the host")
    return address


#: Address over HTTP, which may contain a token.
SecretAddress = Annotated[SecretStr, AfterValidator(_check_address)]


def _check_mail(address: str) -> str:
    if not _MAIL.fullmatch(address):
        raise ValueError(f"{address!r} is not an e-mail address", "write NAME@DOMAIN")
    return address


MailAddress = Annotated[str, AfterValidator(_check_mail)]


class SlackConfig(Config):
    """Incoming webhook of Slack, or of a service that accepts the same messages, such as Mattermost."""

    url: SecretAddress
    """Address of the webhook. It is never shown."""


class PagerDutyConfig(Config):
    """Events API v2 of PagerDuty: an alert opens an incident, and its end resolves the incident."""

    routing_key: SecretStr = Field(alias="routing.key", min_length=1)
    """Integration key of the service."""

    url: SecretAddress | None = None
    """Address of the API. Default: ``https://events.pagerduty.com/v2/enqueue``; an account in the EU has another one."""


class WebhookConfig(Config):
    """Any service that accepts the messages of Alertmanager's webhook, version 4."""

    url: SecretAddress
    """Address of the service. It is never shown."""

    headers: dict[str, SecretStr] = Field(default_factory=dict)
    """Headers of the request, such as ``Authorization``. Their values are never shown."""

    @field_validator("headers")
    @classmethod
    def _headers(cls, headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, value in headers.items():
            text = value.get_secret_value()
            if not _HEADER_NAME.fullmatch(name) or not text.isprintable() or not text.isascii():
                raise ValueError(f"the header {name!r} is not valid", "write it in one line, in ASCII")
        return headers


class SnsConfig(IdentityConfig):
    """Topic of Amazon SNS. Requires the extra ``aws``, and the permission ``sns:Publish``."""

    topic: str = Field(pattern=rf"^{ARN}:sns:[\w-]+:\d{{12}}:[\w.-]+$")
    """ARN of the topic."""

    endpoint: str | None = None
    """URL of a VPC endpoint or of an emulator."""

    @property
    def region(self) -> str:
        """Region of the topic."""
        return self.topic.split(":")[3]


class EmailConfig(Config):
    """E-mail over SMTP."""

    to: tuple[MailAddress, ...] = Field(min_length=1)
    """Addresses that receive the mail."""

    from_: MailAddress = Field(alias="from")
    """Sender."""

    smarthost: str
    """Host and port of the SMTP server. Port 465 uses TLS from the first byte."""

    auth_username: str | None = Field(default=None, alias="auth.username")
    """User of the server."""

    auth_password: SecretStr | None = Field(default=None, alias="auth.password")
    """Password of the user."""

    require_tls: bool = Field(default=True, alias="require.tls")
    """Whether the connection is encrypted by STARTTLS. A password is never sent without it."""

    @field_validator("smarthost")
    @classmethod
    def _smarthost(cls, value: str) -> str:
        match = _SMARTHOST.fullmatch(value)
        if match is None or not 0 < int(match[2]) < 65536:
            raise ValueError(f"{value!r} is not a server", "write HOST:PORT, such as smtp.example.com:587")
        return value

    @model_validator(mode="after")
    def _login(self) -> Self:
        if (self.auth_username is None) != (self.auth_password is None):
            raise ValueError("`auth.username` and `auth.password` belong together", "write both")
        if self.auth_password and not self.require_tls and self.port != 465:
            raise ValueError("`auth.password` would be sent without encryption", "remove `require.tls: false`")
        return self

    @property
    def host(self) -> str:
        """Host without brackets."""
        return self.smarthost.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """Port of the server."""
        return int(self.smarthost.rpartition(":")[2])


#: Kinds of receivers: the field of each.
KINDS = ("slack", "pagerduty", "webhook", "command", "sns", "email")


class ReceiverConfig(Config):
    """Receiver of alerts: one of ``slack``, ``pagerduty``, ``webhook``, ``command``, ``sns`` and ``email``."""

    slack: SlackConfig | None = None
    """Channel of Slack."""

    pagerduty: PagerDutyConfig | None = None
    """Service of PagerDuty."""

    webhook: WebhookConfig | None = None
    """Service that accepts Alertmanager's messages."""

    command: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Program with its arguments. It receives the alert as JSON on its standard input, and in ``HEADRACE_ALERT_…``."""

    sns: SnsConfig | None = None
    """Topic of Amazon SNS."""

    email: EmailConfig | None = None
    """E-mail."""

    send_resolved: bool = Field(default=True, alias="send.resolved")
    """Whether the end of a trouble is sent."""

    timeout: Interval = "10 seconds"
    """Time after which an attempt is aborted, and a program is killed."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        named = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(named) != 1:
            what = f"{' and '.join(f'`{kind}`' for kind in named) or 'nothing'} in one receiver"
            raise ValueError(what, f"write one of {', '.join(KINDS)} in each item of `to:`")
        if not 1 <= seconds_of(self.timeout) <= 300:
            raise ValueError("`timeout` is out of range", "write 1 to 300 seconds")
        return self

    @property
    def kind(self) -> str:
        """Kind of the receiver."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def options(self) -> Any:
        """Options of the kind."""
        return getattr(self, self.kind)

    @property
    def timeout_seconds(self) -> float:
        """Seconds of an attempt."""
        return seconds_of(self.timeout)
