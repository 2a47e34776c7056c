"""Troubles: one alert for each, and one when it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from headrace_alerts.alert import FAILED_TABLE, Alert, Key
from headrace_alerts.findings import Finding, Findings
from headrace_alerts.troubles import Troubles
from hypothesis import given, strategies as st

KEY, OTHER = Key(FAILED_TABLE.name, "shop.orders", "lake"), Key("stopped")
UNKNOWN = "unknown"


@dataclass
class Clocks:
    """A clock that does not jump, and one that does."""

    monotonic: float = 1000.0
    wall: float = 1_800_000_000.0

    def advance(self, seconds: float) -> None:
        self.monotonic += seconds
        self.wall += seconds


@dataclass
class Machine:
    """Troubles that tests update every ten seconds."""

    patience: float = 0.0
    keep_firing: float = 0.0
    repeat: float | None = None
    clocks: Clocks = field(default_factory=Clocks)

    def __post_init__(self) -> None:
        self.troubles = Troubles(
            "shop",
            patience=self.patience,
            keep_firing=self.keep_firing,
            repeat=self.repeat,
            wall_clock=lambda: self.clocks.wall,
        )

    def see(self, *states: bool | str, seconds: float = 10.0, key: Key = KEY) -> list[str]:
        """Return the status of each alert."""
        return [alert.status for state in states for alert in self.update({key: state}, seconds)]

    def update(self, states: dict[Key, bool | str], seconds: float = 10.0) -> list[Alert]:
        true = {key: Finding(key, "set aside") for key, state in states.items() if state is True}
        unknown = frozenset(key for key, state in states.items() if state == UNKNOWN)
        alerts = self.troubles.update(Findings(true, unknown=unknown), self.clocks.monotonic)
        self.clocks.advance(seconds)
        return alerts


def test_trouble_is_alerted_once_and_its_end_once() -> None:
    machine = Machine()
    assert machine.see(False, True, True, True, False, False) == ["firing", "resolved"]
    assert machine.see(True, False) == ["firing", "resolved"]


def test_short_trouble_is_not_alerted() -> None:
    machine = Machine(patience=30)
    assert machine.see(True, True, True, False, True, True, True) == []
    assert machine.see(True) == ["firing"]


def test_trouble_that_flaps_does_not_end() -> None:
    machine = Machine(keep_firing=30)
    assert machine.see(True, False, False, True, False, False, False) == ["firing"]
    assert machine.see(False) == ["resolved"]


def test_unknown_condition_changes_nothing() -> None:
    machine = Machine()
    assert machine.see(UNKNOWN, True, UNKNOWN, UNKNOWN) == ["firing"]
    assert machine.see(False) == ["resolved"]


def test_lasting_trouble_is_repeated_only_on_request() -> None:
    assert Machine().see(*[True] * 100) == ["firing"]
    assert Machine(repeat=60).see(*[True] * 13, False) == ["firing", "firing", "firing", "resolved"]


def test_time_of_begin_and_end() -> None:
    machine = Machine(patience=20, keep_firing=20)
    start = machine.clocks.wall
    (begin,) = (alert for _ in range(3) for alert in machine.update({KEY: True}))
    assert (begin.started, begin.ended) == (start, None)
    (end,) = (alert for _ in range(3) for alert in machine.update({KEY: False}))
    assert (end.started, end.ended, end.lasted) == (start, start + 30, 30)
    assert end.title == "[RESOLVED] shop: set aside (lasted 30 s)"


def test_clock_may_jump() -> None:
    machine = Machine(patience=30, keep_firing=30)
    for jump in (1e9, -2e9):
        machine.clocks.wall += jump
        assert machine.see(True, True, True) == []
        machine.clocks.wall -= jump
        assert machine.see(True) == ["firing"]
        machine.clocks.wall += jump
        assert machine.see(False, False, False) == []
        (end,) = machine.update({KEY: False})
        assert end.ended is not None
        assert end.ended >= end.started
        assert end.lasted == 40
        machine.clocks.wall -= jump


def test_restored_trouble_is_not_alerted_again_and_ends() -> None:
    machine = Machine(repeat=60)
    alert = Alert("shop", KEY, "set aside", "", machine.clocks.wall - 500)
    machine.troubles.restore([alert], machine.clocks.monotonic)
    assert machine.see(True, True) == []
    (end,) = machine.update({KEY: False})
    assert (end.fingerprint, end.lasted) == (alert.fingerprint, 520)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([True, False, UNKNOWN]),
            st.sampled_from([True, False, UNKNOWN]),
            st.floats(0, 100),
            st.sampled_from([0.0, 0.0, 1e9, -1e9]),
        ),
        max_size=60,
    ),
    st.sampled_from([0, 15, 60]),
    st.sampled_from([0, 15, 60]),
)
def test_alerts_of_each_trouble_alternate(
    steps: list[tuple[bool | str, bool | str, float, float]], patience: float, keep_firing: float
) -> None:
    machine = Machine(patience, keep_firing)
    seen: dict[Key, list[Alert]] = {KEY: [], OTHER: []}
    for one, other, seconds, jump in steps:
        machine.clocks.wall += jump
        for alert in machine.update({KEY: one, OTHER: other}, seconds):
            seen[alert.key].append(alert)
    for alerts in seen.values():
        statuses = [alert.status for alert in alerts]
        assert statuses[:1] in ([], ["firing"])
        assert all(a != b for a, b in pairwise(statuses))
        assert len({alert.fingerprint for alert in alerts}) <= 1
