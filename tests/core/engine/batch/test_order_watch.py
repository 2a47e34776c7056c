"""Changes of a topic's order: a new epoch, or an error when a plugin that cannot be used may have ordered it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.checkpoint.orders import Order
from headrace.engine.batch import order_watch
from headrace.engine.batch.order_watch import OrderWatch
from headrace.errors import PluginError
from headrace.registry.plugin_registry import PluginRegistry
from headrace.registry.registration import Broken

TOPIC, SCNS, OFFSETS = "shop.people", "Oracle's SCNs", "the record's offset"


class KnownOrders:
    """Orders of a checkpoint, in memory."""

    def __init__(self) -> None:
        self.topics = {TOPIC: Order(SCNS)}

    def get(self, topic: str) -> Order | None:
        return self.topics.get(topic)

    def put(self, orders: dict[str, Order]) -> None:
        self.topics |= orders


class RaisedEpochs:
    """Epochs of a checkpoint, in memory."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    def add(self, batch: int, reason: str, table: str) -> None:
        self.all.append(SimpleNamespace(number=1, from_batch=batch, reason=reason, table=table))


def check(order: str) -> dict[str, str]:
    """Return the notes about a batch whose topic has this order."""
    watch = OrderWatch(SimpleNamespace(epochs=RaisedEpochs(), orders=KnownOrders()))  # type: ignore[arg-type]
    plan: Any = SimpleNamespace(
        source=SimpleNamespace(offset_epoch=lambda context, topics: {}),
        dialect_of=lambda events: SimpleNamespace(order=lambda events: order),
    )
    events = SimpleNamespace(topic=TOPIC, part=None)
    target: Any = SimpleNamespace(name="people", topics=[TOPIC], sources=[(events, None)])
    context: Any = None
    return watch.check(plan, context, [target], 7)


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> PluginRegistry:
    known = PluginRegistry.from_entry_points()
    monkeypatch.setattr(order_watch, "registry", lambda: known)
    return known


def test_changed_order_is_noted(plugins: PluginRegistry) -> None:
    assert f"topic {TOPIC} was ordered by {SCNS} and is now ordered by {OFFSETS}" in check(OFFSETS)["people"]


def test_topic_of_a_connector_that_is_not_loaded_is_refused(plugins: PluginRegistry) -> None:
    plugins.broken.append(Broken("oracle", "headrace-oracle 1.0", ImportError("no driver")))
    with pytest.raises(PluginError, match=f"{TOPIC} was ordered by {SCNS}.*oracle 1.0 cannot be loaded: .*no driver"):
        check(OFFSETS)
    assert check("MySQL's binlog")["people"]
    assert check(SCNS) == {}


def test_parts_of_a_topic_have_their_own_orders(plugins: PluginRegistry) -> None:
    """Two databases write to one topic. A batch has changes of either one or both."""
    epochs, orders = RaisedEpochs(), KnownOrders()
    orders.topics.clear()
    watch = OrderWatch(SimpleNamespace(epochs=epochs, orders=orders))  # type: ignore[arg-type]
    plan: Any = SimpleNamespace(
        source=SimpleNamespace(offset_epoch=lambda context, topics: {}),
        dialect_of=lambda events: SimpleNamespace(order=lambda events: events.part),
    )
    targets: dict[str, Any] = {
        part: SimpleNamespace(name=part, sources=[(SimpleNamespace(topic=TOPIC, part=part), None)])
        for part in ("lsn", "binlog")
    }
    context: Any = None
    for batch, parts in enumerate([["lsn"], ["binlog"], ["lsn", "binlog"], ["lsn"]]):
        assert watch.check(plan, context, [targets[part] for part in parts], batch) == {}
