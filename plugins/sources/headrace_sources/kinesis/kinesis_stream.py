"""A stream and its shards as Kinesis's API has them."""

from __future__ import annotations

import json
import re
from binascii import a2b_base64
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from headrace.sdk import ConfigError, DataError, HeadraceError, RetriableError
from headrace_aws.clients import error_code, error_message, explain_error, make_client
from headrace_aws.identity import Identity
from headrace_sources.kinesis.shard_positions import Place, Shard

if TYPE_CHECKING:
    from headrace_sources.kinesis.kinesis_config import KinesisConfig

_ARN = re.compile(r"arn:[\w-]+:kinesis:(?P<region>[\w-]+):\d*:stream/(?P<name>[\w.-]+)")

#: Refusals that pass. Of a subscription: another one is too new, there were too many calls, or the consumer is not ready.
_PASSING = {
    "GetRecords": ("ExpiredIteratorException",),
    "SubscribeToShard": ("ResourceInUseException", "LimitExceededException"),
}


@dataclass(frozen=True)
class Stream:
    """Which stream, and where it is asked for. Goes to executors."""

    name: str
    region: str | None = None
    endpoint: str | None = None
    arn: str | None = None
    #: The ARN of the consumer to which shards send their records; without one they are asked for them.
    consumer: str | None = None
    identity: Identity = field(default_factory=Identity)

    @classmethod
    def of(cls, config: KinesisConfig) -> Stream:
        """By its name or its ARN, which says the region."""
        match = _ARN.fullmatch(config.stream)
        name, region = (match["name"], config.region or match["region"]) if match else (config.stream, config.region)
        arn = config.stream if match else None
        return cls(name, region, config.endpoint_url, arn, identity=config.identity(region))

    @property
    def where(self) -> str:
        """What errors call it."""
        return ", ".join(filter(None, [f"Kinesis stream {self.name}", self.region, self.endpoint]))

    @property
    def parameters(self) -> dict[str, str]:
        return {"StreamARN": self.arn} if self.arn else {"StreamName": self.name}

    def make_client(self) -> Any:
        """A client that asks once: who reads several shards goes on with another one meanwhile."""
        session = self.identity.open_session("kinesis")
        # A time stays the number that it is in the answer: to make dates of them is half the work of a page of records.
        parsers = session._session.get_component("response_parser_factory")  # noqa: SLF001 - boto3 has no other door to it
        parsers.set_parser_defaults(timestamp_parser=_parse_time)
        client = make_client("kinesis", self.region, session, endpoint=self.endpoint, attempts=1)
        client.meta.events.register("before-parse.kinesis.GetRecords", _parse_page)
        return client

    def explain(self, error: Exception, operation: str) -> HeadraceError:
        """An error of ``operation``, in words."""
        code, said = error_code(error), error_message(error)
        if code == "ResourceNotFoundException":
            return self._explain_missing(error, said)
        if code in _PASSING.get(operation, ()):
            return RetriableError(f"AWS is busy: {error}", where=self.where, fix="try again; nothing is lost")
        return explain_error(error, f"kinesis:{operation}", where=self.where)

    def _explain_missing(self, error: Exception, said: str) -> HeadraceError:
        if "/consumer/" in said:
            fix = "nothing is lost: it is registered again, unless somebody takes it away again"
            return RetriableError(f"the consumer is not registered any more: {error}", where=self.where, fix=fix)
        if "shardId-" in said:
            fix = "set `fail.on.data.loss: false` to go on without it, or start with a new checkpoint"
            return DataError(f"a shard is gone: {error}", where=self.where, fix=fix)
        return ConfigError("there is no such stream", where=self.where, fix="correct `stream` or `region`")


@lru_cache(maxsize=8)
def keep_client(stream: Stream) -> Any:
    """The client of a Python process of an executor: to make one takes longer than most of its questions."""
    return stream.make_client()


def list_shards(stream: Stream, client: Any) -> tuple[list[Shard], int]:
    """All shards that are listed, closed ones too, and the time there in milliseconds."""
    shards: list[Shard] = []
    parameters: dict[str, Any] = stream.parameters
    while True:
        answer = _ask(stream, client.list_shards, "ListShards", "Shards", **parameters)
        shards += map(_to_shard, answer["Shards"])
        token = answer.get("NextToken")
        if not token:
            return shards, _time_of(answer)
        parameters = {"NextToken": token}


def read_summary(stream: Stream, client: Any) -> dict[str, Any]:
    """Status, number of open shards, hours for which records are kept."""
    operation = client.describe_stream_summary
    answer = _ask(stream, operation, "DescribeStreamSummary", "StreamDescriptionSummary", **stream.parameters)
    found: dict[str, Any] = answer["StreamDescriptionSummary"]
    return found


def open_iterator(stream: Stream, client: Any, shard: str, place: Place) -> str:
    """What reads a shard from a place on. Raises boto3's own errors."""
    begin = _to_position(place)
    how = {"ShardIteratorType": begin.pop("Type")}
    if "SequenceNumber" in begin:
        how["StartingSequenceNumber"] = begin.pop("SequenceNumber")
    answer = client.get_shard_iterator(**stream.parameters, ShardId=shard, **how, **begin)
    return str(answer["ShardIterator"])


def subscribe(stream: Stream, client: Any, shard: str, place: Place, seen: str | None) -> Any:
    """The events that a shard sends from a place on, or after ``seen``, until they are closed. Raises boto3's own errors."""
    position = _to_position(replace(place, sequence=seen or place.sequence))
    answer = client.subscribe_to_shard(ConsumerARN=stream.consumer, ShardId=shard, StartingPosition=position)
    return answer["EventStream"]


def _to_position(place: Place) -> dict[str, Any]:
    """As SubscribeToShard has it."""
    if place.sequence is not None:
        return {"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": place.sequence}
    if place.since is not None:
        return {"Type": "AT_TIMESTAMP", "Timestamp": place.since / 1000}
    return {"Type": "TRIM_HORIZON"}


def _parse_page(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    """A page of records as boto3 makes it, in a third of its time: it looks up what each value of each record is."""
    if response_dict["status_code"] != 200:
        return
    try:
        page = json.loads(response_dict["body"])
        for record in page["Records"]:
            record["Data"] = a2b_base64(record["Data"])
    except (ValueError, KeyError, TypeError):
        return  # boto3 says what is wrong
    customized_response_dict.update(page)
    response_dict["body"] = b"{}"


def _parse_time(time: Any) -> Any:
    """A number stays one; a date of another service's, which the session is logged in by, is what it is for boto3."""
    from botocore.utils import parse_timestamp

    return time if isinstance(time, float | int) else parse_timestamp(time)


def _to_shard(answer: dict[str, Any]) -> Shard:
    parents = (answer.get("ParentShardId"), answer.get("AdjacentParentShardId"))
    first = int(answer["SequenceNumberRange"]["StartingSequenceNumber"])
    return Shard(answer["ShardId"], tuple(filter(None, parents)), first)


def _ask(stream: Stream, operation: Callable[..., Any], name: str, member: str, **parameters: Any) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = operation(**parameters)
        answer[member]
    except Exception as error:
        raise stream.explain(error, name) from error
    return answer


def _time_of(answer: dict[str, Any]) -> int:
    """When AWS answered, by its own clock: milliseconds, rounded down to a second."""
    said = answer["ResponseMetadata"]["HTTPHeaders"]["date"]
    return int(parsedate_to_datetime(said).timestamp()) * 1000
