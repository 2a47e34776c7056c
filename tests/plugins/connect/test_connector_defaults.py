"""Defaults of a connector from its class, its name and the formats of the pipeline."""

from __future__ import annotations

from typing import Any

import pytest

from headrace_connect.captured_tables import list_topics
from headrace_connect.connector_defaults import complete_options
from headrace_connect.connector_diff import describe_differences, find_references
from headrace_connect.connector_secrets import ConnectorSecrets
from headrace_connect.record_converters import list_converter_options
from headrace_connect.source_block import find_unread_topics

JSON = "org.apache.kafka.connect.json.JsonConverter"
JSON_OPTIONS = {"": JSON, ".schemas.enable": "true", ".replace.null.with.default": "false"}
AVRO = "io.confluent.connect.avro.AvroConverter"
APICURIO = "io.apicurio.registry.utils.converter.AvroConverter"
GLUE = "com.amazonaws.services.schemaregistry.kafkaconnect.AWSKafkaAvroConverter"
COMMON = {"tasks.max": "1", "heartbeat.interval.ms": "10000", "skipped.operations": "none"}
HISTORY = {
    "schema.history.internal.kafka.topic": "schema-history.Web-Shop",
    "schema.history.internal.kafka.bootstrap.servers": "a:9092,b:9092",
}


def complete(kind: str, options: dict[str, str | None], pipeline: dict[str, Any] | None = None) -> dict[str, str]:
    source = {"kafka": {"bootstrap.servers": ["a:9092", "b:9092"]}}
    named = {"connector.class": f"io.debezium.connector.{kind}"}
    completed = complete_options({**named, **options}, "Web-Shop", pipeline or {"source": source})
    return {key: value for key, value in completed.items() if key not in {**named, **options}}


def test_postgresql() -> None:
    assert complete("postgresql.PostgresConnector", {}) == {
        **COMMON,
        "topic.prefix": "Web-Shop",
        "plugin.name": "pgoutput",
        "slot.name": "web_shop",
        "publication.name": "web_shop",
        "publication.autocreate.mode": "filtered",
        "signal.data.collection": "debezium.signals",
    }


@pytest.mark.parametrize("kind", ["mysql.MySqlConnector", "mariadb.MariaDbConnector"])
def test_mysql_and_mariadb(kind: str) -> None:
    added = complete(kind, {"database.include.list": "shop"})
    server_id = added.pop("database.server.id")
    signals = {"signal.data.collection": "shop.signals"}
    assert added == {**COMMON, **HISTORY, **signals, "topic.prefix": "Web-Shop"}
    # The same in each deployment, another one for another prefix, and no low number, which a server has.
    assert complete(kind, {})["database.server.id"] == server_id
    assert complete(kind, {"topic.prefix": "other"})["database.server.id"] != server_id
    assert 100_000 <= int(server_id) < 2**32
    # Without one database, a signal table has no place.
    assert "signal.data.collection" not in complete(kind, {"database.include.list": "shop,museum"})


def test_sqlserver() -> None:
    signals = {"signal.data.collection": "shop.dbo.signals"}
    added = complete("sqlserver.SqlServerConnector", {"database.names": "shop"})
    assert added == {**COMMON, **HISTORY, **signals, "topic.prefix": "Web-Shop"}


@pytest.mark.parametrize("alias", ["PostgresConnector", "Postgres"])
def test_alias_of_a_class_has_its_defaults(alias: str) -> None:
    completed = complete_options({"connector.class": alias}, "shop", {})
    assert (completed["connector.class"], completed["slot.name"], completed["topic.prefix"]) == (alias, "shop", "shop")


def test_other_connector_has_only_converters() -> None:
    added = complete("jdbc.JdbcSinkConnector", {}, {"source": {"kafka": {}, "value": "json"}})
    assert added == {f"{part}.converter{key}": text for part in ("key", "value") for key, text in JSON_OPTIONS.items()}


def test_own_options_replace_defaults_and_empty_ones_remove_them() -> None:
    own = {"slot.name": "debezium", "publication.name": None, "value.converter": "com.acme.Converter"}
    completed = complete_options(
        {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", **own},
        "shop",
        {"source": {"kafka": {}, "value": "json"}},
    )
    assert completed["slot.name"] == "debezium"
    assert "publication.name" not in completed
    assert {key: value for key, value in completed.items() if "converter" in key} == {
        **{f"key.converter{key}": text for key, text in JSON_OPTIONS.items()},
        "value.converter": "com.acme.Converter",
    }


def test_placeholder_of_the_dialect() -> None:
    pipeline = {"dialects": {"debezium": {"unavailable.value.placeholder": "absent"}}}
    added = complete("postgresql.PostgresConnector", {}, pipeline)
    assert added["unavailable.value.placeholder"] == "absent"


@pytest.mark.parametrize(
    ("value", "converter"),
    [
        ("json", JSON_OPTIONS),
        ({"json": None}, JSON_OPTIONS),
        ({"avro": {"registry": "http://registry:8081/"}}, {"": AVRO, ".schema.registry.url": "http://registry:8081"}),
        (
            {"avro": {"registry": "http://registry:8081", "basic.auth.user.info": "${env:LOGIN}"}},
            {
                "": AVRO,
                ".schema.registry.url": "http://registry:8081",
                ".basic.auth.credentials.source": "USER_INFO",
                ".basic.auth.user.info": "${env:LOGIN}",
            },
        ),
        (
            {"avro": {"registry": "http://registry:8080/apis/registry/v2"}},
            {
                "": APICURIO,
                ".apicurio.registry.url": "http://registry:8080/apis/registry/v2",
                ".apicurio.registry.auto-register": "true",
                ".apicurio.registry.find-latest": "true",
                ".apicurio.registry.headers.enabled": "false",
                ".apicurio.registry.use-id": "globalId",
            },
        ),
        (
            {"avro": {"registry": "glue", "region": "eu-west-1"}},
            {
                "": GLUE,
                ".schemaAutoRegistrationEnabled": "true",
                ".avroRecordType": "GENERIC_RECORD",
                ".region": "eu-west-1",
            },
        ),
        ({"acme": {}}, {}),
    ],
)
def test_converters(value: Any, converter: dict[str, str]) -> None:
    expected = {f"{part}.converter{key}": text for part in ("key", "value") for key, text in converter.items()}
    for key in ({}, {"key": "none"}):
        assert list_converter_options({"source": {"kafka": {}, "value": value, **key}}) == expected


def test_formats_of_key_and_value_differ() -> None:
    source = {"kafka": {}, "key": "json", "value": {"avro": {"registry": "http://registry"}}}
    options = list_converter_options({"source": source})
    assert (options["key.converter"], options["value.converter"]) == (JSON, AVRO)


def test_topics_of_tables() -> None:
    tables = {"topic.prefix": "shop", "table.include.list": r"public.orders, public\.über orders"}
    assert list_topics(tables) == []
    tables["table.include.list"] = r"public.orders,public\.order$items"
    assert list_topics(tables) == ["shop.public.orders", "shop.public.order_items"]
    assert list_topics({**tables, "database.names": "a,b"})[-1] == "shop.b.public.order_items"
    assert list_topics({**tables, "table.include.list": "public.o.*"}) == []
    assert list_topics({**tables, "transforms": "route"}) == []


@pytest.mark.parametrize(
    ("kafka", "unread"),
    [
        ({"subscribe": "shop.public.orders"}, ["shop.public.items"]),
        ({"subscribe": ["shop.public.orders", "shop.public.items"]}, []),
        ({"subscribe": "${env:TOPICS}"}, []),
        ({"subscribePattern": "shop[.]public[.].*"}, []),
        ({"subscribePattern": "shop[.]public[.]o.*"}, ["shop.public.items"]),
        ({"subscribePattern": r"shop\p{Punct}.*"}, []),
        ({"assign": {"other": [0]}}, []),
        ({"subscribe": "shop.public.ORDERS,shop.Public.items"}, []),
        ({"subscribePattern": "shop[.]PUBLIC[.].*"}, []),
    ],
)
def test_unread_topics(kafka: dict[str, Any], unread: list[str]) -> None:
    topics = ["shop.public.orders", "shop.public.items"]
    assert find_unread_topics({"source": {"kafka": kafka}}, topics) == unread


def test_secrets_of_options() -> None:
    """A login with a reference inside is not plain text, and is hidden: the rest of it may be a secret."""
    jaas = 'ScramLoginModule required username="a" password="${file:/etc/db.properties:password}";'
    options = {"database.password": "hunter2", "sasl.jaas.config": jaas, "key.converter.x.token": "${env:TOKEN}"}
    secrets = ConnectorSecrets(options)
    assert secrets.find_plain() == {"database.password": ["hunter2"]}
    assert find_references(options) == ["env", "file"]
    assert describe_differences({}, options, secrets) == [
        "+ database.password: ******",
        "+ key.converter.x.token: ${env:TOKEN}",
        "+ sasl.jaas.config: ******",
    ]
