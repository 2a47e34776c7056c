"""Errors of the pipeline while ``headrace live`` waits for a change."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, cast

import pytest
from rich.console import Console

from headrace.errors import FatalError, RetriableError
from headrace.progress.model import BatchProgress, TableProgress
from headrace.progress.status import Status, describe_run
from headrace_demo.live import follow


class RunningQuery:
    """Query that reports errors of the source and of a table, and applies nothing."""

    is_active = True

    def __init__(self, on_progress: Callable[[BatchProgress], None]) -> None:
        failed = TableProgress("pagila_public.film", "hudi", error="the disk is full")
        on_progress(BatchProgress("live", 0, "2015-07-17T12:00:00.000+00:00", 1.0, (failed,)))
        self._errors = [RetriableError("the broker is down\x1b[31m", where="b:9092"), None]

    @property
    def status(self) -> Status:
        error = self._errors.pop(0) if len(self._errors) > 1 else self._errors[0]
        return describe_run([], {}, None, error)


class StartedPipeline:
    def start(self, spark: Any, *, on_progress: Callable[[BatchProgress], None]) -> RunningQuery:
        return RunningQuery(on_progress)


def test_errors_are_printed_while_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "_TIMEOUT", 1.2)
    console = Console(file=io.StringIO(), width=100)
    follower = follow.Follower(cast("Any", StartedPipeline()), cast("Any", None), console)
    with pytest.raises(FatalError):
        follower.await_rows({"film": 1})
    assert cast("io.StringIO", console.file).getvalue().splitlines() == [
        "pagila_public.film → hudi: the disk is full",
        "b:9092: the broker is down\\x1b[31m",
        "the source responds again",
    ]
