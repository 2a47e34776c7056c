"""Detection of topics that were deleted and created again, from their ids in the stream's checkpoint."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import pytest
from tests.plugins.sources.transports.test_kafka_shares import Folder

from headrace import DataError
from headrace_sources.transports.kafka_topic_ids import FOLDER, TopicIds


class Cluster:
    """Topics with their ids, and the stream that reads them. Each call is one of a new process."""

    def __init__(self, **ids: str) -> None:
        self.ids, self.folder = ids, Folder()

    def open(self) -> TopicIds:
        stream: Any = self.folder
        return TopicIds(stream, lambda topics: {t: self.ids[t] for t in topics if t in self.ids})

    def note(self, batch: int, *topics: str) -> list[str]:
        return self.open().note(batch, topics, lambda _: None)


def test_recreated_topic_is_reported_for_its_first_batch() -> None:
    cluster = Cluster(orders="a", people="b")
    assert cluster.note(0, "orders", "people") == []
    assert cluster.note(1, "orders") == []
    cluster.ids["orders"] = "c"
    assert cluster.open().find_recreated(bool) == ["orders"]
    assert cluster.note(2, "people") == []
    assert cluster.note(3, "orders", "people") == ["orders"]
    assert cluster.note(3, "orders", "people") == ["orders"]  # after a crash
    assert cluster.note(4, "orders") == []
    assert cluster.open().find_recreated(bool) == []


def test_ranges_of_a_deleted_topic_are_not_read_from_the_new_one() -> None:
    """A backlog may have ranges of several topics that had the same name, even in one entry."""
    cluster, parts = Cluster(orders="a"), list[Any]()
    for batch, topic_id in enumerate("aabb"):
        cluster.ids["orders"] = topic_id
        if batch == 2:  # The stream has not seen the new topic yet.
            assert cluster.open().keep_current("orders", parts) == []
        cluster.note(batch, "orders")
        parts.append(json.loads(json.dumps(cluster.open().stamp("orders", {"0": (batch, batch + 1)}))))
        expected: list[Any] = [{"0": [n, n + 1]} for n in range(batch + 1) if batch < 2 or n >= 2]
        assert cluster.open().keep_current("orders", parts) == expected
    assert parts[:2] == [
        {"0": [0, 1]},
        {"0": [1, 2]},
    ]  # A topic that was never deleted has the ranges of older versions.


def test_topic_that_does_not_exist_keeps_its_id() -> None:
    cluster = Cluster(orders="a")
    cluster.note(0, "orders")
    del cluster.ids["orders"]
    assert cluster.open().find_recreated(bool) == []
    cluster.ids |= {"people": "b"}
    assert cluster.note(1, "people") == []
    cluster.ids["orders"] = "c"
    assert cluster.note(2, "orders") == ["orders"]


def test_stream_of_an_older_version_has_no_recreated_topics() -> None:
    cluster = Cluster(orders="a")
    assert cluster.open().find_recreated(bool) == []
    assert cluster.note(7, "orders") == []


def test_rejected_topic_is_rejected_again() -> None:
    cluster = Cluster(orders="a")
    cluster.note(0, "orders")
    cluster.ids["orders"] = "c"

    def reject(topics: Collection[str]) -> None:
        raise DataError(", ".join(topics))

    for _ in range(2):
        with pytest.raises(DataError, match="orders"):
            cluster.open().note(1, ["orders"], reject)
    assert cluster.note(1, "orders") == ["orders"]


def test_only_the_last_ids_are_kept() -> None:
    cluster = Cluster(orders="a")
    for batch in range(5):
        cluster.ids["orders"] = f"{batch}"
        cluster.note(batch, "orders")
    assert cluster.folder.folder(FOLDER).names() == ["3", "4"]


def test_topic_that_is_no_longer_read_is_not_requested() -> None:
    cluster = Cluster(orders="a", people="b")
    cluster.note(0, "orders", "people")
    cluster.ids |= {"orders": "c", "people": "d"}
    requested: list[str] = []
    stream: Any = cluster.folder

    def find_ids(topics: Collection[str]) -> dict[str, str]:
        requested.extend(topics)
        return {topic: cluster.ids[topic] for topic in topics}

    assert TopicIds(stream, find_ids).find_recreated({"orders"}.__contains__) == ["orders"]
    assert requested == ["orders"]


def test_cluster_may_get_topic_ids_later() -> None:
    none = "AAAAAAAAAAAAAAAAAAAAAA"
    cluster = Cluster(orders=none)
    for batch, found in enumerate([none, "a", none, "a"]):  # the brokers are upgraded one by one
        cluster.ids["orders"] = found
        assert cluster.open().find_recreated(bool) == []
        assert cluster.note(batch, "orders") == []
    cluster.ids["orders"] = "b"
    assert cluster.open().find_recreated(bool) == ["orders"]
