"""Streams that are deleted and created again, on kinesis-local. The tests use no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.plugins.sources.kinesis.test_kinesis_ranges import Run, check_repeats
from tests.support.tiers import nightly_after
from tests.support.waiting import until

from headrace import DataError
from headrace_sources.kinesis import stream_planner
from headrace_sources.kinesis.kinesis_stream import KinesisStream
from headrace_sources.kinesis.stream_planner import plan_range
from headrace_stack import Kinesis

pytestmark = [pytest.mark.dist]

STREAM = "orders"


@pytest.fixture(scope="module")
def server() -> Iterator[Kinesis]:
    with Kinesis() as kinesis:
        yield kinesis


class Service:
    """Client of kinesis-local with the clock that `Run` reads."""

    now = 1_700_000_000_000

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def delete_stream(kinesis: Kinesis) -> None:
    client = kinesis.client()
    client.delete_stream(StreamName=STREAM)
    until(lambda: STREAM not in client.list_streams()["StreamNames"], "the deletion")


@pytest.mark.parametrize("shards", nightly_after(1, [1, 3]))
def test_recreated_stream(kinesis_run: tuple[Kinesis, Run], shards: int) -> None:
    kinesis, run = kinesis_run
    kinesis.put(STREAM, *[(f"key {number}", b"old") for number in range(8)])
    run.read_everything()
    ((start, end, found),) = [one for one in run.ranges if one[2]]
    assert len(found) == 8
    delete_stream(kinesis)
    kinesis.create_stream(STREAM, shards)
    kinesis.put(STREAM, *[(f"key {number}", b"new") for number in range(5)])
    # The first batch was killed before the stream was deleted: its range is not in the new stream.
    with pytest.raises(DataError, match="the stream was created again"):
        plan_range(run.stream, run.model, start, end, is_lenient=False)
    assert plan_range(run.stream, run.model, start, end, is_lenient=True) == []
    run.restart()
    run.ranges.clear()
    assert [row["value"] for row in run.read_everything()[8:]] == [b"new"] * 5
    # The first batch on the new stream is killed.
    check_repeats(run)


@pytest.fixture
def kinesis_run(server: Kinesis, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Kinesis, Run]]:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(stream_planner, "LIST_PAUSES", ())
    server.create_stream(STREAM, 2)
    stream = KinesisStream(STREAM, server.region, server.endpoint_url)
    yield server, Run(Service(stream.make_client()), stream, **{"fail.on.data.loss": False})  # type: ignore[arg-type]
    delete_stream(server)
