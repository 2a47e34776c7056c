"""Conditions of a run: what is wrong now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.sdk.error_text import hide_values
from headrace.sdk.observer import Status, TableStatus
from headrace.sdk.options import seconds_of
from headrace_alerts.alert import (
    DEAD_LETTERS,
    FAILED_TABLE,
    LAG,
    LATENCY,
    NO_BATCH,
    SCHEMA_CHANGED,
    SOURCE_FAILING,
    STOPPED,
    Key,
    format_seconds,
)
from headrace_alerts.alerts_config import AlertsConfig
from headrace_alerts.event_record import EventRecord

#: Conditions that wait for `for:`. The others are true for a reason that does not pass within seconds.
PATIENT = {one.name for one in (LATENCY, LAG, FAILED_TABLE, SOURCE_FAILING)}
#: Characters of an error in an alert. Services reject long messages.
_LONGEST = 2000


@dataclass(frozen=True)
class Finding:
    """Condition that is true, and why."""

    key: Key
    summary: str
    description: str = ""


@dataclass(frozen=True)
class Findings:
    """Conditions that are true now, and those that cannot be judged: their troubles stay as they are."""

    true: dict[Key, Finding]
    #: Whether all conditions of tables are unknown.
    hides_tables: bool = False
    #: Whether all conditions are unknown.
    hides_all: bool = False
    unknown: frozenset[Key] = frozenset()

    def is_unknown(self, key: Key) -> bool:
        """Return whether a condition that is not true is unknown, not false."""
        return self.hides_all or (self.hides_tables and bool(key.table)) or key in self.unknown


class Conditions:
    """Conditions of a run. One thread evaluates them."""

    def __init__(self, config: AlertsConfig, record: EventRecord) -> None:
        self._config, self._record, self._delays = config, record, _Delays()

    def find(self, status: Status, now: float) -> Findings:
        """Return the conditions that are true. ``now``: seconds of a clock that does not jump."""
        if self._record.end is not None:  # The other numbers do not change any more.
            found = [*self._find_end(), *self._find_in_events()]
            return Findings({one.key: one for one in found}, hides_all=True)
        delays = {(table.table, table.sink): self._delays.measure(status, table, now) for table in status.tables}
        findings = [*self._find_in_run(status), *self._find_in_tables(status, delays), *self._find_in_events()]
        unknown = {Key(LATENCY.name, *name) for name, delay in delays.items() if delay is None}
        unknown |= {Key(LAG.name, table.table, table.sink) for table in status.tables if table.lag is None}
        is_idle = status.has_answered and status.applying is None and not _fails(status)
        if not (self._record.has_committed or is_idle):  # The error that ended an earlier run may return.
            unknown.add(Key(STOPPED.name))
        return Findings(
            {one.key: one for one in findings},
            hides_tables=not (status.tables or is_idle),
            unknown=frozenset(unknown),
        )

    def _find_end(self) -> Iterator[Finding]:
        end = self._record.end
        if self._config.when.stopped and end is not None and end.error:
            yield Finding(Key(STOPPED.name), "the run has ended with an error", clean_error(end.error))

    def _find_in_run(self, status: Status) -> Iterator[Finding]:
        when = self._config.when
        if when.source_failing and _fails(status):
            yield Finding(Key(SOURCE_FAILING.name), clean_error(status.message), clean_error(status.error or ""))
        if when.no_batch_for and (silence := self._record.seconds_since_batch()) > seconds_of(when.no_batch_for):
            summary = f"no batch was committed for {format_seconds(silence)}"
            step = f"{status.message}: {status.step}" if status.step else status.message
            yield Finding(Key(NO_BATCH.name), summary, clean_error(step))

    def _find_in_tables(self, status: Status, delays: dict[tuple[str, str], float | None]) -> Iterator[Finding]:
        for table in status.tables:
            limits, name = self._config.find_limits(table.table), (table.table, table.sink)
            place, delay = f"{table.table} → {table.sink}", delays[name]
            if limits.failed_table and table.error:
                yield Finding(Key(FAILED_TABLE.name, *name), f"{place} is set aside", clean_error(table.error))
            if limits.latency and delay is not None and delay > seconds_of(limits.latency):
                summary = f"{place} is {format_seconds(delay)} behind, more than {limits.latency}"
                yield Finding(Key(LATENCY.name, *name), summary)
            if limits.lag and table.lag is not None and table.lag > limits.lag:
                summary = f"{table.lag:,} records wait for {place}, more than {limits.lag:,}"
                yield Finding(Key(LAG.name, *name), summary)

    def _find_in_events(self) -> Iterator[Finding]:
        for table, counts in self._record.count_dead_letters().items():
            limit, total = self._config.find_limits(table).dead_letters, counts.total()
            if limit and total >= limit:
                summary = f"{table} has {total:,} dead letters within {self._config.window}"
                reasons = ", ".join(f"{reason}: {count:,}" for reason, count in sorted(counts.items()))
                fix = "fix: `headrace dead-letters FILE` shows them; correct the cause, then `headrace replay`"
                yield Finding(Key(DEAD_LETTERS.name, table), summary, f"{reasons}\n{fix}")
        if self._config.when.schema_changed:
            for topic in self._record.list_changed_schemas():
                yield Finding(Key(SCHEMA_CHANGED.name, topic=topic), f"the schema of {topic} has changed")


class _Delays:
    """Delays of tables between batches, by a clock that does not jump."""

    def __init__(self) -> None:
        #: Table and sink → end of the last batch, the delay when it was first read, and the time of reading.
        self._seen: dict[tuple[str, str], tuple[str | None, float, float]] = {}

    def measure(self, status: Status, table: TableStatus, now: float) -> float | None:
        """Return the delay of a table in seconds; None if it is unknown."""
        delay, name = status.find_delay(table), (table.table, table.sink)
        if delay is None or not table.lag_seconds:
            return delay
        if name not in self._seen or self._seen[name][0] != table.ended:
            self._seen[name] = (table.ended, delay, now)
        _, first, since = self._seen[name]
        return first + now - since


def _fails(status: Status) -> bool:
    """Return whether the source or a sink is tried again."""
    return bool(status.error) or status.silent_seconds is not None


def clean_error(text: str) -> str:
    """Return an error without values of rows, limited to the length that services accept."""
    text = "\n".join(line.strip() for line in hide_values(text).splitlines() if line.strip())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
