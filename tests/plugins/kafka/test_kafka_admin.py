"""Options of the admin client."""

from __future__ import annotations

import pytest

from headrace_kafka.kafka_admin import with_timeouts


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
