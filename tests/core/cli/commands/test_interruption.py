"""Messages of an interrupted run."""

from __future__ import annotations

import os
import sys
from typing import Any, cast

import pytest

from headrace.cli.commands.run import _describe_interruption, _start
from headrace.cli.run_log import TextLines
from headrace.cli.run_totals import Totals
from headrace.cli.signals import Stop
from headrace.pipeline import Pipeline
from headrace.progress.maintained import Maintained
from headrace.progress.model import BatchProgress, TableProgress
from headrace.progress.status import Status, describe_run


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, "interrupted before the first batch: nothing was read"),
        (describe_run([], {}, 7, None, 0.0), "batch 7 was interrupted, and the next run repeats it; nothing is lost"),
        (describe_run([], {}, None, None, 0.0), "between two batches: the next run continues here"),
    ],
)
def test_effect_of_an_interruption_is_described(status: Status | None, expected: str) -> None:
    assert _describe_interruption(status).endswith(expected)


class Callbacks:
    """Pipeline that returns the callbacks of a run."""

    def start(self, *_: object, **callbacks: Any) -> dict[str, Any]:
        return callbacks


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_closed_output_ends_the_run(monkeypatch: pytest.MonkeyPatch, stream: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    closed = os.fdopen(writer, "w", buffering=1)
    stop, view = Stop(), TextLines(Totals("shop"), "shop.yaml")
    pipeline, spark = cast("Pipeline", Callbacks()), cast("Any", None)
    callbacks = cast("dict[str, Any]", _start(pipeline, spark, view, stop, interval=None, available_now=False))
    monkeypatch.setattr(sys, stream, closed)
    if stream == "stdout":
        table = TableProgress("shop.orders", "lake")
        callbacks["on_progress"](BatchProgress("shop", 0, "2026-11-28T02:00:00+00:00", 1.0, (table,)))
    else:
        callbacks["on_maintenance"](Maintained("shop.orders", "lake", "compact", "9 files", "done"))
    assert stop.requested_by == f"{stream} was closed"
    getattr(sys, stream).close()
    os.close(writer)
