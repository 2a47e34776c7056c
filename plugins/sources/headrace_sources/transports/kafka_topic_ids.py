"""Ids of the topics that a stream has read. A topic that is deleted and created again has another id, and its offsets restart."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.sdk.storage import Folder

FOLDER = "topic_ids"
#: Id of all topics on a cluster that has no topic ids yet.
_NO_ID = "A" * 22
#: Number of files that are kept: the ids of the last batch with a new id, and the ids before it.
_KEPT = 2


class TopicIds:
    """Topic → id, in files ``<batch>`` of a stream's checkpoint. A file has all ids that apply from its batch on."""

    def __init__(self, stream: Folder, find_ids: Callable[[Collection[str]], Mapping[str, str]]) -> None:
        """``find_ids``: returns the current ids of existing topics."""
        self._folder, self._list_ids = stream.folder(FOLDER), find_ids

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
        if now != before and batch not in self._stored:
            self._folder.write(f"{batch}", json.dumps(now, sort_keys=True))
            self._stored[batch] = now
            for number in sorted(self._stored)[:-_KEPT]:
                self._folder.delete(f"{number}")
                del self._stored[number]
        return recreated

    def _find_ids(self, topics: Collection[str]) -> dict[str, str]:
        return _drop_unknown(self._list_ids(topics))

    def _before(self, batch: int) -> dict[str, str]:
        """Return the ids that applied before a batch."""
        return self._stored[max(earlier)] if (earlier := [n for n in self._stored if n < batch]) else {}

    @cached_property
    def _stored(self) -> dict[int, dict[str, str]]:
        """Batch → ids of its file. The files are read once: only this run writes them."""
        return {int(name): self._folder.load(name, _parse) or {} for name in self._folder.names()}


def _parse(text: str) -> dict[str, str]:
    return _drop_unknown({str(topic): str(found) for topic, found in json.loads(text).items()})


def _drop_unknown(ids: Mapping[str, str]) -> dict[str, str]:
    return {topic: found for topic, found in ids.items() if found != _NO_ID}


def _compare(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return sorted(topic for topic, found in now.items() if before.get(topic, found) != found)
