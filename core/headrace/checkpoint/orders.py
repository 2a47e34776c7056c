"""What orders the changes of each topic, as of the last batch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from headrace.sdk.schema_log import PART_MARK
from headrace.spark.storage import parse_file

if TYPE_CHECKING:
    from headrace.sdk.file_system import TextFolder
    from headrace.spark.storage import Folder

_FILE = "orders.json"


@dataclass(frozen=True)
class Order:
    """Order of a topic.

    ``ordered_by``: the source of its positions; ``origin``: where offsets start, if the topic is ordered by them.
    """

    ordered_by: str
    origin: str = ""


class Orders:
    """Topic, or part of a topic → its Order, in a file of the checkpoint. Only the thread of the batch uses it."""

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

    def put(self, orders: dict[str, Order]) -> None:
        """Save the orders that have changed."""
        known = self._known | orders
        if known != self._known:
            self._folder.write(_FILE, json.dumps({topic: asdict(known[topic]) for topic in known}, ensure_ascii=False))
            self._known = known


def read_ordered_topics(folder: TextFolder) -> list[str]:
    """Return the topics, and parts of topics, whose order is in a checkpoint's folder."""
    text = folder.read(_FILE)
    return [] if text is None else list(parse_file(text, _parse, _FILE))


def _parse(text: str) -> dict[str, Order]:
    return {topic: Order(**item) for topic, item in json.loads(text).items()}
