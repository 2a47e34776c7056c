"""Topics of a source with a router, of which the sinks read some."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from headrace import ConfigError
from headrace_import.import_report import Kind

SOURCE = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "topic.prefix": "p",
    "table.include.list": "public.a,public.b",
    "transforms": "route",
    "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.route.regex": "([^.]+)[.]([^.]+)[.]([^.]+)",
    "transforms.route.replacement": "lake_$3",
}
S3 = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "s3.bucket.name": "b",
    "flush.size": "1",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
}


@pytest.mark.parametrize(
    ("read", "topics"),
    [
        ({"topics": "lake_a"}, ["p.public.a"]),
        ({"topics.regex": "lake_[b-z]"}, ["p.public.b"]),
        ({"topics": "lake_a,lake_b"}, ["p.public.a", "p.public.b"]),
    ],
)
def test_topics_that_the_sink_reads_after_the_router(read: dict[str, str], topics: list[str], importer: Any) -> None:
    assert importer.load(SOURCE, S3 | read)["source"]["kafka"]["subscribe"] == topics


@pytest.mark.parametrize(
    ("changed", "topics"),
    [
        ({"transforms.route.type": "com.acme.MyRouter"}, "lake_a"),
        ({"transforms.route.predicate": "some"}, "lake_a"),
        ({"transforms.route.replacement": "lake_$4"}, "lake_a"),
        ({"table.include.list": "public.*"}, "lake_a"),
        ({}, "p.public.a"),
    ],
)
def test_topics_that_are_not_known_are_reported(
    changed: dict[str, str], topics: str, importer: Any, find_keys: Any
) -> None:
    files = [importer.write("source.json", SOURCE | changed), importer.write("sink.json", S3 | {"topics": topics})]
    result = importer.run(*files)
    assert "topics" in find_keys(result, Kind.TO_DO)
    assert yaml.safe_load(result.pipeline)["source"]["kafka"].get("subscribe") in (None, ["p.public.a", "p.public.b"])


def test_sinks_that_read_different_topics_are_no_pipeline(importer: Any) -> None:
    with pytest.raises(ConfigError, match="the sinks read different topics"):
        importer.load(SOURCE, S3 | {"topics": "lake_a"}, S3 | {"topics": "lake_b"})
