"""Enhanced fan-out: shards that push their records to a consumer.

kinesis-local has the consumers. A proxy in front of it pushes records by the rules of the service, because kinesis-local implements
few of them (see `Sender`); one test reads what kinesis-local pushes. A stub client returns the errors.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError, EventStreamError
from tests.plugins.sources.kinesis.test_kinesis_ranges import SUBSCRIBED, Sent, read_rows, record
from tests.plugins.sources.kinesis.test_kinesis_source import FIRST, Writer, job, offset_of, row, rows
from tests.support.executors import Environment
from tests.support.kinesis_proxy import KinesisProxy, Sender, send, start_event_stream
from tests.support.waiting import stop_at_end, until, until_tables

from headrace import ConfigError, DataError, HeadraceError, RetriableError
from headrace_sources.kinesis import kinesis_source, shard_reader
from headrace_sources.kinesis.fan_out_consumer import find_consumer
from headrace_sources.kinesis.kinesis_config import KinesisConfig
from headrace_sources.kinesis.kinesis_stream import KinesisStream
from headrace_sources.kinesis.shard_pages import SubscribedPages
from headrace_sources.kinesis.shard_positions import ShardPosition
from headrace_sources.kinesis.shard_reader import Reading
from headrace_stack import Kinesis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dist, pytest.mark.one_spark]

#: Seconds between two subscriptions to a shard. AWS requires five.
RESUBSCRIBE_SECONDS = 1.0


@pytest.fixture(autouse=True)
def _login(kinesis: Kinesis, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinesis_source, "_SUBSCRIBE_SECONDS", RESUBSCRIBE_SECONDS)
    Environment(spark, monkeypatch).set(kinesis.environment)


@pytest.fixture
def stream(kinesis: Kinesis) -> str:
    name = f"shop{uuid.uuid4().hex[:8]}.public.orders"
    kinesis.create_stream(name)
    return name


@pytest.fixture
def sender(kinesis: Kinesis) -> Iterator[Sender]:
    with Sender(kinesis) as proxy:
        proxy.again = RESUBSCRIBE_SECONDS
        yield proxy


def options(proxy: KinesisProxy, name: str = "etl") -> dict[str, Any]:
    return {
        "endpoint.url": proxy.endpoint_url,
        "consumer.type": "SubscribeToShard",
        "consumer.name": name,
    }


@pytest.mark.nightly
def test_split_shards_push_all_records(
    kinesis: Kinesis, sender: Sender, stream: str, tmp_path: Path, spark: SparkSession
) -> None:
    writer = Writer(kinesis, stream)
    writer.write()
    pipeline = job(kinesis, stream, tmp_path, options(sender))
    item = next(item for item in pipeline.check(spark, connect=True) if "consumer" in item.found)
    assert item.found.endswith("; consumer etl: not registered, a run registers it")
    with stop_at_end(pipeline.start(trigger="100 milliseconds", spark=spark)) as query:
        until(lambda: query.last_progress or not query.is_active, "the first batch")
        kinesis.split(stream, writer.open_shards()[0])
        writer.write()
        until_tables(query, lambda: (rows(pipeline, spark, stream), writer.versions), "while it runs")
    assert query.exception is None
    done = [
        shard for shard, position in offset_of(tmp_path)["streams"][stream]["shards"].items() if position.get("is_done")
    ]
    shards = {shard["ShardId"] for shard in kinesis.shards(stream)}
    assert sorted(done) == sorted(shards - set(writer.open_shards()))
    # The source sends no GetRecords, subscribes to each shard, and registers one consumer.
    assert (sender.operations["GetRecords"], sender.operations["RegisterStreamConsumer"]) == (0, 1)
    assert set(sender.subscriptions) == shards
    arn = kinesis.client().describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]["StreamARN"]
    (consumer,) = kinesis.client().list_stream_consumers(StreamARN=arn)["Consumers"]
    assert (consumer["ConsumerName"], consumer["ConsumerStatus"]) == ("etl", "ACTIVE")


@pytest.mark.nightly
def test_repeated_batch_has_the_same_records(
    kinesis: Kinesis, sender: Sender, stream: str, spark: SparkSession
) -> None:
    """Subscriptions end in the middle of a range, and more records arrive between the reads."""
    sender.records, sender.longest = 10, 0.01
    kinesis.put(stream, *[row(number, "a") for number in range(40)])
    limits = {"stream": stream, "max.fetch.records.per.shard": 25}
    first, second = (kinesis_source.KinesisSource(**limits, **options(sender)) for _ in range(2))
    first.open(spark)
    start, sizes = first.initial(), []
    while (end := first.latest(start, None)) != start:
        kinesis.put(stream, row(1, "later"))
        first_rows, second_rows = (
            one.read(spark, start, end).orderBy("partition", "offset").collect() for one in (first, second)
        )
        assert first_rows == second_rows
        sizes.append(len(first_rows))
        start = end
        if sum(sizes) > 40:
            break
    assert sizes == [25, 16]
    assert len(sender.subscriptions[FIRST]) >= 8


def test_pushes_of_kinesis_local_are_read(kinesis: Kinesis, stream: str) -> None:
    """The frames come from kinesis-local, except the first one, which it omits and boto3 requires."""

    class FirstFrame(KinesisProxy):
        def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
            if not request.headers["X-Amz-Target"].endswith("SubscribeToShard"):
                super().answer(request, body)
                return
            with self.hand_on(request, body) as answer, suppress(OSError):  # the subscriber has disconnected
                start_event_stream(request)
                while content := answer.read1(65536):
                    send(request, content)

    kinesis.put(stream, *[("key", b"%d" % number) for number in range(3)], ("key", b""))
    with FirstFrame(kinesis) as proxy:
        positions = KinesisStream(stream, kinesis.region, proxy.endpoint_url)
        client = positions.make_client()
        sent = replace(positions, consumer=find_consumer(positions, client, "etl"))
        assert find_consumer(positions, client, "etl") == sent.consumer
        found, (mark,) = read_rows(client, [Reading(FIRST, ShardPosition())], sent)
        assert [row["value"] for row in found] == [b"0", b"1", b"2", None]
        before, _ = read_rows(client, [Reading(FIRST, ShardPosition())], positions)
        assert found == before
        assert (mark.is_at_end, mark.sequence) == (True, found[-1]["headers"][0]["value"].decode())


class StubClient:
    """Client whose subscriptions return given events and a final error."""

    def __init__(self, *event_lists: list[Any]) -> None:
        self.event_lists = list(event_lists)
        self.positions: list[Any] = []
        self.sent: list[Sent] = []

    def subscribe_to_shard(self, StartingPosition: Any, **_: Any) -> Any:  # noqa: N803 - boto3's
        self.positions.append(StartingPosition)
        events = self.event_lists.pop(0)
        if events and isinstance(events[0], ClientError):
            raise events[0]
        self.sent.append(Sent(self._yield_events(events)))
        return {"EventStream": self.sent[-1]}

    @staticmethod
    def _yield_events(events: list[Any]) -> Iterator[Any]:
        for event in events:
            if isinstance(event, Exception):
                raise event
            yield {"SubscribeToShardEvent": event}

    def read(self) -> list[bytes]:
        found, _ = read_rows(self, [Reading(FIRST, ShardPosition())], SUBSCRIBED)
        return [row["value"] for row in found]


def event(*sequences: str, behind: int = 5, seen: str | None = None) -> dict[str, Any]:
    records = [record(sequence, sequence.encode()) for sequence in sequences]
    return {"Records": records, "MillisBehindLatest": behind, "ContinuationSequenceNumber": seen or sequences[-1]}


def client_error(code: str, message: str = "no") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "SubscribeToShard")


def stream_error(code: str) -> EventStreamError:
    return EventStreamError({"Error": {"Code": code, "Message": "no"}}, "SubscribeToShard")


@pytest.fixture
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SubscribedPages, "pause", 0.0)


@pytest.mark.usefixtures("_no_pauses")
def test_resubscription_starts_after_the_last_event() -> None:
    """Without records for hours, only an event's continuation sequence number marks the position."""
    client = StubClient(
        [client_error("ResourceInUseException", "less than 5 s ago")],
        [stream_error("ResourceInUseException")],
        [event("1"), event("2")],
        [client_error("LimitExceededException")],
        [event(seen="7"), stream_error("InternalFailureException")],
        [OSError("cut")],
        [event("8", behind=0)],
    )
    assert client.read() == [b"1", b"2", b"8"]
    after = [position.get("SequenceNumber") for position in client.positions]
    assert after == [None, None, None, "2", "2", "7", "7"]
    assert all(sent.is_closed for sent in client.sent)


@pytest.mark.usefixtures("_no_pauses")
@pytest.mark.parametrize(
    ("events", "kind", "message"),
    [
        (
            [event("1"), stream_error("ResourceInUseException")],
            ConfigError,
            f"took over {FIRST} from {SUBSCRIBED.consumer}; give each pipeline a `consumer.name` of its own",
        ),
        ([client_error("AccessDeniedException")], ConfigError, "; allow kinesis:SubscribeToShard to this role or user"),
        (
            [client_error("ResourceNotFoundException", f"{SUBSCRIBED.consumer} not found")],
            RetriableError,
            "the consumer was deregistered",
        ),
        (
            [client_error("ResourceNotFoundException", "Shard shardId-000000000000 in stream orders does not exist")],
            DataError,
            "a shard no longer exists",
        ),
        ([], RetriableError, "the subscription to shardId-000000000000 has ended"),
    ],
)
def test_errors_have_plain_messages(
    monkeypatch: pytest.MonkeyPatch, events: list[Any], kind: type[HeadraceError], message: str
) -> None:
    monkeypatch.setattr(shard_reader, "_TIMEOUT", -1.0)
    client = StubClient(events)
    with pytest.raises(kind) as caught:
        client.read()
    assert message in f"{caught.value.what}; {caught.value.fix}"
    assert caught.value.where == "Kinesis stream orders, eu-west-1"
    assert all(sent.is_closed for sent in client.sent)


def test_silent_shard_does_not_delay_others() -> None:
    """While one shard is silent, the reader returns the other shard's records, and reads at most one page ahead."""
    other, arrived = FIRST.replace("0" * 12, "000000000001"), threading.Event()
    waited: list[bool] = []

    class Silent(StubClient):
        def subscribe_to_shard(self, StartingPosition: Any, **request: Any) -> Any:  # noqa: N803 - boto3's
            if request["ShardId"] != FIRST:
                return super().subscribe_to_shard(StartingPosition)
            return {"EventStream": Sent(iter(self.wait()))}

        @staticmethod
        def wait() -> Iterator[Any]:
            waited.append(arrived.wait(5))
            yield {"SubscribeToShardEvent": event("9", behind=0)}

    client = Silent([event("1"), event("2", behind=0)])
    values = []
    for batch in shard_reader.read_readings(
        SUBSCRIBED, client, [Reading(FIRST, ShardPosition()), Reading(other, ShardPosition())]
    ):
        values += [row["value"] for row in batch.to_pylist() if row["mark"] is None]
        if len(values) == 2:
            arrived.set()
    assert (values, waited) == ([b"1", b"2", b"9"], [True])


class Consumers:
    """Client with a sequence of consumer states; None is an unregistered consumer."""

    def __init__(self, *states: str | None) -> None:
        self.states = list(states)
        self.registered = 0

    def describe_stream_consumer(self, ConsumerName: str, **_: Any) -> Any:  # noqa: N803 - boto3's
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if state is None:
            raise client_error("ResourceNotFoundException", f"ConsumerName {ConsumerName} not found on stream orders")
        return {"ConsumerDescription": {"ConsumerARN": SUBSCRIBED.consumer, "ConsumerStatus": state}}

    def register_stream_consumer(self, **_: Any) -> Any:
        self.registered += 1
        if self.registered == 1:
            raise client_error("ResourceInUseException")
        return {"Consumer": {}}


def test_source_waits_for_the_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace_sources.kinesis import fan_out_consumer

    monkeypatch.setattr(fan_out_consumer, "_PAUSE", 0.0)
    named = KinesisStream("orders", "eu-west-1", arn="arn:aws:kinesis:eu-west-1:123456789012:stream/orders")
    # One client deletes the consumer, and another client registers it first.
    client = Consumers("DELETING", None, None, "CREATING", "ACTIVE")
    assert find_consumer(named, client, "etl") == SUBSCRIBED.consumer
    assert client.registered == 2
    monkeypatch.setattr(fan_out_consumer, "_TIMEOUT", -1.0)
    with pytest.raises(RetriableError, match="the consumer etl is still CREATING"):
        find_consumer(named, Consumers("CREATING"), "etl")


def test_contradictory_options() -> None:
    for invalid in ({"consumer.type": "SubscribeToShard"}, {"consumer.name": "etl"}):
        with pytest.raises(ValueError, match=r"SubscribeToShard` and `consumer\.name` require each other"):
            KinesisConfig(stream="orders", **invalid)
