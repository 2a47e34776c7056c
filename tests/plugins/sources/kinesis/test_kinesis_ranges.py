"""Ranges of a Kinesis stream: planning, reads and order. The tests use neither Spark nor a server."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.stub import ANY, Stubber
from hypothesis import given, settings, strategies as st

from headrace import ConfigError, DataError, HeadraceError, RetriableError
from headrace.errors import LoginError
from headrace_aws.identity import Identity
from headrace_sources.kinesis import kinesis_stream, shard_reader as reading, stream_planner
from headrace_sources.kinesis.fan_out_consumer import read_state
from headrace_sources.kinesis.kinesis_config import KinesisConfig
from headrace_sources.kinesis.kinesis_errors import carry_errors, find_carried
from headrace_sources.kinesis.kinesis_stream import KinesisStream, keep_client
from headrace_sources.kinesis.kpl_aggregation import MAGIC, split
from headrace_sources.kinesis.range_planner import Found, Planner
from headrace_sources.kinesis.shard_pages import PolledPages, SubscribedPages
from headrace_sources.kinesis.shard_positions import (
    ALL_HASH_KEYS,
    COUNT_BITS,
    ShardPosition,
    StreamPosition,
    partition_of,
    to_offset,
)
from headrace_sources.kinesis.shard_reader import Mark, Reading, read_readings
from headrace_sources.kinesis.stream_planner import StreamPlanner, plan_range
from headrace_sources.kinesis.stream_selection import StreamSelection

ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
STREAM = KinesisStream("orders", "eu-west-1")
DATE = {"HTTPHeaders": {"date": "Sat, 31 Jan 2026 12:00:00 GMT"}}
SUBSCRIBED = replace(STREAM, consumer="arn:aws:kinesis:eu-west-1:123456789012:stream/orders/consumer/etl:1700000000")
HOUR = 3_600_000
Row = dict[str, Any]


@pytest.fixture(autouse=True, scope="module")
def _no_pauses() -> Iterator[None]:
    """Remove pauses, because the model of a stream has no rate limit."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in (PolledPages, SubscribedPages):
            patch.setattr(kind, "gap", 0.0)
            patch.setattr(kind, "pause", 0.0)
        patch.setattr(stream_planner, "LIST_PAUSES", ())
        yield


def shard_id(number: int) -> str:
    return f"shardId-{number:012d}"


@dataclass
class ModelShard:
    keys: list[str]
    parents: tuple[str, ...] = ()
    first: int = 0
    is_closed: bool = False
    is_listed: bool = True
    #: Sequence number, arrival, key, data.
    records: list[tuple[int, int, str, bytes]] = field(default_factory=list)
    trimmed: int = 0
    hash_keys: tuple[int, int] = ALL_HASH_KEYS


class Model:
    """Stream in memory with the interface of boto3: pages of any size, including empty ones, and clocks that go back."""

    def __init__(self, seed: int = 0, now: int = 1_700_000_000_000) -> None:
        self.random, self.now = random.Random(seed), now
        self.sequence = 49 * 10**54
        self.shards = {shard_id(0): ModelShard([f"key {n}" for n in range(6)], first=self.sequence)}
        self.put_order: dict[str, list[bytes]] = defaultdict(list)

    def put(self, key: str, data: bytes | None = None) -> None:
        (shard,) = (shard for shard in self.shards.values() if key in shard.keys and not shard.is_closed)
        self.sequence += self.random.randint(1, 10**20)
        data = data if data is not None else str(self.sequence).encode()
        # AWS documents that the clocks of its servers differ.
        shard.records.append((self.sequence, self.now + self.random.randint(-5, 5), key, data))
        self.put_order[key].append(data)

    def open_shards(self) -> list[str]:
        return [name for name, shard in self.shards.items() if not shard.is_closed]

    def split(self, name: str) -> None:
        keys = self.shards[name].keys
        if len(keys) > 1:
            self._make([name], keys[: len(keys) // 2], keys[len(keys) // 2 :])

    def merge(self, one: str, other: str) -> None:
        self._make([one, other], self.shards[one].keys + self.shards[other].keys)

    def _make(self, parents: list[str], *key_lists: list[str]) -> None:
        for parent in parents:
            self.shards[parent].is_closed = True
        first = min(self.shards[parent].hash_keys[0] for parent in parents)
        size = max(self.shards[parent].hash_keys[1] for parent in parents) + 1 - first
        limits = [first + size * number // len(key_lists) for number in range(len(key_lists) + 1)]
        for number, keys in enumerate(key_lists):
            self.sequence += 1
            child = ModelShard(keys, tuple(parents), self.sequence)
            child.hash_keys = limits[number], limits[number + 1] - 1
            self.shards[shard_id(len(self.shards))] = child

    def list_shards(self, **_: Any) -> Any:
        listed = [
            {
                "ShardId": name,
                "SequenceNumberRange": {"StartingSequenceNumber": str(shard.first)},
                "HashKeyRange": dict(zip(("StartingHashKey", "EndingHashKey"), map(str, shard.hash_keys), strict=True)),
                **dict(zip(("ParentShardId", "AdjacentParentShardId"), shard.parents, strict=False)),
            }
            for name, shard in self.shards.items()
            if shard.is_listed
        ]
        date = format_datetime(datetime.fromtimestamp(self.now // 1000, UTC), usegmt=True)
        return {"Shards": listed, "ResponseMetadata": {"HTTPHeaders": {"date": date}}}

    def describe_stream_summary(self, **_: Any) -> Any:
        return {"StreamDescriptionSummary": {"RetentionPeriodHours": 24}}

    def get_shard_iterator(self, *, ShardId: str, ShardIteratorType: str, **request: Any) -> Any:  # noqa: N803 - boto3's
        shard = self.shards[ShardId]
        if ShardIteratorType == "AFTER_SEQUENCE_NUMBER":
            after = int(request["StartingSequenceNumber"])
            at = next((n for n, record in enumerate(shard.records) if record[0] > after), len(shard.records))
        elif ShardIteratorType == "AT_TIMESTAMP":
            since = request["Timestamp"] * 1000
            at = next((n for n, record in enumerate(shard.records) if record[1] >= since), len(shard.records))
        else:
            at = 0
        return {"ShardIterator": json.dumps([ShardId, max(at, shard.trimmed)])}

    def get_records(self, *, ShardIterator: str, Limit: int) -> Any:  # noqa: N803 - boto3's
        name, at = json.loads(ShardIterator)
        shard = self.shards[name]
        end = min(len(shard.records), at + min(Limit, self.random.randint(0, 3)))
        records = [
            {
                "SequenceNumber": str(sequence),
                "ApproximateArrivalTimestamp": arrival / 1000,
                "PartitionKey": key,
                "Data": data,
            }
            for sequence, arrival, key, data in shard.records[at:end]
        ]
        parsed_response: Row = {"Records": records, "MillisBehindLatest": 0 if end == len(shard.records) else 1000}
        if not (shard.is_closed and end == len(shard.records)):
            parsed_response["NextShardIterator"] = json.dumps([name, end])
        return parsed_response

    def subscribe_to_shard(self, *, ConsumerARN: str, ShardId: str, StartingPosition: Row) -> Any:  # noqa: N803 - boto3's
        assert ConsumerARN == SUBSCRIBED.consumer
        if self.random.random() < 0.2:
            raise ClientError(
                {"Error": {"Code": "ResourceInUseException", "Message": "less than 5 s ago"}}, "Subscribe"
            )
        request = dict(StartingPosition)
        if "SequenceNumber" in request:
            request["StartingSequenceNumber"] = request.pop("SequenceNumber")
        iterator = self.get_shard_iterator(ShardId=ShardId, ShardIteratorType=request.pop("Type"), **request)
        return {"EventStream": Sent(self._send(iterator["ShardIterator"], self.random.randint(1, 3)))}

    def _send(self, iterator: str, events: int) -> Iterator[Row]:
        """Yield the events of a subscription, which ends after some events, with the shard, or with the next subscription."""
        name, at = json.loads(iterator)
        shard = self.shards[name]
        for _ in range(events):
            page = self.get_records(ShardIterator=json.dumps([name, at]), Limit=10_000)
            at += len(page["Records"])
            if page.pop("NextShardIterator", None) is not None:
                page["ContinuationSequenceNumber"] = str(shard.records[at - 1][0] if at else shard.first)
            yield {"SubscribeToShardEvent": page}


class Sent:
    """Event stream of boto3; it returns no event after close."""

    def __init__(self, events: Iterator[Row]) -> None:
        self._events, self.is_closed = events, False

    def __iter__(self) -> Iterator[Row]:
        for event in self._events:
            assert not self.is_closed
            yield event

    def close(self) -> None:
        self.is_closed = True


class Run:
    """Pipeline with only the source. Its offset is kept when the planner is replaced."""

    def __init__(self, model: Model, stream: KinesisStream = STREAM, /, **options: Any) -> None:
        self.model, self.stream = model, stream
        self.config = KinesisConfig(stream="orders", region="eu-west-1", **options)
        self.restart()
        self.offset = self.planner.find_begin()
        self.rows: list[Row] = []
        self._found: list[Row] = []
        self.ranges: list[tuple[Any, Any, list[Row]]] = []

    def restart(self, clock_error: int = 0) -> None:
        """Restart with a driver whose clock is wrong by some milliseconds."""
        self.suspended = 0

        def wall_clock() -> int:
            return self.model.now + clock_error

        def open_planner(_: KinesisStream) -> StreamPlanner:
            return StreamPlanner(STREAM, self.config, self.model, lambda: wall_clock() - self.suspended, wall_clock)

        selection = StreamSelection(self.config, lambda _: self.model)
        self.planner = Planner(selection, self.config, open_planner, self._read, idle_seconds=0.0)

    def _read(self, work: Sequence[tuple[KinesisStream, Sequence[Reading]]]) -> Found:
        ((_, readings),) = work
        self._found, marks = read_rows(self.model, readings, self.stream)
        return Found({"orders": marks})

    @property
    def shards(self) -> Any:
        """Positions of the shards in the offset."""
        return self.offset["streams"]["orders"]["shards"]

    def batch(self, limit: int | None = None) -> bool:
        """Read one batch, and return whether there was one."""
        self._found = []
        end = self.planner.find_end(self.offset, limit)
        if end == self.offset:
            return False
        # The offset passes through JSON, as in the checkpoint.
        start, self.offset = self.offset, json.loads(json.dumps(end))
        self.ranges.append((start, self.offset, self._found))
        self.rows += self._found
        return True

    def read_everything(self) -> list[Row]:
        while self.batch():
            pass
        return self.rows


def read_rows(client: Any, readings: Sequence[Reading], stream: KinesisStream = STREAM) -> tuple[list[Row], list[Mark]]:
    rows = [row for batch in read_readings(stream, client, readings) for row in batch.to_pylist()]
    marks = [Mark(**json.loads(row["mark"])) for row in rows if row["mark"] is not None]
    return [row for row in rows if row["mark"] is None], marks


def by_key(rows: Sequence[Row]) -> dict[str, list[bytes]]:
    """Return the data of each key in offset order."""
    found = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["offset"], row["partition"])):
        found[row["key"].decode()].append(row["value"])
    return found


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 5)),
        st.tuples(st.just("split"), st.integers(0, 9)),
        st.tuples(st.just("merge"), st.integers(0, 9)),
        st.tuples(st.just("batch"), st.integers(0, 4)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("wait"), st.integers(0, 2000)),
    ),
    max_size=60,
)


@pytest.mark.parametrize("stream", [STREAM, SUBSCRIBED], ids=["polled", "pushed"])
@settings(max_examples=150)
@given(seed=st.integers(0, 1000), steps=STEPS)
def test_records_are_read_once_and_each_key_in_order(
    stream: KinesisStream, seed: int, steps: list[tuple[str, int]]
) -> None:
    model = Model(seed)
    run = Run(model, stream)
    for step, number in steps:
        shards = model.open_shards()
        if step == "put":
            model.put(f"key {number}")
        elif step == "split":
            model.split(shards[number % len(shards)])
        elif step == "merge" and len(shards) > 1:
            one = number % len(shards)
            model.merge(shards[one], shards[one - 1])
        elif step == "batch":
            run.batch(number or None)
        elif step == "restart":
            run.restart()
        else:
            model.now += number
    rows = run.read_everything()
    assert by_key(rows) == model.put_order
    assert len({(row["offset"], row["partition"]) for row in rows}) == len(rows)
    # The same range has the same records and offsets, regardless of later records.
    for start, end, found in run.ranges:
        repeated, _ = read_rows(model, plan_range(STREAM, model, start, end, is_lenient=False), stream)
        assert sorted(repeated, key=str) == sorted(found, key=str)


def test_both_parents_are_read_before_their_child() -> None:
    model = Model()
    model.split(shard_id(0))
    for key in ("key 0", "key 5"):
        for _ in range(3):
            model.put(key)
    run = Run(model)
    model.merge(shard_id(1), shard_id(2))
    model.put("key 0")
    model.split(shard_id(3))
    model.put("key 0")
    run.restart()
    order = []
    while run.batch(2):
        order.append({row["partition"] for row in run.ranges[-1][2]})
    assert by_key(run.rows) == model.put_order
    assert [partitions for partitions in order if partitions] == [{1, 2}, {1, 2}, {1, 2}, {3}, {4}]


def test_finished_shard_is_dropped_when_no_longer_listed() -> None:
    model = Model()
    model.put("key 0")
    model.split(shard_id(0))
    model.put("key 0")
    run = Run(model)
    run.read_everything()
    assert run.shards[shard_id(0)]["is_done"]
    model.shards[shard_id(0)].is_listed = False
    run.restart()
    run.batch()
    assert shard_id(0) not in run.shards
    model.put("key 0")
    assert by_key(run.read_everything()) == model.put_order


@pytest.mark.parametrize("hidden", [(1,), (2,), (1, 2)])
def test_children_that_are_listed_late_are_read(hidden: tuple[int, ...]) -> None:
    model = Model()
    model.put("key 0")
    model.split(shard_id(0))
    for key in range(6):
        model.put(f"key {key}")
    show(model, *hidden, is_listed=False)
    run = Run(model)
    assert len(run.read_everything()) == 7 - 3 * len(hidden)
    show(model, *hidden)
    assert by_key(run.read_everything()) == model.put_order
    check_repeats(run)


def test_list_without_a_known_shard_is_requested_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request of a list can be answered by another server, which may lag behind."""
    model = Model()
    model.put("key 0")
    model.split(shard_id(0))
    model.put("key 5")
    monkeypatch.setattr(stream_planner, "LIST_PAUSES", (0.5,))
    monkeypatch.setattr(time, "sleep", lambda _: show(model, 1, 2))
    show(model, 1, 2, is_listed=False)
    run = Run(model)
    run.planner.bound()
    assert by_key(run.read_everything()) == model.put_order, "the end of an available-now run"
    show(model, 2, is_listed=False)
    check_repeats(run)
    model.put("key 5")
    show(model, 2, is_listed=False)
    run.restart()
    assert by_key(run.read_everything()) == model.put_order, "no lost shard"


def show(model: Model, *numbers: int, is_listed: bool = True) -> None:
    for number in numbers:
        model.shards[shard_id(number)].is_listed = is_listed


def test_new_checkpoint_gives_later_records_higher_offsets() -> None:
    """Rows that are ordered by their offsets must not lose against rows of an older checkpoint."""
    model = Model()
    model.put("key 0")
    (old,) = Run(model).read_everything()
    model.now += 100
    model.shards[shard_id(0)].trimmed = 1
    model.put("key 0")
    (new,) = Run(model).read_everything()
    assert new["offset"] > old["offset"]
    assert abs((new["offset"] >> COUNT_BITS) - model.now) <= 5
    assert new["timestamp"] == datetime.fromtimestamp((new["offset"] >> COUNT_BITS) / 1000, UTC)


def test_starting_positions() -> None:
    model = Model()
    model.put("key 0", b"old")
    model.split(shard_id(0))
    model.now += 60_000
    model.put("key 0", b"new")
    time_between = datetime.fromtimestamp((model.now - 30_000) / 1000, UTC).isoformat()
    at_time = {"starting.position": "AT_TIMESTAMP", "starting.timestamp": time_between}
    assert [row["value"] for row in Run(model).read_everything()] == [b"old", b"new"]
    assert [row["value"] for row in Run(model, **at_time).read_everything()] == [b"new"]
    latest = Run(model, **{"starting.position": "LATEST"})
    assert latest.read_everything() == latest.rows
    model.now += 60_000
    latest.restart()
    model.put("key 0", b"newest")
    assert latest.read_everything()[-1]["value"] == b"newest"
    assert b"old" not in [row["value"] for row in latest.rows]
    model.now -= 3_600_000
    with pytest.raises(ConfigError, match=r"`starting\.timestamp` is in the future"):
        Run(model, **at_time)


def test_available_now_ends_at_existing_records() -> None:
    model = Model()
    for _ in range(5):
        model.put("key 0")
    model.split(shard_id(0))
    model.put("key 0")
    run = Run(model)
    run.planner.bound()
    assert run.batch(2)
    model.now += 10_000
    before = sum(map(len, model.put_order.values()))
    while run.batch(2):
        model.put("key 0")
        model.put("key 5")
    assert len(run.rows) == before
    run.restart()
    assert by_key(run.read_everything()) == model.put_order


def test_lost_records_are_an_error() -> None:
    model = Model()
    model.put("key 0")
    run = Run(model)
    run.read_everything()
    model.now += 25 * HOUR
    model.put("key 0")
    model.shards[shard_id(0)].trimmed = 1
    run.restart()
    with pytest.raises(DataError) as caught:
        run.batch()
    assert str(caught.value) == (
        "Kinesis stream orders, eu-west-1: unread records of shardId-000000000000 may be lost: the last read was before the "
        "retention of 24 hours\n  fix: start with a new checkpoint, or set `fail.on.data.loss: false` to continue with the oldest "
        "record"
    )


@pytest.mark.parametrize(("hours", "clock_error"), [(23, 48 * HOUR), (25, -48 * HOUR)])
def test_clock_of_the_driver_may_be_wrong(hours: int, clock_error: int) -> None:
    model = Model()
    model.put("key 0")
    run = Run(model)
    run.restart(clock_error)
    run.read_everything()
    model.now += hours * HOUR
    model.put("key 0", b"after")
    run.restart(clock_error)
    if hours < 24:
        assert run.read_everything()[-1]["value"] == b"after"
    else:
        with pytest.raises(DataError, match="may be lost"):
            run.batch()


def test_records_expire_while_the_driver_is_suspended() -> None:
    model = Model()
    model.put("key 0")
    run = Run(model)
    run.read_everything()
    model.now += 25 * HOUR
    run.suspended += 25 * HOUR
    model.put("key 0")
    model.shards[shard_id(0)].trimmed = 1
    with pytest.raises(DataError, match="the last read was before the retention of 24 hours"):
        run.batch()


def test_lost_records_are_a_warning_with_fail_on_data_loss_false(caplog: pytest.LogCaptureFixture) -> None:
    model = Model()
    model.put("key 0")
    run = Run(model, **{"fail.on.data.loss": False})
    run.read_everything()
    model.now += 25 * HOUR
    model.put("key 0", b"after")
    model.shards[shard_id(0)].trimmed = 1
    run.restart()
    assert run.read_everything()[-1]["value"] == b"after"
    (warning,) = caplog.messages
    assert warning.endswith("retention of 24 hours. The run continues with the oldest record")


def test_idle_stream_loses_no_records() -> None:
    """The run records the position of an idle stream, so the next run does not report lost records."""
    model = Model()
    model.put("key 0")
    run = Run(model)
    run.read_everything()
    ranges_before = len(run.ranges)
    for _ in range(7 * 24):
        model.now += HOUR
        run.batch()
    # The run writes an offset every hour or two, without records.
    assert 80 <= len(run.ranges) - ranges_before <= 7 * 24
    assert len(run.rows) == 1
    # The shards after an idle one have lost no records either.
    model.split(shard_id(0))
    model.put("key 0")
    run.read_everything()
    run.restart()
    model.now += 22 * HOUR
    model.put("key 0")
    assert by_key(run.read_everything()) == model.put_order


def test_recreated_stream_is_detected() -> None:
    model = Model()
    model.put("key 0")
    run = Run(model)
    run.read_everything()
    model.sequence += 10**30
    model.shards = {shard_id(0): ModelShard([f"key {n}" for n in range(6)], first=model.sequence)}
    run.restart()
    with pytest.raises(DataError, match="of shardId-000000000000 may be lost: these shards no longer exist"):
        run.batch()
    # A closed shard of the old stream is no finished shard of the new one.
    closed = Model()
    closed.split(shard_id(0))
    run = Run(closed)
    run.read_everything()
    recreate(closed)
    run.restart()
    with pytest.raises(DataError, match=r"of shardId-000000000000, .* may be lost: these shards no longer exist"):
        run.batch()
    with pytest.raises(ConfigError, match="the checkpoint belongs to the stream invoices"):
        run.planner.find_end(to_offset({"invoices": StreamPosition({})}), None)


def check_repeats(run: Run) -> None:
    """A range that is repeated after a crash has the records of its first read."""
    for start, end, found in run.ranges:
        readings = plan_range(STREAM, run.model, start, end, is_lenient=True)
        assert sorted(read_rows(run.model, readings, run.stream)[0], key=str) == sorted(found, key=str)


@pytest.mark.parametrize("generations", [1, 2])
def test_children_of_an_expired_shard_are_read_again_after_a_crash(generations: int) -> None:
    """The parents expired while no run was active, and the first batch after that is killed."""
    model = Model()
    model.put("key 0")
    run = Run(model, **{"fail.on.data.loss": False})
    run.read_everything()
    expired = [shard_id(0)]
    model.split(shard_id(0))
    if generations == 2:
        expired.append(shard_id(1))
        model.split(shard_id(1))
    for shard in expired:
        model.shards[shard].is_listed = False
    for key in range(6):
        model.put(f"key {key}")
    run.restart()
    run.ranges.clear()
    assert len(run.read_everything()) == 7
    assert sum(len(found) for _, _, found in run.ranges) == 6
    check_repeats(run)


def recreate(model: Model, shards: int = 1) -> None:
    """Delete the stream and create it again, with one record per shard."""
    model.sequence += 10**30
    model.shards = {
        shard_id(n): ModelShard([f"key {key}" for key in range(6) if key % shards == n], first=model.sequence)
        for n in range(shards)
    }
    for n in range(shards):
        model.put(f"key {n}", b"new")


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("has_record", [False, True])
def test_recreated_stream_is_read_again_after_a_crash(shards: int, has_record: bool) -> None:
    """The old stream has a closed shard, with or without a record."""
    model = Model()
    if has_record:
        model.put("key 1")
    model.split(shard_id(0))
    model.put("key 0")
    model.put("key 5")
    run = Run(model, **{"fail.on.data.loss": False})
    run.read_everything()
    recreate(model, shards)
    run.restart()
    run.ranges.clear()
    assert [row["value"] for row in run.read_everything() if row["value"] == b"new"] == [b"new"] * shards
    check_repeats(run)


def test_range_of_a_deleted_stream_is_left_out_after_a_crash(caplog: pytest.LogCaptureFixture) -> None:
    """The stream is created again between a killed batch and the next start."""
    model = Model()
    model.split(shard_id(0))
    model.put("key 0")
    model.put("key 5")
    run = Run(model, **{"fail.on.data.loss": False})
    run.read_everything()
    ((start, end, _),) = [one for one in run.ranges if len(one[2]) == 2]
    recreate(model)
    assert plan_range(STREAM, model, start, end, is_lenient=True) == []
    assert "unread records of shardId-000000000001, shardId-000000000002 may be lost" in caplog.messages[-1]
    with pytest.raises(DataError, match="may be lost: these shards no longer exist, or the stream was created again"):
        plan_range(STREAM, model, start, end, is_lenient=False)
    run.restart()
    assert [row["value"] for row in run.read_everything()[2:]] == [b"new"]


def test_start_before_the_retention(caplog: pytest.LogCaptureFixture) -> None:
    model = Model()
    model.put("key 0")
    early = datetime.fromtimestamp((model.now - 25 * HOUR) / 1000, UTC).isoformat()
    at_time = {"starting.position": "AT_TIMESTAMP", "starting.timestamp": early}
    with pytest.raises(ConfigError) as caught:
        Run(model, **at_time)
    assert str(caught.value) == (
        "Kinesis stream orders, eu-west-1: `starting.timestamp` is before the retention of 24 hours: records after it have "
        "expired\n  fix: set a later timestamp or `starting.position: TRIM_HORIZON`, or set `fail.on.data.loss: false` to start "
        "with the oldest record"
    )
    run = Run(model, **at_time, **{"fail.on.data.loss": False})
    assert caplog.messages[-1].endswith("have expired. The run starts with the oldest record")
    assert len(run.read_everything()) == 1


def test_range_with_lost_records_is_not_read() -> None:
    model = Model()
    model.put("key 0")
    model.put("key 0")
    run = Run(model)
    run.read_everything()
    start, end, found = run.ranges[0]
    model.put("key 0")
    model.shards[shard_id(0)].trimmed = 2
    with pytest.raises(DataError, match=r"unread records of shardId-000000000000 up to \d+ are lost"):
        read_rows(model, plan_range(STREAM, model, start, end, is_lenient=False))
    assert len(found) == 2
    assert read_rows(model, plan_range(STREAM, model, start, end, is_lenient=True))[0] == []


def varint(number: int) -> bytes:
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def message_field(field_number: int, content: bytes) -> bytes:
    return varint(field_number << 3 | 2) + varint(len(content)) + content


def aggregate(records: Sequence[tuple[str, bytes]]) -> bytes:
    """Aggregate like the Producer Library: AggregatedRecord {partition_key_table = 1, explicit_hash_key_table = 2, records = 3}."""
    keys = list(dict.fromkeys(key for key, _ in records))
    message = b"".join(message_field(1, key.encode()) for key in keys) + message_field(
        2, b"170141183460469231731687303715884105728"
    )
    for key, data in records:
        # partition_key_index = 1, explicit_hash_key_index = 2, data = 3, tags = 4
        tag = message_field(4, message_field(1, b"tag") + message_field(2, b"value"))
        record = varint(1 << 3) + varint(keys.index(key)) + varint(2 << 3) + varint(0) + message_field(3, data) + tag
        message += message_field(3, record)
    return MAGIC + message + hashlib.md5(message, usedforsecurity=False).digest()


RECORDS = st.lists(st.tuples(st.text(min_size=1, max_size=300), st.binary(max_size=300)), min_size=1, max_size=20)


@given(RECORDS)
def test_aggregated_records_are_split(records: list[tuple[str, bytes]]) -> None:
    assert [(key, data) for _, key, data in split("outer", aggregate(records))] == records


@given(RECORDS, st.data())
def test_damaged_aggregate_is_kept_unchanged(records: list[tuple[str, bytes]], data: st.DataObject) -> None:
    content = bytearray(aggregate(records))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    assert split("outer", bytes(content)) == [(None, "outer", bytes(content))]
    cut = bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    assert split("outer", cut) == [(None, "outer", cut)]


@given(st.binary(max_size=60))
def test_false_aggregate_is_kept_unchanged(message: bytes) -> None:
    content = MAGIC + message + hashlib.md5(message, usedforsecurity=False).digest()
    records = split("outer", content)
    assert records == [(None, "outer", content)] or all(isinstance(data, bytes) for _, _, data in records)


HALF = 1 << 127


def test_records_of_an_aggregate_outside_of_the_shard_are_skipped() -> None:
    """The MD5 of `b` is in the upper half of all hash keys, those of `a` and `c` are in the lower half."""
    records = [("a", b"1"), ("b", b"2"), ("c", b"3")]
    message = b"".join(message_field(1, key.encode()) for key, _ in records)
    for index, (_, data) in enumerate(records):
        message += message_field(3, varint(1 << 3) + varint(index) + message_field(3, data))
    content = MAGIC + message + hashlib.md5(message, usedforsecurity=False).digest()
    lower, upper = (0, HALF - 1), (HALF, 2 * HALF - 1)
    assert split("outer", content) == [(0, "a", b"1"), (1, "b", b"2"), (2, "c", b"3")]
    assert split("outer", content, lower) == [(0, "a", b"1"), (2, "c", b"3")]
    assert split("outer", content, upper) == [(1, "b", b"2")]
    # An explicit hash key has precedence. `aggregate` sets the first one of the upper half.
    assert split("outer", aggregate(records), lower) == []
    assert len(split("outer", aggregate(records), upper)) == 3
    assert split("a", b"plain", upper) == [(None, "a", b"plain")]


def test_aggregate_that_is_sent_again_after_a_split_is_read_once() -> None:
    model = Model()
    run = Run(model)
    model.split(shard_id(0))
    model.shards[shard_id(1)].hash_keys, model.shards[shard_id(2)].hash_keys = (0, HALF - 1), (HALF, 2 * HALF - 1)
    # The first shard stores the aggregate, whose records belong to the second one. The producer sends it again.
    for key in ("key 0", "key 5"):
        model.put(key, aggregate([("b", b"1"), ("c", b"2")]))
    model.put("key 0", b"alone")
    assert sorted(row["value"] for row in run.read_everything()) == [b"1", b"2", b"alone"]
    run.restart()
    assert not run.batch()
    check_repeats(run)


def test_aggregated_records_have_distinct_offsets() -> None:
    model = Model()
    records = [("a", b"1"), ("b", b""), ("a", b"2")]
    model.put("key 0", aggregate(records))
    model.put("key 0", b"alone")
    rows = Run(model).read_everything()
    assert [(row["key"], row["value"]) for row in rows] == [
        (b"a", b"1"),
        (b"b", None),
        (b"a", b"2"),
        (b"key 0", b"alone"),
    ]
    assert [row["offset"] for row in rows] == sorted({row["offset"] for row in rows})
    first, last = str(model.shards[shard_id(0)].records[0][0]), str(model.shards[shard_id(0)].records[1][0])
    assert [{h["key"]: h["value"].decode() for h in row["headers"]} for row in rows] == [
        *({"kinesis.sequence.number": first, "kinesis.sub.sequence.number": str(n)} for n in range(3)),
        {"kinesis.sequence.number": last},
    ]


# The emulator does not throttle and its iterators do not expire, so botocore's Stubber returns these responses.
@pytest.fixture
def service() -> Iterator[tuple[Any, Stubber]]:
    keys = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": "example"}
    client = boto3.Session().client("kinesis", region_name="eu-west-1", **keys)
    with Stubber(client) as stubber:
        yield client, stubber


PAGE = {"Records": [], "MillisBehindLatest": 0, "NextShardIterator": "next"}


def expect_iterator(stubber: Stubber, iterator: str, **request: str) -> None:
    expected = {"StreamName": "orders", "ShardId": ANY, **(request or {"ShardIteratorType": "TRIM_HORIZON"})}
    stubber.add_response("get_shard_iterator", {"ShardIterator": iterator}, expected)


def record(sequence: str, data: bytes = b"{}") -> Row:
    return {
        "SequenceNumber": sequence,
        "Data": data,
        "PartitionKey": "key",
        "ApproximateArrivalTimestamp": time.time(),
    }


def test_expired_iterator_is_renewed_after_the_last_record(service: tuple[Any, Stubber]) -> None:
    client, stubber = service
    expect_iterator(stubber, "first")
    page = {"Records": [record("17")], "MillisBehindLatest": 5, "NextShardIterator": "second"}
    stubber.add_response("get_records", page, {"ShardIterator": "first", "Limit": ANY})
    stubber.add_client_error("get_records", "ExpiredIteratorException")
    expect_iterator(stubber, "third", ShardIteratorType="AFTER_SEQUENCE_NUMBER", StartingSequenceNumber="17")
    stubber.add_response("get_records", PAGE, {"ShardIterator": "third", "Limit": ANY})
    rows, (mark,) = read_rows(client, [Reading(shard_id(0), ShardPosition())])
    assert ([row["value"] for row in rows], mark.sequence) == ([b"{}"], "17")
    stubber.assert_no_pending_responses()


def test_lag_of_a_range_that_ends_inside_a_page(service: tuple[Any, Stubber]) -> None:
    client, stubber = service
    page = [{**record(f"{n}"), "ApproximateArrivalTimestamp": 1_790_000_000.0 + n} for n in range(4)]
    parsed_response = {"Records": page, "MillisBehindLatest": 500, "NextShardIterator": "second"}
    expect_iterator(stubber, "first")
    stubber.add_response("get_records", parsed_response, {"ShardIterator": "first", "Limit": ANY})
    _, (mark,) = read_rows(client, [Reading(shard_id(0), ShardPosition(), most_records=2)])
    assert (mark.sequence, mark.behind) == ("1", 2500)
    expect_iterator(stubber, "first")
    stubber.add_response(
        "get_records", {**parsed_response, "MillisBehindLatest": 0}, {"ShardIterator": "first", "Limit": ANY}
    )
    _, (mark,) = read_rows(client, [Reading(shard_id(0), ShardPosition())])
    assert (mark.sequence, mark.behind, mark.is_at_end) == ("3", 0, True)


def test_busy_shard_does_not_delay_others(service: tuple[Any, Stubber], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PolledPages, "pause", 1.0)  # longer than the requests of the free shard take on a busy machine
    client, stubber = service
    expect_iterator(stubber, "busy")
    stubber.add_client_error("get_records", "ProvisionedThroughputExceededException")
    expect_iterator(stubber, "free")
    page = {"Records": [record("1")], "MillisBehindLatest": 5, "NextShardIterator": "free, too"}
    stubber.add_response("get_records", page, {"ShardIterator": "free", "Limit": ANY})
    stubber.add_response("get_records", PAGE, {"ShardIterator": "free, too", "Limit": ANY})
    stubber.add_response("get_records", PAGE, {"ShardIterator": "busy", "Limit": ANY})
    started = time.monotonic()
    _, marks = read_rows(client, [Reading(shard_id(0), ShardPosition()), Reading(shard_id(1), ShardPosition())])
    assert [partition_of(mark.shard) for mark in marks] == [1, 0]
    assert time.monotonic() - started >= 1.0


def page_error(service: tuple[Any, Stubber], code: str, message: str = "no") -> HeadraceError:
    """Return the error of a page, as it comes from an executor."""
    client, stubber = service
    expect_iterator(stubber, "first")
    stubber.add_client_error("get_records", code, message)
    with pytest.raises(RuntimeError) as caught, carry_errors():
        read_rows(client, [Reading(shard_id(0), ShardPosition())])
    found = find_carried(Exception(f"Traceback …\nRuntimeError: {caught.value}\n\n\tat org.apache.spark"))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("AccessDeniedException", "allow kinesis:GetRecords to this role or user"),
        ("ExpiredTokenException", "the session token has expired; log in again"),
        ("ResourceNotFoundException", "no such stream"),
    ],
)
def test_errors_have_plain_messages(service: tuple[Any, Stubber], code: str, message: str) -> None:
    error = page_error(service, code)
    assert isinstance(error, ConfigError)
    assert message in f"{error.what}; {error.fix}"
    assert error.where == "Kinesis stream orders, eu-west-1"


CONTROL_PLANE: dict[str, Callable[[Any], Any]] = {
    "list_shards": lambda client: kinesis_stream.list_shards(STREAM, client),
    "describe_stream_summary": lambda client: kinesis_stream.read_summary(STREAM, client),
    "describe_stream_consumer": lambda client: read_state(replace(STREAM, arn=ARN), client, "etl"),
}
RESPONSES: Row = {
    "list_shards": {"Shards": []},
    "describe_stream_summary": {
        "StreamDescriptionSummary": {
            "StreamName": "orders",
            "StreamARN": ARN,
            "StreamStatus": "ACTIVE",
            "RetentionPeriodHours": 24,
            "StreamCreationTimestamp": datetime(2026, 1, 1, tzinfo=UTC),
            "EnhancedMonitoring": [],
            "OpenShardCount": 1,
        }
    },
    "describe_stream_consumer": {
        "ConsumerDescription": {
            "ConsumerName": "etl",
            "ConsumerARN": f"{ARN}/consumer/etl:1",
            "ConsumerStatus": "ACTIVE",
            "ConsumerCreationTimestamp": datetime(2026, 1, 1, tzinfo=UTC),
            "StreamARN": ARN,
        }
    },
}


@pytest.mark.parametrize("operation", CONTROL_PLANE)
def test_throttled_control_plane_is_retried(
    service: tuple[Any, Stubber], monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    monkeypatch.setattr(kinesis_stream, "_PAUSES", (0.0, 0.0))
    client, stubber = service
    for code in ("LimitExceededException", "InternalFailure"):
        stubber.add_client_error(operation, code, "Rate exceeded")
    stubber.add_response(operation, {**RESPONSES[operation], "ResponseMetadata": DATE})
    CONTROL_PLANE[operation](client)
    for _ in range(3):
        stubber.add_client_error(operation, "LimitExceededException", "Rate exceeded")
    with pytest.raises(RetriableError, match="AWS is busy"):
        CONTROL_PLANE[operation](client)
    stubber.add_client_error(operation, "AccessDeniedException", "no")
    with pytest.raises(ConfigError, match="access denied"):
        CONTROL_PLANE[operation](client)
    stubber.assert_no_pending_responses()


@pytest.mark.parametrize("code", ["LimitExceededException", "InternalFailureException", "KMSThrottlingException"])
def test_throttled_iterator_is_retried(service: tuple[Any, Stubber], code: str) -> None:
    client, stubber = service
    stubber.add_client_error("get_shard_iterator", code, "Rate exceeded")
    expect_iterator(stubber, "first")
    stubber.add_client_error("get_records", code, "Rate exceeded")
    stubber.add_response("get_records", PAGE, {"ShardIterator": "first", "Limit": ANY})
    assert len(read_rows(client, [Reading(shard_id(0), ShardPosition())])[1]) == 1
    stubber.assert_no_pending_responses()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "InvalidArgumentException",
            "StartingSequenceNumber 1 used in GetShardIterator is invalid because it did not come from this stream.",
        ),
        (
            "ResourceNotFoundException",
            "Unable to find record with provided SequenceNumber SequenceNumber(1) in stream orders",
        ),
    ],
)
def test_position_of_another_stream(service: tuple[Any, Stubber], code: str, message: str) -> None:
    client, stubber = service
    stubber.add_client_error("get_shard_iterator", code, message)
    with pytest.raises(DataError, match="which was created again") as caught:
        read_rows(client, [Reading(shard_id(0), ShardPosition("1"))])
    assert "set `fail.on.data.loss: false` and restart" in str(caught.value.fix)


def test_missing_shard_is_not_a_missing_stream(service: tuple[Any, Stubber]) -> None:
    error = page_error(
        service, "ResourceNotFoundException", "Shard shardId-000000000000 in stream orders does not exist"
    )
    assert isinstance(error, DataError)
    assert "a shard no longer exists" in error.what


def test_persistently_busy_shard_is_retriable(service: tuple[Any, Stubber], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_TIMEOUT", -1.0)
    error = page_error(service, "ProvisionedThroughputExceededException")
    assert isinstance(error, RetriableError)
    assert "AWS is busy" in error.what


def test_executors_use_credentials_that_appear_later(
    service: tuple[Any, Stubber], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keep_client.cache_clear()
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="no AWS credentials found"):
        keep_client(STREAM)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")
    client = keep_client(STREAM)
    assert keep_client(STREAM) is client
    assert isinstance(page_error(service, "ExpiredTokenException"), LoginError)
    assert keep_client(STREAM) is not client
    keep_client.cache_clear()


class Body(io.BytesIO):
    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


def parsed_response(client: Any, body: bytes, status: int = 200) -> Any:
    """Return the result that a client parses from a response to GetRecords."""

    def send(**_: Any) -> AWSResponse:
        return AWSResponse("http://kinesis", status, {}, Body(body))

    client.meta.events.register_first("before-send.kinesis.GetRecords", send)
    try:
        return client.get_records(ShardIterator="first")
    finally:
        client.meta.events.unregister("before-send.kinesis.GetRecords", send)


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """Return the client of the source and a plain boto3 client."""
    for name, value in (("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "example")):
        monkeypatch.setenv(name, value)
    one_attempt = Config(retries={"total_max_attempts": 1})
    return STREAM.make_client(), boto3.Session().client("kinesis", region_name="eu-west-1", config=one_attempt)


def test_page_equals_page_of_boto3(clients: tuple[Any, Any]) -> None:
    records = [
        {
            "SequenceNumber": f"{n}",
            "ApproximateArrivalTimestamp": 1_700_000_000 + n / 8,
            "Data": base64.b64encode(bytes(range(n))).decode(),
            "PartitionKey": "schlüssel",
            "EncryptionType": "KMS",
        }
        for n in range(5)
    ]
    shard = {"ShardId": "s", "ParentShards": ["t"], "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": "1"}}
    body = json.dumps({"Records": records, "MillisBehindLatest": 7, "ChildShards": [shard]}).encode()
    ours, theirs = (parsed_response(client, body) for client in clients)
    for record in theirs["Records"]:
        record["ApproximateArrivalTimestamp"] = record["ApproximateArrivalTimestamp"].timestamp()
    assert ours == theirs


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"<html>welcome</html>", 200),
        (b"{}", 200),
        (b'{"Records": 1}', 200),
        (b'{"Records": [{"Data": "no base64"}]}', 200),
        (b'{"__type": "AccessDeniedException", "message": "no"}', 400),
        (b'{"__type": "InternalFailure"}', 500),
    ],
)
def test_invalid_response_gives_the_error_of_boto3(clients: tuple[Any, Any], body: bytes, status: int) -> None:
    message: list[Any] = []
    for client in clients:
        try:
            message.append(parsed_response(client, body, status))
        except Exception as error:  # noqa: BLE001 - any error of boto3
            message.append(repr(error))
    assert message[0] == message[1]


def test_options() -> None:
    arn = "arn:aws:kinesis:eu-central-1:123456789012:stream/shop.public.orders"
    assert StreamSelection(KinesisConfig(stream=arn), lambda _: None).open("shop.public.orders") == KinesisStream(
        "shop.public.orders", "eu-central-1", arn=arn, identity=Identity("eu-central-1")
    )
    with pytest.raises(ValueError, match="require each other"):
        KinesisConfig(stream="orders", **{"starting.position": "AT_TIMESTAMP"})
    with pytest.raises(ValueError, match="has no time zone"):
        KinesisConfig(
            stream="orders", **{"starting.position": "AT_TIMESTAMP", "starting.timestamp": "2026-01-31T12:00:00"}
        )
