"""Changes of a topic's order: a new epoch, or an error when a plugin that cannot be used may have ordered it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.memory_folder import MemoryFolder

from headrace.checkpoint.epochs import Epochs
from headrace.checkpoint.orders import Orders
from headrace.engine.batch import order_watch
from headrace.engine.batch.order_watch import OrderWatch
from headrace.errors import PluginError
from headrace.registry.plugin_registry import PluginRegistry
from headrace.registry.registration import Broken

TOPIC, SCNS, OFFSETS = "shop.people", "Oracle's SCNs", "the record's offset"


class Checkpoint:
    """Orders and epochs of a checkpoint, and the check of a batch with one table per name of a topic or its part."""

    def __init__(self) -> None:
        self.folder: Any = MemoryFolder()
        self.reopen()

    def reopen(self) -> None:
        self.epochs, self.orders = Epochs(self.folder), Orders(self.folder)
        self.watch = OrderWatch(self)  # type: ignore[arg-type]

    def check(self, batch: int, *, replay: Any = None, origin: str = "", **orders: str) -> dict[str, str]:
        """Return the notes about a batch. ``orders``: part of the topic → its order; without a part, ``topic``."""
        plan: Any = SimpleNamespace(
            source=SimpleNamespace(offset_epoch=lambda context, topics: dict.fromkeys(topics, origin)),
            dialect_of=lambda events: SimpleNamespace(order=lambda events: orders[events.part or "topic"]),
        )
        parts = {name: None if name == "topic" else name for name in orders}
        targets: Any = [
            SimpleNamespace(
                name=name, sources=[(SimpleNamespace(topic=TOPIC, part=part), SimpleNamespace(order_by=()))]
            )
            for name, part in parts.items()
        ]
        context: Any = SimpleNamespace(replay=replay)
        return self.watch.check(plan, context, targets, batch)

    def epochs_of(self, *batches: int) -> list[int]:
        return [self.epochs.of(batch, "topic") for batch in batches]


@pytest.fixture
def checkpoint() -> Checkpoint:
    """Return a checkpoint in which batch 4 has the order of Oracle."""
    found = Checkpoint()
    found.check(4, topic=SCNS)
    return found


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> PluginRegistry:
    known = PluginRegistry.from_entry_points()
    monkeypatch.setattr(order_watch, "registry", lambda: known)
    return known


def test_changed_order_is_noted(plugins: PluginRegistry, checkpoint: Checkpoint) -> None:
    notes = checkpoint.check(7, topic=OFFSETS)
    assert f"topic {TOPIC} was ordered by {SCNS} and is now ordered by {OFFSETS}" in notes["topic"]
    checkpoint.reopen()
    assert checkpoint.check(8, topic=OFFSETS) == {}
    assert checkpoint.epochs_of(6, 7, 8) == [0, 1, 1]


def test_topic_of_a_connector_that_is_not_loaded_is_refused(plugins: PluginRegistry, checkpoint: Checkpoint) -> None:
    plugins.broken.append(Broken("oracle", "headrace-oracle 1.0", ImportError("no driver")))
    with pytest.raises(PluginError, match=f"{TOPIC} was ordered by {SCNS}.*oracle 1.0 cannot be loaded: .*no driver"):
        checkpoint.check(7, topic=OFFSETS)
    assert checkpoint.check(5, topic=SCNS) == {}
    assert checkpoint.check(7, topic="MySQL's binlog")["topic"]


def test_parts_of_a_topic_have_their_own_orders(plugins: PluginRegistry) -> None:
    """Two databases write to one topic. A batch has changes of either one or both."""
    checkpoint = Checkpoint()
    for batch, parts in enumerate([["lsn"], ["binlog"], ["lsn", "binlog"], ["lsn"]]):
        assert checkpoint.check(batch, **{part: part for part in parts}) == {}
    assert checkpoint.epochs.all == []


def test_order_that_changes_in_a_backlog_starts_an_epoch(plugins: PluginRegistry, checkpoint: Checkpoint) -> None:
    assert checkpoint.check(6, topic=SCNS) == {}  # A batch of the table that waits: its records were not read.
    assert "is now ordered by" in checkpoint.check(5, replay={}, topic=OFFSETS)["topic"]
    checkpoint.check(5, replay={}, topic=OFFSETS)  # It is repeated.
    assert checkpoint.epochs_of(4, 5, 6) == [0, 1, 1]


@pytest.mark.parametrize("reopens", [False, True])
def test_backlog_does_not_undo_the_order_of_a_later_batch(
    plugins: PluginRegistry, checkpoint: Checkpoint, *, reopens: bool
) -> None:
    checkpoint.check(7, topic="MySQL's binlog")
    if reopens:
        checkpoint.reopen()
    assert checkpoint.check(5, replay={}, topic=SCNS) == {}
    assert checkpoint.check(8, topic="MySQL's binlog") == {}
    assert checkpoint.epochs_of(5, 6, 7, 8) == [0, 0, 1, 1]


def test_order_of_an_unreadable_batch_starts_its_epoch_later(plugins: PluginRegistry, checkpoint: Checkpoint) -> None:
    """The topic of batch 5 could not be read; in batch 6 its order is another one, and batch 5 may have a third order."""
    checkpoint.check(5, topic="")
    checkpoint.check(6, topic="MySQL's binlog")
    assert checkpoint.epochs_of(5, 6) == [0, 1]
    assert checkpoint.check(5, replay={}, topic="PostgreSQL's LSNs")["topic"]
    before, after = checkpoint.epochs_of(5, 6)
    assert 0 < before < after
    checkpoint.reopen()
    assert checkpoint.epochs_of(5, 6) == [before, after]


def test_backlog_does_not_record_the_present_origin_of_offsets(plugins: PluginRegistry) -> None:
    checkpoint = Checkpoint()
    checkpoint.check(4, origin="2 partitions", topic=OFFSETS)
    assert checkpoint.check(5, replay={}, origin="3 partitions", topic=OFFSETS) == {}
    assert (
        "offsets restart: 2 partitions; now 3 partitions"
        in (checkpoint.check(6, origin="3 partitions", topic=OFFSETS)["topic"])
    )
    assert checkpoint.epochs_of(5, 6) == [0, 1]
