"""Ranges of tables, planned with the SQL of the source on SQLite. Times are texts there, which sort as times do."""

from __future__ import annotations

import logging
import sqlite3
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from headrace import ConfigError
from headrace_sources.jdbc.cursor_planner import CursorPlanner, CursorTable, TableRange
from headrace_sources.jdbc.cursor_query import CursorQuery
from headrace_sources.jdbc.jdbc_config import JdbcConfig

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
URL = "jdbc:postgresql://db/shop"


def at(seconds: float, base: datetime = NOON) -> str:
    return (base + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat(" ", "microseconds")


def row_at(seconds: float) -> str:
    """Return the time of a row, with microseconds, as of a column that counts them."""
    return at(seconds - 0.000123)


class Orders:
    """Table with rows of id, time and name, and a run that reads it."""

    def __init__(self, mode: str, **options: Any) -> None:
        columns = {
            "bulk": (),
            "incrementing": ('"id"',),
            "timestamp": ('"at"',),
            "timestamp+incrementing": ('"at"', '"id"'),
        }
        names = {
            **({"timestamp.column.name": "at"} if "timestamp" in mode else {}),
            **({"incrementing.column.name": "id"} if "incrementing" in mode else {}),
        }
        self.config = JdbcConfig.model_validate({"connection.url": URL, "mode": mode, **names, **options})
        number = "julianday(at)" if "timestamp" in mode else "id"
        query = CursorQuery('"orders"', columns[mode], number)
        self.table = CursorTable("public.orders", query, may_be_null=mode != "bulk")
        self.database = sqlite3.connect(":memory:")
        self.database.execute("create table orders (id integer, at text, name text)")
        self.last: TableRange | None = None
        self.clock = NOON
        self.start()

    def start(self, *, is_bounded: bool = False) -> None:
        """Start a run, which continues after the last range."""
        self.planner = CursorPlanner(self.config, is_bounded=is_bounded)

    def put(self, number: int | None, seconds: float | None = 0, name: str = "") -> None:
        moment = None if seconds is None else row_at(seconds)
        self.database.execute("insert into orders values (?, ?, ?)", (number, moment, name))

    def execute(self, sql: str) -> list[list[str | None]]:
        return [[None if value is None else str(value) for value in row] for row in self.database.execute(sql)]

    def poll(self) -> list[int] | None:
        """Return the ids of the rows of the next range; None if no range is planned."""
        planned = self.planner.plan(self.table, self.execute, self.last, self.clock)
        if planned is None:
            return None
        assert self.last is None or planned.read > self.last.read
        self.last = TableRange.of_json(planned.to_json())
        rows = self.execute(self.table.query.rows(planned.after, planned.upto))
        return sorted(int(row[0] or 0) for row in rows)


def test_bulk_reads_everything_at_each_poll_and_once_in_a_bounded_run() -> None:
    orders = Orders("bulk")
    orders.put(2)
    orders.put(1)
    assert orders.poll() == [1, 2]
    assert orders.poll() == [1, 2]
    orders.start(is_bounded=True)
    assert orders.poll() == [1, 2]
    assert orders.poll() is None


def test_incrementing_reads_new_numbers_and_the_window_below_them() -> None:
    orders = Orders("incrementing", **{"incrementing.window": 2})
    assert orders.poll() is None
    for number in (1, 2, 3, 5):
        orders.put(number)
    assert orders.poll() == [1, 2, 3, 5]
    assert orders.poll() is None
    orders.put(4)  # the transaction with this number commits late
    assert orders.poll() == [4, 5]
    assert orders.poll() is None
    orders.put(6)
    assert orders.poll() == [4, 5, 6]


def test_windows_of_zero_read_each_row_once() -> None:
    orders = Orders("incrementing", **{"incrementing.window": 0})
    orders.put(1)
    orders.put(2)
    assert orders.poll() == [1, 2]
    orders.put(3)
    assert orders.poll() == [3]
    times = Orders("timestamp+incrementing", **{"timestamp.window.interval.ms": 0})
    times.put(7, -9)
    times.put(8, -9)
    assert times.poll() == [7, 8]
    times.put(9, -9)
    assert times.poll() == [9]
    assert times.poll() is None


@pytest.mark.parametrize("mode", ["incrementing", "timestamp", "timestamp+incrementing"])
def test_limit_divides_the_rows_into_ranges(mode: str) -> None:
    orders = Orders(mode, **{"batch.max.rows": 2, "incrementing.window": 0, "timestamp.window.interval.ms": 0})
    for number in range(1, 6):
        orders.put(number, number - 10)
    assert [orders.poll() for _ in range(4)] == [[1, 2], [3, 4], [5], None]


def test_limit_divides_rows_of_one_time_only_by_their_number() -> None:
    options = {"batch.max.rows": 2, "timestamp.window.interval.ms": 0}
    orders, numbered = Orders("timestamp", **options), Orders("timestamp+incrementing", **options)
    for number in range(1, 6):
        orders.put(number, -1)
        numbered.put(number, -1)
    assert [orders.poll(), orders.poll()] == [[1, 2, 3, 4, 5], None]
    assert [numbered.poll() for _ in range(4)] == [[1, 2], [3, 4], [5], None]


def test_delay_leaves_young_rows_to_a_later_range() -> None:
    orders = Orders("timestamp", **{"timestamp.delay.interval.ms": 5000, "timestamp.window.interval.ms": 0})
    orders.put(1, -6)
    orders.put(2, -4)
    orders.put(3, 60)  # of a program whose clock is ahead
    assert orders.poll() == [1]
    orders.clock += timedelta(seconds=2)
    assert orders.poll() == [2]
    orders.clock += timedelta(seconds=70)
    assert orders.poll() == [3]


def test_rows_of_late_transactions_are_read_without_a_newer_row() -> None:
    orders = Orders("timestamp")
    orders.put(1, -100)
    orders.put(2, -1)
    assert orders.poll() == [1, 2]
    assert orders.poll() is None
    orders.put(3, -30)
    assert orders.poll() == [2, 3]
    orders.start()
    assert orders.poll() is None, "a new run reads the window only if it has other rows"
    orders.put(4, -31)
    orders.start()
    assert orders.poll() == [2, 3, 4]
    orders.execute("delete from orders where id = 4")
    assert orders.poll() == [2, 3]
    orders.put(5, -32)
    assert orders.poll() == [2, 3, 5]


def test_late_changes_of_rows_in_the_window_are_read() -> None:
    orders = Orders("timestamp")
    orders.put(1, -40)
    orders.put(2, -1)
    assert orders.poll() == [1, 2]
    orders.execute(f"update orders set name = 'late', at = '{row_at(-30)}' where id = 1")
    assert orders.poll() == [1, 2]
    assert orders.poll() is None


def test_clock_that_goes_back_starts_a_new_era_and_reads_the_rows_since() -> None:
    orders = Orders("timestamp", **{"timestamp.window.interval.ms": 1000})
    orders.put(1, -500)
    orders.put(2, -1)
    assert orders.poll() == [1, 2]
    assert orders.last is not None
    assert orders.last.describe_era() == ""
    orders.clock -= timedelta(seconds=300)
    orders.put(3, -300.5)
    assert orders.poll() == [3]
    assert orders.last.describe_era() == f", since the clock went back to {at(-300)}"
    orders.clock += timedelta(seconds=10)
    orders.put(4, -291)
    assert orders.poll() == [3, 4]
    assert orders.last.era == at(-300)
    orders.clock += timedelta(seconds=400)
    assert orders.poll() == [2, 4]  # were read before; their positions are newer now


@pytest.mark.parametrize("is_restarted", [False, True])
def test_clock_of_database_and_driver_that_goes_back_loses_no_row(
    monkeypatch: pytest.MonkeyPatch, is_restarted: bool
) -> None:
    orders = Orders("timestamp")
    driver = time.time()
    monkeypatch.setattr(
        "headrace_sources.jdbc.cursor_planner.time.time", lambda: driver + (orders.clock - NOON).total_seconds()
    )
    orders.put(1, -60)
    assert orders.poll() == [1]
    ticks = time.monotonic() + 600
    monkeypatch.setattr("headrace_sources.jdbc.cursor_planner.time.monotonic", lambda: ticks)
    orders.put(2, -3600 + 10)  # The clock was set back by an hour, ten minutes before the next poll.
    orders.clock -= timedelta(seconds=3000)
    if is_restarted:
        orders.start()
    assert orders.poll() == [2]


def test_clock_that_goes_back_is_stored_without_new_rows(caplog: pytest.LogCaptureFixture) -> None:
    orders = Orders("timestamp")
    orders.put(1, -900)
    assert orders.poll() == [1]
    orders.clock -= timedelta(seconds=400)
    assert orders.poll() == []
    assert "the clock of the database went back" in caplog.text
    orders.start()
    assert orders.poll() is None
    orders.put(2, -401)
    orders.clock += timedelta(seconds=1)
    assert orders.poll() == [2]


def test_small_steps_of_the_clock_are_differences_between_servers() -> None:
    orders = Orders("timestamp")
    orders.put(1, -5)
    orders.poll()
    orders.clock -= timedelta(seconds=0.9)
    assert orders.poll() is None


def test_times_without_a_zone_are_compared_in_the_zone_of_the_database() -> None:
    options = {"db.timezone": "Europe/Prague", "timestamp.window.interval.ms": 0}
    orders = Orders("timestamp", **options)
    orders.put(1, 3599)  # 12:59:59 in Prague is 11:59:59 in UTC
    orders.put(2, 3601)
    assert orders.poll() == [1]
    assert orders.last is not None
    assert orders.last.clock == at(3600)


def test_numbers_that_start_again_are_an_error() -> None:
    orders = Orders("incrementing", **{"incrementing.window": 10})
    orders.put(500)
    assert orders.poll() == [500]
    orders.execute("delete from orders")
    assert orders.poll() is None, "an empty table has no rows that could be lost"
    orders.put(495)
    assert orders.poll() == [495]
    orders.execute("delete from orders")
    orders.put(12)
    with pytest.raises(ConfigError) as error:
        orders.poll()
    assert 'the highest value of "id" is 12, after 500 before' in str(error.value)
    assert "set `incrementing.window` to more than 488" in str(error.value)


@pytest.mark.parametrize("low", [1, -(2**31)])
def test_low_numbers_of_a_sequence_that_cycles_are_an_error(low: int) -> None:
    orders = Orders("incrementing", **{"incrementing.window": 10})
    for number in (2**31 - 100, 2**31 - 1):
        orders.put(number)
    assert orders.poll() == [2**31 - 100, 2**31 - 1]
    assert orders.poll() is None
    orders.put(low)
    with pytest.raises(ConfigError) as error:
        orders.poll()
    assert f'the lowest value of "id" is {low}, after {2**31 - 100} before' in str(error.value)
    orders.start()
    with pytest.raises(ConfigError, match="a sequence that cycles"):
        orders.poll()


def test_low_number_of_a_late_transaction_is_no_error() -> None:
    orders = Orders("incrementing", **{"incrementing.window": 10})
    orders.put(7)
    orders.put(12)
    assert orders.poll() == [7, 12]
    orders.put(5)
    assert orders.poll() == [5, 7, 12]


@pytest.mark.parametrize("mode", ["incrementing", "timestamp", "timestamp+incrementing"])
def test_keys_are_compared_when_the_pause_has_passed(mode: str) -> None:
    orders = Orders(mode, reconcile="1 hour")

    def poll_after(minutes: float) -> tuple[list[int] | None, bool]:
        orders.clock += timedelta(minutes=minutes)
        before = orders.last
        rows = orders.poll()
        assert (orders.last is before) == (rows is None)
        return rows, bool(rows is not None and orders.last and orders.last.compares_keys)

    assert poll_after(0) == (None, False), "an empty table has no rows to remove"
    orders.put(1, -100)
    assert poll_after(90) == ([1], False), "the pause begins with the first rows"
    assert poll_after(59) == (None, False)
    orders.start()
    assert poll_after(1) == ([], True), "a comparison without new rows is a range of its own"
    assert poll_after(59) == (None, False)
    orders.put(2, 3 * 3600)
    assert poll_after(1) == ([1, 2], True)
    orders.execute("delete from orders")
    poll_after(1)
    assert poll_after(60) == ([], True), "an emptied table is compared, too"
    assert poll_after(-240)[1], "after the clock went back, nothing is known about the pause"
    assert poll_after(30)[1] is False


def test_keys_are_compared_once_in_a_bounded_run() -> None:
    orders = Orders("incrementing", **{"reconcile": "1 hour", "batch.max.rows": 1, "incrementing.window": 0})
    orders.put(1)
    assert orders.poll() == [1]
    orders.clock += timedelta(hours=2)
    orders.put(2)
    orders.put(3)
    orders.start(is_bounded=True)
    found = []
    while (rows := orders.poll()) is not None:
        assert orders.last is not None
        found.append((rows, orders.last.compares_keys))
    assert found == [([2], True), ([3], False)]


def test_option_that_is_added_later_takes_effect_at_the_next_poll() -> None:
    orders = Orders("incrementing")
    orders.put(1)
    assert orders.poll() == [1]
    assert orders.last is not None
    assert not orders.last.compares_keys
    orders.config = JdbcConfig.model_validate({**orders.config.model_dump(by_alias=True), "reconcile": "1 hour"})
    orders.start()
    assert orders.poll() == []
    assert orders.last.compares_keys


def test_load_compares_keys_each_time_with_delete_missing() -> None:
    orders = Orders("bulk", **{"delete.missing": True})
    for _ in range(2):
        orders.poll()
        assert orders.last is not None
        assert orders.last.compares_keys


def test_table_that_could_not_be_read_is_read_from_its_beginning() -> None:
    orders = Orders("timestamp+incrementing")
    orders.last = TableRange(None, None, 5, is_unreadable=True)
    orders.put(1, -5)
    assert orders.poll() == [1]


def test_rows_without_a_cursor_are_an_error_with_their_number() -> None:
    orders = Orders("timestamp+incrementing")
    orders.put(1, -1)
    orders.put(2, None)
    orders.put(None, -1)
    with pytest.raises(ConfigError) as error:
        orders.poll()
    assert '2 rows have no value in "at" or "id", so no range would read them' in str(error.value)
    assert "validate.non.null: false" in str(error.value)


def test_rows_without_a_cursor_are_counted_in_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    orders = Orders("timestamp", **{"validate.non.null": False})
    orders.put(1, -1)
    orders.put(2, None)
    with caplog.at_level(logging.WARNING):
        assert orders.poll() == [1]
        assert orders.poll() is None
        orders.put(3, None)
        assert orders.poll() is None
    counts = [record.getMessage() for record in caplog.records]
    assert counts == [
        'source jdbc, public.orders: 1 rows have no value in "at", and are left out',
        'source jdbc, public.orders: 2 rows have no value in "at", and are left out',
    ]


def test_bounded_run_ends_while_rows_arrive() -> None:
    orders = Orders("incrementing", **{"batch.max.rows": 2, "incrementing.window": 0})
    for number in range(1, 4):
        orders.put(number)
    orders.start(is_bounded=True)
    assert orders.poll() == [1, 2]
    orders.put(4)
    assert [orders.poll(), orders.poll()] == [[3], None]


def test_repeated_range_has_the_same_sql() -> None:
    orders = Orders("timestamp+incrementing")
    orders.put(1, -2)
    orders.poll()
    assert orders.last is not None
    assert orders.last.after is None
    rows = orders.table.query.rows(orders.last.after, orders.last.upto)
    assert rows == (
        'SELECT * FROM "orders" WHERE "at" IS NOT NULL AND "id" IS NOT NULL AND '
        f'"at" <= \'{row_at(-2)}\' AND ("at" < \'{row_at(-2)}\' OR "id" <= 1)'
    )


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30), st.booleans()), max_size=30),
    st.sampled_from(["timestamp", "timestamp+incrementing"]),
    st.sampled_from([None, 1, 3]),
)
def test_every_row_that_commits_within_the_window_is_read(
    commits: list[tuple[int, int, bool]], mode: str, limit: int | None
) -> None:
    """Each commit: its time, how late it is, and whether a run starts before the next poll."""
    orders = Orders(mode, **({"batch.max.rows": limit} if limit else {}))
    found: set[int] = set()
    second = 0
    for number, (pause, late, is_restarted) in enumerate(commits):
        second += pause
        orders.clock = NOON + timedelta(seconds=second)
        orders.put(number, second - late)
        if is_restarted:
            orders.start()
        found.update(orders.poll() or ())
    while (read := orders.poll()) is not None:
        found.update(read)
    assert found == set(range(len(commits)))


@pytest.mark.parametrize(
    ("newest", "polls"),
    [
        ("12:00:05", {"12:00:05.9": False, "12:00:06": True, "12:00:59": False, "12:01:06": True, "13:00:00": False}),
        ("12:00:05.120", {"12:00:05.1204": False, "12:00:05.121": True, "12:01:05.121": True, "12:09:00": False}),
        ("12:07:00", {"12:07:01": True, "12:08:00": True, "12:08:30": True, "12:09:00": True, "12:10:00": False}),
        ("12:00:05.120001", {"12:00:06": False, "12:02:00": False}),
    ],
)
def test_rows_are_read_again_when_the_unit_of_their_time_has_passed(newest: str, polls: dict[str, bool]) -> None:
    """The row may have changed again within the unit, also in a transaction that ends within the window."""
    orders = Orders("timestamp")
    day = "2026-03-01"
    moment = datetime.fromisoformat(f"{day} {newest}").isoformat(" ", "microseconds")
    orders.database.execute(f"insert into orders values (1, '{moment}', '')")
    orders.clock = datetime.fromisoformat(f"{day} {newest}+00:00")
    assert orders.poll() == [1]
    for clock, is_read in polls.items():
        orders.clock = datetime.fromisoformat(f"{day} {clock}+00:00")
        assert orders.poll() == ([1] if is_read else None), clock
        orders.start()


def test_date_is_read_again_until_the_day_has_passed() -> None:
    orders = Orders("timestamp")
    orders.database.execute("insert into orders values (1, '2026-03-01 00:00:00.000000', '')")
    orders.clock = datetime(2026, 3, 1, 9, tzinfo=UTC)
    assert orders.poll() == [1]
    orders.clock = datetime(2026, 3, 1, 23, 59, tzinfo=UTC)
    assert orders.poll() is None
    orders.clock = datetime(2026, 3, 2, tzinfo=UTC)
    assert orders.poll() == [1]
    orders.clock = datetime(2026, 3, 2, 0, 1, tzinfo=UTC)
    assert orders.poll() == [1]
    assert orders.poll() is None


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 900), st.integers(0, 40)), max_size=12))
def test_last_state_of_each_row_is_read_with_a_column_of_seconds(changes: list[tuple[int, int, int]]) -> None:
    """Changes: row, milliseconds to wait before its transaction begins, seconds until it commits. A poll follows each commit."""
    orders, lake = Orders("timestamp"), {}

    def poll() -> None:
        if orders.poll() is not None:
            assert orders.last is not None
            rows = orders.execute(orders.table.query.rows(orders.last.after, orders.last.upto))
            lake.update({number: name for number, _, name in rows})

    for count, (number, pause, duration) in enumerate(changes):
        orders.clock += timedelta(milliseconds=pause)
        began = orders.clock.replace(microsecond=0, tzinfo=None).isoformat(" ", "microseconds")
        poll()
        orders.clock += timedelta(seconds=duration)
        orders.database.execute("delete from orders where id = ?", (number,))
        orders.database.execute("insert into orders values (?, ?, ?)", (number, began, f"{count}"))
        poll()
    for _ in range(3):
        orders.clock += timedelta(seconds=61)
        poll()
    assert lake == {row[0]: row[2] for row in orders.execute("select * from orders")}


def test_cursor_that_is_no_time_is_an_error() -> None:
    orders = Orders("timestamp")
    orders.database.execute("insert into orders values (1, '-infinity', '')")
    with pytest.raises(ConfigError, match="the newest row has the cursor '-infinity'"):
        orders.poll()
