"""The kit of observers for `alerts`, and wrong options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from headrace_alerts.alerts import Alerts

from headrace.sdk import ConfigError
from headrace.testing.observers import ObserverConformance

PROGRAM = {"command": ["true"]}
MAIL = {"to": ["ops@shop.com"], "from": "headrace@shop.com", "smarthost": "smtp.shop.com:587"}
SECRET = "canary-4711"


class TestAlerts(ObserverConformance):
    plugin_class = Alerts
    refused = (
        {"to": []},
        {"to": [{}]},
        {"to": [PROGRAM | {"slack": {"url": "https://hooks.slack.com/x"}}]},
        {"for": "soon"},
        {"repeat.interval": "1 second"},
        {"dead.man": {"url": "https://hc-ping.com/x", "every": "100 ms"}},
        {"tables": [{"lag": 1}]},
        {"when": {"lag": 0}},
    )

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {
            "to": [
                PROGRAM,
                {"slack": {"url": f"https://hooks.slack.com/{SECRET}"}},
                {"pagerduty": {"routing.key": SECRET}},
                {"webhook": {"url": f"https://example.com/{SECRET}", "headers": {"X-Key": SECRET}}},
                {"email": {**MAIL, "auth.username": "ops", "auth.password": SECRET}},
            ],
            "when": {"latency": "1 minute", "lag": 10, "dead.letters": 100, "no.batch.for": "1 hour"},
            "state": str(folder / "alerts.json"),
        }


@pytest.mark.parametrize(
    ("receiver", "text"),
    [
        ({"slack": {"url": f"hooks.slack.com/{SECRET}"}}, "to.0.slack.url: is not an address\n  fix: write https://HOST/PATH"),
        ({"slack": {"url": f"https://user:{SECRET}@host/"}}, "is not an address"),
        ({"slack": {"url": f"https://host:99999/{SECRET}"}}, "is not an address"),
        ({"slack": {"url": f"https://host/{SECRET} x"}}, "is not an address"),
        ({"slak": {}}, "to.0.slak: unknown key 'slak'\n  fix: did you mean 'slack'"),
        ({"pagerduty": {}}, "'routing.key' is missing"),
        ({"webhook": {"url": "https://host/", "headers": {"X": f"{SECRET}\nHost: x"}}}, "the header 'X' is not valid"),
        ({"sns": {"topic": "alerts"}}, "to.0.sns.topic"),
        ({"command": []}, "to.0.command: is empty"),
        ({"command": ["true"], "timeout": "1 hour"}, "`timeout` is out of range"),
        ({"email": {**MAIL, "to": ["ops"]}}, "'ops' is not an e-mail address"),
        ({"email": {**MAIL, "smarthost": "smtp"}}, "'smtp' is not a server\n  fix: write HOST:PORT"),
        ({"email": {**MAIL, "auth.username": "ops"}}, "belong together"),
        ({"email": {**MAIL, "auth.username": "ops", "auth.password": SECRET, "require.tls": False}}, "without encryption"),
    ],
)  # fmt: skip
def test_wrong_receiver_is_reported_without_its_secret(receiver: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Alerts({"to": [receiver]})
    assert text in str(caught.value)
    assert SECRET not in str(caught.value)


def test_warnings_about_receivers() -> None:
    alerts = Alerts({"to": [{"command": ["/no/such/program"]}, {"email": {**MAIL, "require.tls": False}}]})
    assert list(alerts.warnings()) == [
        "receiver 1 is no program of this machine: /no/such/program",
        "e-mail to smtp.shop.com:587 is sent without encryption",
    ]
    assert list(alerts.notes()) == ["sends to command, email; `headrace alert test` sends a test alert"]


def test_sns_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    alerts = Alerts({"to": [{"sns": {"topic": "arn:aws:sns:eu-west-1:123456789012:alerts"}}]})
    alerts.check()
    assert alerts.extras() == ("aws",)
    monkeypatch.setattr("headrace_alerts.alerts.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"`sns` requires boto3\n  fix: pip install 'headrace\[aws\]'"):
        alerts.check()
    Alerts({"to": [PROGRAM]}).check()
