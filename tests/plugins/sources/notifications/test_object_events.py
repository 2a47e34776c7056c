"""Messages about objects, in the shapes of S3, SNS, EventBridge and S3 compatible stores."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from headrace_sources.notifications.object_events import CreatedObject, UnknownMessageError, parse_message

TIME, MILLISECONDS = "2026-01-31T12:00:00.123Z", 1_769_860_800_123


def record(
    key: str = "topics/t/a.json", event: str = "ObjectCreated:Put", bucket: str = "landing", **fields: Any
) -> dict[str, Any]:
    """Return a record of an event notification of S3."""
    described = {"bucket": {"name": bucket}, "object": {"key": key, "size": 7, "sequencer": "0A", **fields}}
    return {"eventSource": "aws:s3", "eventTime": TIME, "eventName": event, "s3": described}


def s3(*records: dict[str, Any]) -> str:
    return json.dumps({"Records": records})


def sns(message: str) -> str:
    """Return a message in the envelope of SNS."""
    return json.dumps({"Type": "Notification", "TopicArn": "arn:aws:sns:eu-west-1:1:t", "Message": message})


def event_bridge(key: str = "topics/t/a.json", detail_type: str = "Object Created") -> str:
    detail = {"bucket": {"name": "landing"}, "object": {"key": key, "size": 7, "etag": "0"}, "reason": "PutObject"}
    time = "2026-01-31T12:00:00Z"
    return json.dumps({"version": "0", "source": "aws.s3", "detail-type": detail_type, "time": time, "detail": detail})


def keys(body: str) -> list[str]:
    return [found.key for found in parse_message(body)]


@pytest.mark.parametrize(
    "event",
    ["ObjectCreated:Put", "ObjectCreated:Copy", "ObjectCreated:CompleteMultipartUpload", "s3:ObjectCreated:Post"],
)
def test_new_objects(event: str) -> None:
    expected = CreatedObject("landing", "topics/t/a.json", 7, MILLISECONDS)
    assert parse_message(s3(record(event=event, versionId="96fnbXwv"))) == [expected]
    assert parse_message(sns(s3(record(event=event)))) == [expected]


def test_every_record_of_a_message() -> None:
    assert keys(s3(record("a"), record("b", "ObjectRemoved:Delete"), record("c"))) == ["a", "c"]


def test_event_bridge_also_through_sns() -> None:
    expected = [CreatedObject("landing", "topics/t/a.json", 7, 1_769_860_800_000)]
    assert parse_message(event_bridge()) == parse_message(sns(event_bridge())) == expected


@pytest.mark.parametrize("key", ["topics/t/%00.json", "topics/t/a%1f", "topics/%7F", "a" * 1025, "%C3%A9" * 513])
def test_key_that_spark_cannot_request_stays_in_the_queue(key: str) -> None:
    with pytest.raises(UnknownMessageError, match="control characters, or more than 1024 bytes"):
        parse_message(s3(record("good"), record(key)))


def test_decode_keys_of_s3_only() -> None:
    assert keys(s3(record("t/day%3D2026-01-31/a+b%2Bc%25%C3%A9.json"))) == ["t/day=2026-01-31/a b+c%é.json"]
    assert keys(event_bridge("t/day=2026-01-31/a b+c%20.json")) == ["t/day=2026-01-31/a b+c%20.json"]


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent", "Time": TIME, "Bucket": "landing"}),
        s3(record(event="ObjectRemoved:DeleteMarkerCreated")),
        s3(record(event="LifecycleExpiration:Delete")),
        s3(record(event="ObjectRestore:Completed")),
        s3(),
        event_bridge(detail_type="Object Deleted"),
    ],
)
def test_other_events_have_no_new_objects(body: str) -> None:
    assert parse_message(body) == []
    assert parse_message(sns(body)) == []


@pytest.mark.parametrize(
    "body",
    [
        "",
        "hello",
        "null",
        "[]",
        "{}",
        '{"Records": null}',
        '{"Records": [{"eventName": "ObjectCreated:Put"}]}',
        '{"Records": [{"s3": {}}]}',
        json.dumps({"Records": [{**record(), "eventTime": "yesterday"}]}),
        s3(record("%FF")),
        s3(record()).replace('"size": 7', '"size": 1e999'),
        s3(record()).replace('"size": 7', '"size": 1e30'),
        s3(record()).replace('"size": 7', '"size": -1'),
        s3(record(size="large")),
        sns("hello"),
        json.dumps({"source": "aws.s3", "detail-type": "Object Created", "time": TIME, "detail": {}}),
        json.dumps({"source": "aws.ec2", "detail-type": "EC2 Instance State-change Notification"}),
        "[" * 100_000,
    ],
)
def test_other_messages_are_errors(body: str) -> None:
    with pytest.raises(UnknownMessageError):
        parse_message(body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["Records", "Type", "Message", "source", "detail", "time", "Event"]), JSON))
def test_any_json_is_parsed_or_unknown(message: dict[str, Any]) -> None:
    found: list[CreatedObject] = []
    with suppress(UnknownMessageError):
        found = parse_message(json.dumps(message))
    assert found == []
