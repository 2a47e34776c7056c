"""Properties of Debezium Server as pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.support.dist import ROOT

from headrace.cli.main import cli
from headrace_import.import_report import Kind

DATA = ROOT / "tests/data/import"
ICEBERG = {
    "debezium.sink.type": "iceberg",
    "debezium.sink.iceberg.catalog-name": "prod",
    "debezium.sink.iceberg.type": "hadoop",
    "debezium.sink.iceberg.warehouse": "warehouse",
}


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KAFKA_PRODUCER_SASL_JAAS_CONFIG", "ICEBERG_S3_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"DEBEZIUM_SINK_{name}", "example")


def make_source(kind: str) -> dict[str, str]:
    """Return the options of a connector with the prefix ``shop``."""
    name = f"io.debezium.connector.{kind}Connector"
    return {"debezium.source.connector.class": name, "debezium.source.topic.prefix": "shop"}


def load(name: str, importer: Any, **options: Any) -> Any:
    result = importer.run(DATA / name, **options)
    importer.check(result)
    assert "hunter2" not in result.pipeline + str(result.report)
    return yaml.safe_load(result.pipeline)


def test_kafka_sink_becomes_the_source(importer: Any) -> None:
    pipeline = load("debezium_server_kafka.properties", importer)
    assert pipeline["source"] == {
        "kafka": {
            "bootstrap.servers": "broker:9092",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": "${env:DEBEZIUM_SINK_KAFKA_PRODUCER_SASL_JAAS_CONFIG}",
            "subscribe": ["shop.public.orders", "shop.public.people"],
        },
        "value": {"avro": {"registry": "http://registry:8080/apis/registry/v2"}},
        "key": "json",
    }
    assert pipeline["transforms"] == [
        {"unwrap": {"delete.handling.mode": "rewrite", "drop.tombstones": True, "add.fields": "op,source.ts_ms"}},
        {"mask": {"columns": {"email": {"empty": True}}}},
    ]


def test_every_option_is_named_as_in_the_file(importer: Any, find_keys: Any) -> None:
    for file in (DATA / "debezium_server_kafka.properties", DATA / "debezium_server_iceberg.properties"):
        result = importer.run(file)
        text = result.pipeline + " ".join(key for finding in result.report.findings for key in finding.keys)
        keys = [line.partition("=")[0] for line in file.read_text().splitlines() if not line.startswith("#")]
        assert [key for key in keys if key not in text] == []
    report = str(importer.run(DATA / "debezium_server_kafka.properties").report)
    assert "fix: did you mean 'debezium.source.database.hostname'?" in report


def test_kinesis_sink_with_one_stream_becomes_a_source_with_tables_by_field(importer: Any, find_keys: Any) -> None:
    pipeline = load("debezium_server_kinesis.yaml", importer)
    assert pipeline["source"] == {
        "kinesis": {"stream": "changes", "region": "eu-central-1", "endpoint.url": "http://localhost:4566"},
        "value": "json",
        "key": "json",
    }
    assert pipeline["tables"] == [
        {"source": "changes", "target": "{topic}", "route.by.field": ["source.db", "source.table"]}
    ]
    result = importer.run(DATA / "debezium_server_kinesis.yaml")
    assert find_keys(result, Kind.TO_DO) == set()


def test_iceberg_sink_becomes_the_sink_and_needs_kafka(importer: Any, find_keys: Any) -> None:
    pipeline = load("debezium_server_iceberg.properties", importer)
    assert pipeline["sink"] == {
        "iceberg": {
            "catalog": "prod",
            "catalog.properties": {
                "type": "rest",
                "uri": "http://catalog:8181",
                "warehouse": "s3://lake/warehouse",
                "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
                "s3.secret-access-key": "${env:DEBEZIUM_SINK_ICEBERG_S3_SECRET_ACCESS_KEY}",
            },
        }
    }
    assert pipeline["tables"] == [
        {"source": "/shop[.]([^.]+)[.](.+)/", "target": "lake.cdc_shop_{1}_{2}"},
        {"source": "*"},
    ]
    assert pipeline["spark"] == {"spark.hadoop.fs.s3a.endpoint": "http://s3:9000"}
    result = importer.run(DATA / "debezium_server_iceberg.properties")
    assert "debezium.sink.type" in find_keys(result, Kind.TO_DO)


@pytest.mark.parametrize("prefix", ["shop", "shop.eu", "app1"])
@pytest.mark.parametrize(
    ("kind", "options", "names"),
    [
        ("postgresql.Postgres", {}, ["app1.orders", "app2.orders"]),
        ("mysql.MySql", {"database.include.list": "app1,app2"}, ["app1.orders", "app2.orders"]),
        ("mariadb.MariaDb", {}, ["app1.orders", "app2.orders"]),
        ("sqlserver.SqlServer", {"database.names": "app1,app2"}, ["app1.dbo.orders", "app2.dbo.orders"]),
        ("mysql.MySql", {"topic.delimiter": "-"}, ["app1-orders", "app2-orders"]),
    ],
)
def test_iceberg_sink_names_tables_by_the_whole_topic(
    kind: str, options: dict[str, str], names: list[str], prefix: str, importer: Any
) -> None:
    source = make_source(kind) | {f"debezium.source.{key}": value for key, value in options.items()}
    config = ICEBERG | source | {"debezium.source.topic.prefix": prefix}
    result = importer.run(importer.write_properties(config))
    importer.check(result)
    topics = [f"{prefix}{options.get('topic.delimiter', '.')}{name}" for name in names]
    assert importer.name_tables(result, *topics) == [f"default.{topic.replace('.', '_')}" for topic in topics]


def test_iceberg_sink_names_tables_by_the_topics_of_a_router(importer: Any) -> None:
    config = (
        ICEBERG
        | make_source("mysql.MySql")
        | {
            "debezium.sink.iceberg.table-prefix": "cdc_",
            "debezium.transforms": "unwrap,route",
            "debezium.transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
            "debezium.transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
            "debezium.transforms.route.regex": r"shop\\.(\\w+)\\.orders_\\d+",
            "debezium.transforms.route.replacement": "shop.$1.orders",
        }
    )
    result = importer.run(importer.write_properties(config))
    importer.check(result)
    topics = ["shop.app1.orders_1", "shop.app1.orders_2", "shop.app2.orders_1", "shop.app2.people"]
    names = ["app1_orders", "app1_orders", "app2_orders", "app2_people"]
    assert importer.name_tables(result, *topics) == [f"default.cdc_shop_{name}" for name in names]


def test_outbox_of_the_iceberg_sink_has_its_names(importer: Any) -> None:
    outbox = {"type": "io.debezium.transforms.outbox.EventRouter", "predicate": "isOutbox"}
    unwrap = {"type": "io.debezium.transforms.ExtractNewRecordState", "predicate": "isOutbox", "negate": "true"}
    mask = {"type": "org.apache.kafka.connect.transforms.MaskField$Value", "fields": "email"}
    config = (
        ICEBERG
        | make_source("postgresql.Postgres")
        | {
            "debezium.transforms": "unwrap,mask,outbox",
            "debezium.predicates": "isOutbox",
            "debezium.predicates.isOutbox.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
            "debezium.predicates.isOutbox.pattern": "shop.public.outbox",
        }
    )
    for name, smt in {"unwrap": unwrap, "mask": mask, "outbox": outbox}.items():
        config |= {f"debezium.transforms.{name}.{key}": value for key, value in smt.items()}
    result = importer.run(importer.write_properties(config))
    importer.check(result)
    [outbox_step, _, mask_step] = yaml.safe_load(result.pipeline)["transforms"]
    assert outbox_step["outbox"]["tables"] == "default.outbox_event_*"
    assert mask_step["mask"]["tables.exclude"] == ["default.outbox_event_*"]
    assert yaml.safe_load(result.pipeline)["tables"][0]["target"] == "default.outbox_event_{topic}"


def test_stream_of_several_databases_has_their_names(importer: Any) -> None:
    config = make_source("sqlserver.SqlServer") | {
        "debezium.source.database.names": "app1,app2",
        "debezium.sink.type": "kinesis",
        "debezium.transforms": "route",
        "debezium.transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "debezium.transforms.route.regex": "(.*)",
        "debezium.transforms.route.replacement": "changes",
    }
    result = importer.run(importer.write_properties(config))
    importer.check(result)
    [rule] = yaml.safe_load(result.pipeline)["tables"]
    assert rule["route.by.field"] == ["source.db", "source.schema", "source.table"]


def test_appending_iceberg_sink(importer: Any, tmp_path: Path) -> None:
    text = (DATA / "debezium_server_iceberg.properties").read_text().replace("upsert=true", "upsert=false")
    (tmp_path / "a.properties").write_text(text)
    pipeline = yaml.safe_load(importer.run(tmp_path / "a.properties").pipeline)
    assert pipeline["sink"]["iceberg"]["mode"] == "append"


def test_expressions_become_references(importer: Any, tmp_path: Path, find_keys: Any) -> None:
    text = (
        "debezium.sink.type=pubsub\ndebezium.sink.pubsub.project.id=p\n%dev.debezium.source.database.port=1\n"
        "debezium.source.connector.class=io.debezium.connector.postgresql.PostgresConnector\n"
        "debezium.source.topic.prefix=${TOPIC_PREFIX:shop}\ndebezium.source.database.hostname=${DB:localhost}\n"
        "app.tables=public.orders\ndebezium.source.table.include.list=${app.tables}\n"
    )
    (tmp_path / "application.properties").write_text(text)
    result = importer.run(tmp_path / "application.properties")
    assert yaml.safe_load(result.pipeline)["source"]["kafka"]["subscribe"] == ["${env:TOPIC_PREFIX}.public.orders"]
    assert find_keys(result, Kind.TO_DO) == {"debezium.source.topic.prefix", "debezium.sink.type"}
    assert {"%dev.debezium.source.database.port", "debezium.sink.pubsub.project.id"} <= find_keys(
        result, Kind.NOT_IMPORTED
    )


def test_defaults_of_expressions(importer: Any, monkeypatch: pytest.MonkeyPatch, find_keys: Any) -> None:
    monkeypatch.setenv("BOOT", "broker:9092")
    config = make_source("postgresql.Postgres") | {
        "debezium.sink.type": "kafka",
        "debezium.sink.kafka.producer.bootstrap.servers": "${BOOT:${OTHER:localhost:9092}}",
        "debezium.source.table.include.list": "${TABLES:public.a,public.b}",
        "debezium.transforms": "${SMTS:outbox}",
        "debezium.transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
        "debezium.transforms.outbox.route.topic.replacement": r"\\${routedByValue}.events",
    }
    result = importer.run(importer.write_properties(config))
    importer.check(result)
    pipeline = yaml.safe_load(result.pipeline)
    assert pipeline["source"]["kafka"] == {
        "bootstrap.servers": "${env:BOOT}",
        "subscribe": ["shop.public.a", "shop.public.b"],
    }
    assert pipeline["tables"][0]["target"] == "{topic}.events"
    assert {"debezium.source.table.include.list", "debezium.transforms"} <= find_keys(result, Kind.TO_DO)


@pytest.mark.parametrize(
    ("tables", "streams"),
    [
        ("inventory.orders", {"stream": "tutorial.inventory.orders"}),
        (
            "inventory.orders,inventory.lines",
            {"subscribe": ["tutorial.inventory.orders", "tutorial.inventory.lines"]},
        ),
        ("inventory.*", {"subscribePattern": "tutorial[.](?i:inventory.*)"}),
    ],
)
def test_kinesis_sink_with_a_stream_for_each_table(
    tables: str, streams: dict[str, Any], importer: Any, tmp_path: Path
) -> None:
    text = (
        "debezium.sink.type=kinesis\ndebezium.source.connector.class=io.debezium.connector.mysql.MySqlConnector\n"
        f"debezium.source.topic.prefix=tutorial\ndebezium.source.table.include.list={tables}\n"
    )
    (tmp_path / "a.properties").write_text(text)
    result = importer.run(tmp_path / "a.properties")
    assert yaml.safe_load(result.pipeline)["source"]["kinesis"] == streams


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("debezium.sink.type=kafka\n", "debezium.source.connector.class"),
        ("debezium.format.value=avro\n", "add `debezium.format.value.schema.registry.url`"),
        ("debezium.format.value=protobuf\n", "debezium.format.value"),
    ],
)
def test_errors_name_the_options_of_the_file(content: str, error: str, tmp_path: Path) -> None:
    source = (
        "debezium.source.connector.class=io.debezium.connector.mysql.MySqlConnector\ndebezium.source.topic.prefix=a\n"
    )
    (tmp_path / "a.properties").write_text(content + (source if "format" in content else ""))
    result = CliRunner().invoke(cli, ["import", str(tmp_path / "a.properties")])
    assert (result.exit_code, error in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize(
    ("content", "error", "place"),
    [
        ("debezium: [", "not valid YAML", ", line 1, column 12"),
        ("debezium:\n  a: 1\n  a: 2\n", "the key `a` is there twice", ", line 3, column 3"),
        ("debezium: &a\n  b: *a\n", "aliases are not supported", ", line 2, column 6"),
        (
            "debezium: {source: {connector.class: com.acme.Own}}",
            "imports no connector of this class",
            ", debezium.source.connector.class",
        ),
        ("hello: world\n", "the file is neither JSON nor properties", ""),
    ],
)
def test_wrong_yaml(content: str, error: str, place: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(content)
    result = CliRunner().invoke(cli, ["import", str(tmp_path / "a.yaml")])
    assert (result.exit_code, result.stdout) == (2, "")
    assert error in result.stderr
    assert f"a.yaml{place}" in result.stderr


def test_properties_of_a_standalone_connector(importer: Any, tmp_path: Path) -> None:
    text = "name=orders\nconnector.class=io.debezium.connector.mysql.MySqlConnector\ntopic.prefix=shop\n"
    (tmp_path / "orders-source.properties").write_text(text)
    pipeline = yaml.safe_load(importer.run(tmp_path / "orders-source.properties").pipeline)
    assert (pipeline["name"], pipeline["source"]["kafka"]["subscribePattern"]) == ("orders", "shop[.][^.]+[.].+")


def test_own_options_of_the_iceberg_sink_are_no_options_of_the_catalog(importer: Any, find_keys: Any) -> None:
    own = {
        "debezium.sink.iceberg.partition-field": "__ts",
        "debezium.sink.iceberg.write.format.default": "orc",
        "debezium.sink.iceberg.upsert-keep-deletes": "false",
        "debezium.transforms": "unwrap",
        "debezium.transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        "debezium.transforms.unwrap.delete.handling.mode": "rewrite",
    }
    result = importer.run(importer.write_properties(ICEBERG | make_source("mysql.MySql") | own))
    importer.check(result)
    pipeline = yaml.safe_load(result.pipeline)
    assert pipeline["sink"]["iceberg"] == {
        "catalog": "prod",
        "catalog.properties": {"type": "hadoop", "warehouse": "warehouse"},
        "write.format.default": "orc",
    }
    assert "debezium.sink.iceberg.partition-field" in find_keys(result, Kind.TO_DO)
    # The sink removes rows that have been rewritten as deleted.
    assert pipeline["transforms"] == [{"unwrap": {"delete.tombstone.handling.mode": "rewrite-with-tombstone"}}]


def test_an_option_of_both_converters_is_known_if_one_has_it(importer: Any, find_keys: Any) -> None:
    kafka = {"debezium.sink.type": "kafka", "debezium.sink.kafka.producer.bootstrap.servers": "b:9092"}
    registry = {"debezium.format.value": "avro", "debezium.format.schema.registry.url": "http://r"}
    result = importer.run(importer.write_properties(kafka | make_source("postgresql.Postgres") | registry))
    assert yaml.safe_load(result.pipeline)["source"]["value"] == {"avro": {"registry": "http://r"}}
    assert find_keys(result, Kind.UNKNOWN) == set()


@pytest.mark.parametrize("form", ["json", "jsonbytearray", "avro"])
@pytest.mark.parametrize("start", ["debezium.format.", "debezium.format.value."])
def test_address_of_an_apicurio_registry(form: str, start: str, importer: Any) -> None:
    options = make_source("postgresql.Postgres") | {"debezium.sink.type": "kafka", "debezium.format.value": form}
    options |= {f"{start}apicurio.registry.url": "http://apicurio:8080", f"{start}schema.registry.url": "http://r:8081"}
    result = importer.run(importer.write_properties(options))
    importer.check(result)
    kind = form.removesuffix("bytearray")
    assert yaml.safe_load(result.pipeline)["source"]["value"] == {kind: {"registry": "http://apicurio:8080"}}
    assert not [finding for finding in result.report.findings if finding.kind is Kind.UNKNOWN]


def test_misspelled_option_of_a_format_is_suggested_with_its_name_in_the_file(importer: Any) -> None:
    options = make_source("postgresql.Postgres") | {"debezium.sink.type": "kafka", "debezium.format.value": "json"}
    options["debezium.format.value.schemas.enabel"] = "false"
    result = importer.run(importer.write_properties(options))
    (finding,) = [finding for finding in result.report.findings if finding.kind is Kind.UNKNOWN]
    assert finding.fix == "did you mean 'debezium.format.value.schemas.enable'?"
