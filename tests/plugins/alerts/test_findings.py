"""Conditions: true for the numbers that they name, and never because a clock jumps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from headrace_alerts.alert import Key
from headrace_alerts.alerts_config import AlertsConfig
from headrace_alerts.event_record import EventRecord
from headrace_alerts.findings import Conditions, Findings
from tests.plugins.alerts.doubles import ORDERS, RUNNING, SET_ASIDE

from headrace.progress.rates import TableStatus
from headrace.progress.status import Status
from headrace.sdk.observer import RunEvent, RunEventKind

TABLE = ("shop.orders", "lake")


class Observed:
    """Conditions of a run, and their clock."""

    def __init__(self, **options: Any) -> None:
        config = AlertsConfig.model_validate({"to": [{"command": ["true"]}], **options})
        self.now = 0.0
        self.record = EventRecord(600.0, lambda: self.now)
        self._conditions = Conditions(config, self.record)

    def send(self, kind: RunEventKind, **fields: Any) -> None:
        self.record.add(RunEvent(kind=kind, time=0.0, **fields))

    def find(self, *tables: TableStatus, status: Status = RUNNING) -> Findings:
        return self._conditions.find(replace(status, tables=tables), self.now)

    def describe(self, *tables: TableStatus, status: Status = RUNNING) -> dict[str, tuple[str, str]]:
        """Return condition → summary and description."""
        found = self.find(*tables, status=status).true
        return {key.condition: (one.summary, one.description) for key, one in found.items()}


def test_healthy_run_has_no_trouble() -> None:
    limits = {"latency": "1 minute", "lag": 10, "dead.letters": 1, "no.batch.for": "1 minute", "schema.changed": True}
    assert Observed(when=limits).describe(ORDERS) == {}


def test_table_that_is_behind() -> None:
    run = Observed(when={"latency": "5 minutes", "lag": 1000})
    assert run.describe(replace(ORDERS, lag=1000, lag_seconds=300.0)) == {}
    assert run.describe(replace(ORDERS, lag=1001, lag_seconds=380.0, ended="later")) == {
        "latency": ("shop.orders → lake is 6 min 20 s behind, more than 5 minutes", ""),
        "lag": ("1,001 records wait for shop.orders → lake, more than 1,000", ""),
    }


def test_delay_grows_between_batches_but_not_by_a_jump_of_the_clock() -> None:
    run = Observed(when={"latency": "5 minutes"})
    assert run.describe(replace(ORDERS, lag=9, lag_seconds=200.0)) == {}
    run.now = 90.0
    assert run.describe(replace(ORDERS, lag=9, lag_seconds=1e9)) == {}
    run.now = 110.0
    summary = "shop.orders → lake is 5 min 10 s behind, more than 5 minutes"
    assert run.describe(replace(ORDERS, lag=9, lag_seconds=-1e9)) == {"latency": (summary, "")}


def test_unknown_numbers_are_neither_true_nor_false() -> None:
    found = Observed(when={"latency": "1 minute", "lag": 1}).find(replace(ORDERS, lag=None, lag_seconds=None))
    assert found.true == {}
    assert found.is_unknown(Key("latency", *TABLE))
    assert found.is_unknown(Key("lag", *TABLE))
    assert not found.is_unknown(Key("failed.table", *TABLE))


def test_source_without_lag_is_judged_by_its_last_batch_while_more_follow() -> None:
    run, late = Observed(when={"latency": "1 second"}), replace(ORDERS, lag=None, lag_seconds=None, latency_ms=1500)
    assert run.describe(late) == {}
    assert set(run.describe(late, status=replace(RUNNING, applying=3))) == {"latency"}


def test_failed_table_shows_its_error_without_values() -> None:
    run = Observed()
    assert run.describe(SET_ASIDE) == {
        "failed.table": (
            "shop.orders → lake is set aside",
            "table shop.orders: permission denied\nfix: grant the role s3:PutObject",
        )
    }
    quoting = replace(SET_ASIDE, error="[CAST_INVALID_INPUT] The value 'Arp' cannot be cast\n  fix: widen it")
    assert (
        run.describe(quoting)["failed.table"][1] == "[CAST_INVALID_INPUT] The value '…' cannot be cast\nfix: widen it"
    )
    assert len(run.describe(replace(SET_ASIDE, error="x" * 100_000))["failed.table"][1]) == 2001


@pytest.mark.parametrize(
    ("change", "summary", "description"),
    [
        ({"error": "broker away\n  fix: start it", "message": "retrying: broker away"}, "retrying: broker away", "broker away\nfix: start it"),
        ({"silent_seconds": 75.0, "message": "waiting for an answer of the source"}, "waiting for an answer of the source", ""),
    ],
)  # fmt: skip
def test_source_that_fails(change: dict[str, Any], summary: str, description: str) -> None:
    assert Observed().describe(ORDERS, status=replace(RUNNING, **change)) == {"source.failing": (summary, description)}


def test_dead_letters_are_counted_within_the_window() -> None:
    run = Observed(when={"dead.letters": 3})
    run.send(RunEventKind.DEAD_LETTERS_WRITTEN, table="shop.orders", counts={"key-missing": 2})
    assert run.describe(ORDERS) == {}
    run.now = 500.0
    run.send(RunEventKind.DEAD_LETTERS_WRITTEN, table="shop.orders", counts={"undecodable": 1})
    summary, description = run.describe(ORDERS)["dead.letters"]
    assert summary == "shop.orders has 3 dead letters within 10 minutes"
    assert description.startswith("key-missing: 2, undecodable: 1\nfix: `headrace dead-letters FILE` shows them")
    run.now = 601.0
    assert run.describe(ORDERS) == {}


def test_silence() -> None:
    run = Observed(when={"no.batch.for": "10 minutes"})
    run.now = 600.0
    assert run.describe(ORDERS) == {}
    run.now = 601.0
    applying = replace(RUNNING, message="applying batch 7", step="writing shop.orders")
    expected = ("no batch was committed for 10 min 1 s", "applying batch 7: writing shop.orders")
    assert run.describe(ORDERS, status=applying) == {"no.batch.for": expected}
    run.send(RunEventKind.BATCH_COMMITTED, batch=7)
    assert run.describe(ORDERS) == {}


def test_changed_schema_is_a_trouble_for_the_window() -> None:
    run = Observed(when={"schema.changed": True})
    run.send(RunEventKind.SCHEMA_CHANGED, topic="shop.public.orders")
    assert run.describe(ORDERS) == {"schema.changed": ("the schema of shop.public.orders has changed", "")}
    run.now = 601.0
    assert run.describe(ORDERS) == {}


def test_run_that_ends_with_an_error() -> None:
    run = Observed(when={"no.batch.for": "1 minute"})
    run.now = 1000.0
    run.send(RunEventKind.RUN_STOPPED, error="disk full\n  fix: free space")
    found = run.find(SET_ASIDE)
    assert [(one.summary, one.description) for one in found.true.values()] == [
        ("the run has ended with an error", "disk full\nfix: free space")
    ]
    assert found.is_unknown(Key("failed.table", *TABLE)), "the end of the run repairs nothing"


def test_dead_letters_of_the_last_batch_count_at_the_end() -> None:
    run = Observed(when={"dead.letters": 1})
    run.send(RunEventKind.DEAD_LETTERS_WRITTEN, table="shop.orders", counts={"key-missing": 2})
    run.send(RunEventKind.RUN_STOPPED)
    assert set(run.describe()) == {"dead.letters"}


def test_regular_end_is_no_trouble() -> None:
    run = Observed()
    run.send(RunEventKind.RUN_STOPPED)
    assert run.describe(ORDERS) == {}


def test_earlier_error_is_over_after_a_batch() -> None:
    run, stopped = Observed(), Key("stopped")
    assert run.find(status=replace(RUNNING, applying=0)).is_unknown(stopped)
    assert not run.find(status=RUNNING).is_unknown(stopped), "the source has no records"
    run.send(RunEventKind.BATCH_COMMITTED, batch=0)
    assert not run.find(ORDERS, status=replace(RUNNING, applying=1)).is_unknown(stopped)


def test_tables_are_unknown_before_the_first_batch() -> None:
    run, key = Observed(), Key("failed.table", *TABLE)
    assert run.find(status=replace(RUNNING, has_answered=False)).is_unknown(key)
    assert not run.find(status=RUNNING).is_unknown(key)


def test_conditions_of_some_tables() -> None:
    run = Observed(
        when={"lag": 10, "failed.table": False},
        tables=[{"tables": "shop.audit*", "lag": None, "failed.table": True}, {"tables": ["shop.*"], "lag": 20}],
    )
    names = ("shop.audit_log", "shop.orders", "crm.people")
    found = run.find(*(replace(ORDERS, table=name, lag=15) for name in names))
    assert [key.table for key in found.true] == ["crm.people"]
    assert set(run.find(replace(SET_ASIDE, table="shop.audit_log"), SET_ASIDE).true) == {
        Key("failed.table", "shop.audit_log", "lake")
    }
