"""Tests of sinks with a checkpoint that is older than its tables, for example restored from a backup."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.testing._internal.claims import claims
from headrace.testing.tables import put

if TYPE_CHECKING:
    from headrace.testing.tables import Target

_PEOPLE = "id int, name string"


class OlderCheckpointTests:
    """Batches with a number that the table already has, and with other records."""

    @claims("upsert")
    def test_batch_of_an_older_checkpoint_is_applied(self, target: Target) -> None:
        rows = [put(number, number, "a") for number in range(1, 4)]
        for row in rows[:2]:
            target.write(_PEOPLE, row)
        restored = replace(target, batch=0, digest="2")
        assert not restored.write(_PEOPLE, *rows[1:]).skipped
        restored.write_again(_PEOPLE, *rows[1:])
        assert [row["id"] for row in target.rows()] == [1, 2, 3]

    @claims("exactly_once")
    def test_appended_batch_of_an_older_checkpoint_is_completed_or_rejected(self, target: Target) -> None:
        rows = [put(number, number, "a") for number in range(1, 5)]
        for row in rows[:3]:
            target.write(_PEOPLE, row, mode="append")
        restored = replace(target, batch=1, digest="2")
        error = restored.refusal(lambda: restored.write(_PEOPLE, *rows[2:], mode="append"))
        assert [row["id"] for row in target.rows()] == ([1, 2, 3] if error else [1, 2, 3, 4])
        restored = replace(target, batch=0, digest="3")
        for row in rows[1:3]:
            restored.refusal(partial(restored.write, _PEOPLE, row, mode="append"))
        assert [row["id"] for row in target.rows()] == ([1, 2, 3] if error else [1, 2, 3, 4])
