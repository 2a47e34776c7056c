"""Policy for rejected records, tested without Spark."""

from __future__ import annotations

import pytest

from headrace.dead_letters.policy import DeadLetterCounter, DeadLetterPolicy
from headrace.errors import RuleError
from headrace.progress.model import TableProgress
from headrace.sdk.reject_reason import RejectReason


def test_dead_letter_without_a_rule_is_stored() -> None:
    assert DeadLetterPolicy().drops({"undecodable": 3, "key-missing": 1}, "shop.orders") == {}


def test_dropped_records_are_counted_by_reason() -> None:
    policy = DeadLetterPolicy({RejectReason.KEY_MISSING: "drop", RejectReason.UNDECODABLE: "dead-letter"})
    assert policy.drops({"undecodable": 3, "key-missing": 2}, "shop.orders") == {"key-missing": 2}


def test_stop_error_contains_table_reason_and_fix() -> None:
    policy = DeadLetterPolicy({RejectReason.KEY_MISSING: "stop"})
    with pytest.raises(RuleError) as raised:
        policy.drops({"undecodable": 3, "key-missing": 1}, "shop.orders")
    assert raised.value.what == "1 record: key-missing, a key column is null"
    assert raised.value.where == "table shop.orders"
    assert "`dead.letters:`" in str(raised.value.fix)


@pytest.mark.parametrize(
    ("limit", "records", "dead_letters", "is_exceeded"),
    [
        (None, 10, 10, False),
        (2, 10, 2, False),
        (2, 10, 3, True),
        (0, 10, 1, True),
        ("5%", 100, 5, False),
        ("5%", 100, 6, True),
        ("5%", 99, 99, False),  # a percentage of few records is not significant
    ],
)
def test_limit_of_dead_letters(limit: int | str | None, records: int, dead_letters: int, is_exceeded: bool) -> None:
    policy = DeadLetterPolicy(limit=limit)
    if not is_exceeded:
        policy.check_limit(records, dead_letters)
        return
    with pytest.raises(RuleError, match=f"{dead_letters} of {records} records are dead letters"):
        policy.check_limit(records, dead_letters)


def test_dead_letter_is_counted_once_for_several_sinks() -> None:
    counter = DeadLetterCounter(DeadLetterPolicy(limit=3))
    batch = [TableProgress("t", sink, rows_in=10, dead_letters=2) for sink in ("iceberg", "hudi")]
    counter.add(batch)
    with pytest.raises(RuleError, match="4 of 20 records"):
        counter.add(batch)


def test_percentage_excludes_tables_with_an_unknown_number_of_records() -> None:
    """A run that repeats a batch counts its dead letters again, but not its records."""
    repeated = TableProgress("t", "iceberg", dead_letters=400, skipped=True)
    counter = DeadLetterCounter(DeadLetterPolicy(limit="5%"))
    counter.add([repeated, TableProgress("t", "iceberg", rows_in=1000, dead_letters=50)])
    with pytest.raises(RuleError, match=r"51 of 1,000 records"):
        counter.add([TableProgress("t", "iceberg", rows_in=0, dead_letters=1)])
    with pytest.raises(RuleError, match="400 of 0 records"):
        DeadLetterCounter(DeadLetterPolicy(limit=399)).add([repeated])
