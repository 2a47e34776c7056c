"""Troubles of a run: each begins once and ends once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from headrace_alerts.alert import Alert, Key
from headrace_alerts.findings import PATIENT, Finding, Findings


@dataclass
class _Trouble:
    """Trouble that has been alerted. ``since`` and ``sent``: seconds of a clock that does not jump."""

    alert: Alert
    since: float
    sent: float
    #: Time since which its condition is false.
    false_since: float | None = None


class Troubles:
    """State machine of the troubles: alerts of one trouble alternate between its begin and its end."""

    def __init__(
        self,
        pipeline: str,
        *,
        patience: float,
        keep_firing: float,
        repeat: float | None,
        wall_clock: Callable[[], float],
    ) -> None:
        """``patience``: seconds for which some conditions must be true; ``keep_firing``: seconds for which one must be false."""
        self._pipeline, self._patience, self._keep_firing = pipeline, patience, keep_firing
        self._repeat, self._wall_clock = repeat, wall_clock
        #: Condition → time since which it is true, before its alert.
        self._waiting: dict[Key, float] = {}
        self._open: dict[Key, _Trouble] = {}

    def restore(self, alerts: list[Alert], now: float) -> None:
        """Add troubles that receivers have as open since an earlier run."""
        for alert in alerts:
            age = max(self._wall_clock() - alert.started, 0)
            self._open[alert.key] = _Trouble(alert, now - age, now)

    def update(self, findings: Findings, now: float) -> list[Alert]:
        """Return the alerts that are due. ``now``: seconds of a clock that does not jump."""
        begun = [alert for finding in findings.true.values() for alert in self._note_true(finding, now)]
        for key in self._waiting.keys() - findings.true.keys():
            del self._waiting[key]
        false = [key for key in self._open if key not in findings.true and not findings.is_unknown(key)]
        return begun + [alert for key in false for alert in self._note_false(key, now)]

    def _note_true(self, finding: Finding, now: float) -> Iterator[Alert]:
        key, trouble = finding.key, self._open.get(finding.key)
        if trouble is not None:
            trouble.false_since = None
            trouble.alert = replace(trouble.alert, summary=finding.summary, description=finding.description)
            if self._repeat is not None and now - trouble.sent >= self._repeat:
                trouble.sent = now
                yield trouble.alert
            return
        since = self._waiting.setdefault(key, now)
        if now - since < (self._patience if key.condition in PATIENT else 0):
            return
        del self._waiting[key]
        started = self._wall_clock() - (now - since)
        alert = Alert(self._pipeline, key, finding.summary, finding.description, started)
        self._open[key] = _Trouble(alert, since, now)
        yield alert

    def _note_false(self, key: Key, now: float) -> Iterator[Alert]:
        trouble = self._open[key]
        if trouble.false_since is None:
            trouble.false_since = now
        if now - trouble.false_since >= self._keep_firing:
            del self._open[key]
            lasted = trouble.false_since - trouble.since
            # The clock may have jumped back.
            ended = max(self._wall_clock() - (now - trouble.false_since), trouble.alert.started)
            yield replace(trouble.alert, ended=ended, lasted=lasted)
