"""Requests of the Kinesis API: streams, shards, iterators and subscriptions."""

from __future__ import annotations

import json
import time
from binascii import a2b_base64
from collections.abc import Callable
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

from headrace.sdk import ConfigError, DataError, HeadraceError, RetriableError
from headrace_aws.clients import error_code, error_message, explain_error, make_client
from headrace_aws.kinesis_address import KinesisAddress
from headrace_sources.kinesis.shard_positions import Shard, ShardPosition

#: Pauses in seconds before requests about a stream are repeated. All readers of an account share their rate limits.
_PAUSES = (0.5, 1.0, 2.0)


class NoSuchStreamError(ConfigError):
    """A stream does not exist."""

    def to_lost(self) -> DataError:
        """Return the error of a stream that the checkpoint has, so that it existed."""
        fix = (
            "remove the stream from the options of the source and its tables from `tables:`, or set "
            "`fail.on.data.loss: false` to continue without its unread records"
        )
        return DataError("the stream was deleted: its unread records are lost", where=self.where, fix=fix)


@dataclass(frozen=True)
class KinesisStream(KinesisAddress):
    """Stream that the source reads. Without a name, it stands for all streams of the region."""

    #: ARN of the registered consumer; None for polling.
    consumer: str | None = None

    @property
    def service(self) -> KinesisStream:
        """All streams of the region and the identity: they share clients."""
        return replace(self, name="", arn=None, consumer=None)

    def make_client(self, place: str = "the driver") -> Any:
        """Return a client without retries; a reader of several shards continues with another shard instead.

        ``place`` of this process: its credentials and its region may differ from those of other places.
        """
        session = self.identity.open_session("kinesis")
        # Timestamps stay numbers: converting them to dates takes half the time of parsing a page.
        parsers = session._session.get_component("response_parser_factory")  # noqa: SLF001 - boto3 has no public interface for it
        parsers.set_parser_defaults(timestamp_parser=_parse_time)
        where = f"{self.where}, on {place}"
        client = make_client("kinesis", self.region, session, endpoint=self.endpoint, attempts=1, where=where)
        client.meta.events.register("before-parse.kinesis.GetRecords", _parse_page)
        return client

    def explain(self, error: Exception, operation: str) -> HeadraceError:
        """Translate an error of ``operation``."""
        code, message = error_code(error), error_message(error)
        if code == "ResourceNotFoundException":
            return self._explain_missing(error, message)
        if code == "InvalidArgumentException" and "SequenceNumber" in message:
            return self._explain_position(error)
        return explain_error(error, f"kinesis:{operation}", where=self.where)

    def _explain_missing(self, error: Exception, message: str) -> HeadraceError:
        if "/consumer/" in message:
            fix = "nothing is lost, and the next batch registers it again; find out what deregisters it"
            return RetriableError(f"the consumer was deregistered: {error}", where=self.where, fix=fix)
        if "SequenceNumber" in message:
            return self._explain_position(error)
        if "shardId-" in message:
            fix = "set `fail.on.data.loss: false` to continue without it, or start with a new checkpoint"
            return DataError(f"a shard no longer exists: {error}", where=self.where, fix=fix)
        return NoSuchStreamError("no such stream", where=self.where, fix="correct `stream` or `region`")

    def _explain_position(self, error: Exception) -> DataError:
        message = f"the position of the checkpoint is not in the stream, which was created again: {error}"
        fix = "start with a new checkpoint, or set `fail.on.data.loss: false` and restart to continue with the oldest record"
        return DataError(message, where=self.where, fix=fix)


@lru_cache(maxsize=8)
def keep_client(service: KinesisStream) -> Any:
    """Return the client of this Python process of an executor; creating one takes longer than most requests."""
    return service.make_client("an executor")


def list_streams(service: KinesisStream, client: Any) -> list[str]:
    """Return the names of all streams that can be read."""
    found: list[dict[str, Any]] = []
    parameters: dict[str, Any] = {}
    while True:
        response = call(service, client.list_streams, "ListStreams", "StreamNames", **parameters)
        found += response.get("StreamSummaries") or [{"StreamName": name} for name in response["StreamNames"]]
        if not response.get("HasMoreStreams"):
            break
        parameters = {"ExclusiveStartStreamName": found[-1]["StreamName"]}
    return [stream["StreamName"] for stream in found if stream.get("StreamStatus") not in ("CREATING", "DELETING")]


def list_shards(stream: KinesisStream, client: Any) -> tuple[list[Shard], int]:
    """Return all listed shards, including closed ones, and the time of the service in milliseconds."""
    shards: list[Shard] = []
    parameters: dict[str, Any] = stream.parameters
    while True:
        response = call(stream, client.list_shards, "ListShards", "Shards", **parameters)
        shards += map(_to_shard, response["Shards"])
        token = response.get("NextToken")
        if not token:
            return shards, _time_of(response)
        parameters = {"NextToken": token}


def read_summary(stream: KinesisStream, client: Any) -> dict[str, Any]:
    """Return the summary: status, number of open shards, retention in hours."""
    operation = client.describe_stream_summary
    response = call(stream, operation, "DescribeStreamSummary", "StreamDescriptionSummary", **stream.parameters)
    found: dict[str, Any] = response["StreamDescriptionSummary"]
    return found


def open_iterator(stream: KinesisStream, client: Any, shard: str, place: ShardPosition) -> str:
    """Return a shard iterator for a position. Raises boto3's errors."""
    begin = _to_position(place)
    how = {"ShardIteratorType": begin.pop("Type")}
    if "SequenceNumber" in begin:
        how["StartingSequenceNumber"] = begin.pop("SequenceNumber")
    response = client.get_shard_iterator(**stream.parameters, ShardId=shard, **how, **begin)
    return str(response["ShardIterator"])


def subscribe(stream: KinesisStream, client: Any, shard: str, place: ShardPosition, seen: str | None) -> Any:
    """Return the event stream of a shard from a position, or after ``seen``. Raises boto3's errors."""
    position = _to_position(replace(place, sequence=seen or place.sequence))
    response = client.subscribe_to_shard(ConsumerARN=stream.consumer, ShardId=shard, StartingPosition=position)
    return response["EventStream"]


def _to_position(place: ShardPosition) -> dict[str, Any]:
    """Return a StartingPosition of SubscribeToShard."""
    if place.sequence is not None:
        return {"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": place.sequence}
    if place.since is not None:
        return {"Type": "AT_TIMESTAMP", "Timestamp": place.since / 1000}
    return {"Type": "TRIM_HORIZON"}


def _parse_page(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    """Parse a page of records into boto3's result in a third of its time; boto3 looks up the type of every value."""
    if response_dict["status_code"] != 200:
        return
    try:
        page = json.loads(response_dict["body"])
        for record in page["Records"]:
            record["Data"] = a2b_base64(record["Data"])
    except (ValueError, KeyError, TypeError):
        return  # boto3 raises the error
    customized_response_dict.update(page)
    response_dict["body"] = b"{}"


def _parse_time(time: Any) -> Any:
    """Keep numbers; parse dates of other services, such as STS, as boto3 does."""
    from botocore.utils import parse_timestamp

    return time if isinstance(time, float | int) else parse_timestamp(time)


def _to_shard(response: dict[str, Any]) -> Shard:
    parents = (response.get("ParentShardId"), response.get("AdjacentParentShardId"))
    first = int(response["SequenceNumberRange"]["StartingSequenceNumber"])
    keys = response["HashKeyRange"]
    hash_keys = (int(keys["StartingHashKey"]), int(keys["EndingHashKey"]))
    return Shard(response["ShardId"], tuple(filter(None, parents)), first, hash_keys)


def call(
    stream: KinesisStream, operation: Callable[..., Any], name: str, member: str, **parameters: Any
) -> dict[str, Any]:
    """Return a response with the field ``member``. A temporary error is retried. Raises HeadraceErrors."""
    for pause in (*_PAUSES, None):
        try:
            response: dict[str, Any] = operation(**parameters)
            response[member]
        except Exception as error:
            explained = stream.explain(error, name)
            if pause is None or not isinstance(explained, RetriableError):
                raise explained from error
            time.sleep(pause)
        else:
            break
    return response


def _time_of(response: dict[str, Any]) -> int:
    """Return the time of the service in milliseconds, rounded down to a second."""
    date = response["ResponseMetadata"]["HTTPHeaders"]["date"]
    return int(parsedate_to_datetime(date).timestamp()) * 1000
