"""Retries of calls, and repeated planning of batches."""

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

    def respond() -> str:
        calls.append(len(calls))
        if len(calls) <= len(errors):
            raise errors[len(calls) - 1]
        return "answer"

    return respond, calls


def translate(raised: Exception) -> HeadraceError:
    return raised if isinstance(raised, HeadraceError) else ConfigError(str(raised))


def test_pauses_between_attempts_double() -> None:
    pauses: list[float] = []
    respond, _ = call(*[RetriableError("busy")] * (TRIES - 1))
    assert retry(respond, translate, pauses.append) == "answer"
    assert pauses == [1.0, 2.0, 4.0]


def test_last_error_is_raised() -> None:
    respond, calls = call(*[RetriableError(f"busy {n}") for n in range(9)])
    with pytest.raises(RetriableError, match=f"busy {TRIES - 1}"):
        retry(respond, translate, lambda _: None)
    assert len(calls) == TRIES


@pytest.mark.parametrize("error", [ConfigError("wrong"), UnknownSchemaError("7"), ValueError("odd")])
def test_error_that_is_not_retriable_is_raised_immediately(error: Exception) -> None:
    respond, calls = call(error)
    with pytest.raises(HeadraceError):
        retry(respond, translate, lambda _: None)
    assert len(calls) == 1


def test_backoff_grows_to_its_maximum_and_resets() -> None:
    backoff = Backoff(2.0, 7.0)
    assert [backoff.next() for _ in range(4)] == [2.0, 4.0, 7.0, 7.0]
    backoff.reset()
    assert backoff.next() == 2.0


def test_batch_is_planned_again_with_new_schemas() -> None:
    log, subject = SchemaLog(), Subject("orders", "value")
    respond, calls = call(UnknownSchemaError("7", schemas=[(subject, "7")]))
    assert until_schemas_known(respond, log) == "answer"
    assert (len(calls), log.take_unknown(subject)) == (2, {"7"})


def test_repeated_planning_is_limited() -> None:
    respond, calls = call(*[UnknownSchemaError(str(n)) for n in range(99)])
    with pytest.raises(UnknownSchemaError):
        until_schemas_known(respond, SchemaLog())
    assert len(calls) == MAX_REPLANS + 1
