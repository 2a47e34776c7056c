"""Options of the admin client, and its attempts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace_kafka.kafka_admin import KafkaAdmin, with_timeouts


@pytest.mark.parametrize(
    ("options", "api", "request_"),
    [
        ({}, "5000", "5000"),
        ({"request.timeout.ms": "30000"}, "30000", "30000"),
        ({"default.api.timeout.ms": "2000"}, "2000", "2000"),
        ({"default.api.timeout.ms": "60000", "request.timeout.ms": "1000"}, "60000", "1000"),
    ],
)
def test_timeouts_never_contradict_each_other(options: dict[str, str], api: str, request_: str) -> None:
    found = with_timeouts({"bootstrap.servers": "broker:9092", **options})
    assert found["bootstrap.servers"] == "broker:9092"
    assert (found["default.api.timeout.ms"], found["request.timeout.ms"]) == (api, request_)


class SlowClient:
    """Client of a busy broker: the first ``timeouts`` requests time out."""

    def __init__(
        self, timeouts: int, message: str = "org.apache.kafka.common.errors.TimeoutException: timed out"
    ) -> None:
        self.requests, self._timeouts, self._message = 0, timeouts, message

    def get(self) -> Any:
        self.requests += 1
        if self.requests <= self._timeouts:
            raise RuntimeError(self._message)
        return self

    def size(self) -> int:
        return 3

    def __iter__(self) -> Iterator[str]:
        return iter(["b", "a"])

    def __str__(self) -> str:
        return "id"

    listTopics = names = describeCluster = clusterId = nodes = lambda self: self  # noqa: N815


def open_admin(client: SlowClient) -> KafkaAdmin:
    admin = KafkaAdmin.__new__(KafkaAdmin)
    admin._client = client
    return admin


@pytest.mark.parametrize("call", [KafkaAdmin.topics, KafkaAdmin.cluster, KafkaAdmin.await_broker])
def test_first_request_of_each_kind_has_three_attempts(call: Callable[[KafkaAdmin], Any]) -> None:
    call(open_admin(SlowClient(2)))
    with pytest.raises(RuntimeError, match="TimeoutException"):
        call(open_admin(SlowClient(3)))
    denied = SlowClient(1, "SaslAuthenticationException")
    with pytest.raises(RuntimeError, match="Sasl"):
        call(open_admin(denied))
    assert denied.requests == 1


def test_request_after_a_response_has_one_attempt() -> None:
    client = SlowClient(0)
    admin = open_admin(client)
    assert admin.topics() == ["a", "b"]
    client._timeouts = 2
    with pytest.raises(RuntimeError):
        admin.topics()
    client._timeouts = client.requests + 2
    admin.await_broker()  # A stream starts.
