"""Options that several sources of one pipeline must share."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import ConfigError

SOURCE = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "topic.prefix": "p",
    "table.include.list": "public.a",
}
PLACEHOLDER = {"unavailable.value.placeholder": "x"}
DEFAULT = {"unavailable.value.placeholder": "__debezium_unavailable_value"}
JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
AVRO = {
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    "value.converter.schema.registry.url": "http://r",
}
OTHER_REGISTRY = AVRO | {"value.converter.schema.registry.url": "http://s"}
ICEBERG = {
    "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
    "topics": "p.public.a,q.public.a",
    "iceberg.catalog.type": "rest",
    "iceberg.catalog.uri": "http://c",
}


@pytest.mark.parametrize(
    ("first", "second", "option"),
    [
        (PLACEHOLDER, {}, "unavailable.value.placeholder"),
        ({}, PLACEHOLDER, "unavailable.value.placeholder"),
        (JSON, AVRO, "value.converter"),
        (AVRO, OTHER_REGISTRY, "value.converter"),
        ({"key.converter": JSON["value.converter"]}, {"key.converter": AVRO["value.converter"]}, "key.converter"),
    ],
)
def test_sources_with_different_values_are_no_pipeline(
    first: dict[str, str], second: dict[str, str], option: str, importer: Any
) -> None:
    with pytest.raises(ConfigError, match=f"different .* of `{option}`"):
        importer.load(SOURCE | first, SOURCE | {"topic.prefix": "q"} | second)


def test_converter_of_a_worker_is_that_of_its_sources(importer: Any) -> None:
    worker = JSON | {"bootstrap.servers": "b:9092", "group.id": "g"}
    with pytest.raises(ConfigError, match="options of `value"):
        importer.run(
            importer.write("a.json", SOURCE),
            importer.write("b.json", SOURCE | {"topic.prefix": "q"} | AVRO),
            importer.write_properties(worker),
        )


@pytest.mark.parametrize(("first", "second"), [(PLACEHOLDER, PLACEHOLDER), (DEFAULT, {}), (JSON, {}), (AVRO, AVRO)])
def test_sources_with_the_same_values_are_one_pipeline(
    first: dict[str, str], second: dict[str, str], importer: Any
) -> None:
    pipeline = importer.load(SOURCE | first, SOURCE | {"topic.prefix": "q"} | second)
    assert pipeline["source"]["kafka"]["subscribe"] == ["p.public.a", "q.public.a"]
    placeholder = {key: value for key, value in first.items() if "placeholder" in key}
    assert pipeline.get("dialects", {}).get("debezium", {}) == placeholder


def test_converter_of_the_sink_names_the_format(importer: Any) -> None:
    pipeline = importer.load(SOURCE | JSON, SOURCE | {"topic.prefix": "q"} | AVRO, ICEBERG | JSON)
    assert pipeline["source"]["value"] == "json"


def test_workers_have_the_same_brokers(importer: Any) -> None:
    paths = [importer.write("a.json", SOURCE | JSON)]
    for name, brokers in {"b": "b:9092,c:9092", "c": "c:9092, b:9092", "d": "d:9092"}.items():
        paths.append(importer.folder / f"{name}.properties")
        paths[-1].write_text(f"bootstrap.servers={brokers}\n", encoding="utf-8")
    importer.run(*paths[:3])
    importer.run(*paths, bootstrap_servers="b:9092")
    with pytest.raises(ConfigError, match=r"different values of `bootstrap[.]servers`"):
        importer.run(*paths)


@pytest.mark.parametrize(
    ("tables", "partitions"),
    [("db.a", {"db.a": []}), ("db.a,db.b", {"db.a": [], "*": ["region"]})],
)
def test_partitions_of_other_tables_are_not_those_of_a_table(tables: str, partitions: Any, importer: Any) -> None:
    options = {
        "topics": "p.public.a",
        "iceberg.tables": tables,
        "iceberg.table.db.a.partition-by": "days(ts),truncate(name,4)",
        "iceberg.tables.default-partition-by": "region",
    }
    sink = importer.load(SOURCE | JSON, ICEBERG | options)["sink"]["iceberg"]
    assert sink.get("partition.by") == partitions
