"""Marks of batches in a table of which the log is in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pytest

from headrace.sdk import Batch
from headrace_sinks.delta.batch_versions import BatchVersion
from headrace_sinks.delta.delta_handle import DeltaHandle

BATCHES = [Batch("pipeline", number, "append", digest=str(number)) for number in range(2)]


class Table(DeltaHandle):
    """Table with descriptions of commits, the oldest first. The JVM has no part in the answer."""

    def __init__(self, commits: Sequence[Mapping[str, str]], properties: Mapping[str, str] | None = None) -> None:
        super().__init__(cast("Any", None), "", None)
        self.commits, self.own_properties = commits, properties or {}

    @property
    def properties(self) -> Mapping[str, str]:
        return self.own_properties

    def _walk_commits(self, before: int = -1) -> Iterator[tuple[int, Mapping[str, Any]]]:
        yield from reversed(list(enumerate(self.commits)))


def is_applied(table: Table, batch: Batch, last: Batch | None) -> bool | None:
    return table.is_applied(batch, None if last is None else BatchVersion.after(None, last))


WRITES = [{"userMetadata": batch.mark} for batch in BATCHES]


@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        (WRITES, True),
        ([*WRITES, {"operation": "OPTIMIZE"}], True),
        ([*WRITES, {"operation": "RESTORE"}], None),
        ([WRITES[0], {"operation": "RESTORE"}, WRITES[1]], True),
    ],
)
def test_batch_before_a_restore_may_be_missing(commits: Any, expected: bool | None) -> None:
    assert is_applied(Table(commits), BATCHES[1], BATCHES[1]) is expected


def test_batch_of_a_table_that_forgets_batches_may_be_stored() -> None:
    expiry = {"delta.setTransactionRetentionDuration": "interval 1 day"}
    assert is_applied(Table(WRITES), BATCHES[1], None) is False
    assert is_applied(Table(WRITES, expiry), BATCHES[1], None) is None
    assert is_applied(Table(WRITES, expiry), BATCHES[1], BATCHES[0]) is False
