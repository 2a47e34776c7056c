"""Where the pages of a shard come from: it is asked for each of them, or it sends them to a consumer of its own (enhanced fan-out)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from headrace.sdk import ConfigError, RetriableError
from headrace_aws.clients import error_code
from headrace_sources.kinesis.kinesis_stream import Stream, open_iterator, subscribe

if TYPE_CHECKING:
    from headrace_sources.kinesis.shard_positions import Place

#: Records of a page at most.
_MOST_RECORDS = 10_000


class Pages(Protocol):
    """Pages of one shard as GetRecords has them, each on from the one before it. Raises boto3's own errors, and errors in words."""

    #: Seconds between two pages, and before a shard that is busy is asked again at first.
    gap: float
    pause: float

    @property
    def operation(self) -> str:
        """What was asked last."""

    def read(self, place: Place, limit: int) -> dict[str, Any]:
        """The next page, which is the one after ``place`` when there was none yet or the last one failed; ``limit`` is a wish."""

    def close(self) -> None:
        """Lets go of the shard."""


class AskedPages:
    """By GetRecords, of which a shard answers five a second."""

    gap = 0.2
    pause = 0.4

    def __init__(self, stream: Stream, client: Any, shard: str) -> None:
        self._stream, self._client, self._shard = stream, client, shard
        self._iterator: str | None = None
        self.operation = ""

    def read(self, place: Place, limit: int) -> dict[str, Any]:
        if self._iterator is None:
            self.operation = "GetShardIterator"
            self._iterator = open_iterator(self._stream, self._client, self._shard, place)
        self.operation = "GetRecords"
        try:
            page: dict[str, Any] = self._client.get_records(
                ShardIterator=self._iterator, Limit=max(1, min(_MOST_RECORDS, limit))
            )
            page["Records"]
        except Exception as error:
            if error_code(error) == "ExpiredIteratorException":
                self._iterator = None
            raise
        self._iterator = page.get("NextShardIterator")
        return page

    def close(self) -> None:
        self._iterator = None


class SentPages:
    """By SubscribeToShard, which may be called once a second, and again for the same shard five seconds after it was answered."""

    gap = 0.0
    pause = 1.0
    operation: ClassVar[str] = "SubscribeToShard"

    def __init__(self, stream: Stream, client: Any, shard: str) -> None:
        self._stream, self._client, self._shard = stream, client, shard
        #: What the client calls the stream of events, and the events in it.
        self._answer: Any = None
        self._events: Iterator[dict[str, Any]] = iter(())
        self._has_come = False
        #: How far the shard was looked through; where there are no records for hours, no record says so.
        self._seen: str | None = None

    def read(self, place: Place, limit: int) -> dict[str, Any]:
        try:
            if self._answer is None:
                self._has_come = False
                self._answer = subscribe(self._stream, self._client, self._shard, place, self._seen)
                self._events = iter(self._answer)
            page: dict[str, Any] = next(self._events)["SubscribeToShardEvent"]
            page["Records"]
        except StopIteration:
            self.close()
            # After five minutes, or when the connection was cut.
            raise RetriableError(f"AWS has ended the subscription to {self._shard}", fix="nothing is lost") from None
        except Exception as error:
            self.close()
            if self._has_come and error_code(error) == "ResourceInUseException":
                fix = "give each pipeline a `consumer.name` of its own"
                what = f"another reader has taken {self._shard} over from {self._stream.consumer}"
                raise ConfigError(what, fix=fix) from error
            raise
        self._has_come, self._seen = True, page.get("ContinuationSequenceNumber")
        return {**page, "NextShardIterator": self._seen}

    def close(self) -> None:
        if self._answer is not None:
            self._answer.close()
        self._answer = None


def open_pages(stream: Stream, client: Any, shard: str) -> Pages:
    """The pages of a shard, sent to the stream's consumer where it has one."""
    return (SentPages if stream.consumer else AskedPages)(stream, client, shard)
