"""Alerts: what receivers get about a trouble."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

FIRING, RESOLVED = "firing", "resolved"
#: End of a trouble that lasts, as Alertmanager sends it.
_NO_END = "0001-01-01T00:00:00Z"


@dataclass(frozen=True)
class Condition:
    """Kind of a trouble. ``name``: as in the pipeline file; ``alertname`` and ``severity``: labels of its alerts."""

    name: str
    alertname: str
    severity: str


LATENCY = Condition("latency", "HeadraceTableBehind", "warning")
LAG = Condition("lag", "HeadraceTableLag", "warning")
DEAD_LETTERS = Condition("dead.letters", "HeadraceDeadLetters", "warning")
FAILED_TABLE = Condition("failed.table", "HeadraceTableSetAside", "error")
SOURCE_FAILING = Condition("source.failing", "HeadraceSourceFailing", "error")
NO_BATCH = Condition("no.batch.for", "HeadraceNoBatch", "error")
SCHEMA_CHANGED = Condition("schema.changed", "HeadraceSchemaChanged", "info")
STOPPED = Condition("stopped", "HeadraceStopped", "critical")
TEST = Condition("test", "HeadraceTest", "info")
CONDITIONS = {
    one.name: one
    for one in (LATENCY, LAG, DEAD_LETTERS, FAILED_TABLE, SOURCE_FAILING, NO_BATCH, SCHEMA_CHANGED, STOPPED)
}


@dataclass(frozen=True)
class Key:
    """Identity of a trouble: its condition and its place. A trouble of the whole run has no place."""

    condition: str
    table: str = ""
    sink: str = ""
    topic: str = ""


@dataclass(frozen=True)
class Alert:
    """State of a trouble. ``started`` and ``ended``: seconds since 1970; ``ended`` is None while the trouble lasts."""

    pipeline: str
    key: Key
    #: What is wrong, in one line.
    summary: str
    #: The error, with its fix.
    description: str
    started: float
    ended: float | None = None
    #: Seconds from start to end, of a clock that does not jump.
    lasted: float = 0.0

    @property
    def severity(self) -> str:
        """Severity as PagerDuty has it: ``critical``, ``error``, ``warning`` or ``info``."""
        return self.labels["severity"]

    @property
    def labels(self) -> dict[str, str]:
        """Names and values that identify the trouble, as Alertmanager has them."""
        condition, key = CONDITIONS.get(self.key.condition, TEST), self.key
        labels = {"alertname": condition.alertname, "severity": condition.severity, "pipeline": self.pipeline}
        places = {"table": key.table, "sink": key.sink, "topic": key.topic}
        return labels | {name: value for name, value in places.items() if value}

    @property
    def status(self) -> str:
        """``firing`` or ``resolved``, as Alertmanager has it."""
        return FIRING if self.ended is None else RESOLVED

    @property
    def fingerprint(self) -> str:
        """Identity of the trouble, equal for its start and its end."""
        lines = (f"{name}={value}" for name, value in self.labels.items())
        return sha256("\n".join(lines).encode()).hexdigest()[:32]

    @property
    def title(self) -> str:
        """One line: status, pipeline and summary."""
        lasted = f" (lasted {format_seconds(self.lasted)})" if self.ended is not None else ""
        return f"[{self.status.upper()}] {self.pipeline}: {self.summary}{lasted}"

    @property
    def text(self) -> str:
        """Title, error and times, for people."""
        times = f"since {format_time(self.started)}" + (f" until {format_time(self.ended)}" if self.ended else "")
        return "\n".join(filter(None, (self.title, self.description, times)))

    def to_dict(self) -> dict[str, Any]:
        """Return the alert as an item of Alertmanager's messages."""
        return {
            "status": self.status,
            "labels": self.labels,
            "annotations": {"summary": self.summary, "description": self.description},
            "startsAt": format_time(self.started),
            "endsAt": _NO_END if self.ended is None else format_time(self.ended),
            "generatorURL": "",
            "fingerprint": self.fingerprint,
        }


def describe_group(alerts: Sequence[Alert]) -> str:
    """Return one line about some alerts."""
    if len(alerts) == 1:
        return alerts[0].title
    counts = {status: sum(alert.status == status for alert in alerts) for status in (FIRING, RESOLVED)}
    parts = ", ".join(f"{status.upper()}:{count}" for status, count in counts.items() if count)
    return f"[{parts}] {alerts[0].pipeline}: {len(alerts)} alerts"


def format_time(seconds: float) -> str:
    """Return a time in UTC, ISO 8601. A clock that is far off gives the nearest possible time."""
    year_9999 = 253402300799
    return (
        datetime.fromtimestamp(min(max(seconds, 0), year_9999), UTC)
        .isoformat(timespec="seconds")
        .replace("+00:00", "Z")
    )


def format_seconds(seconds: float) -> str:
    """Return a duration with its two largest units: ``3 min 20 s``."""
    rest, parts = round(seconds), list[str]()
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if parts or count or unit == "s":
            parts.append(f"{count} {unit}")
    return " ".join(part for part in parts[:2] if len(parts) == 1 or not part.startswith("0 "))
