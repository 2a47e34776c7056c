"""Order of the changes of each topic, as of the last batch, and its order before that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headrace.sdk.schema_log import PART_MARK
from headrace.spark.storage import parse_file

if TYPE_CHECKING:
    from headrace.sdk.file_system import TextFolder
    from headrace.spark.storage import Folder

_FILE = "orders.json"


@dataclass(frozen=True)
class Order:
    """Order of a topic.

    ``ordered_by``: the source of its positions; ``origin``: where offsets start, if the topic is ordered by them; ``since``: the
    first batch with this order; ``before``: the order before this batch.
    """

    ordered_by: str
    origin: str = ""
    since: int = field(default=0, compare=False)
    before: Order | None = field(default=None, compare=False)

    def as_of(self, batch: int) -> Order | None:
        """Return the order that the topic had in a batch; None if it is unknown."""
        return self if self.since <= batch else self.before

    def followed_by(self, order: Order, batch: int) -> Order:
        """Return the order after a batch with ``order``. A table that catches up has batches before ``since``."""
        if batch < self.since:
            return replace(self, before=order)
        if self == order:
            return self
        return replace(order, since=batch, before=self.before if self.since == batch else replace(self, before=None))


class Orders:
    """Topic, or part of a topic → its Order, in a file of the checkpoint. One thread at a time uses it."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._known = folder.load(_FILE, _parse) or {}

    def get(self, topic: str) -> Order | None:
        """Return the order of a topic; None for a new topic."""
        return self._known.get(topic)

    @property
    def topics(self) -> list[str]:
        """All known topics, without the names of their parts."""
        return list(dict.fromkeys(name.partition(PART_MARK)[0] for name in self._known))

    def put(self, orders: Mapping[str, Order], batch: int) -> None:
        """Save the orders that a batch has changed."""
        changed = {name: self._follow(name, order, batch) for name, order in orders.items()}
        known = self._known | changed
        if any(self._known.get(name) is not order for name, order in changed.items()):
            self._folder.write(_FILE, json.dumps({topic: asdict(known[topic]) for topic in known}, ensure_ascii=False))
            self._known = known

    def _follow(self, name: str, order: Order, batch: int) -> Order:
        known = self._known.get(name)
        return known.followed_by(order, batch) if known else replace(order, since=batch)


def read_ordered_topics(folder: TextFolder) -> list[str]:
    """Return the topics, and parts of topics, whose order is in a checkpoint's folder."""
    text = folder.read(_FILE)
    return [] if text is None else list(parse_file(text, _parse, _FILE))


def _parse(text: str) -> dict[str, Order]:
    return {topic: _parse_order(item) for topic, item in json.loads(text).items()}


def _parse_order(item: dict[str, Any]) -> Order:
    order = Order(**item)
    return replace(order, before=Order(**item["before"])) if order.before else order
