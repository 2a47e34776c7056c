"""Broker with MSK's authentication: it accepts requests signed with an issued key and rejects all others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from tests.support.waiting import until

from headrace_aws import MskIam
from headrace_stack import Msk, Record
from headrace_stack.msk import Key

pytestmark = [pytest.mark.nightly, pytest.mark.dist, pytest.mark.one_spark]

REGION = "eu-west-1"


@pytest.fixture(scope="module")
def msk() -> Iterator[Msk]:
    with Msk() as server:
        server.produce("orders", Record(b"{}"))
        yield server


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Return a patch of the environment without AWS credentials."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return monkeypatch


def log_in(msk: Msk, key: Key, monkeypatch: pytest.MonkeyPatch, region: str = REGION) -> AdminClient:
    """Return a Python client that authenticates with a key."""
    for name, value in key.environment.items():
        monkeypatch.setenv(name, value)
    auth = MskIam(region=region)
    options: dict[str, Any] = {
        "bootstrap.servers": msk.iam.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(msk.iam.ca),
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: auth.token(msk.iam.bootstrap_servers),
        "log_level": 0,
    }
    client = AdminClient(options)
    client.poll(0)  # calls the token callback
    return client


def test_issued_keys(msk: Msk, environment: pytest.MonkeyPatch) -> None:
    lasting, session = msk.issue_key("lasting"), msk.issue_key("session", seconds=60)
    assert "orders" in log_in(msk, lasting, environment).list_topics(timeout=10).topics
    assert "orders" in log_in(msk, session, environment, "us-gov-west-1").list_topics(timeout=10).topics
    assert msk.count_logins("OAUTHBEARER", "lasting")
    assert msk.count_logins("OAUTHBEARER", "session")
    assert not msk.count_logins("AWS_MSK_IAM", "session")


def test_rejected_keys(msk: Msk, environment: pytest.MonkeyPatch) -> None:
    lasting, session, revoked = msk.issue_key(), msk.issue_key(seconds=60), msk.issue_key()
    msk.revoke_key(revoked)
    for key, reason in (
        (replace(lasting, secret="guessed"), "wrong signature"),
        (replace(lasting, id="AKIAGUESSED"), "unknown key AKIAGUESSED"),
        (revoked, f"unknown key {revoked.id}"),
        (replace(session, token="guessed"), "wrong session token"),
        (msk.issue_key(seconds=-1), "expired session token"),
    ):
        client = log_in(msk, key, environment)
        until(lambda: msk.log_says(f"headrace: OAUTHBEARER rejected the login: {reason}"), reason)  # noqa: B023 - called in this iteration
        with pytest.raises(KafkaException):
            client.list_topics(timeout=0.5)
