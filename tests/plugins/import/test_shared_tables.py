"""Topics that one table of an imported pipeline would share."""

from __future__ import annotations

from typing import Any

import pytest

from headrace_import.import_report import Kind

SOURCE = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "table.include.list": "public.a"}
SINK = {
    "connector.class": "io.tabular.iceberg.connect.IcebergSinkConnector",
    "topics": "p.public.a,q.public.a",
    "iceberg.catalog.type": "rest",
    "iceberg.catalog.uri": "http://c",
    "iceberg.tables": "db.a",
    "iceberg.tables.cdc-field": "_cdc.op",
    "iceberg.tables.default-id-columns": "id",
}
S3 = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "topics": "p.public.a,q.public.a",
    "s3.bucket.name": "b",
    "flush.size": "1",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
}
BOTH = "the topics p.public.a, q.public.a become the table"


@pytest.mark.parametrize(
    ("names", "sink", "reason"),
    [
        ({}, SINK, f"{BOTH} db.a, where a row replaces a row of another topic with the same key"),
        ({}, None, None),
        ({}, S3, None),
        ({}, SINK | {"iceberg.tables": "db.a", "topics": "p.public.a"}, None),
        (
            {"table.include.list": "public.a.*"},
            {**SINK, "topics.regex": ".*a.*", "topics": ""},
            "topics that differ only in their prefixes become one table",
        ),
    ],
)
def test_tables_of_several_topics_are_to_check(
    names: dict[str, str], sink: dict[str, str] | None, reason: str | None, importer: Any
) -> None:
    configs = [SOURCE | names | {"topic.prefix": prefix} for prefix in ("p", "q")]
    files = [importer.write(f"{n}.json", config) for n, config in enumerate([*configs, *([sink] if sink else [])])]
    result = importer.run(*files)
    importer.check(result)
    found = [f.why for f in result.report.findings if f.kind is Kind.TO_DO and "with the same key" in f.why]
    assert len(found) == (1 if reason else 0)
    assert not reason or reason in found[0]


def test_one_source_has_one_prefix(importer: Any) -> None:
    source = SOURCE | {"topic.prefix": "p", "table.include.list": "public.a.*"}
    sink = {**SINK, "topics.regex": "p[.]public[.]a.*", "topics": ""}
    result = importer.run(importer.write("source.json", source), importer.write("sink.json", sink))
    assert "prefixes" not in str(result.report)
    options = {
        "sink.type": "iceberg",
        "sink.iceberg.type": "hadoop",
        "sink.iceberg.warehouse": "/w",
        "format.key": "json",
    }
    options |= {f"source.{name}": value for name, value in source.items() if name != "table.include.list"}
    server = importer.write_properties({f"debezium.{name}": value for name, value in options.items()})
    result = importer.run(server)
    assert "subscribePattern" in result.pipeline
    assert "prefixes" not in str(result.report)


def test_source_and_sink_of_one_file_are_one_place(importer: Any) -> None:
    router = {"type": "org.apache.kafka.connect.transforms.RegexRouter", "regex": ".*", "replacement": "all"}
    options = {
        "sink.type": "iceberg",
        "sink.iceberg.type": "hadoop",
        "sink.iceberg.warehouse": "/w",
        "format.key": "json",
    }
    options |= {f"source.{name}": value for name, value in SOURCE.items()} | {"transforms": "r"}
    options |= {"source.topic.prefix": "p", "source.table.include.list": "public.a,public.b"}
    options |= {f"transforms.r.{name}": value for name, value in router.items()}
    result = importer.run(importer.write_properties({f"debezium.{name}": value for name, value in options.items()}))
    places = [finding.place for finding in result.report.findings if "with the same key" in finding.why]
    assert places == ["application.properties"]
