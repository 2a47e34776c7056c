"""JDBC source connectors as source ``jdbc``."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.support.pipelines import rows

from headrace import Pipeline
from headrace.sdk import ConfigError
from headrace_import.connect.jdbc_source import CLASSES
from headrace_import.import_report import Kind
from headrace_stack import Postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JDBC = {
    "connector.class": CLASSES[0],
    "connection.url": "jdbc:postgresql://db/shop",
    "connection.user": "headrace",
    "connection.password": "${env:CONNECTION_PASSWORD}",
    "topic.prefix": "shop.",
    "mode": "timestamp",
    "timestamp.column.name": "updated_at",
}
ICEBERG = {
    "connector.class": "io.tabular.iceberg.connect.IcebergSinkConnector",
    "topics": "shop.orders",
    "iceberg.catalog.type": "rest",
    "iceberg.catalog.uri": "http://localhost:8181",
    "iceberg.tables.upsert-mode-enabled": "true",
}
UNWRAPPED = {k: v for k, v in JDBC.items() if k not in ("connector.class", "connection.password")}


@pytest.mark.parametrize("kind", CLASSES)
def test_pipeline_reads_the_database(kind: str, importer: Any) -> None:
    pipeline = importer.load(JDBC | {"connector.class": kind, "table.whitelist": "orders,public.items"})
    assert pipeline["source"] == {
        "jdbc": {
            **UNWRAPPED,
            "connection.password": "${env:CONNECTION_PASSWORD}",
            "table.whitelist": ["orders", "public.items"],
        }
    }
    assert "transforms" not in pipeline


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"mode": "bulk", "poll.interval.ms": "60000"}, {"mode": "bulk", "poll.interval.ms": 60000}),
        ({"mode": "incrementing", "incrementing.column.name": "id"}, {"incrementing.column.name": "id"}),
        (
            {"mode": "timestamp+incrementing", "timestamp.column.name": "a, b", "incrementing.column.name": "id"},
            {"timestamp.column.name": ["a", "b"], "incrementing.column.name": "id"},
        ),
        ({"table.types": "TABLE,VIEW", "db.timezone": "Europe/Zurich"}, {"db.timezone": "Europe/Zurich"}),
        ({"table.blacklist": "x,public.y"}, {"table.exclude.list": [".*[.]x", "public[.]y"]}),
        ({"table.include.list": "public[.]o.*"}, {"table.include.list": ["public[.]o.*"]}),
        ({"table.whitelist": '"shop"."public"."orders"'}, {"table.whitelist": ["public.orders"]}),
        ({"schema.pattern": "1", "table.types": "true"}, {"schema.pattern": "1", "table.types": "true"}),
        ({"numeric.precision.mapping": "true"}, {"numeric.mapping": "precision_only"}),
        ({"connection.url": "jdbc:mysql://db", "catalog.pattern": "shop"}, {"catalog.pattern": "shop"}),
    ],
)
def test_options(given: dict[str, str], expected: dict[str, Any], importer: Any) -> None:
    jdbc = importer.load(JDBC | given)["source"]["jdbc"]
    assert {name: jdbc.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("url", "address", "user"),
    [
        (
            "jdbc:postgresql://db/shop?user=reader&ssl=true&password=R4w!",
            "jdbc:postgresql://db/shop?ssl=true",
            "reader",
        ),
        ("jdbc:postgresql://db/shop?user=a%40b+c&password=R4w!", "jdbc:postgresql://db/shop", "a@b c"),
        ("jdbc:mysql://db/shop?user=a%40b+c&password=R4w!", "jdbc:mysql://db/shop", "a@b+c"),
        ("jdbc:mariadb://db/shop?user=a%40b+c&password=R4w!", "jdbc:mariadb://db/shop", "a%40b+c"),
        ("jdbc:mysql://reader%401:R4w!@db:3306/shop", "jdbc:mysql://db:3306/shop", "reader@1"),
        ("jdbc:mariadb://${env:CONNECTION_PASSWORD}:R4w!@db", "jdbc:mariadb://db", "${env:CONNECTION_PASSWORD}"),
    ],
)
def test_login_of_the_address_is_not_copied(url: str, address: str, user: str, importer: Any) -> None:
    config = {k: v for k, v in JDBC.items() if k not in ("connection.user", "connection.password")}
    result = importer.run(importer.write("jdbc.json", config | {"connection.url": url}))
    importer.check(result)
    assert "R4w!" not in result.pipeline + str(result.report)
    jdbc = yaml.safe_load(result.pipeline)["source"]["jdbc"]
    assert jdbc["connection.url"] == address
    assert (jdbc["connection.user"], jdbc["connection.password"]) == (user, "${env:CONNECTION_PASSWORD}")
    assert "set the environment variable CONNECTION_PASSWORD" in str(result.report)


def test_options_with_another_effect_are_reported(importer: Any, find_keys: Any) -> None:
    others = {
        "timestamp.initial": "-1",
        "query.suffix": "LIMIT 1",
        "transaction.isolation.mode": "SERIALIZABLE",
        "connection.loginTimeout": "10",
        "numeric.mapping": "best_fit_eager_double",
    }
    without_meaning = {"batch.max.rows": "100", "dialect.name": "PostgreSqlDatabaseDialect", "value.converter": "X"}
    worker = importer.folder / "worker.properties"
    worker.write_text("bootstrap.servers=broker:9092\nvalue.converter=Y\nsasl.mechanism=PLAIN\n", encoding="utf-8")
    result = importer.run(importer.write("jdbc.json", JDBC | others | without_meaning), worker)
    importer.check(result)
    assert find_keys(result, Kind.NOT_IMPORTED) == set(others)
    expected = {*without_meaning, "bootstrap.servers", "sasl.mechanism"}
    assert find_keys(result, Kind.NO_MEANING) == expected
    assert not find_keys(result, Kind.UNKNOWN)


@pytest.mark.parametrize(
    ("tables", "chosen"), [({}, ["orders"]), ({"table.whitelist": "public.orders,public.items"}, ["public.orders"])]
)
def test_topics_of_the_sink_select_the_tables(tables: dict[str, str], chosen: list[str], importer: Any) -> None:
    jdbc = importer.load(JDBC | tables, ICEBERG)["source"]["jdbc"]
    assert jdbc["table.whitelist"] == chosen


def test_sink_that_appends_gets_each_row_once(importer: Any) -> None:
    sink = {key: value for key, value in ICEBERG.items() if "upsert" not in key}
    assert importer.load(JDBC, sink)["source"]["jdbc"]["timestamp.window.interval.ms"] == 0


def test_query_without_a_key_is_to_check(importer: Any, find_keys: Any) -> None:
    config = JDBC | {"query": "SELECT * FROM orders", "topic.prefix": "shop.q"}
    result = importer.run(importer.write("jdbc.json", config))
    importer.check(result)
    assert "query" in find_keys(result, Kind.TO_DO)
    key = {"transforms": "k", "transforms.k.type": "org.apache.kafka.connect.transforms.ValueToKey"}
    pipeline = importer.load(config | key | {"transforms.k.fields": "id"})
    assert pipeline["tables"] == [{"source": "*", "key": ["id"]}]


def test_rows_have_no_partitions(importer: Any) -> None:
    insert = {
        "transforms": "a,b",
        "transforms.a.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.a.partition.field": "p",
        "transforms.a.topic.field": "t",
        "transforms.b.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.b.offset.field": "o",
    }
    result = importer.run(importer.write("jdbc.json", JDBC | insert))
    importer.check(result)
    assert yaml.safe_load(result.pipeline)["transforms"] == [{"insert": {"topic.field": "t"}}]
    assert "rows of a database have no partition" in str(result.report)
    assert "rows of a database have no offset" in str(result.report)


@pytest.mark.parametrize(
    ("source", "sink", "options"),
    [
        (JDBC | {"connection.url": "jdbc:sqlserver://db"}, None, {}),
        (JDBC, None, {"keep_transforms": True}),
        (
            JDBC,
            {
                "connector.class": "io.confluent.connect.s3.S3SinkConnector",
                "topics": "shop.orders",
                "s3.bucket.name": "bronze",
                "flush.size": "10",
            },
            {},
        ),
    ],
    ids=["another database", "keep transforms", "offsets in names of objects"],
)
def test_topics_of_the_connector_are_read(
    source: dict[str, str], sink: dict[str, str] | None, options: dict[str, Any], importer: Any
) -> None:
    configs = [source | {"table.whitelist": "orders"}, *([sink] if sink else [])]
    pipeline = importer.load(*configs, **options)
    assert pipeline["source"]["kafka"]["subscribe"] == ["shop.orders"]


def test_connector_without_a_mode_is_an_error(importer: Any) -> None:
    config = {key: value for key, value in JDBC.items() if key != "mode"}
    with pytest.raises(ConfigError, match="the connector has no mode"):
        importer.run(importer.write("jdbc.json", config))


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.dist
def test_imported_pipeline_reads_the_tables(
    tmp_path: Path, spark: SparkSession, postgres: Postgres, importer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = f"s{uuid.uuid4().hex[:8]}"
    postgres.execute(
        f"create schema {schema};"
        f"create table {schema}.orders (id int, name text, updated_at timestamptz not null default now() - interval '1 h');"
        f"create table {schema}.items (id int, name text, updated_at timestamptz not null default now() - interval '1 h');"
        f"insert into {schema}.orders values (1, 'one'), (2, 'two'); insert into {schema}.items values (7, 'seven')"
    )
    monkeypatch.setenv("CONNECTION_PASSWORD", postgres.password)
    config = JDBC | {
        "connection.url": f"jdbc:postgresql://{postgres.host}:{postgres.port}/{postgres.database}",
        "connection.user": postgres.user,
        "connection.password": postgres.password,
        "schema.pattern": schema,
        "table.blacklist": "items",
        "topic.prefix": "raw_",
        "transforms": "key,names,route",
        "transforms.key.type": "org.apache.kafka.connect.transforms.ValueToKey",
        "transforms.key.fields": "id",
        "transforms.names.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
        "transforms.names.renames": "name:title",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": "raw_(.*)",
        "transforms.route.replacement": "shop.$1",
    }
    result = importer.run(importer.write("jdbc.json", config))
    assert postgres.password not in result.pipeline
    document = yaml.safe_load(result.pipeline) | {"checkpoint": str(tmp_path / "checkpoint")}
    document["sink"] = {"iceberg": {"warehouse": str(tmp_path / "lake")}}
    (tmp_path / "jdbc.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    pipeline = Pipeline.from_file(tmp_path / "jdbc.yaml")
    pipeline.check(spark)
    pipeline.run(spark)
    postgres.execute(f"update {schema}.orders set name = 'new', updated_at = now() where id = 2")
    pipeline.run(spark)
    found = [(row["id"], row["title"]) for row in rows(pipeline, spark, "shop.orders", "id")]
    assert found == [(1, "one"), (2, "new")]
    assert not (tmp_path / "lake/shop/items").exists()
