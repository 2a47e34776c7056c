"""Places of data for lineage, as the built-in sources and sinks name them: without a request, and without a login."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.sdk import Dataset, Sink, Source, Table, get_plugin
from headrace_sources.jdbc.jdbc_config import JdbcConfig
from headrace_sources.jdbc.jdbc_database import JdbcDatabase

ORDERS = Table("shop.orders", ("id",))
BROKERS = "broker-1:9092, broker-2:9092"


@pytest.mark.parametrize(
    ("name", "options", "namespace", "place"),
    [
        ("hudi", {"path": "s3a://lake/silver"}, "s3://lake", "silver/shop/orders"),
        ("delta", {"path": "s3a://lake/silver"}, "s3://lake", "silver/shop/orders"),
        ("files", {"path": "/lake", "format": "parquet"}, "file", "/lake/shop/orders"),
        ("s3", {"path": "s3a://archive/a", "flush.size": 10}, "s3://archive", "a/topics/shop.orders"),
        ("iceberg", {"warehouse": "s3://lake/w"}, "s3://lake", "w/shop/orders"),
        ("iceberg", {"catalog": "lake"}, "iceberg://lake", "shop.orders"),
        ("iceberg", {"catalog": "lake", "catalog.properties": {"type": "hadoop", "warehouse": "/w"}}, "file", "/w/shop/orders"),
        (
            "iceberg",
            {"catalog": "lake", "catalog.properties": {"type": "hive", "uri": "thrift://meta:9083,thrift://other:9083"}},
            "hive://meta:9083",
            "shop.orders",
        ),
        (
            "iceberg",
            {"catalog": "lake", "catalog.properties": {"type": "rest", "uri": "https://user:canary@rest.example.com/api"}},
            "https://rest.example.com",
            "shop.orders",
        ),
        (
            "iceberg",
            {"catalog": "lake", "catalog.properties": {"type": "glue", "client.region": "eu-west-1", "glue.id": "123456789012"}},
            "arn:aws:glue:eu-west-1:123456789012",
            "table/shop/orders",
        ),
        ("kafka", {"bootstrap.servers": BROKERS, "topic": "masked.{name}"}, "kafka://broker-1:9092", "masked.shop.orders"),
        ("kinesis", {"stream": "masked.{name}", "region": "eu-west-1"}, "kinesis://eu-west-1", "masked.shop.orders"),
        (
            "kinesis",
            {"stream": "arn:aws:kinesis:eu-west-1:123456789012:stream/masked"},
            "kinesis://eu-west-1",
            "masked",
        ),
    ],
)  # fmt: skip
def test_place_of_a_table(name: str, options: dict[str, Any], namespace: str, place: str) -> None:
    sink: Sink = get_plugin("sink", name)(options)
    assert sink.locate(ORDERS) == Dataset(namespace, place)


@pytest.mark.parametrize(
    ("name", "options", "namespace", "place"),
    [
        ("kafka", {"bootstrap.servers": BROKERS, "subscribe": "db.orders"}, "kafka://broker-1:9092", "db.orders"),
        ("kinesis", {"stream": "db.orders", "region": "eu-west-1"}, "kinesis://eu-west-1", "db.orders"),
        ("files", {"path": "s3a://landing/topics/", "format": "avro"}, "s3://landing", "topics/db.orders"),
        ("files", {"path": "s3a://landing/topics/db.orders", "format": "avro"}, "s3://landing", "topics/db.orders"),
    ],
)
def test_place_of_a_topic(name: str, options: dict[str, Any], namespace: str, place: str) -> None:
    source: Source = get_plugin("source", name)(options)
    assert source.locate("db.orders") == Dataset(namespace, place)


def test_unknown_places() -> None:
    assert get_plugin("sink", "console")().locate(ORDERS) is None
    assert get_plugin("source", "kinesis")(stream="db.orders").locate("db.orders") is None
    jdbc = get_plugin("source", "jdbc")({"connection.url": "jdbc:postgresql://db/shop", "mode": "bulk"})
    assert jdbc.locate("db.orders") is None  # Its tables are not searched yet.


@pytest.mark.parametrize(
    ("url", "table", "namespace", "place"),
    [
        ("jdbc:postgresql://db:5433/shop?ssl=true", "public.orders", "postgres://db:5433", "shop.public.orders"),
        ("jdbc:postgresql://db/shop", "public.orders", "postgres://db:5432", "shop.public.orders"),
        ("jdbc:postgresql://[::1]:5432/shop", "public.orders", "postgres://[::1]:5432", "shop.public.orders"),
        ("jdbc:postgresql://a:1,b:2/shop", "public.orders", "postgres://a:1", "shop.public.orders"),
        ("jdbc:mariadb://db/shop", "shop.orders", "mysql://db:3306", "shop.orders"),
        ("jdbc:mysql://db:3307/shop", "other.orders", "mysql://db:3307", "other.orders"),
        ("jdbc:mysql://db:3307/shop", "query", "mysql://db:3307", "shop.query"),
    ],
)
def test_place_of_a_database_table(url: str, table: str, namespace: str, place: str) -> None:
    config = JdbcConfig.model_validate({"connection.url": url, "mode": "bulk"})
    assert JdbcDatabase(config).locate(table) == Dataset(namespace, place)
