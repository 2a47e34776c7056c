"""Order and retries of the writer. The client is a model of PutRecords that refuses any part of a request; test_kinesis_sink.py has a server."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from hypothesis import given, strategies as st

from headrace import ConfigError, DataError, HeadraceError, RetriableError
from headrace_sinks.kinesis import stream_writer
from headrace_sinks.kinesis.stream_writer import StreamWriter, send_records
from headrace_sinks.kinesis.target_stream import TargetStream

STREAM = TargetStream("orders", "eu-west-1")
THROTTLED = "ProvisionedThroughputExceededException"


class PutRecords:
    """Client that stores the records of a request in any order. ``refuse``: number of a record → its error code, or None."""

    def __init__(self, refuse: Callable[[int], str | None] = lambda number: None) -> None:
        self.refuse, self.requests = refuse, list[Sequence[Mapping[str, Any]]]()
        self.stored: defaultdict[str, list[bytes]] = defaultdict(list)
        self._number = 0

    def put_records(self, *, StreamName: str, Records: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:  # noqa: N803 - AWS's names
        assert StreamName == "orders"
        self.requests.append(Records)
        results: list[Mapping[str, str]] = []
        for record in reversed(Records):
            self._number += 1
            if code := self.refuse(self._number):
                results.append({"ErrorCode": code, "ErrorMessage": "Rate exceeded for shard shardId-000000000001"})
            else:
                self.stored[record["PartitionKey"]].append(record["Data"])
                results.append({"SequenceNumber": "1", "ShardId": "shardId-000000000001"})
        return {"Records": results[::-1]}


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace pauses, and return them."""
    found: list[float] = []
    monkeypatch.setattr("headrace_sinks.kinesis.stream_writer.time.sleep", found.append)
    return found


def write(client: Any, records: Sequence[tuple[str, bytes]], record_bytes: int = 1 << 20) -> None:
    writer = StreamWriter(STREAM, client, record_bytes)
    for key, value in records:
        writer.add(key, value)
    writer.finish()


@given(st.lists(st.sampled_from("abcdefgh"), max_size=60), st.sets(st.integers(1, 80)))
def test_records_of_a_key_keep_their_order_whatever_is_refused(keys: list[str], refused: set[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_writer, "_WAITING_RECORDS", 10)
        patch.setattr(stream_writer, "_REQUEST_RECORDS", 4)
        patch.setattr(stream_writer, "_MAX_FAILURES", 100)
        patch.setattr("headrace_sinks.kinesis.stream_writer.time.sleep", lambda seconds: None)
        client = PutRecords(lambda number: THROTTLED if number in refused else None)
        records = [(key, f"{number}".encode()) for number, key in enumerate(keys)]
        write(client, records)
    expected: defaultdict[str, list[bytes]] = defaultdict(list)
    for key, value in records:
        expected[key].append(value)
    assert client.stored == expected
    for request in client.requests:
        assert len({record["PartitionKey"] for record in request}) == len(request) <= 4


def test_requests_are_full_and_within_the_limits() -> None:
    client = PutRecords()
    write(client, [(f"{number}", b"x") for number in range(1100)])
    assert [len(request) for request in client.requests] == [500, 500, 100]
    client = PutRecords()
    megabyte = b"x" * (1 << 20)
    write(client, [(f"{number}", megabyte) for number in range(9)], 2 << 20)
    assert [len(request) for request in client.requests] == [4, 4, 1]
    client = PutRecords()
    write(client, [("small", b"x"), ("large", megabyte * 9)], 10 << 20)
    assert [len(request) for request in client.requests] == [1, 1]


def test_records_without_a_key_fill_requests_and_are_spread() -> None:
    client = PutRecords(lambda number: THROTTLED if number % 7 == 0 else None)
    writer = StreamWriter(STREAM, client, 1 << 20, "none")
    for number in range(1100):
        writer.add(None, f"{number}".encode())
    writer.finish()
    assert sorted(map(int, client.stored["none"])) == list(range(1100))
    assert [len(request) for request in client.requests[:2]] == [500, 500]
    hashes = [int(record["ExplicitHashKey"]) for record in client.requests[0]]
    assert len(set(hashes)) == 500
    assert {value >> 126 for value in hashes} == {0, 1, 2, 3}, "parts of a stream with four shards"


def test_pauses_grow_while_nothing_is_stored_and_then_the_error_is_raised(pauses: list[float]) -> None:
    with pytest.raises(RetriableError, match="Rate exceeded for shard") as raised:
        write(PutRecords(lambda number: THROTTLED), [("a", b"1"), ("b", b"2")])
    assert raised.value.where == "Kinesis stream orders, eu-west-1"
    assert len(pauses) == 10
    assert pauses[0] <= 0.2
    assert 2.5 <= pauses[-1] <= 5


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "PutRecords"), ConfigError),
        (ClientError({"Error": {"Code": "ResourceNotFoundException", "Message": "no"}}, "PutRecords"), ConfigError),
        (EndpointConnectionError(endpoint_url="https://kinesis"), RetriableError),
    ],
)
def test_errors_of_requests_are_explained(error: Exception, kind: type[HeadraceError]) -> None:
    class Failing:
        def put_records(self, **_: Any) -> None:
            raise error

    with pytest.raises(HeadraceError) as raised:
        write(Failing(), [("a", b"1")])
    assert type(raised.value) is kind


def test_error_of_a_record_that_is_not_temporary_is_raised() -> None:
    with pytest.raises(ConfigError, match="KMSDisabledException"):
        write(PutRecords(lambda number: "KMSDisabledException" if number == 2 else None), [("a", b"1"), ("b", b"2")])


def test_records_beyond_the_limits_are_reported_without_their_content() -> None:
    with pytest.raises(DataError, match=r"1,048,577 bytes with its key, and the stream allows 1,048,576") as large:
        write(PutRecords(), [("secret", b"x" * ((1 << 20) - 5))])
    assert "UpdateMaxRecordSize" in str(large.value.fix)
    assert "secret" not in str(large.value)
    with pytest.raises(DataError, match="a partition key has 257 characters") as long:
        write(PutRecords(), [("k" * 257, b"")])
    assert "kkk" not in str(long.value)
    client = PutRecords()
    write(client, [("ž" * 256, b"")])
    assert client.stored == {"ž" * 256: [b""]}


def test_error_of_a_task_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    client = PutRecords()
    monkeypatch.setattr(TargetStream, "keep_client", lambda stream: client)
    small, large = ({"key": [key], "value": [b"x" * size]} for key, size in (("a", 1), ("b", 100)))
    batches = [pa.RecordBatch.from_pydict(columns) for columns in (small, large)]
    [row] = send_records(batches[:1], STREAM, record_bytes=50, null_key="default")
    assert row.to_pydict() == {"error": [None]}
    assert client.stored == {"a": [b"x"]}
    [row] = send_records(batches, STREAM, record_bytes=50, null_key="default")
    error = pickle.loads(row.to_pydict()["error"][0])
    assert type(error) is DataError
    assert "a record has 101 bytes with its key, and the stream allows 50" in str(error)
    assert "Kinesis stream orders, eu-west-1" in str(error)
