"""Random configurations: each option is in a comment or in the report, and no secret is anywhere."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from hypothesis import given, settings, strategies as st

import headrace_import.connect.known_options as known
from headrace.pipeline import Pipeline
from headrace_import.import_report import Report, write_key
from headrace_import.pipeline_import import ImportOptions, import_paths

KAFKA = "org.apache.kafka.connect.transforms."
POSTGRES = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "topic.prefix": "shop"}
S3 = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "topics": "shop.public.orders",
    "s3.bucket.name": "bronze",
    "flush.size": "10",
}
ICEBERG = {"connector.class": "io.tabular.iceberg.connect.IcebergSinkConnector", "topics.regex": "shop.*"}
#: Options with values that select how other options are imported.
CHOICES = {
    "value.converter": ["org.apache.kafka.connect.json.JsonConverter", "io.confluent.connect.avro.AvroConverter"],
    "table.include.list": ["public.a", "public.a,public.b.*"],
    "iceberg.tables": ["a.b", "a.b,c.d"],
    "iceberg.table.a.b.partition-by": ["days(x)", "truncate(x, 3)"],
    "partitioner.class": ["x.HourlyPartitioner", "com.acme.Own"],
    "bootstrap.servers": ["one:9092"],
    "consumer.override.sasl.mechanism": ["AWS_MSK_IAM", "PLAIN"],
}
SECRETS = (
    "database.password",
    "value.converter.basic.auth.user.info",
    "aws.secret.access.key",
    "iceberg.catalog.token",
    "consumer.override.sasl.jaas.config",
    "iceberg.hadoop.fs.azure.account.key.acct.dfs.core.windows.net",
    "iceberg.hadoop.fs.azure.sas.box.acct.blob.core.windows.net",
    "iceberg.catalog.adls.auth.shared-key.account.key",
    "iceberg.catalog.adls.connection-string.acct",
    "iceberg.catalog.header.Authorization",
)
SECRET = "hunter-secret-2"
SMTS = (
    {"type": f"{KAFKA}Cast$Value", "spec": "a:int32"},
    {"type": f"{KAFKA}ReplaceField$Value", "exclude": "a", "renames": "b"},
    {"type": f"{KAFKA}MaskField$Value", "fields": "a,b", "replacement": "x", "unknown": "1"},
    {"type": f"{KAFKA}RegexRouter", "regex": "(.*)", "replacement": "x.$1"},
    {"type": f"{KAFKA}ValueToKey", "fields": "id"},
    {"type": f"{KAFKA}ExtractField$Key", "field": "id"},
    {"type": f"{KAFKA}Filter", "predicate": "p", "negate": "true"},
    {"type": "io.debezium.transforms.ExtractNewRecordState", "add.fields": "op", "route.by.field": "x"},
    {"type": "io.debezium.transforms.outbox.EventRouter"},
    {"type": "com.acme.Own", "password": SECRET},
    {"predicate": "p"},
)
KNOWN = sorted(
    {
        option.replace("*", "x")
        for groups in known._read_groups().values()
        for entry in groups
        for option in entry["options"]
    }
    | set(known._HANDLED)
)
OPTIONS = st.dictionaries(
    # A file with the key `config` has its options there.
    (st.sampled_from(KNOWN) | st.text(min_size=1, max_size=8)).filter(lambda key: key != "config"),
    st.sampled_from(["1", "true", "x", "a,b", "${file:/x:y}", "${vault:z}", "${topic}", "", "#\n'"])
    | st.none()
    | st.integers(),
    max_size=12,
)


@st.composite
def make_connector(draw: st.DrawFn, base: dict[str, str]) -> dict[str, Any]:
    """Return a connector with known options, unknown ones, secrets and a chain of SMTs."""
    config: dict[str, Any] = {
        **draw(OPTIONS),
        **{k: draw(st.sampled_from(v)) for k, v in CHOICES.items() if draw(st.booleans())},
    }
    config |= {key: SECRET for key in SECRETS if draw(st.booleans())}
    if "Avro" in str(config.get("value.converter")):
        config["value.converter.schema.registry.url"] = f"http://u:{SECRET}@registry"
    elif config.get("value.converter"):
        config["value.converter"] = CHOICES["value.converter"][0]
    config.pop("key.converter", None)
    chain = draw(st.lists(st.sampled_from(SMTS), max_size=4))
    config["transforms"] = ",".join(f"t{n}" for n in range(len(chain)))
    config |= {f"transforms.t{n}.{name}": value for n, smt in enumerate(chain) for name, value in smt.items()}
    config |= {"predicates.p.type": f"{KAFKA}predicates.TopicNameMatches", "predicates.p.pattern": "a"}
    config.pop("topics", None)
    config.pop("topics.regex", None)
    return config | base


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([POSTGRES, S3, ICEBERG]).flatmap(make_connector), min_size=1, max_size=1)
    | st.tuples(make_connector(POSTGRES), make_connector(S3) | make_connector(ICEBERG))
)
def test_every_option_is_in_a_comment_or_in_the_report(connectors: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{n}.json" for n, _ in enumerate(connectors)]
        for path, config in zip(paths, connectors, strict=True):
            path.write_text(json.dumps(config), encoding="utf-8")
        first, second = (import_paths(paths, ImportOptions()) for _ in range(2))
    assert (first.pipeline, str(first.report)) == (second.pipeline, str(second.report))
    assert SECRET not in first.pipeline + str(first.report)
    assert yaml.safe_load(first.pipeline)["name"]
    for path, config in zip(paths, connectors, strict=True):
        missing = [key for key in config if not is_named(key, path.name, first.pipeline, first.report)]
        assert not missing, first.pipeline + str(first.report)


@settings(max_examples=20, deadline=None)
@given(make_connector(POSTGRES))
def test_every_option_of_debezium_server_is_in_a_comment_or_in_the_report(config: dict[str, Any]) -> None:
    shared = ("transforms", "predicates")
    texts = {key: value for key, value in config.items() if "converter" not in key and "${" not in f"{key}{value}"}
    options = {f"debezium.{'' if key.startswith(shared) else 'source.'}{key}": value for key, value in texts.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "application.yaml"
        path.write_text(yaml.safe_dump(options | {"debezium": {"sink": {"type": "kafka"}}}), encoding="utf-8")
        result = import_paths([path], ImportOptions())
    assert SECRET not in result.pipeline + str(result.report)
    missing = [key for key in options if not is_named(key, path.name, result.pipeline, result.report)]
    assert not missing, result.pipeline + str(result.report)


NAMES = st.lists(st.sampled_from(["shop", "app", "eu", "a_1", "dbo"]), min_size=1, max_size=3, unique=True)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["flink", "server"]),
    st.sampled_from(["mysql.MySql", "postgresql.Postgres", "sqlserver.SqlServer"]),
    st.sampled_from(["shop", "shop.eu", "a_1.shop.app"]),
    NAMES,
    NAMES,
)
def test_tables_of_databases_get_the_names_of_the_tool(
    tool: str, kind: str, prefix: str, databases: list[str], tables: list[str]
) -> None:
    schema = ".dbo" if kind.startswith("sqlserver") else ""
    names = [f"{database}{schema}.{table}" for database in databases for table in tables]
    database = kind.partition(".")[0].replace("postgresql", "postgres")
    flink = {"source": {"type": database, "tables": ",".join(names)}, "sink": {"type": "iceberg"}}
    connector = {"connector.class": f"io.debezium.connector.{kind}Connector", "topic.prefix": prefix}
    server = {f"debezium.source.{key}": value for key, value in connector.items()} | {
        "debezium.source.database.names": ",".join(databases if schema else []),
        "debezium.sink.type": "iceberg",
        "debezium.sink.iceberg.catalog-name": "x",
    }
    with tempfile.TemporaryDirectory() as folder, patch.dict("os.environ", TOPIC_PREFIX=prefix, KAFKA_BOOTSTRAP="b:1"):
        path = Path(folder) / ("flink.yaml" if tool == "flink" else "application.properties")
        lines = "".join(f"{key}={value}\n" for key, value in server.items())
        path.write_text(yaml.safe_dump(flink) if tool == "flink" else lines, encoding="utf-8")
        pipeline = Pipeline.from_dict(yaml.safe_load(import_paths([path], ImportOptions()).pipeline))
        routes = [pipeline.plan.routes.of(f"{prefix}.{name}") for name in names]
    of_server = [f"default.{prefix}.{name}".replace(".", "_").replace("_", ".", 1) for name in names]
    assert [route and route.table for route in routes] == (names if tool == "flink" else of_server)


STREAMER = {
    "hoodie.streamer.source.dfs.root": ["s3://a/b"],
    "hoodie.streamer.source.kafka.topic": ["t"],
    "hoodie.datasource.write.recordkey.field": ["a", "a,b", ""],
    "hoodie.datasource.write.partitionpath.field": ["a", ""],
    "hoodie.index.type": ["BLOOM", "GLOBAL_BLOOM"],
    "hoodie.datasource.write.operation": ["upsert", "insert", "delete"],
    "hoodie.datasource.hive_sync.enable": ["true", "false"],
    "hoodie.datasource.hive_sync.database": ["d"],
    "hoodie.datasource.hive_sync.table": ["t"],
    "hoodie.table.name": ["t"],
    "hoodie.datasource.write.precombine.field": ["ts"],
    "hoodie.deltastreamer.schemaprovider.registry.url": ["http://r/subjects/a"],
    "hoodie.parquet.small.file.limit": ["1"],
    "hoodie.streamer.transformer.sql": ["select 1"],
    "bootstrap.servers": ["b:1"],
    "auto.offset.reset": ["latest", "none"],
    "sasl.jaas.config": [SECRET],
    "unknown": ["1"],
}


@settings(max_examples=40, deadline=None)
@given(
    st.fixed_dictionaries(
        {"hoodie.streamer.source.dfs.root": st.just("s3://a/b")},
        optional={k: st.sampled_from(v) for k, v in STREAMER.items() if "dfs" not in k},
    )
)
def test_every_option_of_a_job_is_in_a_comment_or_in_the_report(options: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in options.items()), encoding="utf-8")
        result = import_paths([path], ImportOptions())
    assert SECRET not in result.pipeline + str(result.report)
    missing = [key for key in options if not is_named(key, path.name, result.pipeline, result.report)]
    assert not missing, result.pipeline + str(result.report)


def is_named(key: str, file: str, pipeline: str, report: Report) -> bool:
    in_report = any(key in finding.keys and finding.place == file for finding in report.findings)
    comments = [line.partition("  # ")[2] for line in pipeline.splitlines()]
    cited = [part.partition(": ")[2] for line in comments for part in line.split("; ") if part.startswith(f"{file}: ")]
    return in_report or any(write_key(key) in f"{part}, ".split(", ") for part in cited)
