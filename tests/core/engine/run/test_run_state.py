"""State of a run that its threads share, and concurrent processing of tables."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.engine.batch.table_pool import PARALLEL_TABLES, TableOutcome, TablePool
from headrace.engine.plan.routing import Target
from headrace.engine.run.run_state import Phase, RunState
from headrace.errors import ConfigError, RetriableError


def test_run_from_start_to_end() -> None:
    state = RunState()
    assert (state.phase, state.has_responded, state.is_applying) == (Phase.STARTING, False, False)
    state.begin_batch(0)
    assert (state.is_applying, state.is_own_thread, state.has_responded) == (True, True, False)
    state.note_response()
    state.end_batch()
    assert (state.phase, state.batch, state.is_applying) == (Phase.WAITING, 0, False)
    unreachable = RetriableError("away")
    state.fail(unreachable)
    state.note_source_error(unreachable)
    assert (state.phase, state.error, state.source_error, state.has_responded) == (
        Phase.RETRYING,
        None,
        unreachable,
        True,
    )
    first = ConfigError("first")
    state.fail(first)
    state.fail(ConfigError("second"))
    assert state.error is first
    state.request_stop()
    assert state.phase is Phase.STOPPING


def test_table_that_catches_up_concurrently_is_recorded() -> None:
    state = RunState()
    names = [f"t{n}" for n in range(200)]
    with ThreadPoolExecutor(4) as pool:
        for name in names:
            pool.submit(state.note_caught_up, name)
            pool.submit(state.note_outcomes, ["other"], ["failed"])
    state.note_outcomes((), [*names[1:], "other"])
    assert state.has_healthy_tables
    state.note_outcomes((), names[:1])
    assert not state.has_healthy_tables


def test_tables_are_applied_concurrently_and_a_hanging_one_is_skipped() -> None:
    canceled: list[str] = []
    freed = threading.Event()
    pool = TablePool(canceled.append, timeout=1.5)

    def apply(target: Target) -> TableOutcome:
        if target.name == "hangs":
            freed.wait(30)
        return TableOutcome()

    outcomes = pool.process([Target("hangs", ()), Target("quick", ())], apply)
    assert isinstance(outcomes["hangs"].error, RetriableError)
    assert (outcomes["quick"].error, canceled) == (None, ["hangs"])
    with pytest.raises(RetriableError, match="its last write has not ended"):
        pool.check_free("hangs")
    freed.set()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            pool.check_free("hangs")
            break
        except RetriableError:
            time.sleep(0.01)
    pool.check_free("hangs")


def test_table_that_waits_for_a_thread_has_not_started() -> None:
    """The start time of the previous batch must not be used for this one."""
    pool = TablePool(lambda _: None, timeout=2.0)
    last = Target("last", ())
    pool.process([last], lambda _: TableOutcome())
    time.sleep(1.5)
    busy = [Target(f"t{n}", ()) for n in range(PARALLEL_TABLES)]

    def apply(target: Target) -> TableOutcome:
        time.sleep(1.2 if target in busy else 0)
        return TableOutcome()

    assert pool.process([last, *busy, Target("behind", ())], apply)["last"].error is None
    pool.process([last], lambda _: TableOutcome())
    time.sleep(1.5)
    assert pool.process([*busy, last], apply)["last"].error is None
