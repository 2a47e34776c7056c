"""References in place of lists of tables and topics."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from headrace_import.import_report import Kind

JSON = "org.apache.kafka.connect.json.JsonConverter"
POSTGRES = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "topic.prefix": "shop",
    "key.converter": JSON,
    "value.converter": JSON,
}
JDBC = {
    "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
    "connection.url": "jdbc:postgresql://db/shop",
    "mode": "bulk",
    "topic.prefix": "p-",
    "value.converter": JSON,
}
ICEBERG = {"connector.class": "io.tabular.iceberg.connect.IcebergSinkConnector", "value.converter": JSON}


@pytest.mark.parametrize(
    ("option", "value", "variable"),
    [
        ("table.include.list", "${env:TABLES}", "TABLES"),
        ("table.include.list", "${vault:kv/app:tables}", "TABLE_INCLUDE_LIST"),
        ("table.exclude.list", "${env:TABLES}", "TABLES"),
        ("schema.include.list", "${vault:kv/app:schemas}", "SCHEMA_INCLUDE_LIST"),
    ],
)
def test_list_of_tables_is_to_do(option: str, value: str, variable: str, importer: Any, find_keys: Any) -> None:
    result = importer.run(importer.write("a.json", {**POSTGRES, option: value}))
    assert f"(?i:${{env:{variable}}})" in yaml.safe_load(result.pipeline)["source"]["kafka"]["subscribePattern"]
    assert option in find_keys(result, Kind.TO_DO)
    report = " ".join(str(result.report).split())
    assert "separate its names with `|`" in report
    assert ("headrace has no config provider vault" in report) is ("vault" in value)


@pytest.mark.parametrize(("value", "topic"), [("${env:T}", "${env:T}"), ("${vault:a:t}", "${env:TOPICS}")])
def test_topics_may_be_a_reference(value: str, topic: str, importer: Any, find_keys: Any) -> None:
    config = {**ICEBERG, "topics": value, "iceberg.tables": "${vault:a:b}"}
    result = importer.run(importer.write("a.json", config))
    pipeline = yaml.safe_load(result.pipeline)
    assert pipeline["source"]["kafka"]["subscribe"] == [topic]
    assert pipeline["tables"][0]["target"] == "${env:ICEBERG_TABLES}"
    assert find_keys(result, Kind.TO_DO) == {"iceberg.tables"} | ({"topics"} if "vault" in value else set())


def test_tables_of_a_database_may_be_a_reference(
    importer: Any, find_keys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = importer.write("a.json", {**JDBC, "table.whitelist": "${env:TABLES}"})
    assert yaml.safe_load(importer.run(file).pipeline)["source"]["jdbc"]["table.whitelist"] == "${env:TABLES}"
    monkeypatch.setenv("TABLES", "a,b")
    importer.check(importer.run(file))
    result = importer.run(file, keep_transforms=True)
    assert yaml.safe_load(result.pipeline)["source"]["kafka"]["subscribePattern"] == "p-.+"
    assert "table.whitelist" in find_keys(result, Kind.TO_DO)
