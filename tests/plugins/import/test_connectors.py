"""Options of connectors as options of a pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace_import.import_report import Kind

POSTGRES = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "topic.prefix": "shop"}
MYSQL = {"connector.class": "io.debezium.connector.mysql.MySqlConnector", "topic.prefix": "shop"}
MARIADB = {"connector.class": "io.debezium.connector.mariadb.MariaDbConnector", "topic.prefix": "shop"}
SQLSERVER = {"connector.class": "io.debezium.connector.sqlserver.SqlServerConnector", "topic.prefix": "shop"}
S3 = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "topics": "shop.public.orders",
    "s3.bucket.name": "bronze",
    "flush.size": "10",
}
ICEBERG = {
    "connector.class": "io.tabular.iceberg.connect.IcebergSinkConnector",
    "topics": "shop.public.orders",
    "iceberg.catalog.type": "rest",
    "iceberg.catalog.uri": "http://localhost:8181",
}


@pytest.mark.parametrize(
    ("config", "topics"),
    [
        (POSTGRES | {"table.include.list": "public.a, public\\.b"}, ["shop.public.a", "shop.public.b"]),
        (POSTGRES | {"table.include.list": "public.a.*,public.b"}, "shop[.](?i:public.a.*|public.b)"),
        (POSTGRES, "shop[.][^.]+[.].+"),
        (POSTGRES | {"schema.include.list": "public"}, "shop[.](?i:public)[.].+"),
        (POSTGRES | {"table.exclude.list": "public.x"}, "shop[.](?!(?i:public.x)$)[^.]+[.].+"),
        (POSTGRES | {"table.include.list": "^public\\.a$,public\\.b$"}, ["shop.public.a", "shop.public.b"]),
        (POSTGRES | {"table.include.list": "^public\\.a$,^public.b.*"}, "shop[.](?i:public\\.a|public.b.*)"),
        (POSTGRES | {"schema.include.list": "public", "table.include.list": "public.a"}, ["shop.public.a"]),
        (POSTGRES | {"schema.include.list": "pub.*", "table.include.list": "public.a,b.c"}, ["shop.public.a"]),
        (POSTGRES | {"schema.exclude.list": "B", "table.include.list": "public.a,b.c"}, ["shop.public.a"]),
        (POSTGRES | {"topic.delimiter": "-", "table.include.list": r"public\.a,x[.]b.*"}, r"shop-(?i:public-a|x-b.*)"),
        (
            POSTGRES | {"table.include.list": r"public\.a{1\,2},public.b\\,c"},
            r"shop[.](?i:public\.a{1,2}|public.b\\|c)",
        ),
        (POSTGRES | {"table.include.list": r"public.a\,b"}, ["shop.public.a_b"]),
        (POSTGRES | {"topic.delimiter": "_", "table.include.list": "public.a"}, ["shop_public_a"]),
        (MYSQL | {"table.include.list": "db.a"}, ["shop.db.a"]),
        (MARIADB | {"database.include.list": "db"}, "shop[.](?i:db)[.].+"),
        (
            SQLSERVER | {"database.names": "one,two", "table.include.list": "dbo.a"},
            ["shop.one.dbo.a", "shop.two.dbo.a"],
        ),
        (SQLSERVER | {"database.names": "one"}, "shop[.](?:one)[.][^.]+[.].+"),
    ],
)
def test_topics_of_debezium(config: dict[str, str], topics: Any, importer: Any) -> None:
    kafka = importer.load(config)["source"]["kafka"]
    assert kafka.get("subscribe", kafka.get("subscribePattern")) == topics


@pytest.mark.parametrize(("included", "is_reported"), [("PUBLIC.Orders", True), ("public.orders", False)])
def test_names_with_upper_case_are_reported(included: str, is_reported: bool, importer: Any, find_keys: Any) -> None:
    result = importer.run(importer.write("a.json", POSTGRES | {"table.include.list": included}))
    assert ("table.include.list" in find_keys(result, Kind.TO_DO)) is is_reported


def test_prefix_may_be_a_reference(importer: Any, tmp_path: Path) -> None:
    (tmp_path / "db.properties").write_text("prefix=shop", encoding="utf-8")
    prefix = f"${{file:{tmp_path}/db.properties:prefix}}"
    kafka = importer.load(POSTGRES | {"topic.prefix": prefix, "table.include.list": "public.a"})["source"]["kafka"]
    assert kafka["subscribe"] == [f"{prefix}.public.a"]


def test_source_alone_becomes_tables_of_rows(importer: Any) -> None:
    pipeline = importer.load({"name": "orders", "config": POSTGRES})
    assert (pipeline["name"], pipeline["checkpoint"]) == ("orders", "checkpoints/orders")
    assert pipeline["transforms"] == [{"unwrap": {}}]
    assert pipeline["sink"] == {"iceberg": {"warehouse": "warehouse/"}}


def test_placeholder_of_large_values_is_shared(importer: Any) -> None:
    pipeline = importer.load(POSTGRES | {"unavailable.value.placeholder": "__gone"})
    assert pipeline["dialects"]["debezium"] == {"unavailable.value.placeholder": "__gone"}


def test_brokers_come_from_the_schema_history(importer: Any) -> None:
    history = {
        "schema.history.internal.kafka.bootstrap.servers": "one:9092",
        "schema.history.internal.consumer.security.protocol": "SSL",
    }
    kafka = importer.load(MYSQL | history)["source"]["kafka"]
    assert (kafka["bootstrap.servers"], kafka["kafka.security.protocol"]) == ("one:9092", "SSL")


@pytest.mark.parametrize(
    ("converter", "expected"),
    [
        ({"": "org.apache.kafka.connect.json.JsonConverter", ".schemas.enable": "true"}, "json"),
        (
            {"": "io.confluent.connect.avro.AvroConverter", ".schema.registry.url": "http://r:8081,http://s:8081"},
            {"avro": {"registry": "http://r:8081"}},
        ),
        (
            {"": "io.confluent.connect.json.JsonSchemaConverter", ".schema.registry.url": "http://r:8081"},
            {"json": {"registry": "http://r:8081"}},
        ),
        (
            {
                "": "io.apicurio.registry.utils.converter.AvroConverter",
                ".apicurio.registry.url": "http://r:8080/apis/registry/v2",
                ".apicurio.registry.use-id": "contentId",
            },
            {"avro": {"registry": "http://r:8080/apis/registry/v2", "use-id": "contentId"}},
        ),
        (
            {"": "com.amazonaws.services.schemaregistry.kafkaconnect.AWSKafkaAvroConverter", ".region": "eu-west-1"},
            {"avro": {"registry": "glue", "region": "eu-west-1"}},
        ),
    ],
)
def test_converters(converter: dict[str, str], expected: Any, importer: Any) -> None:
    config = POSTGRES | {f"value.converter{key}": value for key, value in converter.items()}
    assert importer.load(config)["source"]["value"] == expected


def test_keys_that_are_text_are_not_read(importer: Any, find_keys: Any) -> None:
    result = importer.run(
        importer.write("a.json", POSTGRES | {"key.converter": "org.apache.kafka.connect.storage.StringConverter"})
    )
    importer.check(result)
    assert "key: none" in result.pipeline
    assert "key.converter" in find_keys(result, Kind.TO_DO)


def test_objects_keep_their_layout(importer: Any) -> None:
    sink = importer.load(
        S3
        | {
            "topics.dir": "raw",
            "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
            "parquet.codec": "gzip",
            "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
            "path.format": "'year'=YYYY/'month'=MM",
            "partition.duration.ms": "3600000",
            "timestamp.extractor": "Record",
            "store.kafka.keys": "true",
            "keys.format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        }
    )["sink"]
    assert sink == {
        "s3": {
            "path": "s3a://bronze",
            "topics.dir": "raw",
            "format": "parquet",
            "parquet.codec": "gzip",
            "flush.size": 10,
            "partitioner": "time-based",
            "path.format": "'year'=YYYY/'month'=MM",
            "partition.duration.ms": 3600000,
            "timestamp.extractor": "Record",
            "store.kafka.keys": True,
            "keys.format": "json",
        }
    }


@pytest.mark.parametrize(
    ("folder", "imported", "is_reported"),
    [
        ("raw/x", "raw/x", False),
        ("", "", False),
        ("raw//x", "raw/x", True),
        ("/raw/", "raw", True),
        ("a/_x", None, True),
        ("../x", None, True),
    ],
)
def test_folder_of_the_topics(
    folder: str, imported: str | None, is_reported: bool, importer: Any, find_keys: Any
) -> None:
    result = importer.run(importer.write("0.json", S3 | {"topics.dir": folder}))
    importer.check(result)
    assert yaml.safe_load(result.pipeline)["sink"]["s3"].get("topics.dir") == imported
    assert ("topics.dir" in find_keys(result, Kind.TO_DO)) == is_reported
    assert "topics.dir" not in find_keys(result, Kind.NO_MEANING)


def test_encryption_and_permissions_of_objects_are_to_check(importer: Any, find_keys: Any) -> None:
    options = {"s3.ssea.name": "aws:kms", "s3.sse.kms.key.id": "k", "s3.acl.canned": "private"}
    result = importer.run(importer.write("0.json", S3 | options | {"s3.path.style.access.enabled": "true"}))
    importer.check(result)
    assert find_keys(result, Kind.TO_DO) >= set(options)
    assert yaml.safe_load(result.pipeline)["spark"] == {"spark.hadoop.fs.s3a.path.style.access": "true"}


def test_iceberg_sink_keeps_catalog_table_key_and_partitions(importer: Any) -> None:
    pipeline = importer.load(
        ICEBERG
        | {
            "iceberg.catalog": "lake",
            "iceberg.tables": "shop.orders",
            "iceberg.tables.upsert-mode-enabled": "true",
            "iceberg.table.shop.orders.id-columns": "id",
            "iceberg.table.shop.orders.partition-by": "day(at), bucket(id, 4)",
            "iceberg.tables.auto-create-props.write.format.default": "orc",
            "iceberg.hadoop.fs.s3a.endpoint": "http://s3",
        }
    )
    assert pipeline["sink"] == {
        "iceberg": {
            "catalog": "lake",
            "catalog.properties": {"type": "rest", "uri": "http://localhost:8181"},
            "write.format.default": "orc",
            "partition.by": {"shop.orders": ["days(at)", "bucket(4, id)"]},
        }
    }
    assert pipeline["tables"] == [{"source": "*", "target": "shop.orders", "key": ["id"]}]
    assert pipeline["spark"] == {"spark.hadoop.fs.s3a.endpoint": "http://s3"}


def test_iceberg_sink_without_upsert_appends(importer: Any) -> None:
    assert importer.load(ICEBERG | {"iceberg.tables": "a.b"})["sink"]["iceberg"]["mode"] == "append"


APACHE = ICEBERG | {"connector.class": "org.apache.iceberg.connect.IcebergSinkConnector", "iceberg.tables": "a.b"}


def test_connector_of_apache_iceberg_has_no_updates(importer: Any, find_keys: Any) -> None:
    of_tabular = {"iceberg.tables.upsert-mode-enabled": "true", "iceberg.tables.cdc-field": "__op"}
    of_writer = {"iceberg.tables.write-props.write.target-file-size-bytes": "1000"}
    result = importer.run(importer.write("0.json", APACHE | of_tabular | of_writer))
    importer.check(result)
    assert yaml.safe_load(result.pipeline)["sink"]["iceberg"]["mode"] == "append"
    assert find_keys(result, Kind.NO_MEANING) == set(of_tabular)
    assert find_keys(result, Kind.NOT_IMPORTED) == set(of_writer)


def test_appended_deletes_of_debezium_transform_stay_rows(importer: Any, find_keys: Any) -> None:
    transform = {"transforms": "d", "transforms.d.type": "org.apache.iceberg.connect.transforms.DebeziumTransform"}
    result = importer.run(importer.write("0.json", APACHE | transform))
    importer.check(result)
    unwrap = {"delete.tombstone.handling.mode": "rewrite"}
    assert yaml.safe_load(result.pipeline)["transforms"] == [{"unwrap": unwrap}]
    assert "transforms.d.type" in find_keys(result, Kind.TO_DO)


def test_iceberg_debezium_transform_names_the_tables(importer: Any) -> None:
    config = ICEBERG | {
        "iceberg.tables.dynamic-enabled": "true",
        "iceberg.tables.route-field": "_cdc.target",
        "iceberg.tables.cdc-field": "_cdc.op",
        "transforms": "debezium",
        "transforms.debezium.type": "org.apache.iceberg.connect.transforms.DebeziumTransform",
        "transforms.debezium.cdc.target.pattern": "{db}.{table}",
    }
    pipeline = importer.load(config)
    assert pipeline["tables"] == [{"source": "*", "target": "{schema}.{table}"}]
    assert pipeline["transforms"] == [{"unwrap": {}}]


DEBEZIUM_ROWS = {"transforms": "d", "transforms.d.type": "io.tabular.iceberg.connect.transforms.DebeziumTransform"}
UNWRAPPED = {"transforms": "u", "transforms.u.type": "io.debezium.transforms.ExtractNewRecordState"}


@pytest.mark.parametrize(
    ("field", "transforms", "is_reported"),
    [
        ("change_type", {}, True),
        ("_cdc.op", {}, True),
        ("__op", {}, False),
        ("_cdc.op", DEBEZIUM_ROWS, False),
        ("__op", UNWRAPPED, False),
        ("change_type", UNWRAPPED, True),
    ],
)
def test_field_with_operations_is_to_check_unless_headrace_reads_it(
    field: str, transforms: dict[str, str], is_reported: bool, importer: Any, find_keys: Any
) -> None:
    config = ICEBERG | {"iceberg.tables": "db.all", "iceberg.tables.cdc-field": field, **transforms}
    result = importer.run(importer.write("0.json", config))
    importer.check(result)
    assert ("iceberg.tables.cdc-field" in find_keys(result, Kind.TO_DO)) is is_reported


@pytest.mark.parametrize("pattern", ["lake.{db}_{table}", ""])
def test_target_of_debezium_transform_does_not_name_static_tables(pattern: str, importer: Any, find_keys: Any) -> None:
    sink = ICEBERG | DEBEZIUM_ROWS | {"iceberg.tables": "db.all", "iceberg.table.db.all.id-columns": "id"}
    sink |= {"transforms.d.cdc.target.pattern": pattern} if pattern else {}
    result = importer.run(importer.write("0.json", sink))
    importer.check(result)
    assert yaml.safe_load(result.pipeline)["tables"] == [{"source": "*", "target": "db.all", "key": ["id"]}]
    assert ("transforms.d.cdc.target.pattern" in find_keys(result, Kind.NOT_IMPORTED)) is bool(pattern)
    # With dynamic tables, the connector does not read `iceberg.tables`.
    dynamic = {"iceberg.tables.dynamic-enabled": "true", "iceberg.tables.route-field": "_cdc.target"}
    result = importer.run(importer.write("0.json", sink | dynamic))
    target = (pattern or "{db}.{table}").replace("{db}", "{schema}")
    assert yaml.safe_load(result.pipeline)["tables"] == [{"source": "*", "target": target}]
    assert "iceberg.tables" in find_keys(result, Kind.NO_MEANING)


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize(
    "deletes",
    [
        {"delete.tombstone.handling.mode": "rewrite"},
        {"delete.handling.mode": "rewrite"},
        {"delete.handling.mode": "rewrite", "drop.tombstones": "true"},
    ],
)
def test_rewritten_deletes_are_removed_as_the_iceberg_sink_does(
    deletes: dict[str, str], keeps: bool, importer: Any
) -> None:
    source = POSTGRES | UNWRAPPED | {f"transforms.u.{key}": value for key, value in deletes.items()}
    sink = ICEBERG | {"iceberg.tables": "db.all", "iceberg.tables.upsert-mode-enabled": "true"}
    [step] = importer.load(source, sink, keep_transforms=keeps)["transforms"]
    assert "rewrite-with-tombstone" not in step["unwrap"].values()
    [step] = importer.load(source, sink | {"iceberg.tables.cdc-field": "__op"}, keep_transforms=keeps)["transforms"]
    assert step == {"unwrap": {"delete.tombstone.handling.mode": "rewrite-with-tombstone"}}


def test_branches_of_iceberg_tables_are_to_check(importer: Any, find_keys: Any) -> None:
    branches = {"iceberg.table.db.all.commit-branch": "staging", "iceberg.tables.default-commit-branch": "audit"}
    result = importer.run(importer.write("0.json", ICEBERG | {"iceberg.tables": "db.all"} | branches))
    assert find_keys(result, Kind.TO_DO) >= set(branches)


@pytest.mark.parametrize(("databases", "is_reported"), [("app1,app2", True), ("app1", False)])
def test_one_name_for_tables_of_databases_is_reported(
    databases: str, is_reported: bool, importer: Any, find_keys: Any
) -> None:
    """DebeziumTransform prefers the schema to the database."""
    source = {
        "connector.class": "io.debezium.connector.sqlserver.SqlServerConnector",
        "topic.prefix": "shop",
        "database.names": databases,
    }
    sink = ICEBERG | {
        "transforms": "debezium",
        "transforms.debezium.type": "org.apache.iceberg.connect.transforms.DebeziumTransform",
    }
    result = importer.run(importer.write("0.json", source), importer.write("1.json", sink))
    importer.check(result)
    assert ("database.names" in find_keys(result, Kind.TO_DO)) is is_reported


def test_two_sinks_of_the_same_topics_share_one_read(importer: Any) -> None:
    pipeline = importer.load(S3, ICEBERG | {"iceberg.tables": "shop.orders"})
    assert [list(sink) for sink in pipeline["sinks"]] == [["s3"], ["iceberg"]]


@pytest.mark.parametrize("owner", ["source", "sink"])
def test_router_does_not_name_the_tables_of_the_iceberg_sink(owner: str, importer: Any) -> None:
    router = {
        "transforms": "route",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": "shop\\.public\\.(.*)",
        "transforms.route.replacement": "$1",
    }
    sink = ICEBERG | {"iceberg.tables": "db.all", "iceberg.tables.default-id-columns": "id"}
    configs = [sink | router] if owner == "sink" else [POSTGRES | router, sink | {"topics": "orders"}]
    assert importer.load(*configs)["tables"] == [{"source": "*", "target": "db.all", "key": ["id"]}]


def test_each_bucket_keeps_its_credentials(importer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"{name}_2", "example")
    sinks = [
        S3 | {"s3.bucket.name": n, "aws.access.key.id": f"id-{n}", "aws.secret.access.key": f"hunter-{n}"} for n in "ab"
    ]
    assert importer.load(*sinks)["spark"] == {
        "spark.hadoop.fs.s3a.bucket.a.access.key": "${env:AWS_ACCESS_KEY_ID}",
        "spark.hadoop.fs.s3a.bucket.a.secret.key": "${env:AWS_SECRET_ACCESS_KEY}",
        "spark.hadoop.fs.s3a.bucket.b.access.key": "${env:AWS_ACCESS_KEY_ID_2}",
        "spark.hadoop.fs.s3a.bucket.b.secret.key": "${env:AWS_SECRET_ACCESS_KEY_2}",
    }


def test_format_of_keys_is_to_check_without_a_converter(importer: Any) -> None:
    avro = {"value.converter": "io.confluent.connect.avro.AvroConverter"}
    avro["value.converter.schema.registry.url"] = "http://r:8081"
    result = importer.run(importer.write("a.json", POSTGRES | avro))
    assert "key.converter\n    no input names the converter of the keys" in str(result.report)
