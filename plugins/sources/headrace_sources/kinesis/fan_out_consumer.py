"""The consumer that a stream's shards send their records to: who has one shares no shard's two megabytes a second."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from headrace.sdk import RetriableError
from headrace_aws.clients import error_code
from headrace_sources.kinesis.kinesis_stream import Stream, read_summary

_LOG = logging.getLogger(__name__)
#: Seconds until a consumer that was registered can subscribe, and between two looks.
_PATIENCE, _PAUSE = 60.0, 0.5


def find_consumer(stream: Stream, client: Any, name: str) -> str:
    """The ARN of a stream's consumer, which is registered when it is not there; returns when it can subscribe."""
    arn = _read_arn(stream, client)
    deadline = time.monotonic() + _PATIENCE
    while True:
        found = _describe(stream, client, arn, name)
        if found is None:
            _register(stream, client, arn, name)
        elif found["ConsumerStatus"] == "ACTIVE":
            return str(found["ConsumerARN"])
        if time.monotonic() > deadline:
            state = found["ConsumerStatus"] if found else "not there"
            what = f"the consumer {name} is still {state} after {_PATIENCE:.0f} s"
            raise RetriableError(what, where=stream.where, fix="try again; nothing is lost")
        time.sleep(_PAUSE)


def read_state(stream: Stream, client: Any, name: str) -> str:
    """What a consumer's state is; it is not registered by that."""
    found = _describe(stream, client, _read_arn(stream, client), name)
    return str(found["ConsumerStatus"]) if found else "not there yet, a run registers it"


def _read_arn(stream: Stream, client: Any) -> str:
    return stream.arn or str(read_summary(stream, client)["StreamARN"])


def _describe(stream: Stream, client: Any, arn: str, name: str) -> dict[str, Any] | None:
    """None for one that is not there."""
    answer = _ask(stream, client.describe_stream_consumer, "DescribeStreamConsumer", "ResourceNotFound", arn, name)
    return answer and answer["ConsumerDescription"]


def _register(stream: Stream, client: Any, arn: str, name: str) -> None:
    # In use: somebody else has registered it since.
    if _ask(stream, client.register_stream_consumer, "RegisterStreamConsumer", "ResourceInUse", arn, name):
        _LOG.warning("%s: registered the consumer %s, which stays when this run ends", stream.where, name)


def _ask(
    stream: Stream, operation: Callable[..., Any], called: str, passing: str, arn: str, name: str
) -> dict[str, Any] | None:
    """The answer; None when it is the refusal ``passing``."""
    try:
        answer: dict[str, Any] = operation(StreamARN=arn, ConsumerName=name)
    except Exception as error:
        if error_code(error).startswith(passing):
            return None
        raise stream.explain(error, called) from error
    return answer
