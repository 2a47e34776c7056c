"""Detection of tables whose order changes: their earlier and later positions cannot be compared."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from headrace.checkpoint.orders import Order
from headrace.engine.read.column_order import describe_order
from headrace.errors import PluginError
from headrace.registry.plugin_registry import registry
from headrace.sdk.positions import OFFSET_ORDER
from headrace.sdk.schema_log import PART_MARK

if TYPE_CHECKING:
    from headrace.checkpoint.layout import Checkpoint
    from headrace.engine.plan.pipeline_plan import Plan
    from headrace.engine.plan.routing import Route, Target
    from headrace.sdk.events import Events
    from headrace.sdk.source import SourceContext


class OrderWatch:
    """Detector of order changes. It gives a table a new epoch from that batch on."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._epochs, self._orders, self._lock = checkpoint.epochs, checkpoint.orders, threading.Lock()

    def check(self, plan: Plan, context: SourceContext, targets: Sequence[Target], batch: int) -> dict[str, str]:
        """Return table → note about its new order.

        Called before anything of the batch is written; a batch may be repeated. Threads may call it: a batch, and the catch-up of
        tables with older batches.
        """
        found = {
            _name_of(events): (events.topic, order)
            for target in targets
            for events, route in target.sources
            if (order := _order_of(plan, context, events, route))
        }
        origins = _read_origins(plan, context, {topic for topic, order in found.values() if order == OFFSET_ORDER})
        with self._lock:
            known = {name: self._find_known(name, batch) for name in found}
            orders = {
                name: _with_origin(order, origins.get(topic), known[name]) for name, (topic, order) in found.items()
            }
            for target in targets:
                names = dict.fromkeys(_name_of(events) for events, _ in target.sources)
                changes = [
                    text for name in names if (text := _describe_change(name, known.get(name), orders.get(name)))
                ]
                if changes:
                    self._epochs.add(batch, "; ".join(changes), target.name)
            self._orders.put(orders, batch)
        return {
            epoch.table: f"{epoch.reason}. From this batch on (epoch {epoch.number}) every change is newer than all earlier ones"
            for epoch in self._epochs.all
            if epoch.table and epoch.from_batch == batch
        }

    def _find_known(self, name: str, batch: int) -> Order | None:
        """Return the order that a topic or its part had until a batch; None if it is new."""
        topic, _, _ = name.partition(PART_MARK)
        # Earlier releases stored one order for all parts of a topic.
        known = self._orders.get(name) or self._orders.get(topic)
        return known.as_of(batch) if known else None


def _read_origins(plan: Plan, context: SourceContext, topics: Collection[str]) -> dict[str, str]:
    """Return where offsets start now; empty for a backlog, whose offsets may be older.

    An error is ignored: the next read of the source reports it.
    """
    if not topics or context.replay is not None:
        return {}
    try:
        return dict(plan.source.offset_epoch(context, sorted(topics)))
    except Exception:  # noqa: BLE001
        return {}


def _with_origin(order: str, origin: str | None, known: Order | None) -> Order:
    """Return the order of a topic. Offsets whose origin is unknown have that of earlier batches."""
    if order != OFFSET_ORDER:
        return Order(order)
    return Order(order, known.origin if origin is None and known else origin or "")


def _describe_change(name: str, known: Order | None, order: Order | None) -> str | None:
    """Describe how the order of a topic or of its part has changed; None for an unchanged or new one."""
    if known is None or order is None or known == order:
        return None
    topic, _, _ = name.partition(PART_MARK)
    if known.ordered_by != order.ordered_by:
        if order.ordered_by == OFFSET_ORDER:
            _refuse_lost_connector(topic, known.ordered_by)
        return f"topic {topic} was ordered by {known.ordered_by} and is now ordered by {order.ordered_by}"
    if known.origin and order.origin:
        return f"topic {topic} is ordered by {OFFSET_ORDER}, and offsets restart: {known.origin}; now {order.origin}"
    return None


def _refuse_lost_connector(topic: str, order: str) -> None:
    """Raise PluginError if a plugin that cannot be used may have ordered a topic that its offsets would order now."""
    if reasons := registry().find_unusable("connector"):
        raise PluginError(
            f"topic {topic} was ordered by {order}, and no usable connector has this order: {'; '.join(reasons)}",
            fix="repair the plugin. If it is no longer wanted, uninstall it: then the record's offset orders the topic",
        )


def _name_of(events: Events) -> str:
    """Return the topic of events, or its part: connectors of different databases may write to one topic."""
    return f"{events.topic}{PART_MARK}{events.part}" if events.part is not None else events.topic


def _order_of(plan: Plan, context: SourceContext, events: Events, route: Route) -> str:
    """Return what orders a topic; an empty string if it cannot be read, which its table reports."""
    try:
        if route.order_by:
            return describe_order(plan, context.spark, events, route.order_by)
        return plan.dialect_of(events).order(events)
    except Exception:  # noqa: BLE001
        return ""
