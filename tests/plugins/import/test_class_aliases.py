"""Short names of classes in configurations of Kafka Connect."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from headrace import ConfigError
from headrace_import.connect.class_aliases import expand_aliases

CONNECT = "org.apache.kafka.connect."
REGISTRY = "value.converter.schema.registry.url"


@pytest.mark.parametrize(
    ("key", "alias", "name", "others"),
    [
        ("connector.class", "PostgresConnector", "io.debezium.connector.postgresql.PostgresConnector", []),
        ("connector.class", "MySql", "io.debezium.connector.mysql.MySqlConnector", []),
        ("connector.class", "S3Sink", "io.confluent.connect.s3.S3SinkConnector", ["s3.bucket.name"]),
        (
            "connector.class",
            "S3Sink",
            "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
            ["connect.s3.kcql"],
        ),
        ("connector.class", "IcebergSink", "IcebergSink", []),
        ("connector.class", "Mongo", "Mongo", []),
        ("value.converter", "Json", f"{CONNECT}json.JsonConverter", []),
        ("key.converter", "StringConverter", f"{CONNECT}storage.StringConverter", []),
        ("value.converter", "Avro", "io.confluent.connect.avro.AvroConverter", [REGISTRY]),
        ("transforms.a.type", "Cast$Value", f"{CONNECT}transforms.Cast$Value", []),
        ("transforms.a.type", "ExtractNewRecordState", "io.debezium.transforms.ExtractNewRecordState", []),
        ("transforms.a.type", "EventRouter", "io.debezium.transforms.outbox.EventRouter", []),
        ("transforms.a.type", "Filter", f"{CONNECT}transforms.Filter", ["transforms.a.predicate"]),
        ("transforms.a.type", "Filter", "io.debezium.transforms.Filter", ["transforms.a.condition"]),
        ("transforms.a.type", "com.acme.Cast", "com.acme.Cast", []),
        ("predicates.a.type", "TopicNameMatches", f"{CONNECT}transforms.predicates.TopicNameMatches", []),
    ],
)
def test_short_name_gives_the_class(key: str, alias: str, name: str, others: list[str]) -> None:
    assert expand_aliases({key: alias, **dict.fromkeys(others, "x")})[key] == name


def test_connector_with_short_names(importer: Any) -> None:
    config = {
        "connector.class": "Postgres",
        "topic.prefix": "shop",
        "table.include.list": "public.a",
        "value.converter": "JsonConverter",
        "transforms": "u",
        "transforms.u.type": "ExtractNewRecordState",
        "transforms.u.add.fields": "op",
    }
    pipeline = yaml.safe_load(importer.run(importer.write("a.json", config)).pipeline)
    assert (pipeline["source"]["value"], pipeline["transforms"]) == ("json", [{"unwrap": {"add.fields": "op"}}])


def test_short_name_of_several_connectors_is_an_error(importer: Any) -> None:
    file = importer.write("a.json", {"connector.class": "IcebergSinkConnector", "topics": "a"})
    with pytest.raises(ConfigError, match="several classes have this short name") as error:
        importer.run(file)
    assert "io.tabular" in str(error.value)
