"""The backlog of a table, against a list of what was added: whatever is added, begun, applied and reopened in between."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

from hypothesis import given, strategies as st

from headrace.checkpoint.backlog import MAX_BATCHES, Backlog, BacklogEntry
from headrace.progress.rates import TableFailure
from headrace.spark.storage import Folder


class Files:
    """A folder in memory."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        #: The process ends before it has deleted anything.
        self.ends_at_delete = False

    def names(self) -> list[str]:
        return sorted(self.texts)

    def read(self, name: str) -> str | None:
        return self.texts.get(name)

    def write(self, name: str, text: str) -> None:
        self.texts[name] = text

    def delete(self, name: str) -> None:
        if self.ends_at_delete:
            raise InterruptedError
        self.texts.pop(name, None)


def places(batch: int) -> dict[str, list[Any]]:
    return {"orders": [{"0": [batch, batch + 1]}], **({"items": [batch]} if batch % 3 == 0 else {})}


@given(
    st.lists(st.sampled_from(["add", "add", "add", "repeat", "skip", "begin", "done", "restart", "crash"]), max_size=60)
)
def test_every_batch_is_applied_once_in_order(steps: list[str]) -> None:
    files = Files()
    backlog = Backlog(cast("Folder", files))
    batch, added, applied = 0, list[int](), list[BacklogEntry]()
    begun: BacklogEntry | None = None
    for step in steps:
        if step in ("add", "skip"):
            batch += 1
        # Of a table that has caught up, a batch that comes again is written as any other.
        waits = added and not (applied and applied[-1].last >= added[-1])
        if step == "add" or (step == "repeat" and waits):
            backlog.add(batch if step == "add" else added[-1], places(batch), "now", "full")
            added += [batch] if step == "add" else []
        elif step == "begin":
            again, begun = begun, backlog.begin()
            assert again is None or again == begun  # what somebody has begun with stays as it is
        elif step == "done" and begun:
            applied.append(begun)
            backlog.finish(begun)
            begun = None
        elif step == "restart":
            backlog = Backlog(cast("Folder", files))
        elif step == "crash":
            batch += 1
            files.ends_at_delete = True
            with suppress(InterruptedError):
                backlog.add(batch, places(batch), "now", "full")
            files.ends_at_delete = False
            backlog = Backlog(cast("Folder", files))
            backlog.add(batch, places(batch), "now", "full")
            added.append(batch)
        # It may be repeated, and would take the place of what was applied with it.
        assert begun is None or begun.last != batch or begun.first == begun.last
    while part := backlog.begin():
        applied.append(part)
        backlog.finish(part)
    assert [place for part in applied for place in part.ranges.get("orders", [])] == [
        place for number in added for place in places(number)["orders"]
    ]
    assert [p for part in applied for p in part.ranges.get("items", [])] == [b for b in added if b % 3 == 0]
    assert [part.last for part in applied] == sorted(part.last for part in applied)
    assert files.texts == {}


def test_a_part_ends_after_a_hundred_batches() -> None:
    backlog = Backlog(cast("Folder", Files()))
    for batch in range(MAX_BATCHES + 1):
        backlog.add(batch, places(batch), "now", "full")
    first = backlog.begin()
    assert first is not None
    assert (first.first, first.last) == (0, MAX_BATCHES - 1)
    backlog.finish(first)
    second = backlog.begin()
    assert second is not None
    assert (second.first, second.last) == (MAX_BATCHES, MAX_BATCHES)


def test_an_entry_knows_how_many_batches_it_holds_where_its_topics_tell() -> None:
    def batches(first: int, last: int, **places: list[Any]) -> int | None:
        return BacklogEntry(first, last, "now", "full", places).batches

    assert batches(3, 3, orders=[1], items=[1]) == 1
    assert batches(3, 9, orders=[1, 2, 3]) == 3
    assert batches(3, 5, orders=[1, 2, 3], items=[1]) == 3
    assert batches(3, 9, orders=[1], items=[1]) is None  # one batch with both topics, or two with one each


def test_a_failure_is_as_old_as_the_first_entry_and_counts_all() -> None:
    assert Backlog(cast("Folder", Files())).failure is None
    backlog = Backlog(cast("Folder", Files()))
    for batch in (4, 5, 7):
        backlog.add(batch, {"orders": [batch]}, "now" if batch == 4 else "later", "full")
        backlog.begin()
    assert backlog.failure == TableFailure("now", "full", backlog=3)
    backlog.add(8, {"orders": [8], "items": [8]}, "later", "full")
    backlog.add(10, {"orders": [10]}, "later", "full")
    assert backlog.failure == TableFailure("now", "full", backlog=None)
