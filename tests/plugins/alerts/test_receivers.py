"""What receivers get, byte by byte, and which errors they report."""

from __future__ import annotations

import email
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from email import policy
from pathlib import Path
from typing import Any

import pytest
from headrace_alerts.alert import Alert, Key
from headrace_alerts.receiver_config import ReceiverConfig
from headrace_alerts.receivers.receiver import Receiver, make_receiver
from tests.plugins.alerts.doubles import FIRING, TOKEN, Hook, SmtpServer
from tests.plugins.connect.test_tds_encryption import make_certificate

ENDED = replace(FIRING, ended=61.0, lasted=60.0)
PRINT = "print(__import__('sys').stdin.read(), __import__('json').dumps(dict(__import__('os').environ)), file=open(__import__('sys').argv[1], 'w'))"
LABELS = {
    "alertname": "HeadraceTableSetAside",
    "severity": "error",
    "pipeline": "shop",
    "table": "shop.orders",
    "sink": "lake",
}
FINGERPRINT = FIRING.fingerprint
ITEM = {
    "status": "firing",
    "labels": LABELS,
    "annotations": {"summary": "shop.orders → lake is set aside", "description": "denied\nfix: grant it"},
    "startsAt": "1970-01-01T00:00:01Z",
    "endsAt": "0001-01-01T00:00:00Z",
    "generatorURL": "",
    "fingerprint": FINGERPRINT,
}
TEXT = "[FIRING] shop: shop.orders → lake is set aside\ndenied\nfix: grant it\nsince 1970-01-01T00:00:01Z"


def make(**options: Any) -> Receiver:
    return make_receiver(ReceiverConfig.model_validate(options))


def fail(receiver: Receiver, *alerts: Alert) -> str:
    """Return the error of a receiver as users see it."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its text is compared
        receiver.send(alerts or [FIRING])
    text = receiver.describe_error(caught.value)
    assert TOKEN not in text + receiver.place + str(caught.value)
    return text


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as server:
        yield server


def test_slack(hook: Hook) -> None:
    receiver = make(slack={"url": hook.url})
    receiver.send([replace(FIRING, description="a <b> & c"), ENDED])
    (request,) = hook.received
    assert (request.method, request.path) == ("POST", f"/services/{TOKEN}")
    assert request.headers["Content-Type"] == "application/json"
    assert request.body == {
        "text": ":red_circle: [FIRING] shop: shop.orders → lake is set aside\na &lt;b&gt; &amp; c\n"
        "since 1970-01-01T00:00:01Z\n\n"
        ":white_check_mark: [RESOLVED] shop: shop.orders → lake is set aside (lasted 1 min)\ndenied\nfix: grant it\n"
        "since 1970-01-01T00:00:01Z until 1970-01-01T00:01:01Z"
    }
    receiver.send([replace(FIRING, description="x" * 10_000)])
    assert len(hook.received[-1].body["text"]) == 3901


def test_pagerduty_opens_and_resolves_one_incident(hook: Hook) -> None:
    receiver = make(pagerduty={"routing.key": "R0UTING", "url": hook.url})
    receiver.send([FIRING])
    receiver.send([ENDED])
    trigger, resolve = hook.await_bodies(2)
    assert trigger == {
        "routing_key": "R0UTING",
        "event_action": "trigger",
        "dedup_key": FINGERPRINT,
        "client": "headrace",
        "payload": {
            "summary": "shop: shop.orders → lake is set aside",
            "source": "shop",
            "severity": "error",
            "timestamp": "1970-01-01T00:00:01Z",
            "component": "shop.orders",
            "class": "failed.table",
            "custom_details": {"table": "shop.orders", "sink": "lake", "description": "denied\nfix: grant it"},
        },
    }
    assert resolve == {"routing_key": "R0UTING", "event_action": "resolve", "dedup_key": FINGERPRINT}


def test_pagerduty_has_an_address_of_its_own() -> None:
    assert make(pagerduty={"routing.key": "R0UTING"}).place == "pagerduty events.pagerduty.com"


def test_fingerprints_differ_by_place_and_condition() -> None:
    keys = [
        FIRING.key,
        Key("failed.table", "shop.orders", "other"),
        Key("latency", "shop.orders", "lake"),
        Key("stopped"),
    ]
    alerts = [replace(FIRING, key=key) for key in keys]
    alerts.append(replace(FIRING, pipeline="other"))
    assert len({alert.fingerprint for alert in alerts}) == 5
    changed = replace(FIRING, summary="other", description="other", started=99.0)
    assert changed.fingerprint == FINGERPRINT == "7759096689828779313638d80fa652a0"


def test_webhook_gets_messages_of_alertmanager(hook: Hook) -> None:
    receiver = make(webhook={"url": hook.url, "headers": {"Authorization": "Bearer s3cret"}})
    other = replace(ENDED, key=Key("stopped"), summary="ended")
    receiver.send([FIRING, other])
    (request,) = hook.received
    assert request.headers["Authorization"] == "Bearer s3cret"
    items = request.body.pop("alerts")
    assert request.body == {
        "version": "4",
        "groupKey": '{}:{pipeline="shop"}',
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "headrace",
        "groupLabels": {"pipeline": "shop"},
        "commonLabels": {"pipeline": "shop"},
        "commonAnnotations": {"description": "denied\nfix: grant it"},
        "externalURL": "",
    }
    assert items[0] == ITEM
    assert (items[1]["status"], items[1]["endsAt"]) == ("resolved", "1970-01-01T00:01:01Z")
    receiver.send([ENDED])
    assert hook.received[-1].body["status"] == "resolved"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (404, "it answers 404; check the address, the key and their permissions"),
        (400, "it answers 400; check that it is a service of this kind"),
        (429, "it answers 429; it is overloaded or broken"),
        (503, "it answers 503; it is overloaded or broken"),
    ],
)
def test_status_of_a_service_that_rejects(hook: Hook, status: int, text: str) -> None:
    hook.status = status
    assert fail(make(slack={"url": hook.url})) == text


def test_errors_do_not_show_the_address(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    url = hook.url
    hook.held.set()
    slow = make(slack={"url": url}, timeout="1 second")
    assert fail(slow).startswith("no answer: ")
    assert slow.place == "slack 127.0.0.1"
    hook.released.set()
    assert "TLS handshake failed" in fail(make(slack={"url": url.replace("http:", "https:")}))
    hook.shutdown()
    hook.server_close()
    assert (
        fail(make(slack={"url": url})) == "no answer: [Errno 111] Connection refused; check the network and the proxy"
    )
    monkeypatch.setenv("http_proxy", "http://user:pass4711@127.0.0.1:1")
    assert "pass4711" not in fail(make(slack={"url": "http://example.invalid/" + TOKEN}))


def test_program_gets_json_and_environment(tmp_path: Path) -> None:
    receiver = make(command=[sys.executable, "-c", PRINT, str(tmp_path / "out")])
    receiver.send([ENDED])
    decoder, text = json.JSONDecoder(), (tmp_path / "out").read_text()
    given, end = decoder.raw_decode(text)
    assert given == {**ITEM, "status": "resolved", "endsAt": "1970-01-01T00:01:01Z"}
    environment = json.loads(text[end:])
    assert {name: value for name, value in environment.items() if name.startswith("HEADRACE_ALERT_")} == {
        **{f"HEADRACE_ALERT_{name.upper()}": value for name, value in LABELS.items()},
        "HEADRACE_ALERT_STATUS": "resolved",
        "HEADRACE_ALERT_SUMMARY": "shop.orders → lake is set aside",
        "HEADRACE_ALERT_DESCRIPTION": "denied\nfix: grant it",
        "HEADRACE_ALERT_STARTS_AT": "1970-01-01T00:00:01Z",
        "HEADRACE_ALERT_ENDS_AT": "1970-01-01T00:01:01Z",
        "HEADRACE_ALERT_FINGERPRINT": FINGERPRINT,
    }
    assert environment["PATH"] == os.environ["PATH"]


def test_program_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    script = f"sleep 60 & echo $! > {tmp_path}/child; wait"
    began = time.monotonic()
    text = fail(make(command=["sh", "-c", script], timeout="1 second"))
    assert text == "it was killed after 1 seconds; make it faster, or increase `timeout`"
    assert time.monotonic() - began < 30
    child = int((tmp_path / "child").read_text())
    end = time.monotonic() + 10
    while _runs(child) and time.monotonic() < end:
        time.sleep(0.05)
    assert not _runs(child)


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_program_that_fails() -> None:
    text = fail(make(command=["sh", "-c", "echo first >&2; echo 'no route' >&2; exit 3"]))
    assert text == "it ended with exit code 3: no route; run it with a test alert"
    assert (
        fail(make(command=["/no/such/program"])) == "it cannot be started: No such file or directory; check `command`"
    )


def test_mail() -> None:
    server = SmtpServer()
    options = {"to": ["ops@shop.com", "dba@shop.com"], "from": "headrace@shop.com", "require.tls": False}
    make(email={**options, "smarthost": f"localhost:{server.port}"}).send([FIRING])
    server.close()
    ((recipients, text),) = server.mails
    mail = email.message_from_string(text, policy=policy.default)
    assert recipients == ["ops@shop.com", "dba@shop.com"]
    assert mail["Subject"] == "[FIRING] shop: shop.orders → lake is set aside"
    assert (mail["From"], mail["To"]) == ("headrace@shop.com", "ops@shop.com, dba@shop.com")
    assert mail["References"] == f"<{FINGERPRINT}@headrace.invalid>"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail.get_content() == TEXT + "\n"


def test_mail_about_several_alerts_with_names_of_several_lines() -> None:
    server = SmtpServer()
    options = {"to": ["ops@shop.com"], "from": "headrace@shop.com", "require.tls": False}
    receiver = make(email={**options, "smarthost": f"127.0.0.1:{server.port}"})
    receiver.send([FIRING, ENDED])
    receiver.send([replace(FIRING, summary="a\nBcc: all@shop.com")])
    server.close()
    subjects = [email.message_from_string(text, policy=policy.default)["Subject"] for _, text in server.mails]
    assert subjects == ["[FIRING:1, RESOLVED:1] shop: 2 alerts", "[FIRING] shop: a Bcc: all@shop.com"]
    assert [recipients for recipients, _ in server.mails] == [["ops@shop.com"]] * 2


def test_mail_with_a_login_is_encrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tls, certificate = make_certificate(tmp_path)
    options = {
        "to": ["ops@shop.com"],
        "from": "headrace@shop.com",
        "auth.username": "ops",
        "auth.password": "s3cret-4711",
    }
    server = SmtpServer(tls, "AG9wcwBzM2NyZXQtNDcxMQ==")
    receiver = make(email={**options, "smarthost": f"127.0.0.1:{server.port}"})
    assert "TLS handshake failed" in fail(receiver)
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    receiver.send([FIRING])
    assert server.commands.index("STARTTLS") < server.commands.index("AUTH")
    assert len(server.mails) == 1
    wrong = make(email={**options, "auth.password": "wrong-0815", "smarthost": f"127.0.0.1:{server.port}"})
    assert fail(wrong) == "the server rejects the login: 535; check `auth.username` and `auth.password`"
    server.close()
    plain = SmtpServer()
    text = fail(make(email={**options, "smarthost": f"127.0.0.1:{plain.port}"}))
    assert text.startswith("the server does not support it: STARTTLS")
    assert "AUTH" not in plain.commands
    plain.close()
    assert fail(make(email={**options, "smarthost": f"127.0.0.1:{plain.port}"})).startswith("no answer: ")


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    import moto

    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "example")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    with moto.mock_aws():
        yield


@pytest.mark.usefixtures("aws")
def test_topic_of_sns() -> None:
    import boto3

    sns, sqs = (boto3.client(name, region_name="eu-west-1") for name in ("sns", "sqs"))
    queue = sqs.create_queue(QueueName="alerts")["QueueUrl"]
    topic = sns.create_topic(Name="alerts")["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint="arn:aws:sqs:eu-west-1:123456789012:alerts")
    receiver = make(sns={"topic": topic})
    receiver.send([FIRING])
    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    body = json.loads(message["Body"])
    assert (body["Subject"], body["Message"]) == ("[FIRING] shop: shop.orders -> lake is set aside", TEXT)
    found = {name: value["Value"] for name, value in body["MessageAttributes"].items()}
    assert found == {"status": "firing", **LABELS}
    assert receiver.place == "sns alerts"


@pytest.mark.usefixtures("aws")
def test_topic_that_keeps_the_order() -> None:
    import boto3

    sns = boto3.client("sns", region_name="eu-west-1")
    attributes = {"FifoTopic": "true"}
    topic = sns.create_topic(Name="alerts.fifo", Attributes=attributes)["TopicArn"]
    make(sns={"topic": topic}).send([ENDED])


@pytest.mark.usefixtures("aws")
def test_topic_that_does_not_exist() -> None:
    text = fail(make(sns={"topic": "arn:aws:sns:eu-west-1:123456789012:missing"}))
    assert "AWS rejected the request" in text
    assert "NotFound" in text


def test_sns_without_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    text = fail(make(sns={"topic": "arn:aws:sns:eu-west-1:123456789012:alerts"}))
    assert text == "AWS SNS requires boto3; pip install 'headrace[aws]'"
