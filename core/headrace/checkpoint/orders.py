"""What the changes of each topic are ordered by, as the last batch had it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.spark.storage import Folder

_FILE = "orders.json"


@dataclass(frozen=True)
class Order:
    """``made_of``: what positions are made of; ``origin``: from where places are counted, of a topic ordered by them."""

    made_of: str
    origin: str = ""


class Orders:
    """Topic → its Order, in a file of the checkpoint. Only the thread of the batch uses it."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._known = {topic: Order(**item) for topic, item in json.loads(folder.read(_FILE) or "{}").items()}

    def get(self, topic: str) -> Order | None:
        """None for a topic that was never met."""
        return self._known.get(topic)

    @property
    def topics(self) -> list[str]:
        """All that were ever met."""
        return list(self._known)

    def put(self, orders: dict[str, Order]) -> None:
        """Notes what has changed."""
        known = self._known | orders
        if known != self._known:
            self._folder.write(_FILE, json.dumps({topic: asdict(known[topic]) for topic in known}, ensure_ascii=False))
            self._known = known
