"""Receivers over HTTP: Slack, PagerDuty, and services that accept Alertmanager's messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import SecretStr

from headrace_alerts.alert import FIRING, RESOLVED, Alert, format_time
from headrace_alerts.http_request import find_host, request
from headrace_alerts.receivers.receiver import Receiver

#: Address of PagerDuty's API.
_PAGERDUTY_URL = "https://events.pagerduty.com/v2/enqueue"
#: Characters of a message: Slack cuts longer ones.
_SLACK_TEXT = 3900
#: Characters of a summary, a limit of PagerDuty.
_PAGERDUTY_SUMMARY = 1024


class Slack(Receiver):
    """Incoming webhook of Slack."""

    max_alerts = 10

    @property
    def place(self) -> str:
        return f"slack {find_host(self.options.url)}"

    def send(self, alerts: Sequence[Alert]) -> None:
        request(self.options.url, self.timeout, {"text": _format_slack(alerts)})


class PagerDuty(Receiver):
    """Events API v2 of PagerDuty."""

    @property
    def place(self) -> str:
        return f"pagerduty {find_host(self._url)}"

    @property
    def _url(self) -> SecretStr:
        return self.options.url or SecretStr(_PAGERDUTY_URL)

    def send(self, alerts: Sequence[Alert]) -> None:
        (alert,) = alerts
        request(self._url, self.timeout, make_event(alert, self.options.routing_key.get_secret_value()))


class Webhook(Receiver):
    """Service that accepts Alertmanager's messages."""

    max_alerts = 100

    @property
    def place(self) -> str:
        return f"webhook {find_host(self.options.url)}"

    def send(self, alerts: Sequence[Alert]) -> None:
        headers = {name: value.get_secret_value() for name, value in self.options.headers.items()}
        request(self.options.url, self.timeout, make_message(alerts), headers)


def make_event(alert: Alert, routing_key: str) -> dict[str, Any]:
    """Return an event of PagerDuty. Its start and its end have one ``dedup_key``."""
    identity = {"routing_key": routing_key, "dedup_key": alert.fingerprint}
    if alert.status == RESOLVED:
        return {**identity, "event_action": "resolve"}
    places = {name: value for name, value in alert.labels.items() if name in ("table", "sink", "topic")}
    summary = f"{alert.pipeline}: {alert.summary}"
    payload = {
        "summary": summary[:_PAGERDUTY_SUMMARY],
        "source": alert.pipeline,
        "severity": alert.severity,
        "timestamp": format_time(alert.started),
        "component": alert.key.table or alert.pipeline,
        "class": alert.key.condition,
        "custom_details": {**places, "description": alert.description},
    }
    return {**identity, "event_action": "trigger", "client": "headrace", "payload": payload}


def make_message(alerts: Sequence[Alert]) -> dict[str, Any]:
    """Return a message of Alertmanager's webhook, version 4."""
    items = [alert.to_dict() for alert in alerts]
    return {
        "version": "4",
        "groupKey": f'{{}}:{{pipeline="{alerts[0].pipeline}"}}',
        "truncatedAlerts": 0,
        "status": FIRING if any(alert.status == FIRING for alert in alerts) else RESOLVED,
        "receiver": "headrace",
        "groupLabels": {"pipeline": alerts[0].pipeline},
        "commonLabels": _find_common([item["labels"] for item in items]),
        "commonAnnotations": _find_common([item["annotations"] for item in items]),
        "externalURL": "",
        "alerts": items,
    }


def _find_common(items: Sequence[dict[str, str]]) -> dict[str, str]:
    first, *others = items
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}


def _format_slack(alerts: Sequence[Alert]) -> str:
    text = "\n\n".join(
        f"{':red_circle:' if alert.status == FIRING else ':white_check_mark:'} {alert.text}" for alert in alerts
    )
    text = text if len(text) <= _SLACK_TEXT else f"{text[:_SLACK_TEXT]}…"
    # The three characters that Slack's format reserves.
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
