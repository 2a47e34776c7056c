"""Ranges of several Kinesis streams: planning, new streams, and streams that fail. The tests use neither Spark nor a server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given, settings, strategies as st
from tests.plugins.sources.kinesis.test_kinesis_ranges import (
    Model,
    Row,
    _no_pauses,  # noqa: F401 - a fixture
    by_key,
    recreate,
    shard_id,
)

from headrace import ConfigError, DataError, HeadraceError, RetriableError
from headrace_sources.kinesis import kinesis_stream, range_planner, shard_reader
from headrace_sources.kinesis.kinesis_config import KinesisConfig
from headrace_sources.kinesis.kinesis_stream import KinesisStream, list_streams
from headrace_sources.kinesis.range_planner import Found, Planner
from headrace_sources.kinesis.shard_positions import ShardPosition, find_failures, find_read_streams, from_offset
from headrace_sources.kinesis.shard_reader import Mark, Reading, Rows, read_pages
from headrace_sources.kinesis.stream_planner import StreamPlanner, plan_range
from headrace_sources.kinesis.stream_reader import read_by_arrival
from headrace_sources.kinesis.stream_selection import StreamSelection


class Account:
    """Streams in memory with the interface of boto3."""

    def __init__(self, *names: str) -> None:
        self.streams = {name: Model(number) for number, name in enumerate(names)}
        #: Streams whose requests fail with a code.
        self.codes: dict[str, str] = {}
        self.states: dict[str, str] = {}
        self.page = 2

    def list_streams(self, ExclusiveStartStreamName: str = "") -> Any:  # noqa: N803 - boto3's
        names = sorted(name for name in self.streams if name > ExclusiveStartStreamName)
        page = names[: self.page]
        summaries = [{"StreamName": name, "StreamStatus": self.states.get(name, "ACTIVE")} for name in page]
        return {"StreamNames": page, "StreamSummaries": summaries, "HasMoreStreams": len(names) > len(page)}

    def __getattr__(self, operation: str) -> Any:
        def request(*, StreamName: str, **parameters: Any) -> Any:  # noqa: N803 - boto3's
            response = getattr(self._open(StreamName, operation), operation)(**parameters)
            if "ShardIterator" in response:
                return {"ShardIterator": f"{StreamName}:{response['ShardIterator']}"}
            return response

        return request

    def get_records(self, *, ShardIterator: str, Limit: int) -> Any:  # noqa: N803 - boto3's
        name, _, iterator = ShardIterator.partition(":")
        page = self._open(name, "get_records").get_records(ShardIterator=iterator, Limit=Limit)
        if "NextShardIterator" in page:
            page["NextShardIterator"] = f"{name}:{page['NextShardIterator']}"
        return page

    def _open(self, name: str, operation: str) -> Model:
        code = self.codes.get(name) or (None if name in self.streams else "ResourceNotFoundException")
        if code is not None:
            raise ClientError({"Error": {"Code": code, "Message": f"stream {name}"}}, operation)
        return self.streams[name]


class ManyRun:
    """Pipeline with only the source."""

    def __init__(self, account: Account, /, **options: Any) -> None:
        self.account = account
        self.config = KinesisConfig(region="eu-west-1", **(options or {"subscribePattern": ".*"}))
        self.rows: dict[str, list[Row]] = {}
        self.ranges: list[tuple[Any, Any, dict[str, list[Row]]]] = []
        self.restart()
        self.offset = self.planner.find_begin()

    def restart(self, **options: Any) -> None:
        if options:
            self.config = KinesisConfig(region="eu-west-1", **options)
        selection = StreamSelection(self.config, lambda _: self.account)
        self.planner = Planner(selection, self.config, self._open, self._read, idle_seconds=0.0)

    def _open(self, stream: KinesisStream) -> StreamPlanner:
        def clock() -> int:
            return 1_700_000_000_000

        return StreamPlanner(stream, self.config, self.account, clock, clock)

    def _read(self, work: Sequence[tuple[KinesisStream, Sequence[Reading]]]) -> Found:
        """Read as executors do: the error of a stream does not affect the others."""
        found: dict[str, list[Mark]] = {}
        errors: dict[str, HeadraceError] = {}
        self._found: dict[str, list[Row]] = {}
        for stream, readings in work:
            try:
                self._found[stream.name], found[stream.name] = read(stream, self.account, readings)
            except HeadraceError as error:
                errors[stream.name] = error
        return Found(found, errors)

    def batch(self, limit: int | None = None) -> bool:
        """Read one batch, and return whether there was one."""
        self._found = {}
        start, end = self.offset, self.planner.find_end(self.offset, limit)
        if end == start:
            return False
        # The offset passes through JSON, as in the checkpoint.
        self.offset = json.loads(json.dumps(end, sort_keys=True))
        found = {name: self._found[name] for name in find_read_streams(start, end)}
        self.ranges.append((start, self.offset, found))
        for name, rows in found.items():
            self.rows.setdefault(name, []).extend(rows)
        return True

    def read_everything(self) -> dict[str, list[bytes]]:
        while self.batch():
            pass
        return {name: [row["value"] for row in rows] for name, rows in self.rows.items()}

    def search(self) -> None:
        """Let the next range search for new streams."""
        self.planner._search_at = 0.0


def read(stream: KinesisStream, client: Any, readings: Sequence[Reading]) -> tuple[list[Row], list[Mark]]:
    rows = [row for page in read_pages(stream, client, readings) for row in page.to_batch().to_pylist()]
    marks = [Mark(**json.loads(row["mark"])) for row in rows if row["mark"] is not None]
    return [row for row in rows if row["mark"] is None], marks


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "split", "batch", "restart", "create", "busy"]),
        st.sampled_from("abc"),
        st.integers(0, 5),
    ),
    max_size=40,
)


@settings(max_examples=40)
@given(STEPS)
def test_each_stream_is_read_once_and_in_order(steps: list[tuple[str, str, int]]) -> None:
    account = Account("a")
    run = ManyRun(account)
    for step, name, number in steps:
        model = account.streams.get(name)
        if step == "create":
            account.streams.setdefault(name, Model(number))
            run.search()
        elif step == "batch":
            run.batch(number or None)
        elif step == "restart":
            run.restart()
        elif step == "busy":
            run_while_busy(run, name)
        elif model and step == "put":
            model.put(f"key {number}")
        elif model:
            model.split(model.open_shards()[number % len(model.open_shards())])
    run.restart()
    run.read_everything()
    assert {name: by_key(rows) for name, rows in run.rows.items()} == {
        name: model.put_order for name, model in account.streams.items() if model.put_order
    }
    for start, end, found in run.ranges:
        for name, rows in found.items():
            stream = KinesisStream(name)
            repeated, _ = read(stream, account, plan_range(stream, account, start, end, is_lenient=False))
            assert sorted(map(without_number, repeated), key=str) == sorted(map(without_number, rows), key=str)


def without_number(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "reading"}


def run_while_busy(run: ManyRun, name: str) -> None:
    run.account.codes = {name: "LimitExceededException"}
    with suppress(RetriableError):  # raised if no other stream can be read
        run.batch()
    run.account.codes = {}
    for pause in run.planner._pauses.values():
        pause.ends_at = 0.0


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Busy requests fail at once."""
    monkeypatch.setattr(kinesis_stream, "_PAUSES", ())
    monkeypatch.setattr(shard_reader, "_TIMEOUT", -1.0)


def test_streams_of_a_pattern_join_when_they_exist(caplog: pytest.LogCaptureFixture) -> None:
    account = Account("shop.orders", "shop.lines", "shop.customers", "invoices")
    account.states = {"shop.customers": "CREATING"}
    run = ManyRun(account, subscribePattern="shop[.].*", **{"starting.position": "LATEST"})
    assert set(from_offset(run.offset)) == {"shop.orders", "shop.lines"}
    account.streams["shop.customers"].put("key 0", b"first")
    account.states.clear()
    assert run.read_everything() == {}, "the next search is a minute later"
    run.search()
    # A range that is repeated needs the positions where the new stream begins.
    assert run.batch()
    assert run.ranges[-1][2] == {}
    assert run.read_everything() == {"shop.customers": [b"first"]}, "LATEST concerns the first start of the pipeline"
    account.codes["shop.new"] = "AccessDeniedException"
    account.streams["shop.new"] = Model()
    account.streams["shop.orders"].put("key 0", b"order")
    run.search()
    assert run.read_everything()["shop.orders"] == [b"order"]
    assert "the stream shop.new is not read yet: Kinesis stream shop.new, eu-west-1: access denied" in caplog.text
    account.codes.clear()
    account.streams["shop.new"].put("key 0", b"new")
    run.search()
    assert run.read_everything()["shop.new"] == [b"new"]


def test_list_of_streams_is_paged_and_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account(*[f"stream {n}" for n in range(5)])
    failures = iter(["LimitExceededException", "LimitExceededException"])

    class Busy:
        def list_streams(self, **request: Any) -> Any:
            if code := next(failures, None):
                raise ClientError({"Error": {"Code": code, "Message": "Rate exceeded"}}, "ListStreams")
            return account.list_streams(**request)

    monkeypatch.setattr(kinesis_stream, "_PAUSES", (0.0, 0.0))
    assert list_streams(KinesisStream(""), Busy()) == list(account.streams)


def test_a_busy_search_for_new_streams_does_not_stop_the_run(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Account("a", "b")
    run = ManyRun(account)
    account.streams["a"].put("key 0", b"1")
    run.planner.find_end(run.offset, None)

    def fail(**_: Any) -> Any:
        raise ClientError({"Error": {"Code": "LimitExceededException", "Message": "Rate exceeded"}}, "ListStreams")

    monkeypatch.setattr(account, "list_streams", fail)
    run.search()
    assert run.read_everything() == {"a": [b"1"]}
    assert "the search for new streams is repeated later" in caplog.text


@pytest.mark.parametrize("options", [{"subscribe": "a, b"}, {"subscribe": ["a", "b"]}, {"subscribePattern": "[ab]"}])
def test_a_deleted_stream_fails_alone(options: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    account = Account("a", "b")
    run = ManyRun(account, **options)
    account.streams["a"].put("key 0", b"1")
    run.read_everything()
    del account.streams["a"]
    account.streams["b"].put("key 0", b"2")
    assert run.read_everything() == {"a": [b"1"], "b": [b"2"]}
    start, end, _ = next(one for one in run.ranges if find_failures(*one[:2]))
    failure = find_failures(start, end)["a"]
    assert (failure["kind"], failure["what"], failure["where"]) == (
        "DataError",
        "the stream was deleted: its unread records are lost",
        "Kinesis stream a, eu-west-1",
    )
    assert failure["fix"].startswith(
        "remove the stream from the options of the source and its tables from `tables:`, or"
    )
    # The failure stays after a restart, also when a new stream has the name, and ends when the options accept the loss.
    account.streams["a"] = Model(5)
    account.streams["a"].sequence += 10**30
    recreate(account.streams["a"])
    account.streams["b"].put("key 0", b"3")
    run.restart()
    assert run.read_everything() == {"a": [b"1"], "b": [b"2", b"3"]}
    run.restart(**options, **{"fail.on.data.loss": False})
    assert run.read_everything()["a"] == [b"1", b"new"]
    assert "the stream was created again. The run continues with the oldest record" in caplog.text


def test_a_deleted_stream_is_left_out_with_fail_on_data_loss_false(caplog: pytest.LogCaptureFixture) -> None:
    account = Account("a", "b")
    run = ManyRun(account, subscribe="a,b", **{"fail.on.data.loss": False})
    account.streams["a"].put("key 0", b"1")
    run.read_everything()
    del account.streams["a"]
    account.streams["b"].put("key 0", b"2")
    run.planner.bound()
    assert run.read_everything() == {"a": [b"1"], "b": [b"2"]}
    assert list(from_offset(run.offset)) == ["b"]
    assert "Kinesis stream a, eu-west-1: the stream was deleted; the run continues without it" in caplog.text


def test_shards_are_listed_again_after_lost_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run finds that a stream was created again when it reads, because it knows the shards."""
    account = Account("a", "b")
    run = ManyRun(account, subscribe="a,b", **{"fail.on.data.loss": False})
    account.streams["a"].put("key 0", b"1")
    run.read_everything()
    old = account.streams["a"].sequence
    recreate(account.streams["a"])

    def get_iterator(**request: Any) -> Any:
        if int(request.get("StartingSequenceNumber", old + 1)) <= old:
            message = "StartingSequenceNumber is invalid because it did not come from this stream"
            raise ClientError({"Error": {"Code": "InvalidArgumentException", "Message": message}}, "GetShardIterator")
        return Account.__getattr__(account, "get_shard_iterator")(**request)

    monkeypatch.setattr(account, "get_shard_iterator", get_iterator, raising=False)
    assert run.read_everything() == {"a": [b"1", b"new"]}
    assert from_offset(run.offset)["a"].failure is None


def test_no_stream_is_left() -> None:
    account = Account("a", "b")
    run = ManyRun(account)
    run.read_everything()
    account.streams.clear()
    with pytest.raises(ConfigError, match="Kinesis stream a, eu-west-1: no such stream"):
        run.batch()
    account.streams["b"] = Model()
    assert run.batch(), "the failure of one stream"
    account.streams.clear()
    run.restart()
    with pytest.raises(DataError, match="Kinesis stream a, eu-west-1: the stream was deleted"):
        run.batch()


def test_a_busy_stream_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    account = Account("a", "b")
    run = ManyRun(account)
    for name in account.streams:
        account.streams[name].put("key 0", b"1")
    account.codes["a"] = "ProvisionedThroughputExceededException"
    assert run.read_everything() == {"b": [b"1"]}
    assert "the stream a is read again in 1 s: Kinesis stream a, eu-west-1: AWS is busy" in caplog.text
    # An available-now run does not end without its records.
    run.restart()
    account.codes.clear()
    run.planner.bound()
    account.codes["a"] = "ProvisionedThroughputExceededException"
    with pytest.raises(RetriableError, match="AWS is busy"):
        run.batch()
    account.codes.clear()
    assert run.read_everything() == {"a": [b"1"], "b": [b"1"]}


def test_a_slow_stream_does_not_delay_the_pages_of_others() -> None:
    has_arrived, order = threading.Event(), []

    def wait_long() -> Iterator[Rows]:
        assert has_arrived.wait(10)
        yield Rows(0)

    def read_fast(number: int) -> Iterator[Rows]:
        for _ in range(3):
            yield Rows(number)

    for rows in read_by_arrival([wait_long(), *[read_fast(number) for number in range(1, 20)]]):
        order.append(rows.partition)
        if len(order) == 57:
            has_arrived.set()
    assert order[-1] == 0
    assert sorted(order) == sorted([0, *[number for number in range(1, 20) for _ in range(3)]])


def test_a_slow_stream_ends_its_part_and_resumes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without records, the next part resumes at an iterator, because no record tells the place."""
    monkeypatch.setattr(range_planner, "STREAM_SECONDS", 0.0)
    account = Account("a", "b")
    run = ManyRun(account)
    account.streams["a"].put("key 0", b"far away")
    pages: list[str] = []

    def get_records(*, ShardIterator: str, **_: Any) -> Any:  # noqa: N803 - boto3's
        pages.append(ShardIterator)
        if ShardIterator.startswith("b:"):
            return {"Records": [], "MillisBehindLatest": 0, "NextShardIterator": ShardIterator}
        if len(pages) < 9:
            return {"Records": [], "MillisBehindLatest": 5, "NextShardIterator": f"a:page {len(pages)}"}
        return Account.get_records(account, ShardIterator='a:["shardId-000000000000", 0]', Limit=10)

    monkeypatch.setattr(account, "get_records", get_records)
    monkeypatch.setattr(account.streams["a"].random, "randint", lambda _, most: most)
    for _ in range(9):
        run.batch()
    assert run.rows["a"][0]["value"] == b"far away"
    of_a = [page for page in pages if page.startswith("a:")]
    assert of_a[1:5] == ["a:page 1", "a:page 3", "a:page 5", "a:page 7"]


def test_a_stream_that_is_no_longer_selected_continues_later() -> None:
    account = Account("a", "b")
    run = ManyRun(account, subscribe="a,b")
    account.streams["a"].put("key 0", b"1")
    run.read_everything()
    account.streams["a"].put("key 0", b"2")
    account.streams["b"].put("key 0", b"3")
    run.restart(stream="b")
    assert run.read_everything() == {"a": [b"1"], "b": [b"3"]}
    run.restart(subscribe=["a", "b"])
    assert run.read_everything() == {"a": [b"1", b"2"], "b": [b"3"]}
    account.streams["c"] = Model()
    run.restart(stream="c")
    with pytest.raises(ConfigError, match="Kinesis stream c, eu-west-1: the checkpoint belongs to the streams a, b"):
        run.batch()


def test_pattern_without_a_stream() -> None:
    run = ManyRun(Account("orders"), subscribePattern="order")
    assert not run.batch()
    with pytest.raises(ConfigError) as caught:
        run.planner.bound()
    assert str(caught.value) == (
        "Kinesis, eu-west-1: no stream matches subscribePattern 'order'\n  fix: did you mean 'orders'?"
    )


def test_checkpoint_of_one_stream_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="the checkpoint is of an older headrace version, which read one Kinesis stream"
    ):
        from_offset({"stream": "orders", "shards": {shard_id(0): vars(ShardPosition())}})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs one of stream, subscribe, subscribePattern, and has none"),
        ({"stream": "a", "subscribe": "b"}, "has stream and subscribe"),
        ({"subscribe": "a,arn:aws:kinesis:eu-west-1:1:stream/a"}, "`subscribe` has two streams of the name a"),
        ({"subscribePattern": "["}, "is not a regular expression"),
    ],
)
def test_options_that_select_streams(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KinesisConfig(**options)
