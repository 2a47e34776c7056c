"""Calls that are worth another try, and batches that are planned again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.engine.plan.retry import TRIES, Backoff, retry
from headrace.engine.read.schema_replanning import MAX_REPLANS, until_schemas_known
from headrace.errors import ConfigError, HeadraceError, RetriableError
from headrace.sdk.format import UnknownSchemaError
from headrace.sdk.schema_log import SchemaLog, Subject


def call(*errors: Exception) -> tuple[Callable[[], str], list[int]]:
    calls: list[int] = []

    def answer() -> str:
        calls.append(len(calls))
        if len(calls) <= len(errors):
            raise errors[len(calls) - 1]
        return "answer"

    return answer, calls


def translate(raised: Exception) -> HeadraceError:
    return raised if isinstance(raised, HeadraceError) else ConfigError(str(raised))


def test_pauses_double_between_tries() -> None:
    pauses: list[float] = []
    answer, _ = call(*[RetriableError("busy")] * (TRIES - 1))
    assert retry(answer, translate, pauses.append) == "answer"
    assert pauses == [1.0, 2.0, 4.0]


def test_the_last_error_is_raised() -> None:
    answer, calls = call(*[RetriableError(f"busy {n}") for n in range(9)])
    with pytest.raises(RetriableError, match=f"busy {TRIES - 1}"):
        retry(answer, translate, lambda _: None)
    assert len(calls) == TRIES


@pytest.mark.parametrize("error", [ConfigError("wrong"), UnknownSchemaError("7"), ValueError("odd")])
def test_what_is_not_worth_a_try_is_raised_at_once(error: Exception) -> None:
    answer, calls = call(error)
    with pytest.raises(HeadraceError):
        retry(answer, translate, lambda _: None)
    assert len(calls) == 1


def test_backoff_grows_to_its_longest_and_begins_anew() -> None:
    backoff = Backoff(2.0, 7.0)
    assert [backoff.next() for _ in range(4)] == [2.0, 4.0, 7.0, 7.0]
    backoff.reset()
    assert backoff.next() == 2.0


def test_a_batch_is_planned_again_with_the_schemas_that_it_met() -> None:
    log, subject = SchemaLog(), Subject("orders", "value")
    answer, calls = call(UnknownSchemaError("7", schemas=[(subject, "7")]))
    assert until_schemas_known(answer, log) == "answer"
    assert (len(calls), log.take_unknown(subject)) == (2, {"7"})


def test_planning_again_ends() -> None:
    answer, calls = call(*[UnknownSchemaError(str(n)) for n in range(99)])
    with pytest.raises(UnknownSchemaError):
        until_schemas_known(answer, SchemaLog())
    assert len(calls) == MAX_REPLANS + 1
