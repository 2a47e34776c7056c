"""Receivers that are down, slow or choosy: no alert is lost, and the newest state wins."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from headrace_alerts import outbox as outbox_module
from headrace_alerts.alert import Alert, Key
from headrace_alerts.outbox import Outbox
from headrace_alerts.receiver_config import ReceiverConfig
from headrace_alerts.receivers.receiver import Receiver
from tests.plugins.alerts.doubles import FIRING
from tests.support.waiting import until

from headrace.sdk import RetriableError

ENDED = replace(FIRING, ended=61.0)


def about(table: str) -> Alert:
    return replace(FIRING, key=Key("failed.table", table, "lake"))


class Recorder(Receiver):
    """Receiver that records messages, and fails while ``is_down``, and for the tables in ``rejected``."""

    def __init__(self, max_alerts: int = 1) -> None:
        super().__init__(ReceiverConfig.model_validate({"command": ["true"]}))
        self.max_alerts = max_alerts  # type: ignore[misc]  # of this receiver alone
        self.messages: list[list[Alert]] = []
        self.attempts, self.is_down, self.rejected = 0, False, set[str]()
        self.gate = threading.Event()
        self.gate.set()

    @property
    def place(self) -> str:
        return "recorder"

    def send(self, alerts: Sequence[Alert]) -> None:
        self.attempts += 1
        self.gate.wait(20)
        if self.is_down or any(alert.key.table in self.rejected for alert in alerts):
            raise RetriableError("no answer", fix="start it")
        self.messages.append(list(alerts))


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(outbox_module, "LONGEST_PAUSE_SECONDS", 0.05)


@contextmanager
def opened(receiver: Recorder, warnings: list[str] | None = None, **options: Any) -> Iterator[Outbox]:
    box = Outbox(receiver, (list[str]() if warnings is None else warnings).append, lambda: None, **options)
    box.start()
    try:
        yield box
    finally:
        receiver.gate.set()
        box.end()
        box.join(10)


def test_receiver_that_is_down_and_comes_back() -> None:
    receiver, warnings = Recorder(), list[str]()
    receiver.is_down = True
    with opened(receiver, warnings) as box:
        box.put([FIRING])
        until(lambda: receiver.attempts > 5, "further attempts")
        assert receiver.messages == []
        assert box.has(FIRING.key)
        receiver.is_down = False
        until(lambda: receiver.messages == [[FIRING]], "the alert")
        box.put([ENDED])
        until(lambda: receiver.messages == [[FIRING], [ENDED]], "the end")
    assert warnings == [
        "recorder does not accept a message: no answer; start it; it is tried again",
        "recorder accepts messages again",
    ]


def test_newest_state_wins_while_a_receiver_is_down() -> None:
    receiver = Recorder()
    receiver.is_down = True
    with opened(receiver) as box:
        for _ in range(500):
            box.put([FIRING])
            box.put([ENDED])
        receiver.is_down = False
        until(lambda: receiver.messages == [[ENDED]], f"the end alone: {receiver.messages}")


def test_state_that_changes_during_an_attempt_is_sent_afterwards() -> None:
    receiver = Recorder()
    receiver.gate.clear()
    with opened(receiver) as box:
        box.put([FIRING])
        until(lambda: receiver.attempts == 1, "the attempt")
        box.put([ENDED])
        receiver.gate.set()
        until(lambda: receiver.messages == [[FIRING], [ENDED]], "both")


def test_put_does_not_wait_for_a_receiver_that_hangs() -> None:
    receiver = Recorder()
    receiver.gate.clear()
    with opened(receiver) as box:
        box.put([FIRING])
        until(lambda: receiver.attempts == 1, "the attempt")
        for number in range(100):
            box.put([about(f"t{number}")])
        assert receiver.messages == []


def test_rejected_alert_does_not_block_the_others() -> None:
    receiver = Recorder()
    receiver.rejected = {"bad"}
    with opened(receiver) as box:
        box.put([about("bad"), about("one"), about("two")])
        until(lambda: {a.key.table for (a,) in receiver.messages} == {"one", "two"}, "the others")
        assert box.has(about("bad").key)


def test_alerts_of_one_moment_are_one_message() -> None:
    receiver = Recorder(max_alerts=3)
    with opened(receiver) as box:
        box.put([about(f"t{number}") for number in range(7)])
        until(lambda: [len(message) for message in receiver.messages] == [3, 3, 1], "three messages")


def test_number_of_waiting_alerts_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "MAX_WAITING", 10)
    receiver, warnings = Recorder(), list[str]()
    receiver.gate.clear()
    with opened(receiver, warnings) as box:
        for number in range(30):
            box.put([about(f"t{number}")])
        assert [box.has(about(f"t{number}").key) for number in (19, 20, 29)] == [False, True, True]
    assert warnings == ["recorder: alerts are dropped, because 10 wait for it"]


def test_end_of_a_trouble_can_be_omitted() -> None:
    receiver = Recorder()
    receiver.is_down = True
    with opened(receiver, sends_resolved=False) as box:
        box.put([FIRING, about("other")])
        box.put([ENDED])
        assert not box.has(FIRING.key)
        receiver.is_down = False
        until(lambda: receiver.messages == [[about("other")]], "the other alone")


def test_end_of_the_run_tries_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = Recorder()
    receiver.is_down = True
    monkeypatch.setattr(outbox_module, "FIRST_PAUSE_SECONDS", 1000.0)
    with opened(receiver) as box:
        box.put([FIRING])
        until(lambda: receiver.attempts == 1, "the attempt")
        receiver.is_down = False
    assert receiver.messages == [[FIRING]]
    receiver.is_down = True
    with opened(receiver) as box:
        box.put([FIRING])
    assert receiver.attempts in (3, 4), "it does not wait for a receiver that is down"
