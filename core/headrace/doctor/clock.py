"""Comparison of this machine's clock with those of servers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.doctor import finding_kinds as kinds
from headrace.doctor.examination import Passed, Result, Skipped
from headrace.findings import Finding

#: Seconds of difference of two clocks. AWS rejects requests beyond the larger one.
_DIFFERS, _WRONG = 30.0, 300.0


@dataclass(frozen=True)
class _Reading:
    """Difference of a server's clock. ``ahead``: seconds by which this machine is ahead."""

    where: str
    ahead: float


class ClockReadings:
    """Times of the servers that answered."""

    def __init__(self) -> None:
        self._readings: dict[str, _Reading] = {}

    def note(self, where: str, seconds: float) -> None:
        """Compare a server's time with that of this machine."""
        self._readings.setdefault(where, _Reading(where, time.time() - seconds))

    def compare(self) -> Iterator[Result]:
        """Yield a result for each server."""
        if not self._readings:
            yield Skipped("clock", "no server reported its time")
        for reading in self._readings.values():
            yield _judge(reading)


def _judge(reading: _Reading) -> Result:
    difference = abs(reading.ahead)
    if difference <= _DIFFERS:
        return Passed("clock", f"within {_DIFFERS:g} seconds of {reading.where}")
    kind = kinds.CLOCK_WRONG if difference > _WRONG else kinds.CLOCK_DIFFERS
    direction = "ahead of" if reading.ahead > 0 else "behind"
    what = f"the clock of this machine is {difference:,.0f} seconds {direction} that of {reading.where}"
    fix = "synchronize both clocks, with chrony or systemd-timesyncd: latencies, lags and signatures of requests depend on them"
    return Finding(kind, what, reading.where, fix)
