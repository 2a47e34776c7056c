"""Options of the sink ``kinesis``, names of streams, and loops that are found without a session."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from headrace import ConfigError, Pipeline
from headrace.pipeline import check_before_session
from headrace.sdk.sink import Table
from headrace_sinks import KinesisSink
from headrace_sources.kinesis.kinesis_source import KinesisSource

ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream"


def test_stream_is_named_after_the_table() -> None:
    assert KinesisSink().find_stream("shop.orders").name == "shop.orders"
    assert KinesisSink(stream="masked.{name}").find_stream("shop.orders").name == "masked.shop.orders"
    assert KinesisSink(stream="all").find_stream("shop.orders").name == "all"
    stream = KinesisSink(stream=f"{ARN}/masked.{{name}}").find_stream("shop.orders")
    assert (stream.name, stream.region, stream.arn) == ("masked.shop.orders", "eu-west-1", f"{ARN}/masked.shop.orders")
    with pytest.raises(ConfigError, match=r"unknown placeholder.*\{name\}"):
        KinesisSink(stream="masked.{table}")


@pytest.mark.parametrize("name", ["shop orders", "zákazníci", "x" * 129])
def test_invalid_name_of_a_stream_is_rejected(name: str) -> None:
    with pytest.raises(ConfigError, match="not a valid name of a stream") as raised:
        KinesisSink().check_table(Table(name), "append")
    assert f"table {name}" in str(raised.value.where)


def pipeline(folder: Path, source: dict[str, Any], **sink: Any) -> Pipeline:
    config = {
        "name": "replica",
        "source": {"kinesis": {"stream": "shop.orders", "region": "eu-west-1", **source}, "value": {"json": {}}},
        "transforms": [{"unwrap": {}}],
        "sink": {"kinesis": {"region": "eu-west-1", **sink}},
        "checkpoint": str(folder),
    }
    return Pipeline.from_dict(config)


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        ({}, {"stream": "shop.orders"}),
        ({"stream": f"{ARN}/shop.orders", "region": None}, {"stream": "shop.orders"}),
        ({"stream": None, "subscribe": ["shop.items", "shop.orders"]}, {"stream": "shop.orders"}),
        ({"consumer.type": "SubscribeToShard", "consumer.name": "etl"}, {"stream": f"{ARN}/shop.orders"}),
    ],
)
def test_loop_is_rejected_before_a_session(source: dict[str, Any], sink: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the source reads the stream shop\.orders") as raised:
        check_before_session(pipeline(tmp_path, source, **sink))
    assert "replica.{name}" in str(raised.value.fix)


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        ({}, {"stream": "replica.{name}"}),
        ({}, {"region": "eu-central-1"}),
        ({}, {"profile": "other"}),
        ({"stream": f"{ARN}/shop.orders", "region": None}, {"region": None}),
    ],
)
def test_other_streams_are_no_loop(source: dict[str, Any], sink: dict[str, Any], tmp_path: Path) -> None:
    check_before_session(pipeline(tmp_path, source, **sink))


def test_loop_through_a_pattern_is_rejected_before_a_write() -> None:
    source = KinesisSource(subscribePattern=r"shop\..*", region="eu-west-1")
    KinesisSink(stream="replica.{name}", region="eu-west-1").check_source(source, ["shop.orders"])
    with pytest.raises(ConfigError, match=r"the source reads the stream shop\.orders"):
        KinesisSink(stream="{name}", region="eu-west-1").check_source(source, ["shop.orders"])


def test_delivery_is_noted_and_sink_can_be_pickled() -> None:
    sink = KinesisSink(stream="orders", region="eu-west-1")
    (note,) = sink.notes()
    assert "at least once" in note
    assert pickle.loads(pickle.dumps(sink)).find_stream("a") == sink.find_stream("a")
