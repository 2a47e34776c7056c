"""A stream and its shards as Kinesis's API has them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from headrace.sdk import ConfigError, DataError, HeadraceError
from headrace_aws.clients import error_code, explain_error, make_client
from headrace_aws.identity import Identity
from headrace_aws.kinesis.places import Place, Shard

if TYPE_CHECKING:
    from headrace_aws.kinesis.config import KinesisConfig

_ARN = re.compile(r"arn:[\w-]+:kinesis:(?P<region>[\w-]+):\d*:stream/(?P<name>[\w.-]+)")


@dataclass(frozen=True)
class Stream:
    """Which stream, and where it is asked for. Goes to executors."""

    name: str
    region: str | None = None
    endpoint: str | None = None
    arn: str | None = None
    identity: Identity = field(default_factory=Identity)

    @classmethod
    def of(cls, config: KinesisConfig) -> Stream:
        """By its name or its ARN, which says the region."""
        match = _ARN.fullmatch(config.stream)
        name, region = (match["name"], config.region or match["region"]) if match else (config.stream, config.region)
        return cls(name, region, config.endpoint_url, config.stream if match else None, config.identity(region))

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
        return make_client("kinesis", self.region, session, endpoint=self.endpoint, attempts=1)

    def explain(self, error: Exception, operation: str) -> HeadraceError:
        """An error of ``operation``, in words."""
        if error_code(error) == "ResourceNotFoundException":
            if operation in ("GetShardIterator", "GetRecords") and "shard" in str(error).lower():
                fix = "set `fail.on.data.loss: false` to go on without it, or start with a new checkpoint"
                return DataError(f"a shard is gone: {error}", where=self.where, fix=fix)
            return ConfigError("there is no such stream", where=self.where, fix="correct `stream` or `region`")
        return explain_error(error, f"kinesis:{operation}", where=self.where)


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
    begin: dict[str, Any]
    if place.sequence is not None:
        begin = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": place.sequence}
    elif place.since is not None:
        begin = {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": place.since / 1000}
    else:
        begin = {"ShardIteratorType": "TRIM_HORIZON"}
    answer = client.get_shard_iterator(**stream.parameters, ShardId=shard, **begin)
    return str(answer["ShardIterator"])


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
