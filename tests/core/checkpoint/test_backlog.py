"""Backlog of a table, compared with a list of the added batches.

Random sequences of additions, starts, completions, restarts and crashes must apply every batch once, in order.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

from hypothesis import given, strategies as st

from headrace.checkpoint.backlog import MAX_BATCHES, Backlog, BacklogEntry
from headrace.progress.rates import TableFailure
from headrace.spark.storage import Folder


class Files:
    """Folder in memory."""

    path = "backlog/shop.orders"

    def __init__(self) -> None:
        self.content: dict[str, str] = {}
        #: Whether the process crashes before it deletes a file.
        self.crashes_at_delete = False

    def names(self) -> list[str]:
        return sorted(self.content)

    def read(self, name: str) -> str | None:
        return self.content.get(name)

    def write(self, name: str, text: str) -> None:
        self.content[name] = text

    def delete(self, name: str) -> None:
        if self.crashes_at_delete:
            raise InterruptedError
        self.content.pop(name, None)


def ranges_of(batch: int) -> dict[str, list[Any]]:
    return {"orders": [{"0": [batch, batch + 1]}], **({"items": [batch]} if batch % 3 == 0 else {})}


@given(
    st.lists(st.sampled_from(["add", "add", "add", "repeat", "skip", "begin", "done", "restart", "crash"]), max_size=60)
)
def test_every_batch_is_applied_once_in_order(steps: list[str]) -> None:
    files = Files()
    backlog = Backlog(cast("Folder", files))
    batch, added, applied = 0, list[int](), list[BacklogEntry]()
    started: BacklogEntry | None = None
    for step in steps:
        if step in ("add", "skip"):
            batch += 1
        # Once a table has caught up, a repeated batch is written directly instead of being added to the backlog.
        waits = added and not (applied and applied[-1].last >= added[-1])
        if step == "add" or (step == "repeat" and waits):
            added += [batch] if step == "add" else []
            backlog.add(added[-1], ranges_of(added[-1]), "now", "full")
        elif step == "begin":
            restarted, started = started, backlog.begin()
            assert restarted is None or restarted == started  # a started part does not change
        elif step == "done" and started:
            applied.append(started)
            backlog.finish(started)
            started = None
        elif step == "restart":
            backlog = Backlog(cast("Folder", files))
        elif step == "crash":
            batch += 1
            files.crashes_at_delete = True
            with suppress(InterruptedError):
                backlog.add(batch, ranges_of(batch), "now", "full")
            files.crashes_at_delete = False
            backlog = Backlog(cast("Folder", files))
            backlog.add(batch, ranges_of(batch), "now", "full")
            added.append(batch)
        # The latest batch may be repeated. If it were joined with older batches, it would replace them.
        assert started is None or started.last != batch or started.first == started.last
    while part := backlog.begin():
        applied.append(part)
        backlog.finish(part)
    assert [source_range for part in applied for source_range in part.ranges.get("orders", [])] == [
        source_range for number in added for source_range in ranges_of(number)["orders"]
    ]
    assert [p for part in applied for p in part.ranges.get("items", [])] == [b for b in added if b % 3 == 0]
    assert [part.last for part in applied] == sorted(part.last for part in applied)
    assert files.content == {}


def test_part_contains_at_most_one_hundred_batches() -> None:
    backlog = Backlog(cast("Folder", Files()))
    for batch in range(MAX_BATCHES + 1):
        backlog.add(batch, ranges_of(batch), "now", "full")
    first = backlog.begin()
    assert first is not None
    assert (first.first, first.last) == (0, MAX_BATCHES - 1)
    backlog.finish(first)
    second = backlog.begin()
    assert second is not None
    assert (second.first, second.last) == (MAX_BATCHES, MAX_BATCHES)


def test_entry_counts_its_batches_if_its_topics_determine_the_number() -> None:
    def batches(first: int, last: int, **ranges: list[Any]) -> int | None:
        return BacklogEntry(first, last, "now", "full", ranges).batches

    assert batches(3, 3, orders=[1], items=[1]) == 1
    assert batches(3, 9, orders=[1, 2, 3]) == 3
    assert batches(3, 5, orders=[1, 2, 3], items=[1]) == 3
    assert batches(3, 9, orders=[1], items=[1]) is None  # one batch with both topics, or two with one each


def test_failure_has_time_of_first_entry_and_counts_all_batches() -> None:
    assert Backlog(cast("Folder", Files())).failure is None
    backlog = Backlog(cast("Folder", Files()))
    for batch in (4, 5, 7):
        backlog.add(batch, {"orders": [batch]}, "now" if batch == 4 else "later", "full")
        backlog.begin()
    assert backlog.failure == TableFailure("now", "full", backlog=3)
    backlog.add(8, {"orders": [8], "items": [8]}, "later", "full")
    backlog.add(10, {"orders": [10]}, "later", "full")
    assert backlog.failure == TableFailure("now", "full", backlog=None)
