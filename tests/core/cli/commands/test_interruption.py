"""Messages of an interrupted run."""

from __future__ import annotations

import pytest

from headrace.cli.commands.run import _describe_interruption
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
