"""Base of the receivers, and their construction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, ClassVar

from headrace.sdk import Config, HeadraceError
from headrace.sdk.options import escape_controls
from headrace.sdk.secrets import hide_credentials
from headrace_alerts.alert import Alert
from headrace_alerts.receiver_config import ReceiverConfig

#: Kind → module and class, imported on first use.
_CLASSES = {
    "slack": "headrace_alerts.receivers.http_receivers:Slack",
    "pagerduty": "headrace_alerts.receivers.http_receivers:PagerDuty",
    "webhook": "headrace_alerts.receivers.http_receivers:Webhook",
    "command": "headrace_alerts.receivers.command_receiver:CommandReceiver",
    "sns": "headrace_alerts.receivers.sns:Sns",
    "email": "headrace_alerts.receivers.email:Email",
}
#: Replacement of a secret.
_HIDDEN = "******"


class Receiver(ABC):
    """Receiver of alerts. Construction has no side effects. One thread sends."""

    #: Maximum number of alerts in one message.
    max_alerts: ClassVar[int] = 1

    def __init__(self, config: ReceiverConfig) -> None:
        self.options: Any = config.options
        self.timeout, self._hide = config.timeout_seconds, make_hide(config)

    @property
    @abstractmethod
    def place(self) -> str:
        """Kind and place for messages, without a secret: ``slack hooks.slack.com``."""

    @abstractmethod
    def send(self, alerts: Sequence[Alert]) -> None:
        """Send at least one alert. Raises if the receiver does not accept them."""

    def describe_error(self, error: Exception) -> str:
        """Return why a message was not accepted, and the fix, in one line without a secret."""
        text = error.what if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
        fix = f"; {error.fix}" if isinstance(error, HeadraceError) and error.fix else ""
        return self._hide(escape_controls(text + fix))


def make_receiver(config: ReceiverConfig) -> Receiver:
    """Return the receiver of a block."""
    module, _, name = _CLASSES[config.kind].partition(":")
    return getattr(import_module(module), name)(config)  # type: ignore[no-any-return]


def make_hide(config: Config) -> Callable[[str], str]:
    """Return a function that replaces the secrets of a block, and logins, in a text."""
    secrets = sorted({secret for _, secret in config.secrets() if secret}, key=len, reverse=True)

    def hide(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, _HIDDEN)
        return hide_credentials(text)

    return hide
