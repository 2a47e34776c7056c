"""Pages of a shard: polled with GetRecords, or pushed to a registered consumer (enhanced fan-out)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from headrace.sdk import ConfigError, RetriableError
from headrace_aws.clients import error_code
from headrace_sources.kinesis.kinesis_stream import KinesisStream, open_iterator, subscribe

if TYPE_CHECKING:
    from headrace_sources.kinesis.shard_positions import ShardPosition

#: Most records of a page.
_MAX_RECORDS = 10_000


class Pages(Protocol):
    """Consecutive pages of one shard in the format of GetRecords. Raises boto3's errors and HeadraceErrors."""

    #: Seconds between two pages, and before the first retry for a busy shard.
    gap: float
    pause: float

    @property
    def operation(self) -> str:
        """Name of the last operation."""

    def read(self, place: ShardPosition, limit: int) -> dict[str, Any]:
        """Return the next page; the page after ``place`` at first and after an error. ``limit`` is a hint."""

    def close(self) -> None:
        """Release the shard."""


class PolledPages:
    """Pages of GetRecords, which a shard allows five times per second."""

    gap = 0.2
    pause = 0.4

    def __init__(self, stream: KinesisStream, client: Any, shard: str, resume: str | None = None) -> None:
        """``resume``: iterator of an earlier page."""
        self._stream, self._client, self._shard = stream, client, shard
        self._iterator = resume
        self.operation = ""

    def read(self, place: ShardPosition, limit: int) -> dict[str, Any]:
        if self._iterator is None:
            self.operation = "GetShardIterator"
            self._iterator = open_iterator(self._stream, self._client, self._shard, place)
        self.operation = "GetRecords"
        try:
            page: dict[str, Any] = self._client.get_records(
                ShardIterator=self._iterator, Limit=max(1, min(_MAX_RECORDS, limit))
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


class SubscribedPages:
    """Pages of SubscribeToShard: one call per second, and five seconds between calls for the same shard."""

    gap = 0.0
    pause = 1.0
    operation: ClassVar[str] = "SubscribeToShard"

    def __init__(self, stream: KinesisStream, client: Any, shard: str, resume: str | None = None) -> None:
        """``resume``: continuation sequence number of an earlier page."""
        self._stream, self._client, self._shard = stream, client, shard
        #: Event stream of the client, and its iterator.
        self._response: Any = None
        self._events: Iterator[dict[str, Any]] = iter(())
        self._has_page = False
        #: Continuation sequence number; it advances without records.
        self._seen = resume

    def read(self, place: ShardPosition, limit: int) -> dict[str, Any]:
        try:
            if self._response is None:
                self._has_page = False
                self._response = subscribe(self._stream, self._client, self._shard, place, self._seen)
                self._events = iter(self._response)
            page: dict[str, Any] = next(self._events)["SubscribeToShardEvent"]
            page["Records"]
        except StopIteration:
            self.close()
            # A subscription ends after five minutes or with the connection.
            raise RetriableError(f"the subscription to {self._shard} has ended", fix="nothing is lost") from None
        except Exception as error:
            self.close()
            if self._has_page and error_code(error) == "ResourceInUseException":
                fix = "give each pipeline a `consumer.name` of its own"
                message = f"another reader took over {self._shard} from {self._stream.consumer}"
                raise ConfigError(message, fix=fix) from error
            raise
        self._has_page, self._seen = True, page.get("ContinuationSequenceNumber")
        return {**page, "NextShardIterator": self._seen}

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
        self._response = None


def open_pages(stream: KinesisStream, client: Any, shard: str, resume: str | None = None) -> Pages:
    """Return the pages of a shard, through the consumer of the stream if it has one. ``resume``: ``NextShardIterator`` of an earlier page."""
    return (SubscribedPages if stream.consumer else PolledPages)(stream, client, shard, resume)
