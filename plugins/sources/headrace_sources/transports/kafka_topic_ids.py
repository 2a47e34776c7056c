"""Ids of the topics that a stream has read. A topic that is deleted and created again has another id, and its offsets restart."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from headrace.sdk.storage import Folder
    from headrace_sources.transports.kafka_offsets import Ranges

#: Folders: ids of all topics, and the ids of the topics that were created again.
FOLDER, RECREATED = "topic_ids", "recreated_topics"
#: Prefix of the files of single topics: files whose names start with ``_`` or ``.`` are hidden.
_PREFIX = "topic-"
#: Id of all topics on a cluster that has no topic ids yet.
_NO_ID = "A" * 22
#: Number of files that are kept: the ids of the last batch with a new id, and the ids before it.
_KEPT = 2


class TopicIds:
    """Topic → id, in files ``<batch>`` of a stream's checkpoint. A file has all ids that apply from its batch on."""

    def __init__(self, stream: Folder, find_ids: Callable[[Collection[str]], Mapping[str, str]]) -> None:
        """``find_ids``: returns the current ids of existing topics."""
        self._folder, self._list_ids = stream.folder(FOLDER), find_ids
        self._recreated_folder = stream.folder(RECREATED)

    def find_recreated(self, is_read: Callable[[str], bool]) -> list[str]:
        """Return the topics that were created again since they were last read. ``is_read``: whether the stream still reads a topic."""
        known = {topic: found for topic, found in self._before(sys.maxsize).items() if is_read(topic)}
        return _compare(known, self._find_ids(known) if known else {})

    def note(self, batch: int, topics: Collection[str], reject: Callable[[list[str]], None]) -> list[str]:
        """Store the ids of the topics that a batch reads, before it reads them. Return those that were created again.

        A repeated batch returns the same topics. ``reject``: may raise an error for them; then nothing is stored.
        """
        before = self._before(batch)
        now = self._stored[batch] if batch in self._stored else {**before, **self._find_ids(topics)}
        recreated = _compare(before, now)
        if recreated:
            reject(recreated)
        for topic in recreated:
            if self._recreated.get(topic) != now[topic]:
                self._recreated_folder.write(_PREFIX + quote(topic, safe=""), json.dumps(now[topic]))
                self._recreated[topic] = now[topic]
        if now != before and batch not in self._stored:
            self._folder.write(f"{batch}", json.dumps(now, sort_keys=True))
            self._stored[batch] = now
            for number in sorted(self._stored)[:-_KEPT]:
                self._folder.delete(f"{number}")
                del self._stored[number]
        return recreated

    def stamp(self, topic: str, ranges: Ranges) -> Mapping[str, Any]:
        """Return the ranges of a topic to read again later, with the topic's id if the topic was created again."""
        found = self._recreated.get(topic)
        return {"id": found, "ranges": ranges} if found else ranges

    def keep_current(self, topic: str, parts: Sequence[Mapping[str, Any]]) -> list[Ranges]:
        """Return the ranges from ``stamp`` whose topic still exists. A new topic has other records at these offsets."""
        if self.find_recreated(topic.__eq__):
            return []
        current = self._recreated.get(topic)
        return [dict(part.get("ranges", part)) for part in parts if part.get("id") == current]

    def _find_ids(self, topics: Collection[str]) -> dict[str, str]:
        return _drop_unknown(self._list_ids(topics))

    def _before(self, batch: int) -> dict[str, str]:
        """Return the ids that applied before a batch."""
        return self._stored[max(earlier)] if (earlier := [n for n in self._stored if n < batch]) else {}

    @cached_property
    def _recreated(self) -> dict[str, str]:
        """Topic → its id, of topics that were created again."""
        folder = self._recreated_folder
        return {unquote(name.removeprefix(_PREFIX)): folder.load(name, _parse_id) or "" for name in folder.names()}

    @cached_property
    def _stored(self) -> dict[int, dict[str, str]]:
        """Batch → ids of its file. The files are read once: only this run writes them."""
        return {int(name): self._folder.load(name, _parse) or {} for name in self._folder.names()}


def _parse(text: str) -> dict[str, str]:
    return _drop_unknown({str(topic): str(found) for topic, found in json.loads(text).items()})


def _parse_id(text: str) -> str:
    return str(json.loads(text))


def _drop_unknown(ids: Mapping[str, str]) -> dict[str, str]:
    return {topic: found for topic, found in ids.items() if found != _NO_ID}


def _compare(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return sorted(topic for topic, found in now.items() if before.get(topic, found) != found)
