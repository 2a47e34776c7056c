"""Files of notifications, on SQS and S3 of moto in this process: no object is lost or planned twice."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast
from unittest.mock import patch

import boto3
import moto
import pytest
from botocore.exceptions import ClientError
from hypothesis import given, settings, strategies as st
from tests.plugins.sources.notifications.test_object_events import event_bridge, record, s3, sns
from tests.plugins.sources.notifications.test_object_selection import compile_folders
from tests.support.memory_folder import MemoryFolder

from headrace import ConfigError
from headrace.errors import RetriableError
from headrace.sdk.storage import Folder
from headrace_sources.notifications.notification_queue import NotificationQueue
from headrace_sources.notifications.notifications_config import NotificationsConfig
from headrace_sources.notifications.notified_files import NotifiedFiles
from headrace_sources.notifications.object_selection import ObjectFile, ObjectSelection
from headrace_sources.notifications.pending_log import PendingLog, format_log, parse_log

ROOT = "s3a://landing"
SELECTION = ObjectSelection(ROOT, compile_folders("topics"))


def path(name: str) -> str:
    return f"{ROOT}/topics/t/{name}"


def message_of(name: str) -> str:
    return s3(record(f"topics/t/{name}"))


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")
    monkeypatch.setattr("headrace_sources.notifications.notification_queue._WAIT_SECONDS", 0)
    with moto.mock_aws():
        yield


class Sqs:
    """Queue of moto."""

    def __init__(self) -> None:
        self.client = boto3.client("sqs", region_name="eu-west-1")
        self.url = self.client.create_queue(QueueName="landing")["QueueUrl"]

    def send(self, *bodies: str) -> None:
        for body in bodies:
            self.client.send_message(QueueUrl=self.url, MessageBody=body)

    def count(self) -> int:
        """Return the number of messages that are not deleted."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)

    def show_again(self) -> None:
        """Do not hide received messages."""
        attributes = {"VisibilityTimeout": "0"}
        self.client.set_queue_attributes(QueueUrl=self.url, Attributes=attributes)


@pytest.fixture
def sqs() -> Sqs:
    return Sqs()


@dataclass
class Bucket:
    """Objects of a bucket as a listing returns them."""

    names: list[str] = field(default_factory=list)
    listings: int = 0

    def list_files(self) -> Iterable[ObjectFile]:
        self.listings += 1
        return [ObjectFile(path(name), 1, 1) for name in self.names]


class Stream:
    """Spark's file stream: it plans the files of the log that it has not planned before."""

    def __init__(self) -> None:
        self.folder = MemoryFolder()
        self.planned: list[str] = []

    def open(self, sqs: Sqs | str, bucket: Bucket | None = None, interval: str = "1 day") -> NotifiedFiles:
        url = sqs if isinstance(sqs, str) else sqs.url
        queue = NotificationQueue(NotificationsConfig(queueUrl=url, region="eu-west-1"))
        return NotifiedFiles(queue, cast("Folder", self.folder), SELECTION, (bucket or Bucket()).list_files, interval)

    def pending(self) -> list[str]:
        """Return the files in the newest file of the log."""
        log = self.folder.folder("notified").folder("_spark_metadata")
        newest = max(log.content, key=lambda name: int(name.removesuffix(".compact")))
        return [file.path for file in parse_log(log.content[newest])]

    def plan(self) -> list[str]:
        """Plan a batch: store its files in Spark's own log and return them."""
        files = [file for file in self.pending() if file not in self.planned]
        log = self.folder.folder("sources").folder("0")
        if files:
            log.write(f"{len(log.content)}", format_log(ObjectFile(file, 1, 1) for file in files))
        self.planned += files
        return files


@pytest.fixture
def stream() -> Stream:
    return Stream()


def test_files_of_messages_are_stored_and_messages_deleted(sqs: Sqs, stream: Stream) -> None:
    files = stream.open(sqs)
    sqs.send(message_of("a.json"), sns(message_of("b.json")), event_bridge("topics/t/c.json"), s3(record("other/d")))
    assert files.poll()
    assert stream.pending() == [path(f"{name}.json") for name in "abc"]
    assert sqs.count() == 0
    assert not files.poll()


def test_notifications_of_a_bucket(sqs: Sqs, stream: Stream) -> None:
    store = boto3.client("s3", region_name="eu-west-1")
    store.create_bucket(Bucket="landing", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    arn = sqs.client.get_queue_attributes(QueueUrl=sqs.url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    configuration = {"QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]}]}
    store.put_bucket_notification_configuration(Bucket="landing", NotificationConfiguration=configuration)
    for key in ("topics/t/day=2026-01-31/a b+c%20.json", "topics/t/_SUCCESS", "topics/.hive/x", "topics/u.json"):
        store.put_object(Bucket="landing", Key=key, Body=b"{}")
    store.delete_object(Bucket="landing", Key="topics/u.json")
    stream.open(sqs).drain()
    assert stream.pending() == [path("day=2026-01-31/a b+c%20.json"), f"{ROOT}/topics/u.json"]
    assert sqs.count() == 0


def test_planned_files_leave_the_log_and_are_not_planned_again(sqs: Sqs, stream: Stream) -> None:
    files = stream.open(sqs)
    sqs.send(message_of("a.json"))
    files.poll()
    files.note_planned(stream.plan())
    sqs.send(message_of("a.json"), message_of("a.json"), message_of("b.json"))
    files.poll()
    assert stream.pending() == [path("b.json")]
    assert sqs.count() == 0


def test_continue_after_a_crash_at_every_step(sqs: Sqs, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    sqs.show_again()
    files = stream.open(sqs)
    sqs.send(message_of("a.json"))
    with monkeypatch.context() as changes:
        changes.setattr(PendingLog, "write", crash)
        with pytest.raises(KeyboardInterrupt):
            files.poll()
    assert stream.pending() == []
    assert sqs.count() == 1

    with monkeypatch.context() as changes:
        changes.setattr(NotificationQueue, "delete", crash)
        files = stream.open(sqs)
        with pytest.raises(KeyboardInterrupt):
            files.poll()
    assert sqs.count() == 1
    assert stream.plan() == [path("a.json")]  # Spark stored the batch, and the process was killed before it was read.

    files = stream.open(sqs)
    assert stream.pending() == []
    files.poll()
    assert stream.pending() == []
    assert sqs.count() == 0


def test_failed_write_is_repeated(sqs: Sqs, stream: Stream) -> None:
    sqs.show_again()
    files = stream.open(sqs)
    sqs.send(message_of("a.json"))
    with patch.object(PendingLog, "write", _fail), pytest.raises(ConnectionError):
        files.poll()
    files.poll()
    assert stream.pending() == [path("a.json")]
    assert sqs.count() == 0


def test_listed_files_are_stored_while_the_queue_is_busy(sqs: Sqs, stream: Stream) -> None:
    bucket = Bucket(["a.json"])
    files = stream.open(sqs, bucket)
    with patch.object(NotificationQueue, "receive", _fail):
        for _ in range(2):
            with pytest.raises(ConnectionError):
                files.poll()
    assert stream.pending() == [path("a.json")]
    assert bucket.listings == 1


def test_steady_flow_of_messages_ends_no_poll_late(sqs: Sqs, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new object arrives with each request."""
    numbers = iter(range(100))
    receive = NotificationQueue._receive_some

    def send_and_receive(queue: NotificationQueue) -> list[dict[str, Any]]:
        sqs.send(message_of(f"{next(numbers)}.json"))
        return receive(queue)

    monkeypatch.setattr(NotificationQueue, "_receive_some", send_and_receive)
    files = stream.open(sqs)
    files.poll()
    assert stream.pending() == [path("0.json")]
    # By the clock of SQS, all further messages are later than the start.
    monkeypatch.setattr(NotificationQueue, "read_time", lambda _: time.time() - 60)
    files.drain()
    assert stream.pending() == [path("0.json"), path("1.json")]


def test_drain_reads_all_messages_of_before(sqs: Sqs, stream: Stream) -> None:
    sqs.send(*[message_of(f"{number}.json") for number in range(25)])
    stream.open(sqs).drain()
    assert sorted(stream.pending()) == sorted(path(f"{number}.json") for number in range(25))


def test_other_messages_stay_in_the_queue(sqs: Sqs, stream: Stream, caplog: pytest.LogCaptureFixture) -> None:
    sqs.show_again()
    sqs.send("hello", message_of("a.json"), message_of("t//b.json"), message_of("/c.csv"))
    files = stream.open(sqs)
    with caplog.at_level(logging.WARNING):
        files.poll()
        files.poll()
    assert stream.pending() == [path("a.json")]
    assert sqs.count() == 3
    warnings = [one.getMessage() for one in caplog.records if "stays in the queue" in one.getMessage()]
    for text in (
        "it is no S3 event notification",
        "Hadoop has no path for the key 'topics/t/t//b.json'",
        "'topics/t//c.csv'",
    ):
        assert sum(text in warning for warning in warnings) == 1, text


class TestListing:
    def test_first_run_lists_and_later_runs_do_not(self, sqs: Sqs, stream: Stream) -> None:
        bucket = Bucket(["a.json", "_SUCCESS"])
        stream.open(sqs, bucket).poll()
        assert stream.plan() == [path("a.json")]
        bucket.names.append("b.json")
        files = stream.open(sqs, bucket)
        files.poll()
        assert bucket.listings == 1
        assert stream.pending() == []

    def test_find_objects_without_notification_after_the_interval(
        self, sqs: Sqs, stream: Stream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bucket = Bucket(["a.json"])
        files = stream.open(sqs, bucket, "1 hour")
        files.poll()
        files.note_planned(stream.plan())
        bucket.names.append("lost.json")
        now = time.time()
        for seconds, listings in ((3500, 1), (3700, 2)):
            monkeypatch.setattr(time, "time", lambda seconds=seconds: now + seconds)
            files.poll()
            assert bucket.listings == listings
        assert stream.pending() == [path("lost.json")]

    def test_list_again_after_a_failed_listing(self, sqs: Sqs, stream: Stream) -> None:
        class Broken(Bucket):
            def list_files(self) -> Iterable[ObjectFile]:
                super().list_files()
                raise OSError("the store does not respond")

        sqs.send(message_of("b.json"))
        with pytest.raises(OSError, match="does not respond"):
            stream.open(sqs, Broken()).poll()
        assert sqs.count() == 1
        stream.open(sqs, Bucket(["a.json"])).poll()
        assert stream.pending() == [path("a.json"), path("b.json")]

    def test_continue_a_stream_that_listed(self, sqs: Sqs, stream: Stream) -> None:
        """A checkpoint without notifications: its files are not planned again."""
        log = stream.folder.folder("sources").folder("0")
        log.write("9.compact", format_log([ObjectFile(path("a b.json"), 1, 1)]))
        log.write("10", format_log([ObjectFile(path("b.json"), 1, 1)]))
        log.write("8", "v1\nolder than the compact entry")
        stream.open(sqs, Bucket(["a b.json", "b.json", "c.json"])).poll()
        assert stream.pending() == [path("c.json")]


def test_messages_wait_while_many_files_are_pending(sqs: Sqs, stream: Stream) -> None:
    sqs.send(message_of("a.json"), message_of("b.json"))
    files = stream.open(sqs, Bucket(["x.json"]))
    files.poll(most_pending=0)
    assert not files.poll(most_pending=1)
    assert sqs.count() == 2
    files.drain()
    assert len(stream.pending()) == 3


#: Step → what fails in it.
FAILURES: dict[str, tuple[type, str]] = {
    "crash before delete": (NotificationQueue, "delete"),
    "failed delete": (NotificationQueue, "delete"),
    "failed write": (PendingLog, "write"),
    "busy queue": (NotificationQueue, "receive"),
}


@pytest.mark.nightly
@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers(0, 5)),
            st.tuples(st.just("lost put"), st.integers(0, 5)),
            st.sampled_from([(step, 0) for step in ("poll", "plan", "restart", *FAILURES)]),
        ),
        max_size=15,
    )
)
def test_each_object_is_planned_once(steps: list[tuple[str, int]]) -> None:
    """Whatever the order of uploads, polls, batches, restarts and lost notifications."""
    with moto.mock_aws():
        sqs, stream, bucket = Sqs(), Stream(), Bucket()
        sqs.show_again()
        files = stream.open(sqs, bucket)
        for step, number in steps:
            name = f"{number}.json"
            if step in ("put", "lost put"):
                bucket.names = sorted({*bucket.names, name})
            if step == "put":
                sqs.send(message_of(name))
            elif step == "poll":
                files.poll()
            elif step == "plan":
                files.note_planned(stream.plan())
            elif step == "restart":
                files = stream.open(sqs, bucket)
            elif step in FAILURES:
                with patch.object(*FAILURES[step], _fail), suppress(ConnectionError):
                    files.poll()
                if step == "crash before delete":
                    files = stream.open(sqs, bucket)
        stream.folder.folder("notified").delete("listed.json")
        files = stream.open(sqs, bucket)
        files.drain()
        stream.plan()
        assert sorted(stream.planned) == [path(name) for name in bucket.names]
        assert sqs.count() == 0


def _fail(*_: Any) -> None:
    raise ConnectionError


class TestErrors:
    def test_missing_queue(self, stream: Stream, sqs: Sqs) -> None:
        with pytest.raises(ConfigError) as caught:
            stream.open(sqs.url + "s").poll()
        assert caught.value.what == "no such queue"
        assert f"queue {sqs.url}s" in (caught.value.where or "")
        assert "queueUrl" in (caught.value.fix or "")

    @pytest.mark.parametrize(
        ("code", "status", "kind", "text"),
        [
            ("AccessDenied", 403, ConfigError, "sqs:receivemessage"),
            ("KMS.AccessDeniedException", 400, ConfigError, "kms:Decrypt"),
            ("ThrottlingException", 400, RetriableError, "nothing is lost"),
            ("OverLimit", 403, RetriableError, "nothing is lost"),
            ("ServiceUnavailable", 503, RetriableError, "nothing is lost"),
        ],
    )
    def test_refusals(self, sqs: Sqs, stream: Stream, code: str, status: int, kind: type[Exception], text: str) -> None:
        files = stream.open(sqs)
        refusal = "User: etl is not authorized to perform: sqs:receivemessage on resource: landing"
        message = "The ciphertext refers to a customer master key" if code.startswith("KMS") else refusal
        response = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}

        def refuse(**_: Any) -> None:
            raise ClientError(cast("Any", response), "ReceiveMessage")

        client: Any = files._queue._client
        client.receive_message = refuse
        with pytest.raises(kind, match=text):
            files.poll()

    def test_message_that_cannot_be_deleted_arrives_again(self, sqs: Sqs, stream: Stream) -> None:
        sqs.show_again()
        sqs.send(message_of("a.json"))
        files = stream.open(sqs)
        client: Any = files._queue._client
        delete: Callable[..., Any] = client.delete_message_batch
        client.delete_message_batch = lambda **_: {"Failed": [{"Id": "0", "Code": "InternalError"}]}
        files.poll(most_pending=1)
        client.delete_message_batch = delete
        files.poll()
        assert stream.pending() == [path("a.json")]
        assert sqs.count() == 0

    def test_describe(self, sqs: Sqs) -> None:
        sqs.send("x")
        queue = NotificationQueue(NotificationsConfig(queueUrl=sqs.url, region="eu-west-1"))
        assert queue.describe() == "about 1 messages"


@pytest.mark.parametrize(
    ("url", "region"),
    [
        ("https://sqs.eu-west-1.amazonaws.com/123456789012/landing", "eu-west-1"),
        ("https://sqs-fips.us-gov-west-1.amazonaws.com/123456789012/landing", "us-gov-west-1"),
        ("https://sqs.cn-north-1.amazonaws.com.cn/123456789012/landing", "cn-north-1"),
        ("https://vpce-0a1-b2.sqs.eu-west-1.vpce.amazonaws.com/123456789012/landing", "eu-west-1"),
        ("http://localhost:4566/000000000000/landing", None),
    ],
)
def test_region_of_the_url(url: str, region: str | None) -> None:
    config = NotificationsConfig(queueUrl=url)
    assert config.find_region() == region
    assert config.endpoint == url.removesuffix("/" + "/".join(url.split("/")[3:]))
    assert NotificationsConfig(queueUrl=url, region="us-west-2").find_region() == "us-west-2"


def test_entries_of_the_log_are_those_of_sparks_file_sink() -> None:
    [version, line] = format_log([ObjectFile(path("a b%é.json"), 7, 8)]).splitlines()
    assert version == "v1"
    assert json.loads(line) == {
        "path": "s3a://landing/topics/t/a%20b%25é.json",
        "size": 7,
        "isDir": False,
        "modificationTime": 8,
        "blockReplication": 1,
        "blockSize": 1,
        "action": "add",
    }
