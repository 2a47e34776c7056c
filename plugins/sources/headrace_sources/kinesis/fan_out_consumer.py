"""Registered consumer of a stream (enhanced fan-out), with 2 MB/s per shard of its own."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from headrace.sdk import RetriableError
from headrace_aws.clients import error_code
from headrace_sources.kinesis.kinesis_stream import KinesisStream, call, read_summary

_LOG = logging.getLogger(__name__)
#: Seconds to wait until a registered consumer is active, and between two requests.
_TIMEOUT, _PAUSE = 60.0, 0.5


def find_consumer(stream: KinesisStream, client: Any, name: str) -> str:
    """Return the ARN of an active consumer. Registers a missing consumer and waits until it is active."""
    arn = _read_arn(stream, client)
    deadline = time.monotonic() + _TIMEOUT
    while True:
        found = _describe(stream, client, arn, name)
        if found is None:
            _register(stream, client, arn, name)
        elif found["ConsumerStatus"] == "ACTIVE":
            return str(found["ConsumerARN"])
        if time.monotonic() > deadline:
            state = found["ConsumerStatus"] if found else "not registered"
            message = f"the consumer {name} is still {state} after {_TIMEOUT:.0f} s"
            raise RetriableError(message, where=stream.where, fix="retry later; nothing is lost")
        time.sleep(_PAUSE)


def read_state(stream: KinesisStream, client: Any, name: str) -> str:
    """Return the state of a consumer without registering it."""
    found = _describe(stream, client, _read_arn(stream, client), name)
    return str(found["ConsumerStatus"]) if found else "not registered, a run registers it"


def _read_arn(stream: KinesisStream, client: Any) -> str:
    return stream.arn or str(read_summary(stream, client)["StreamARN"])


def _describe(stream: KinesisStream, client: Any, arn: str, name: str) -> dict[str, Any] | None:
    """Return the description of a consumer; None if it is not registered."""
    find = _ignore("ResourceNotFound", client.describe_stream_consumer, "ConsumerDescription")
    response = call(stream, find, "DescribeStreamConsumer", "ConsumerDescription", StreamARN=arn, ConsumerName=name)
    found: dict[str, Any] | None = response["ConsumerDescription"]
    return found


def _register(stream: KinesisStream, client: Any, arn: str, name: str) -> None:
    # ResourceInUse: another process registered it first.
    register = _ignore("ResourceInUse", client.register_stream_consumer, "Consumer")
    response = call(stream, register, "RegisterStreamConsumer", "Consumer", StreamARN=arn, ConsumerName=name)
    if response["Consumer"] is not None:
        _LOG.warning("%s: registered the consumer %s, which stays when this run ends", stream.where, name)


def _ignore(code: str, operation: Callable[..., dict[str, Any]], member: str) -> Callable[..., dict[str, Any]]:
    """Return the operation with None as ``member`` of its response if it fails with this error code."""

    def request(**parameters: str) -> dict[str, Any]:
        try:
            return operation(**parameters)
        except Exception as error:
            if error_code(error).startswith(code):
                return {member: None}
            raise

    return request
