"""Ranges of the tables of the source ``jdbc``: the end of each range is fixed before it is read."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from headrace.sdk import ConfigError
from headrace_sources.jdbc.cursor_query import Cursor, CursorQuery
from headrace_sources.jdbc.jdbc_config import JdbcConfig

_LOG = logging.getLogger(__name__)
#: Runs a query and returns its rows as texts.
RunQuery = Callable[[str], Sequence[Sequence[str | None]]]
#: Servers of one address may have clocks that differ by less.
_CLOCK_TOLERANCE = timedelta(seconds=1)
#: Lowest time of all supported databases.
_LOWEST_TIME = datetime(1000, 1, 2)  # noqa: DTZ001 - in the zone of the cursor
#: Units in which columns, or the programs that fill them, count time.
_UNITS = (timedelta(milliseconds=1), timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1))


@dataclass(frozen=True)
class CursorTable:
    """Table or query, as far as its ranges depend on it."""

    name: str
    query: CursorQuery
    #: Whether the times of the cursor have a time zone.
    has_zone: bool = False
    #: Whether rows may have no cursor.
    may_be_null: bool = False


@dataclass(frozen=True)
class TableRange:
    """Rows of a table after a cursor, up to and including another."""

    after: Cursor | None
    upto: Cursor | None
    #: When the range was planned, in microseconds since 1970 by the clock of the database. It always increases.
    read: int
    #: Fingerprint of the rows that are read again with the next range.
    again: str = ""
    #: Clock of the database, as the times of the cursor are written, and the clock of the driver in seconds.
    clock: str = ""
    polled: float = 0.0
    #: When the clock of the database was set back last.
    era: str = ""
    #: Whether the keys of the table are compared after the range, and the database's clock at the last comparison, in seconds.
    compares_keys: bool = False
    compared: float = 0.0
    #: With numbers: the lowest number when the range was planned.
    lowest: int | None = None
    #: Whether the range has no rows, because the table could not be read when it was planned.
    is_unreadable: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the range as a part of an offset."""
        return asdict(self)

    def describe_era(self) -> str:
        """Describe when the order of rows began again; empty if it did not."""
        return f", since the clock went back to {self.era}" if self.era else ""

    @classmethod
    def of_json(cls, part: Mapping[str, Any]) -> TableRange:
        """Return the range of a part of an offset."""
        return cls(**part)


@dataclass
class _Seen:
    """Last poll of a table."""

    clock: str
    polled: float
    #: Monotonic clock of the driver, in seconds; None for a poll of an earlier run.
    ticks: float | None = None

    def measure_pause(self, polled: float) -> float:
        """Return the seconds since the poll; negative if the clock of the driver went back between two runs."""
        return polled - self.polled if self.ticks is None else time.monotonic() - self.ticks


class CursorPlanner:
    """Planner of the ranges of a run."""

    def __init__(self, config: JdbcConfig, *, is_bounded: bool = False) -> None:
        """``is_bounded``: only the rows of the first poll are read."""
        self._config, self._is_bounded = config, is_bounded
        self._seen: dict[str, _Seen] = {}
        self._null_counts: dict[str, int] = {}
        self._bounds: dict[str, Cursor | None] = {}
        self._lowest: dict[str, int | None] = {}
        self._clock: datetime | None = None

    def plan(self, table: CursorTable, run: RunQuery, start: TableRange | None, clock: datetime) -> TableRange | None:
        """Return the next range of a table after ``start``; None if there are no new rows. ``clock``: that of the database."""
        if self._is_bounded:
            self._clock = clock = self._clock or clock
        read = max(start.read + 1 if start else 0, round(clock.timestamp() * 1_000_000))
        if not table.query.columns:
            return self._plan_load(table, read)
        if start is not None and start.upto is None:  # No row has been read yet.
            start = None
        if table.may_be_null:
            self._check_nulls(table, run)
        if not self._config.has_timestamp:
            planned = self._plan_numbers(table, run, start, read)
        else:
            planned = self._plan_times(table, run, start, self._to_cursor_zone(table, clock), read)
        return self._add_comparison(start, planned, read, clock.timestamp())

    def _plan_load(self, table: CursorTable, read: int) -> TableRange | None:
        """Return a range of all rows; in a bounded run only once."""
        if self._is_bounded and table.name in self._bounds:
            return None
        self._bounds[table.name] = None
        return TableRange(None, None, read, compares_keys=self._config.delete_missing)

    def _add_comparison(
        self, start: TableRange | None, planned: TableRange | None, read: int, now: float
    ) -> TableRange | None:
        """Return the range with a comparison of keys if one is due; without new rows, a range that has only the comparison."""
        pause = self._config.reconcile_seconds
        if pause is None or (start is None and planned is None):
            return planned
        compared = now if start is None else start.compared
        if 0 <= now - compared < pause:  # The clock may have gone back.
            return planned and replace(planned, compared=compared)
        if planned is None:
            assert start is not None, "a first comparison is not due before the first rows"
            planned = replace(start, after=start.upto, read=read)
        return replace(planned, compares_keys=True, compared=now)

    def _plan_numbers(
        self, table: CursorTable, run: RunQuery, start: TableRange | None, read: int
    ) -> TableRange | None:
        highest: Cursor | None = _read_cursor(run(table.query.newest(None, None)))
        if self._is_bounded:
            highest = self._bounds.setdefault(table.name, highest)
        if highest is None:
            return None
        old = start.upto if start else None
        after = None if old is None else [int(old[0]) - self._config.id_window]
        if old is not None and after is not None and after[0] >= int(highest[0]) < int(old[0]):
            raise _explain_wrap(table, int(highest[0]), int(old[0]))
        lowest = _read_number(run(table.query.lowest()))
        before = self._lowest.get(table.name, start.lowest if start else None)
        if before is not None and after is not None and lowest < before and lowest <= after[0]:
            raise _explain_low_number(table, lowest, before)
        self._lowest[table.name] = lowest
        newest = _read_cursor(run(table.query.newest(old, highest, self._config.limit)))
        return self._make_range(table, run, start, TableRange(after, newest, read, lowest=lowest))

    def _plan_times(
        self, table: CursorTable, run: RunQuery, start: TableRange | None, now: datetime, read: int
    ) -> TableRange | None:
        clock, upper = write_time(now), [write_time(now - timedelta(milliseconds=self._config.delay))]
        planned = TableRange(None, None, read, clock=clock, polled=time.time(), era=start.era if start else "")
        if start is None:
            newest = _read_cursor(run(table.query.newest(None, upper, self._config.limit)))
            return self._make_range(table, run, None, replace(planned, upto=newest))
        seen = self._seen.setdefault(table.name, _Seen(start.clock, start.polled))
        step = read_time(seen.clock) - now
        if step > _CLOCK_TOLERANCE:
            return self._plan_again(table, run, planned, now, upper, seen)
        seen.clock, seen.polled, seen.ticks = clock, planned.polled, time.monotonic()
        if start.upto is not None and str(start.upto[0]) >= upper[0]:
            newest = None  # With a longer delay than before, the range has ended later.
        else:
            newest = _read_cursor(run(table.query.newest(start.upto, upper, self._config.limit)))
        after = start.upto if not self._config.window else [self._subtract_window(start.upto)]
        return self._make_range(table, run, start, replace(planned, after=after, upto=newest))

    def _plan_again(
        self, table: CursorTable, run: RunQuery, planned: TableRange, now: datetime, upper: Cursor, seen: _Seen
    ) -> TableRange:
        """Return the range after the clock was set back: all rows whose times may have been written since."""
        pause = seen.measure_pause(planned.polled)
        since = timedelta(seconds=pause, milliseconds=self._config.window)
        # Database and driver may have one clock. Without a measured pause, any row may have been written since.
        after = [write_time(now - since if pause >= 0 else _LOWEST_TIME)]
        _LOG.warning(
            "source jdbc, %s: the clock of the database went back from %s to %s. Rows since %s are read again, and they "
            "are newer than all earlier rows",
            *(table.name, seen.clock, planned.clock, after[0]),
        )
        newest = _read_cursor(run(table.query.newest(after, upper, self._config.limit)))
        again = replace(planned, after=after, upto=newest or after, era=planned.clock)
        return self._note(table, run, again)

    def _make_range(
        self, table: CursorTable, run: RunQuery, start: TableRange | None, planned: TableRange
    ) -> TableRange | None:
        """Return the range if it has new rows, or if the rows that are read again have changed."""
        if planned.upto is not None:
            return self._note(table, run, planned)
        if start is None or start.upto is None or planned.after == start.upto:
            return None
        again = self._describe_rows(table, run, planned.after, start.upto, planned.clock)
        return replace(planned, upto=start.upto, again=again) if again != start.again else None

    def _note(self, table: CursorTable, run: RunQuery, planned: TableRange) -> TableRange:
        """Return the range with the fingerprint of its rows that the next range reads again."""
        assert planned.upto is not None
        window = self._config.window if self._config.has_timestamp else self._config.id_window
        again = ""
        if window:
            after = [self._subtract_window(planned.upto)]
            again = self._describe_rows(table, run, after, planned.upto, planned.clock)
        self._seen[table.name] = _Seen(planned.clock, planned.polled, time.monotonic())
        return replace(planned, again=again)

    def _describe_rows(self, table: CursorTable, run: RunQuery, after: Cursor | None, upto: Cursor, clock: str) -> str:
        """Return a fingerprint of the rows that are read again. It changes with the rows, and when they can no longer change unseen."""
        found = _read_fingerprint(run(table.query.fingerprint(after, upto)))
        if not self._config.has_timestamp:
            return found
        passed = count_passed(str(upto[0]), read_time(clock), timedelta(milliseconds=self._config.window))
        return f"{found} {passed}"

    def _subtract_window(self, cursor: Cursor | None) -> str | int:
        assert cursor is not None
        if isinstance(cursor[0], int):
            return cursor[0] - self._config.id_window
        return write_time(read_time(cursor[0]) - timedelta(milliseconds=self._config.window))

    def _to_cursor_zone(self, table: CursorTable, clock: datetime) -> datetime:
        """Return the database's clock as the times of the cursor are written, without a time zone."""
        zone = UTC if table.has_zone else ZoneInfo(self._config.zone)
        return clock.astimezone(zone).replace(tzinfo=None)

    def _check_nulls(self, table: CursorTable, run: RunQuery) -> None:
        """Raise ConfigError, or log a warning, if rows have no value in the columns of the cursor."""
        count = _read_number(run(table.query.count_nulls()))
        before, self._null_counts[table.name] = self._null_counts.get(table.name, 0), count
        columns = " or ".join(table.query.columns)
        if count and self._config.validate_non_null:
            raise ConfigError(
                f"{count} row{'s have' if count > 1 else ' has'} no value in {columns}, so no range would read "
                f"{'them' if count > 1 else 'it'}",
                where=f"source jdbc, {table.name}",
                fix="fill the column and declare it NOT NULL; or leave these rows out with `validate.non.null: false`",
            )
        if count > before:
            message = "source jdbc, %s: %s rows have no value in %s, and are left out"
            _LOG.warning(message, table.name, count, columns)


def count_passed(newest: str, now: datetime, window: timedelta) -> int:
    """Return how many of the moments have passed after which no row gets the newest time any more.

    A column that counts seconds keeps its value when a row changes twice in a second. Such a change is found by reading the rows again
    when the second has passed, and when transactions that began in it have ended. The digits of the time say in which units it may count.
    """
    moment = read_time(newest)
    since_midnight = moment - moment.replace(hour=0, minute=0, second=0, microsecond=0)
    units = [unit for unit in _UNITS if not since_midnight % unit]
    if len(units) > 1:
        del units[0]  # A whole second is rarely a time in milliseconds.
    return sum(now >= moment + unit + wait for unit in units for wait in (timedelta(0), window))


def write_time(moment: datetime) -> str:
    """Return a time as text that sorts, and that databases read as a timestamp."""
    return moment.isoformat(" ", "microseconds")


def read_time(text: str) -> datetime:
    """Return the time of a text, in UTC if it has a time zone."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _read_cursor(rows: Sequence[Sequence[str | None]]) -> list[str | int] | None:
    """Return the cursor of the only row; None without a row."""
    return [_read_value(value) for value in rows[0]] if rows else None


def _read_value(text: str | None) -> str | int:
    assert text is not None, "queries of cursors leave nulls out"
    try:
        return int(text) if text.lstrip("-").isdigit() else write_time(read_time(text))
    except ValueError:
        raise ConfigError(
            f"the newest row has the cursor {text!r}, which is neither an integer nor a time from year 1 to 9999",
            where="source jdbc",
            fix="correct the row, or leave it out with `query`",
        ) from None


def _read_number(rows: Sequence[Sequence[str | None]]) -> int:
    return int(rows[0][0] or 0)


def _read_fingerprint(rows: Sequence[Sequence[str | None]]) -> str:
    return " ".join(value or "" for value in rows[0])


def _explain_low_number(table: CursorTable, lowest: int, before: int) -> ConfigError:
    return ConfigError(
        f"the lowest value of {table.query.columns[0]} is {lowest}, after {before} before: the numbers start again, for example with "
        "a sequence that cycles, and rows with low numbers would be lost",
        where=f"source jdbc, {table.name}",
        fix="use `mode: timestamp` or a column that only increases, with a new checkpoint",
    )


def _explain_wrap(table: CursorTable, highest: int, old: int) -> ConfigError:
    return ConfigError(
        f"the highest value of {table.query.columns[0]} is {highest}, after {old} before: the numbers start again, and rows "
        "below the old number would be lost",
        where=f"source jdbc, {table.name}",
        fix=f"if only the newest rows were deleted, set `incrementing.window` to more than {old - highest}; otherwise read the table "
        "again with a new checkpoint, or use another column",
    )
