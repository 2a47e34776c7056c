"""Lenses' S3 sink connector as the sink ``s3``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from headrace.cli.main import cli
from headrace_import.import_report import Kind

LENSES = {
    "connector.class": "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
    "topics": "shop.public.orders",
    "connect.s3.aws.region": "eu-west-1",
}
START = "INSERT INTO bronze:raw SELECT * FROM `shop.public.orders`"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (START, {"format": "json", "flush.size": 50000, "rotate.schedule.interval.ms": 3600000}),
        (
            f"{START} STOREAS `Parquet` WITH_FLUSH_INTERVAL = 60 WITH_FLUSH_COUNT = 5000",
            {"format": "parquet", "flush.size": 5000, "rotate.schedule.interval.ms": 60000},
        ),
        (
            f"{START} PARTITIONBY _value.country, `day` STOREAS AVRO PROPERTIES ('flush.interval'=30, 'flush.count'='10')",
            {
                "format": "avro",
                "flush.size": 10,
                "rotate.schedule.interval.ms": 30000,
                "partitioner": "field",
                "partition.field.name": ["country", "day"],
            },
        ),
    ],
)
def test_statement_becomes_a_sink(statement: str, expected: dict[str, Any], importer: Any) -> None:
    pipeline = importer.load(LENSES | {"connect.s3.kcql": statement})
    assert pipeline["sink"] == {"s3": {"path": "s3a://bronze", "topics.dir": "raw", "timezone": "UTC"} | expected}
    assert pipeline["source"]["kafka"]["subscribe"] == ["shop.public.orders"]
    assert pipeline["spark"] == {"spark.hadoop.fs.s3a.endpoint.region": "eu-west-1"}


def test_names_in_backticks(importer: Any) -> None:
    quoted = "INSERT INTO `my-bronze`:`raw/a b` SELECT * FROM `shop.public.orders` PARTITIONBY _value.`a-b`,`c d` STOREAS 'AVRO'"
    pipeline = importer.load(LENSES | {"connect.s3.kcql": quoted})
    sink = pipeline["sink"]["s3"]
    assert (sink["path"], sink["topics.dir"], sink["format"]) == ("s3a://my-bronze", "raw/a b", "avro")
    assert sink["partition.field.name"] == ["a-b", "c d"]
    assert pipeline["source"]["kafka"]["subscribe"] == ["shop.public.orders"]


@pytest.mark.parametrize("columns", ["id, total AS amount", "`from`, `a, b` as c", "batch", "_key.id, *"])
def test_columns_of_select_are_reported(columns: str, importer: Any, find_keys: Any) -> None:
    """The connector writes all columns, whatever SELECT names."""
    config = LENSES | {"connect.s3.kcql": START.replace("*", columns)}
    result = importer.run(importer.write("a.json", config))
    importer.check(result)
    assert "`keep` and `rename`" in str(result.report)
    assert "connect.s3.kcql" in find_keys(result, Kind.TO_DO)
    pipeline = yaml.safe_load(result.pipeline)
    assert "transforms" not in pipeline
    assert pipeline["source"]["kafka"]["subscribe"] == ["shop.public.orders"]


def test_all_columns_are_not_reported(importer: Any) -> None:
    result = importer.run(importer.write("a.json", LENSES | {"connect.s3.kcql": START}))
    assert "SELECT" not in str(result.report)


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ("PARTITIONBY _key.id STOREAS JSON", "columns, not by keys"),
        ("STOREAS JSON WITH_FLUSH_SIZE = 1000", "without a counterpart: flush.size"),
        ("STOREAS CSV", "the class has no counterpart"),
        ("STOREAS JSON WITH_FLUSH_COUNT = 0", "without a counterpart: flush.count"),
        ("BATCH = 10 STOREAS JSON AUTOCREATE", "without a counterpart: autocreate, batch"),
    ],
)
def test_part_without_counterpart_is_reported(part: str, told: str, importer: Any, find_keys: Any) -> None:
    result = importer.run(importer.write("a.json", LENSES | {"connect.s3.kcql": f"{START} {part}"}))
    importer.check(result)
    assert told in " ".join(str(result.report).split())
    assert "connect.s3.kcql" in find_keys(result, Kind.TO_DO)


@pytest.mark.parametrize(("topics", "is_reported"), [("shop.public.orders,b", True), ("shop.public.orders", False)])
def test_topics_without_a_statement_are_reported(topics: str, is_reported: bool, importer: Any, find_keys: Any) -> None:
    result = importer.run(importer.write("a.json", LENSES | {"connect.s3.kcql": START, "topics": topics}))
    assert ("topics" in find_keys(result, Kind.TO_DO)) is is_reported


def test_every_option_is_named_and_secrets_are_not_copied(importer: Any) -> None:
    config = LENSES | {
        "connect.s3.kcql": START,
        "connect.s3.aws.secret.key": "hunter2",
        "connect.s3.vhost.bucket": "true",
        "connect.s3.compression.codec": "gzip",
        "connect.s3.unknown": "1",
    }
    result = importer.run(importer.write("a.json", config))
    text = result.pipeline + str(result.report)
    assert [key for key in config if key not in text] == []
    assert "hunter2" not in text
    assert "spark.hadoop.fs.s3a.secret.key: ${env:CONNECT_S3_AWS_SECRET_KEY}" in result.pipeline


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("SELECT 1", "not a statement of KCQL"),
        (f"{START} PARTITIONBY _value.city, name STOREAS JSON LIMIT 500", "not a statement of KCQL"),
        (f"{START};{START.replace(':raw', ':other')}", "do not make one sink"),
        ("", "do not make one sink"),
    ],
)
def test_wrong_statements(statement: str, error: str, importer: Any, tmp_path: Path) -> None:
    path = importer.write("a.json", LENSES | {"connect.s3.kcql": statement})
    result = CliRunner().invoke(cli, ["import", str(path)])
    assert (result.exit_code, error in result.stderr) == (2, True), result.stderr
