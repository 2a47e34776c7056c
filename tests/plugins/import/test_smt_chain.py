"""Single message transforms as transforms of a pipeline."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from headrace_import.import_report import Kind

KAFKA, DEBEZIUM = "org.apache.kafka.connect.transforms.", "io.debezium.transforms."
CONFLUENT = "io.confluent.connect.transforms."
PREDICATES = f"{KAFKA}predicates."
SOURCE = {"connector.class": "io.debezium.connector.mysql.MySqlConnector", "topic.prefix": "shop"}
UNWRAP = {"type": f"{DEBEZIUM}ExtractNewRecordState"}
TOPIC = "_headrace_topic RLIKE '^(?:a\\\\.b)$'"


def make_config(*smts: dict[str, str], **others: str) -> dict[str, str]:
    """Return a connector with a chain of SMTs and the predicates ``topic``, ``header`` and ``tombstone``."""
    options = {f"transforms.t{n}.{name}": value for n, smt in enumerate(smts) for name, value in smt.items()}
    predicates = {
        "predicates": "topic,header",
        "predicates.topic.type": f"{PREDICATES}TopicNameMatches",
        "predicates.topic.pattern": "a\\.b",
        "predicates.header.type": f"{PREDICATES}HasHeaderKey",
        "predicates.header.name": "it's",
        "predicates.tombstone.type": f"{PREDICATES}RecordIsTombstone",
    }
    return SOURCE | {"transforms": ",".join(f"t{n}" for n in range(len(smts)))} | options | predicates | others


@pytest.mark.parametrize(
    ("smt", "steps"),
    [
        ({"type": "Cast$Value", "spec": "a:int32,b:string"}, [{"cast": {"columns": {"a": "int32", "b": "string"}}}]),
        (
            {"type": "ReplaceField$Value", "include": "a,b", "exclude": "b,c", "renames": "a:x"},
            [{"keep": {"columns": ["a"]}}, {"rename": {"columns": {"a": "x"}}}],
        ),
        ({"type": "ReplaceField$Value", "include": "a", "renames": "b:x"}, [{"keep": {"columns": ["a"]}}]),
        (
            {"type": "ReplaceField$Value", "exclude": "b", "renames": "b:x,a:y"},
            [{"drop": {"columns": ["b"]}}, {"rename": {"columns": {"a": "y"}}}],
        ),
        (
            {"type": "InsertField$Value", "offset.field": "o!", "static.field": "s?", "static.value": "7"},
            [{"insert": {"static.field": "s?", "offset.field": "o!", "static.value": "7"}}],
        ),
        (
            {"type": "TimestampConverter$Value", "field": "at", "target.type": "Date", "format": "dd.MM.yyyy"},
            [{"timestamp": {"field": "at", "target.type": "Date", "format": "dd.MM.yyyy"}}],
        ),
        (
            {"type": "TimestampConverter$Value", "field": "at", "target.type": "string", "format": "yy'SyS'.SSS"},
            [{"timestamp": {"field": "at", "target.type": "string", "format": "yy'SyS'.SSS"}}],
        ),
        ({"type": "Flatten$Value", "delimiter": "_"}, [{"flatten": {"delimiter": "_"}}]),
        ({"type": "MaskField$Value", "fields": "a"}, [{"mask": {"columns": {"a": {"empty": True}}}}]),
        (
            {"type": "MaskField$Value", "fields": "a", "replacement": "x"},
            [{"mask": {"columns": {"a": {"replacement": "x", "keep_type": True}}}}],
        ),
        ({"type": "ExtractField$Value", "field": "after"}, [{"unwrap": {}}]),
        ({"type": "Filter", "predicate": "topic"}, [{"filter": {"when": TOPIC, "updates": "drop"}}]),
        (
            {"type": "Filter", "predicate": "topic", "negate": "true"},
            [{"filter": {"when": f"NOT ({TOPIC})", "updates": "drop"}}],
        ),
        (
            {"type": "Filter", "predicate": "header"},
            [{"filter": {"when": "exists(_headrace_headers, h -> h.key = 'it\\'s')", "updates": "drop"}}],
        ),
        (
            {"type": "Cast$Value", "spec": "a:int32", "predicate": "header", "negate": "true"},
            [
                {
                    "cast": {
                        "columns": {"a": "int32"},
                        "when": "NOT coalesce(exists(_headrace_headers, h -> h.key = 'it\\'s'), false)",
                    }
                }
            ],
        ),
    ],
)
def test_kafka_connects_smts(smt: dict[str, str], steps: Any, importer: Any) -> None:
    pipeline = importer.load(make_config(UNWRAP, smt | {"type": KAFKA + smt["type"]}))
    assert pipeline["transforms"] == [{"unwrap": {}}, *steps]


def test_smts_of_all_records_but_tombstones_apply_to_every_row(importer: Any, find_keys: Any) -> None:
    config = make_config(
        UNWRAP,
        {"type": f"{KAFKA}MaskField$Value", "fields": "a", "predicate": "tombstone", "negate": "true"},
        {"type": f"{KAFKA}InsertField$Value", "topic.field": "t", "predicate": "tombstone", "negate": "true"},
    )
    config["predicates"] = "tombstone"
    steps = [{"unwrap": {}}, {"mask": {"columns": {"a": {"empty": True}}}}, {"insert": {"topic.field": "t"}}]
    assert importer.load(config)["transforms"] == steps
    found = find_keys(importer.run(importer.write("a.json", config)), Kind.NO_MEANING)
    keys = {f"transforms.t{n}.{name}" for n in (1, 2) for name in ("predicate", "negate")}
    assert keys | {"predicates", "predicates.tombstone.type"} <= found


def test_unwrap_has_all_options(importer: Any) -> None:
    options = {
        "delete.tombstone.handling.mode": "rewrite",
        "add.fields": "op,source.ts_ms",
        "add.headers": "db",
        "add.headers.prefix": "h_",
        "drop.fields.header.name": "dropped",
        "replace.null.with.default": "false",
    }
    expected = options | {"replace.null.with.default": False}
    assert importer.load(make_config(UNWRAP | options))["transforms"] == [{"unwrap": expected}]


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({}, "drop"),
        ({"delete.tombstone.handling.mode": "rewrite-with-tombstone"}, "rewrite"),
        ({"delete.tombstone.handling.mode": "tombstone"}, "drop"),
        ({"delete.handling.mode": "none"}, "drop"),
        ({"delete.handling.mode": "rewrite", "drop.tombstones": "false"}, "rewrite"),
    ],
)
def test_unwrap_for_objects_removes_no_rows(options: dict[str, str], mode: str, importer: Any) -> None:
    sink = {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "topics.regex": "shop.*",
        "s3.bucket.name": "b",
        "flush.size": "1",
    }
    pipeline = importer.load(make_config(UNWRAP | options), sink)
    assert pipeline["transforms"] == [{"unwrap": {"delete.tombstone.handling.mode": mode}}]


def test_routers_become_rules_and_other_topics_stay(importer: Any) -> None:
    router = {"type": f"{KAFKA}RegexRouter", "regex": "shop\\.(\\w+)\\.(.*)", "replacement": "lake.$1_$2"}
    pipeline = importer.load(make_config(router))
    assert pipeline["tables"] == [{"source": "/shop\\.(\\w+)\\.(.*)/", "target": "lake.{1}_{2}"}, {"source": "*"}]


def test_logical_tables(importer: Any) -> None:
    router = {"type": f"{DEBEZIUM}ByLogicalTableRouter", "topic.regex": "(.*)_\\d+", "topic.replacement": "$1"}
    assert importer.load(make_config(router))["tables"][0] == {
        "source": "/(.*)_\\d+/",
        "target": "{1}",
        "logical.table": True,
    }


def test_key_columns_of_several_smts(importer: Any, find_keys: Any) -> None:
    smts = (
        {"type": f"{KAFKA}ValueToKey", "fields": "a"},
        {"type": f"{KAFKA}ValueToKey", "fields": "id,b"},
        {"type": f"{KAFKA}ExtractField$Key", "field": "id"},
        {"type": f"{KAFKA}ReplaceField$Key", "renames": "id:pk"},
    )
    result = importer.run(importer.write("a.json", make_config(*smts)))
    assert yaml.safe_load(result.pipeline)["tables"] == [{"source": "*", "key": ["id", "b"]}]
    assert {"transforms.t2.type", "transforms.t3.type"} <= find_keys(result, Kind.NOT_IMPORTED)


def test_key_columns(importer: Any) -> None:
    smts = (
        {"type": f"{KAFKA}ValueToKey", "fields": "id"},
        {"type": f"{KAFKA}ExtractField$Key", "field": "id"},
    )
    assert importer.load(make_config(*smts))["tables"] == [{"source": "*", "key": ["id"]}]
    assert "`key: none`" in str(importer.run(importer.write("a.json", make_config(*smts))).report)


@pytest.mark.parametrize(
    ("smt", "fix"),
    [
        ({"type": "com.acme.Enrich", "url": "http://x"}, "transform plugin"),
        ({"type": f"{KAFKA}HoistField$Value", "field": "all"}, "compute"),
        ({"type": f"{KAFKA}TimestampRouter"}, "partition"),
        ({"type": f"{KAFKA}Cast$Key", "spec": "a:int32"}, "without `$Key`"),
        ({"type": f"{KAFKA}Cast$Value", "spec": "int32"}, "cast"),
        ({"type": f"{KAFKA}Cast$Value", "spec": "a:int32", "predicate": "tombstone"}, "tombstones"),
        ({"type": f"{KAFKA}Filter", "predicate": "tombstone", "negate": "true"}, "remove it"),
        ({"type": f"{DEBEZIUM}Filter", "language": "jsr223.groovy", "condition": "value.op == 'u'"}, "filter"),
        ({"type": f"{DEBEZIUM}outbox.EventRouter", "route.topic.regex": "(.)(.*)"}, "route.by.field"),
        ({"type": f"{DEBEZIUM}outbox.EventRouter", "predicate": "header"}, "tables"),
        ({"type": f"{KAFKA}RegexRouter", "regex": "(", "replacement": "x"}, "tables"),
        ({"type": f"{KAFKA}RegexRouter", "regex": "a", "replacement": "a/b"}, "target"),
        ({"type": f"{KAFKA}RegexRouter", "regex": "(a)", "replacement": "$2"}, "target"),
        ({"type": f"{KAFKA}RegexRouter", "regex": "(a)", "replacement": "a\\$1"}, "target"),
        ({"type": f"{KAFKA}RegexRouter", "regex": "(a)", "replacement": "${env:PREFIX}.$1"}, "target"),
        ({"type": f"{KAFKA}RegexRouter", "regex": "(?<name>a)", "replacement": "${name}"}, "tables"),
        ({"type": f"{KAFKA}InsertField$Key", "topic.field": "t!"}, "without `$Key`"),
        ({"type": f"{KAFKA}ValueToKey"}, "`key:`"),
        ({"type": f"{DEBEZIUM}ExtractNewRecordState", "predicate": "header"}, "tables"),
        (
            {"type": f"{CONFLUENT}Filter$Value", "filter.condition": "$[?(@.a == 1)]", "filter.type": "include"},
            "condition",
        ),
        ({"type": f"{CONFLUENT}ExtractTopic$Value", "field": "kind"}, "route.by.field"),
        (
            {"type": f"{KAFKA}TimestampConverter$Value", "field": "at", "target.type": "Date", "format": "YYYY-MM-dd"},
            "year",
        ),
        (
            {"type": f"{KAFKA}TimestampConverter$Value", "field": "at", "target.type": "Date", "format": "dd.MM.yy"},
            "century",
        ),
        (
            {"type": f"{KAFKA}TimestampConverter$Value", "field": "at", "target.type": "Timestamp", "format": "y'S'.S"},
            "`SSS` is the same",
        ),
        ({"type": f"{KAFKA}ReplaceField$Value", "exclude": "before,source"}, "after `unwrap`"),
    ],
)
def test_smt_without_counterpart_is_reported_with_the_nearest(smt: dict[str, str], fix: str, importer: Any) -> None:
    result = importer.run(importer.write("a.json", make_config(smt)))
    importer.check(result)
    (found,) = [f for f in result.report.findings if "transforms.t0.type" in f.keys]
    assert found.kind is Kind.NOT_IMPORTED
    assert {f"transforms.t0.{name}" for name in smt} == set(found.keys)
    assert fix in str(found.fix)


@pytest.mark.parametrize(
    "deletes",
    [{}, {"delete.handling.mode": "rewrite"}, {"delete.tombstone.handling.mode": "rewrite", "predicate": "topic"}],
)
def test_transforms_may_stay_in_the_connector(deletes: dict[str, str], importer: Any) -> None:
    config = make_config(UNWRAP | deletes, {"type": f"{KAFKA}Flatten$Value"})
    mode = {name: value for name, value in deletes.items() if name != "predicate"}
    assert importer.load(config, keep_transforms=True)["transforms"] == [{"unwrap": mode}]


def test_unwrap_for_some_topics_keeps_its_options(importer: Any, find_keys: Any) -> None:
    unwrap = UNWRAP | {"delete.tombstone.handling.mode": "rewrite", "predicate": "topic"}
    result = importer.run(importer.write("a.json", make_config(unwrap)))
    importer.check(result)
    assert yaml.safe_load(result.pipeline)["transforms"] == [{"unwrap": {"delete.tombstone.handling.mode": "rewrite"}}]
    assert "transforms.t0.predicate" in find_keys(result, Kind.TO_DO)


def test_changes_of_envelopes_are_not_imported(importer: Any, find_keys: Any) -> None:
    drop = {"type": f"{KAFKA}ReplaceField$Value", "exclude": "source"}
    sink = {"connector.class": "io.confluent.connect.s3.S3SinkConnector", "topics": "a", "s3.bucket.name": "b"}
    chain = make_config(drop, UNWRAP) | sink | {"flush.size": "1"}
    result = importer.run(importer.write("a.json", chain))
    importer.check(result)
    assert "transforms.t0.exclude" in find_keys(result, Kind.NOT_IMPORTED)
    assert "drop:" not in result.pipeline


def test_topic_after_a_router_is_not_inserted(importer: Any, find_keys: Any) -> None:
    router = {"type": f"{KAFKA}RegexRouter", "regex": "shop\\.(.*)", "replacement": "$1"}
    insert = {"type": f"{KAFKA}InsertField$Value", "topic.field": "topic"}
    result = importer.run(importer.write("a.json", make_config(UNWRAP, router, insert)))
    assert "transforms.t2.topic.field" in find_keys(result, Kind.NOT_IMPORTED)


@pytest.mark.parametrize("options", [{}, {"key.enforce.uniqueness": "false"}])
@pytest.mark.parametrize("name", ["ByLogicalTableRouter", "ToLogicalTopicRouter"])
def test_keys_of_shards_are_to_check(name: str, options: dict[str, str], importer: Any, find_keys: Any) -> None:
    router = {"type": f"{DEBEZIUM}{name}", "topic.regex": "(.*)_\\d+", "topic.replacement": "$1"}
    result = importer.run(importer.write("a.json", make_config(router | options)))
    assert ("transforms.t0.type" in find_keys(result, Kind.TO_DO)) is not bool(options)


def test_predicate_after_a_router_is_not_imported(importer: Any, find_keys: Any) -> None:
    router = {"type": f"{KAFKA}RegexRouter", "regex": "shop\\.(.*)", "replacement": "$1"}
    mask = {"type": f"{KAFKA}MaskField$Value", "fields": "email", "predicate": "topic"}
    result = importer.run(importer.write("routed.json", make_config(UNWRAP, router, mask)))
    assert "mask:" not in result.pipeline
    assert "transforms.t2.type" in find_keys(result, Kind.NOT_IMPORTED)
    before = importer.load(make_config(UNWRAP, mask, router))["transforms"]
    assert [name for step in before for name in step] == ["unwrap", "mask"]


@pytest.mark.parametrize(
    "smt",
    [
        {"type": f"{DEBEZIUM}ExtractNewRecordState", "add.headers": "op,source.db"},
        {"type": f"{DEBEZIUM}ExtractNewRecordState", "add.headers": "ts_ms:db", "add.headers.prefix": "__source_"},
        {"type": f"{DEBEZIUM}ExtractChangedRecordState", "header.changed.name": "__source_db"},
        {"type": f"{KAFKA}InsertHeader", "header": "__source_db", "value.literal": "x"},
        {"type": f"{KAFKA}HeaderFrom$Value", "fields": "a", "headers": "__source_db", "operation": "copy"},
        {"type": f"{KAFKA}DropHeaders", "headers": "__source_db"},
    ],
)
def test_predicate_over_a_header_of_the_chain_is_not_imported(
    smt: dict[str, str], importer: Any, find_keys: Any
) -> None:
    """The records that headrace reads lack a header that the chain adds, and have one that it removes."""
    mask = {"type": f"{KAFKA}MaskField$Value", "fields": "email", "predicate": "header"}
    name = {"predicates.header.name": "__source_db"}
    result = importer.run(importer.write("a.json", make_config(smt, UNWRAP, mask, **name)))
    assert "mask:" not in result.pipeline
    assert "transforms.t2.type" in find_keys(result, Kind.NOT_IMPORTED)
    before = importer.load(make_config(UNWRAP, mask, smt, **name))["transforms"]
    assert {"mask"} <= {name for step in before for name in step}


def test_empty_prefix_of_added_fields_is_kept(importer: Any) -> None:
    unwrap = UNWRAP | {"add.fields": "op,ts_ms", "add.fields.prefix": ""}
    [step] = importer.load(make_config(unwrap))["transforms"]
    assert step["unwrap"]["add.fields.prefix"] == ""


def test_outbox_of_some_topics(importer: Any) -> None:
    """The envelopes of the other topics become rows, too."""
    router = {
        "type": f"{DEBEZIUM}outbox.EventRouter",
        "predicate": "topic",
        "route.by.field": "kind",
        "route.topic.replacement": "lake.${routedByValue}",
        "table.fields.additional.placement": "type:header:event, p:partition",
    }
    pipeline = importer.load(make_config(router))
    assert pipeline["tables"] == [
        {"source": "/a\\.b/", "route.by.field": "after.kind", "target": "lake.{topic}"},
        {"source": "*"},
    ]
    outbox = {"table.fields.additional.placement": "type:header:event", "tables": "lake.*"}
    assert pipeline["transforms"] == [{"outbox": outbox}, {"unwrap": {}}]


def test_outbox_precedes_an_unwrap_of_other_topics(importer: Any) -> None:
    """In Kafka Connect, each topic passes one of the two, in any order; here `unwrap` is for all topics."""
    router = {"type": f"{DEBEZIUM}outbox.EventRouter", "predicate": "topic", "table.op.invalid.behavior": "WARN"}
    mask = {"type": f"{KAFKA}MaskField$Value", "fields": "email"}
    pipeline = importer.load(make_config(UNWRAP | {"predicate": "topic", "negate": "true"}, mask, router))
    assert pipeline["transforms"] == [
        {"outbox": {"table.op.invalid.behavior": "warn", "tables": "outbox.event.*"}},
        {"unwrap": {}},
        {"mask": {"columns": {"email": {"empty": True}}, "tables.exclude": ["outbox.event.*"]}},
    ]


@pytest.mark.parametrize("router", [{}, {"predicate": "topic"}])
def test_outbox_of_rows_is_not_imported(router: dict[str, str], importer: Any, find_keys: Any) -> None:
    """Debezium's router passes rows on."""
    config = make_config(UNWRAP, {"type": f"{DEBEZIUM}outbox.EventRouter"} | router)
    result = importer.run(importer.write("a.json", config))
    importer.check(result)
    assert yaml.safe_load(result.pipeline)["transforms"] == [{"unwrap": {}}]
    assert "transforms.t1.type" in find_keys(result, Kind.NOT_IMPORTED)


@pytest.mark.parametrize("replacement", ["${routedByValue}", "shop.${routedByValue}"])
def test_outbox_excludes_the_tables_of_other_topics(replacement: str, importer: Any) -> None:
    router = {"type": f"{DEBEZIUM}outbox.EventRouter", "predicate": "topic", "route.topic.replacement": replacement}
    names = {"predicates.topic.pattern": "shop.app.outbox", "table.include.list": "app.orders,app.outbox"}
    config = make_config(router) | names
    [outbox, _] = importer.load(config)["transforms"]
    assert outbox["outbox"]["tables.exclude"] == ["shop.app.orders"]
    result = importer.run(importer.write("a.json", config | {"table.include.list": "app.o.*"}))
    importer.check(result)
    assert "tables of other topics may match" in str(result.report)


def test_outbox_has_one_column_of_a_name(importer: Any) -> None:
    placement = "aggregateid:header, type:header, type:envelope, at:envelope:TYPE, at:header"
    router = {"type": f"{DEBEZIUM}outbox.EventRouter", "table.fields.additional.placement": placement}
    [step] = importer.load(make_config(router))["transforms"]
    assert step == {"outbox": {"table.fields.additional.placement": "type:header,at:header"}}


def test_outbox_into_the_table_of_a_sink(importer: Any) -> None:
    sink = {
        "connector.class": "io.tabular.iceberg.connect.IcebergSinkConnector",
        "topics": "outbox.event.order",
        "iceberg.tables": "db.events",
        "iceberg.table.db.events.id-columns": "id",
    }
    router = {"type": f"{DEBEZIUM}outbox.EventRouter"}
    pipeline = importer.load(make_config(router), sink)
    assert pipeline["tables"] == [{"source": "*", "target": "db.events", "key": ["id"]}]
    assert pipeline["transforms"] == [{"outbox": {}}]


def test_outbox_for_objects_removes_no_rows(importer: Any) -> None:
    sink = {"connector.class": "io.confluent.connect.s3.S3SinkConnector", "topics": "a", "s3.bucket.name": "b"}
    router = {"type": f"{DEBEZIUM}outbox.EventRouter", "route.tombstone.on.empty.payload": "true"}
    pipeline = importer.load(make_config(router), sink | {"flush.size": "1"})
    assert pipeline["transforms"] == [{"outbox": {}}]


def test_new_name_of_a_removed_column_is_in_the_report(importer: Any, find_keys: Any) -> None:
    smt = {"type": f"{KAFKA}ReplaceField$Value", "include": "a,c", "renames": "b:x,c:y"}
    result = importer.run(importer.write("a.json", make_config(smt)), keep_transforms=False)
    assert "transforms.t0.renames" in find_keys(result, Kind.NO_MEANING)
    # Kafka Connect gives `a` the value of `b` in records with a schema, and its own in others.
    smt = {"type": f"{KAFKA}ReplaceField$Value", "include": "a", "renames": "b:a"}
    result = importer.run(importer.write("a.json", make_config(smt)), keep_transforms=False)
    assert "transforms.t0.renames" in find_keys(result, Kind.NOT_IMPORTED)


def test_replace_field_that_leaves_no_column_is_not_imported(importer: Any, find_keys: Any) -> None:
    smt = {"type": f"{KAFKA}ReplaceField$Value", "include": "a", "exclude": "a,b"}
    result = importer.run(importer.write("0.json", make_config(smt)))
    importer.check(result)
    assert "transforms.t0.include" in find_keys(result, Kind.NOT_IMPORTED)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("R4wValue", "${env:TRANSFORMS_T1_STATIC_VALUE}"),
        ("${vault:secret/shop:key}", "${env:TRANSFORMS_T1_STATIC_VALUE}"),
        ("${secretManager:shop:key}", "${secretManager:shop:key}"),
    ],
)
def test_inserted_secret_stays_a_reference(value: str, written: str, importer: Any) -> None:
    smt = {"type": f"{KAFKA}InsertField$Value", "static.field": "api_key", "static.value": value}
    result = importer.run(importer.write("0.json", make_config(UNWRAP, smt)))
    [insert] = [step["insert"] for step in yaml.safe_load(result.pipeline)["transforms"] if "insert" in step]
    assert insert["static.value"] == written
    assert "R4wValue" not in result.pipeline + str(result.report)


def test_option_without_a_value_has_no_meaning(importer: Any, find_keys: Any) -> None:
    result = importer.run(importer.write("0.json", SOURCE | {"table.exclude.list": ""}))
    assert "table.exclude.list" in find_keys(result, Kind.NO_MEANING)
    assert not find_keys(result, Kind.UNKNOWN)
