"""Receiver that is a topic of Amazon SNS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace_alerts.alert import Alert, describe_group
from headrace_alerts.receivers.receiver import Receiver
from headrace_aws.clients import explain_error, make_client

#: Characters of a subject, a limit of SNS.
_SUBJECT = 100
_FIFO = ".fifo"


class Sns(Receiver):
    """Topic of Amazon SNS. Subscribers may filter by the attributes, which are the labels and the status of an alert."""

    _client: Any = None

    @property
    def place(self) -> str:
        return f"sns {self.options.topic.rpartition(':')[2]}"

    def send(self, alerts: Sequence[Alert]) -> None:
        (alert,) = alerts
        try:
            self._open_client().publish(
                TopicArn=self.options.topic,
                Subject=make_subject(alert),
                Message=alert.text,
                MessageAttributes={
                    name: {"DataType": "String", "StringValue": value}
                    for name, value in {"status": alert.status, **alert.labels}.items()
                },
                **(_make_order(alert) if self.options.topic.endswith(_FIFO) else {}),
            )
        except Exception as error:
            raise explain_error(error, "sns:Publish", where=self.place) from error

    def _open_client(self) -> Any:
        """Return the client. Its credentials are renewed by boto3."""
        if self._client is None:
            options = self.options
            session = options.identity(options.region).open_session("SNS")
            self._client = make_client(
                "sns", options.region, session, endpoint=options.endpoint, attempts=1, where=self.place
            )
        return self._client


def make_subject(alert: Alert) -> str:
    """Return a subject that SNS accepts: ASCII in one line."""
    text = describe_group([alert]).replace("→", "->").encode("ascii", "replace").decode()
    return "".join(char if char.isprintable() else " " for char in text)[:_SUBJECT]


def _make_order(alert: Alert) -> dict[str, str]:
    """Return the parameters of a FIFO topic: the alerts of a trouble stay in order."""
    state = f"{alert.fingerprint}-{alert.started:.0f}-{alert.ended or 0:.0f}"
    return {"MessageGroupId": alert.fingerprint, "MessageDeduplicationId": state}
