"""Strategies by which Debezium's source connectors name topics."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from headrace_import.import_report import Kind

SOURCE = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "topic.prefix": "p",
    "table.include.list": "public.a_1,public.a_2,public.b",
    "topic.naming.strategy": "io.debezium.schema.SchemaRegexTopicNamingStrategy",
    "topic.regex": r"(.*)[.]a_\d+",
    "topic.replacement": "$1.a",
}
STRATEGY = ("topic.naming.strategy", "topic.regex", "topic.replacement")


def test_names_of_a_regular_expression(importer: Any, find_keys: Any) -> None:
    result = importer.run(importer.write("0.json", SOURCE | {"topic.key.enforce.uniqueness": "true"}))
    importer.check(result)
    assert yaml.safe_load(result.pipeline)["source"]["kafka"]["subscribe"] == ["p.public.a", "p.public.b"]
    assert not find_keys(result, Kind.TO_DO) & {*STRATEGY, "topic.key.enforce.uniqueness"}
    assert not find_keys(result, Kind.UNKNOWN)


@pytest.mark.parametrize(
    "changed",
    [
        {"topic.naming.strategy": "com.acme.MyStrategy"},
        {"topic.naming.strategy": "io.debezium.schema.DefaultRegexTopicNamingStrategy"},
        {"topic.naming.strategy": "io.debezium.schema.DefaultTopicNamingStrategy"},
        {"topic.replacement": "$7"},
        {"topic.regex": "(?U)x"},
        {"table.include.list": "public.*"},
    ],
)
def test_unknown_names_are_reported(changed: dict[str, str], importer: Any, find_keys: Any) -> None:
    result = importer.run(importer.write("0.json", SOURCE | changed))
    importer.check(result)
    assert find_keys(result, Kind.TO_DO) >= set(STRATEGY)


@pytest.mark.parametrize(
    ("connector", "strategy"),
    [("postgresql.Postgres", "Schema"), ("sqlserver.SqlServer", "Schema"), ("mysql.MySql", "Default")],
)
def test_names_of_the_default_strategy(connector: str, strategy: str, importer: Any, find_keys: Any) -> None:
    config = {
        "connector.class": f"io.debezium.connector.{connector}Connector",
        "topic.prefix": "p",
        "topic.naming.strategy": f"io.debezium.schema.{strategy}TopicNamingStrategy",
    }
    result = importer.run(importer.write("0.json", config))
    assert "topic.naming.strategy" in find_keys(result, Kind.NO_MEANING)


@pytest.mark.parametrize("changed", [{"topic.key.enforce.uniqueness": "false"}, {"topic.key.field.name": "__table"}])
def test_tables_of_one_topic_need_a_mark(changed: dict[str, str], importer: Any, find_keys: Any) -> None:
    result = importer.run(importer.write("0.json", SOURCE | changed))
    assert find_keys(result, Kind.TO_DO) >= set(changed)
    assert "`logical.table: true`" in str(result.report)
    alone = importer.run(importer.write("0.json", SOURCE | changed | {"table.include.list": "public.a_1"}))
    assert not find_keys(alone, Kind.TO_DO) & set(changed)


def test_tables_of_debezium_server_are_to_name(importer: Any, find_keys: Any) -> None:
    options = {f"debezium.source.{key}": value for key, value in SOURCE.items()}
    sink = {"debezium.sink.type": "iceberg", "debezium.sink.iceberg.type": "hadoop"}
    result = importer.run(importer.write_properties(options | sink | {"debezium.sink.iceberg.warehouse": "s3a://lake"}))
    assert "debezium.source.topic.naming.strategy" in find_keys(result, Kind.TO_DO)
    assert "tables" not in yaml.safe_load(result.pipeline)
