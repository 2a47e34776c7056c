"""Counts of rows that two steps of a batch removed."""

from __future__ import annotations

from headrace.engine.write.removed_rows import Removed, merge_removed
from headrace.sdk.sink import Sink, WriteResult
from headrace_sinks import ConsoleSink


def test_removals_of_both_steps_are_added_per_sink() -> None:
    first, second = ConsoleSink(), ConsoleSink(mode="upsert")
    tombstones: dict[Sink, Removed] = {first: Removed(2, WriteResult(version="7", bytes=10))}
    missing: dict[Sink, Removed] = {
        first: Removed(1, WriteResult(version="8", bytes=5)),
        second: Removed(4, WriteResult(version="1")),
    }
    merged = merge_removed(tombstones, missing)
    assert merged == {first: Removed(3, WriteResult(version="8", bytes=15)), second: missing[second]}
    assert merged[first].add_to(WriteResult(version="6", bytes=100)) == WriteResult(version="8", bytes=115)
    assert merge_removed({}, missing) == missing
    assert merge_removed(tombstones, {}) == tombstones
