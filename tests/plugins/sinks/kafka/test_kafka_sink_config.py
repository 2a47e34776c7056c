"""Options of the sink ``kafka``, names of topics, and loops that are found without a session."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from headrace import ConfigError, Pipeline
from headrace.pipeline import check_before_session
from headrace.sdk.sink import Table
from headrace_sinks import KafkaSink

BROKER = "replica:9092"


def sink(**options: Any) -> KafkaSink:
    return KafkaSink({"bootstrap.servers": BROKER, **options})


@pytest.mark.parametrize(
    ("key", "value", "fix"),
    [
        ("kafka.bootstrap.servers", BROKER, "write `bootstrap.servers:`"),
        ("compression.type", "zstd", "write `kafka.compression.type:`"),
        ("kafka.compresion.type", "zstd", "did you mean `kafka.compression.type`?"),
        ("kafka.acks", 1, "remove the option"),
        ("kafka.enable.idempotence", False, "remove the option"),
        ("kafka.transactional.id", "x", "records are written at least once"),
        ("kafka.key.serializer", "x", "`keys.format`"),
        ("topics", "x", "write `topic:`"),
    ],
)
def test_unusable_option_is_explained(key: str, value: Any, fix: str) -> None:
    with pytest.raises(ConfigError) as raised:
        KafkaSink({"bootstrap.servers": BROKER, key: value})
    assert fix in str(raised.value.fix)


def test_options_of_the_producer_pass_and_those_of_the_order_stay() -> None:
    options = sink(**{"kafka.linger.ms": 50, "kafka.acks": "all"}).client_options()
    assert options == {"bootstrap.servers": BROKER, "acks": "all", "enable.idempotence": "true", "linger.ms": "50"}


def test_brokers_are_required() -> None:
    with pytest.raises(ConfigError, match=r"needs `bootstrap.servers`"):
        KafkaSink({"topic": "replica.orders"})


def test_topic_is_named_after_the_table() -> None:
    assert sink().name_topic("shop.orders") == "shop.orders"
    assert sink(topic="masked.{name}").name_topic("shop.orders") == "masked.shop.orders"
    assert sink(topic="orders").name_topic("shop.orders") == "orders"
    for unknown in "masked.{topic}", "masked.${topic}":
        with pytest.raises(ConfigError, match=r"unknown placeholder.*\{name\}"):
            sink(topic=unknown)


@pytest.mark.parametrize("name", ["shop orders", "zákazníci", "x" * 250, ".."])
def test_invalid_name_of_a_topic_is_rejected(name: str) -> None:
    with pytest.raises(ConfigError, match="not a valid name of a topic") as raised:
        sink().check_table(Table(name), "append")
    assert f"table {name}" in str(raised.value.where)


@pytest.mark.parametrize("topic", ["ü-{name}", "a b", "..", "x" * 250])
def test_topic_that_no_table_can_have_is_rejected_by_check(topic: str) -> None:
    with pytest.raises(ConfigError, match="not a valid name of a topic"):
        sink(topic=topic)


def test_topic_of_all_tables_is_noted() -> None:
    assert "two rows with equal keys in different tables" in list(sink(topic="all").notes())[1]


def test_pickled_sink_has_no_connection() -> None:
    one = sink()
    one._client = object()  # type: ignore[assignment]
    assert pickle.loads(pickle.dumps(one))._client is None


def pipeline(
    folder: Path,
    source: dict[str, Any],
    *tables: dict[str, str],
    transforms: Any = ({"unwrap": {}},),
    tags: Any = None,
    **options: Any,
) -> Pipeline:
    config = {
        "tags": tags or {},
        "name": "replica",
        "source": {"kafka": {"bootstrap.servers": "one:9092,two:9092", **source}, "value": {"json": {}}},
        "transforms": [*transforms],
        "tables": [*tables],
        "sink": {"kafka": {"bootstrap.servers": "TWO:9092", **options}},
        "checkpoint": str(folder),
    }
    return Pipeline.from_dict(config)


@pytest.mark.parametrize(
    ("source", "tables", "options"),
    [
        ({"subscribe": "shop.orders, shop.items"}, [], {}),
        ({"assign": {"shop.orders": [0]}}, [], {}),
        ({"subscribe": "shop.orders"}, [{"source": "shop.orders", "target": "orders"}], {"topic": "shop.{name}"}),
        ({"subscribe": ["shop.orders", "orders"]}, [], {"topic": "orders"}),
    ],
)
def test_loop_is_rejected_before_a_session(
    source: dict[str, Any], tables: list[dict[str, str]], options: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="the source reads the topic") as raised:
        check_before_session(pipeline(tmp_path, source, *tables, **options))
    assert "replica.{name}" in str(raised.value.fix)


def test_other_topics_and_other_clusters_are_no_loop(tmp_path: Path) -> None:
    orders = {"subscribe": "shop.orders"}
    check_before_session(pipeline(tmp_path, orders, topic="masked.{name}"))
    check_before_session(pipeline(tmp_path, orders, {"source": "shop.orders", "target": "masked.orders"}))
    check_before_session(pipeline(tmp_path, orders, **{"bootstrap.servers": "three:9092"}))


def test_delivery_is_noted() -> None:
    (note,) = sink().notes()
    assert "at least once" in note


@pytest.mark.parametrize("option", [{"includeHeaders": True}, {"keys.format": "bytes"}])
def test_raw_keys_and_headers_are_rejected_with_a_mask(option: dict[str, Any], tmp_path: Path) -> None:
    masks = [{"unwrap": {}}, {"mask": {"columns": {"email": {"truncate": 4}}}}]
    with pytest.raises(ConfigError, match="raw keys or headers, which masks do not change"):
        check_before_session(pipeline(tmp_path, {"subscribe": "a"}, transforms=masks, topic="masked.a", **option))


def test_raw_keys_are_rejected_with_tags(tmp_path: Path) -> None:
    transforms = [{"unwrap": {}}, {"drop": {"columns": ["ssn"]}}]
    raw: dict[str, Any] = {"topic": "b", "keys.format": "bytes"}
    check_before_session(pipeline(tmp_path, {"subscribe": "a"}, transforms=transforms, **raw))
    with pytest.raises(ConfigError, match="which may contain columns of `tags:`"):
        check_before_session(
            pipeline(tmp_path, {"subscribe": "a"}, transforms=transforms, tags={"pii": ["ssn"]}, **raw)
        )
