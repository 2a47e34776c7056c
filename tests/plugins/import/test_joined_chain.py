"""SMTs of a source connector and of a sink as one chain."""

from __future__ import annotations

from typing import Any

import pytest

from headrace_import.import_report import Kind

KAFKA, DEBEZIUM = "org.apache.kafka.connect.transforms.", "io.debezium.transforms."
SOURCE = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "topic.prefix": "p",
    "table.include.list": "public.a",
}
ICEBERG = {
    "connector.class": "io.tabular.iceberg.connect.IcebergSinkConnector",
    "topics": "a",
    "iceberg.tables": "db.a",
}
S3 = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "topics": "a",
    "s3.bucket.name": "b",
    "flush.size": "1",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
}
ROUTER = {"type": f"{KAFKA}RegexRouter", "regex": "p[.]public[.](.*)", "replacement": "$1"}
LOGICAL = {"type": f"{DEBEZIUM}ByLogicalTableRouter", "topic.regex": "p[.]public[.](.*)", "topic.replacement": "$1"}
OUTBOX = {"type": f"{DEBEZIUM}outbox.EventRouter", "table.fields.additional.placement": "kind:header,type:header:event"}
UNWRAP = {"type": f"{DEBEZIUM}ExtractNewRecordState"}
MASK = {"type": f"{KAFKA}MaskField$Value", "fields": "phone"}
FILTER = {"type": f"{KAFKA}Filter"}


def chain(*smts: dict[str, str], predicate: str = "", matched: str = "") -> dict[str, str]:
    """Return the options of a chain, whose last SMT has the predicate."""
    options = {f"transforms.t{n}.{name}": value for n, smt in enumerate(smts) for name, value in smt.items()}
    options["transforms"] = ",".join(f"t{n}" for n in range(len(smts)))
    if predicate:
        kind, name = ("HasHeaderKey", "name") if predicate == "header" else ("TopicNameMatches", "pattern")
        options |= {f"transforms.t{len(smts) - 1}.predicate": "x", "predicates": "x", f"predicates.x.{name}": matched}
        options["predicates.x.type"] = f"{KAFKA}predicates.{kind}"
    return options


def list_steps(pipeline: Any) -> list[Any]:
    return [step for step in pipeline.get("transforms", []) if "unwrap" not in step and "outbox" not in step]


@pytest.mark.parametrize("sink", [ICEBERG, S3])
@pytest.mark.parametrize("router", [ROUTER, LOGICAL, OUTBOX, UNWRAP | {"route.by.field": "region"}])
@pytest.mark.parametrize("smt", [MASK, FILTER])
def test_predicate_over_the_topic_of_a_router_of_the_source(
    smt: dict[str, str], router: dict[str, str], sink: dict[str, str], importer: Any, find_keys: Any
) -> None:
    source = SOURCE | chain(router, UNWRAP)
    sink = sink | chain(smt, predicate="topic", matched="a")
    assert list_steps(importer.load(source, sink)) == []
    result = importer.run(importer.write("source.json", source), importer.write("sink.json", sink))
    assert "transforms.t0.type" in find_keys(result, Kind.NOT_IMPORTED)
    kept = importer.load(source, sink, keep_transforms=True)
    assert [options["when"] for step in list_steps(kept) for options in step.values()] == [
        "_headrace_topic RLIKE '^(?:a)$'"
    ]


def test_topic_column_and_router_after_a_router_of_the_source(importer: Any, find_keys: Any) -> None:
    insert = {"type": f"{KAFKA}InsertField$Value", "topic.field": "topic"}
    sink = S3 | chain(insert, ROUTER | {"regex": "(.*)", "replacement": "lake_$1"})
    source = SOURCE | chain(ROUTER, UNWRAP)
    assert importer.load(source, sink)["tables"][0] == {"source": "/p[.]public[.](.*)/", "target": "{1}"}
    result = importer.run(importer.write("source.json", source), importer.write("sink.json", sink))
    assert {"transforms.t0.topic.field", "transforms.t1.regex"} <= find_keys(result, Kind.NOT_IMPORTED)


def test_outbox_after_an_unwrap_of_the_source(importer: Any, find_keys: Any) -> None:
    files = [importer.write("a.json", SOURCE | chain(UNWRAP)), importer.write("b.json", ICEBERG | chain(OUTBOX))]
    assert "transforms.t0.type" in find_keys(importer.run(*files), Kind.NOT_IMPORTED)


@pytest.mark.parametrize(
    ("smt", "header"),
    [
        ({"type": f"{KAFKA}InsertHeader", "header": "gdpr", "value.literal": "yes"}, "gdpr"),
        ({"type": f"{DEBEZIUM}ExtractChangedRecordState", "header.changed.name": "Changed"}, "Changed"),
        (UNWRAP | {"add.headers": "op"}, "__op"),
        ({"type": f"{KAFKA}HeaderFrom$Value", "fields": "a", "headers": "h", "operation": "move"}, "h"),
        ({"type": f"{KAFKA}DropHeaders", "headers": "h"}, "h"),
        ({"type": f"{DEBEZIUM}HeaderToValue", "headers": "h", "fields": "a", "operation": "move"}, "h"),
        (OUTBOX, "id"),
        (OUTBOX, "kind"),
        (OUTBOX, "event"),
    ],
)
@pytest.mark.parametrize("is_one", [True, False])
def test_predicate_over_a_changed_header(
    smt: dict[str, str], header: str, is_one: bool, importer: Any, find_keys: Any
) -> None:
    unwrap = [] if "ExtractNew" in smt["type"] else [UNWRAP]
    first, rest = ([*unwrap, smt], []) if "outbox" not in smt["type"] else ([smt], unwrap)
    chains = [chain(*first), chain(*rest, MASK, predicate="header", matched=header)]
    if is_one:
        chains = [{}, chain(*first, *rest, MASK, predicate="header", matched=header)]
    result = importer.run(
        importer.write("a.json", SOURCE | chains[0]),
        importer.write("b.json", ICEBERG | {"topics": "p.public.a"} | chains[1]),
    )
    importer.check(result)
    assert "phone" not in result.pipeline
    assert f"transforms.t{chains[1]['transforms'].count('t') - 1}.fields" in find_keys(result, Kind.NOT_IMPORTED)


COPY = {"type": f"{DEBEZIUM}HeaderToValue", "headers": "__op,trace", "fields": "op,trace_id", "operation": "copy"}
OWN = {"insert": {"headers": ["trace"], "fields": ["trace_id"]}}
RENAME = {"rename": {"columns": {"__op": "op"}}}
HEADERS = UNWRAP | {"add.headers": "op"}
WORD, NUMBER = ({"type": f"{KAFKA}InsertHeader", "header": "__op", "value.literal": text} for text in ("prod", "7"))


@pytest.mark.parametrize(
    ("before", "steps", "is_reported"),
    [
        ([UNWRAP], [{"insert": {"headers": ["__op", "trace"], "fields": ["op", "trace_id"]}}], False),
        ([HEADERS], [OWN, RENAME], False),
        ([HEADERS, MASK], [{"mask": {"columns": {"phone": {"empty": True}}}}, OWN, RENAME], False),
        ([HEADERS, {"type": f"{KAFKA}ReplaceField$Value", "include": "a"}], [{"keep": {"columns": ["a"]}}, OWN], True),
        ([HEADERS, {"type": f"{KAFKA}Flatten$Value"}], [{"flatten": {}}, OWN], True),
        ([HEADERS, {"type": f"{KAFKA}DropHeaders", "headers": "__op"}], [OWN], True),
        (
            [UNWRAP, WORD],
            [OWN, {"insert": {"static.field": "op", "static.value": "prod"}}],
            False,
        ),
        ([UNWRAP, NUMBER], [OWN], True),
        ([UNWRAP, {"type": f"{KAFKA}HeaderFrom$Value", "fields": "a", "headers": "__op"}], [OWN], True),
    ],
)
@pytest.mark.parametrize("is_one", [True, False])
def test_header_of_the_chain_becomes_a_column(
    before: list[dict[str, str]], steps: list[Any], is_reported: bool, is_one: bool, importer: Any, find_keys: Any
) -> None:
    chains = [chain(), chain(*before, COPY)] if is_one else [chain(*before), chain(COPY)]
    sink = ICEBERG | {"topics": "p.public.a"} | chains[1]
    assert list_steps(importer.load(SOURCE | chains[0], sink)) == steps
    result = importer.run(importer.write("a.json", SOURCE | chains[0]), importer.write("b.json", sink))
    headers = f"transforms.t{len(before) if is_one else 0}.headers"
    assert (headers in find_keys(result, Kind.NOT_IMPORTED)) is is_reported
