"""Queue of the changes that views have not applied, and the state of views."""

from __future__ import annotations

from typing import cast

from tests.support.memory_folder import MemoryFolder

from headrace.checkpoint.view_queue import QueueEntry, ViewQueue, ViewState
from headrace.spark.storage import Folder


def open_queue(folder: MemoryFolder) -> ViewQueue:
    return ViewQueue(cast("Folder", folder))


def names(entries: list[QueueEntry]) -> list[str]:
    return [entry.name for entry in entries]


def test_entry_waits_until_its_write_has_ended() -> None:
    folder = MemoryFolder()
    queue = open_queue(folder)
    with queue.hold("shop.orders") as name:
        queue.add(QueueEntry("shop.orders", name, "lake", ("id",)), None)
        assert names(queue.entries("shop.orders", "lake")) == [name]
        assert queue.finished_entries("shop.orders", "lake") == []
        # The process may end here. The next one does not know whether the table has the write.
        assert names(open_queue(folder).finished_entries("shop.orders", "lake")) == [name]
    assert names(queue.finished_entries("shop.orders", "lake")) == [name]
    assert queue.entries("shop.orders", "other") == []
    queue.remove("shop.orders", [name])
    assert queue.entries("shop.orders", "lake") == []
    assert open_queue(folder).entries("shop.orders", "lake") == []


def test_other_views_and_incomplete_entries_are_removed() -> None:
    folder = MemoryFolder()
    queue = open_queue(folder)
    for table in ("shop.orders", "shop.old"):
        with queue.hold(table) as name:
            queue.add(QueueEntry(table, name, "lake"), None)
    kept, gone = ViewState(7, "digest", ("id",), (name,)), ViewState(3, "digest", ("id",))
    queue.save("shop.totals", kept)
    queue.save("shop.gone", gone)
    # A crash left rows of an entry without its description.
    folder.folder("queue").folder("shop.orders").folder("0000-half").write("part-0.parquet", "")
    queue = open_queue(folder)
    queue.retain(["shop.totals"], ["shop.orders"])
    assert (queue.state("shop.totals"), queue.state("shop.gone")) == (kept, ViewState())
    assert folder.folder("queue").names() == ["shop.orders"]
    assert [name for name in folder.folder("queue").folder("shop.orders").names() if not name.endswith(".json")] == []
    assert len(queue.entries("shop.orders", "lake")) == 1
