"""Each row of the documented table of the options of SMTs."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from tests.support.dist import ROOT

from headrace_import.import_report import Kind

KAFKA, DEBEZIUM = "org.apache.kafka.connect.transforms.", "io.debezium.transforms."
#: Packages of Debezium's SMTs that are not in ``io.debezium.transforms``.
PACKAGES = {
    "EventRouter": f"{DEBEZIUM}outbox.",
    "PartitionRouting": f"{DEBEZIUM}partitions.",
    "ActivateTracingSpan": f"{DEBEZIUM}tracing.",
    "TimescaleDb": "io.debezium.connector.postgresql.transforms.timescaledb.",
    "DecodeLogicalDecodingMessageContent": "io.debezium.connector.postgresql.transforms.",
    "ExtractNewDocumentState": "io.debezium.connector.mongodb.transforms.",
    "MongoEventRouter": "io.debezium.connector.mongodb.transforms.outbox.",
    "CollectionNameTransformation": "io.debezium.connector.jdbc.transforms.",
    "FieldNameTransformation": "io.debezium.connector.jdbc.transforms.",
    "ConvertCloudEventToSaveableForm": "io.debezium.connector.jdbc.transforms.",
}
#: Options without which an SMT does nothing.
REQUIRED = {
    "Cast$Value": {"spec": "a:int32"},
    "ExtractField$Value": {"field": "after"},
    "HeaderFrom$Value": {"operation": "move", "fields": "a", "headers": "h"},
    "InsertField$Value": {"static.field": "s", "static.value": "x"},
    "MaskField$Value": {"fields": "a"},
    "RegexRouter": {"regex": r"shop\.(.*)", "replacement": "lake.$1"},
    "ReplaceField$Value": {"renames": "x:y"},
    "TimestampConverter$Value": {"field": "at", "target.type": "string", "format": "dd"},
    "ValueToKey": {"fields": "id"},
    "ByLogicalTableRouter": {"topic.regex": r"(.*)_\d+", "topic.replacement": "$1"},
    "ToLogicalTopicRouter": {"topic.regex": r"(.*)_\d+", "topic.replacement": "$1"},
    "HeaderToValue": {"headers": "trace", "fields": "trace_id"},
    "TimezoneConverter": {"converted.timezone": "Europe/Zurich"},
}
#: SMTs that receive Debezium's envelopes.
OF_ENVELOPES = ("ExtractField", "ExtractNewRecordState", "EventRouter")
SECTIONS = (ROOT / "docs/smts.md").read_text(encoding="utf-8").partition("\n## Debezium\n")[::2]
ROWS = [
    (package, *(cell.strip() for cell in line.strip("|").split(" | ")))
    for package, section in zip((KAFKA, DEBEZIUM), SECTIONS, strict=True)
    for line in section.splitlines()
    if line.startswith("| `")
]


def make_config(package: str, smt: str, option: str) -> tuple[str, dict[str, str]]:
    """Return the key of the option, and a connector with the SMT."""
    name, _, value = option.partition(": ")
    required = dict(REQUIRED.get(smt, {}))
    if smt == "TimezoneConverter" and name == "converted.timezone":
        required["include.list"] = "at"
    options = required | ({name: value} if name else {})
    unwrap = {} if smt.startswith(OF_ENVELOPES) else {"transforms.u.type": f"{DEBEZIUM}ExtractNewRecordState"}
    config = {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "topic.prefix": "shop",
        "transforms": "u,t" if unwrap else "t",
        "transforms.t.type": PACKAGES.get(smt, package) + smt,
        "predicates": "topic",
        "predicates.topic.type": f"{KAFKA}predicates.TopicNameMatches",
        "predicates.topic.pattern": "shop",
    }
    return f"transforms.t.{name or 'type'}", config | unwrap | {f"transforms.t.{k}": v for k, v in options.items()}


def has_part(pipeline: dict[str, Any], part: Any) -> bool:
    """Return whether a transform or a rule of tables has these options."""
    found = [item for item in pipeline.get("transforms", []) if item.keys() == part.keys()]
    if found:
        (name, options), *_ = part.items()
        return any(options.items() <= item[name].items() for item in found)
    return any(part.items() <= rule.items() for rule in pipeline.get("tables", []))


def test_table_has_all_transforms_of_kafka_connect() -> None:
    names = {smt.strip("`").partition("$")[0] for package, smt, *_ in ROWS if package == KAFKA}
    assert len(names) == 16
    assert len(ROWS) > 120


@pytest.mark.parametrize(("package", "smt", "option", "here"), ROWS)
def test_documented_option(package: str, smt: str, option: str, here: str, importer: Any) -> None:
    name, option = smt.strip("`"), option.strip("`")
    key, config = make_config(package, name, option)
    result = importer.run(importer.write("connector.json", config))
    importer.check(result)
    findings = [finding for finding in result.report.findings if key in finding.keys]
    is_cited = re.search(rf"\b{re.escape(key)}(,|;|$)", result.pipeline, re.MULTILINE) is not None
    kinds = {"no meaning": Kind.NO_MEANING, "not imported": Kind.NOT_IMPORTED}
    status, _, reason = here.partition(": ")
    if status in kinds:
        found = [
            f"{finding.why.removeprefix(name.partition('$')[0] + ': ')}{f'; {finding.fix}' if finding.fix else ''}"
            for finding in findings
            if finding.kind is kinds[status]
        ]
        assert found == [reason]
        assert not is_cited
    else:
        assert is_cited
        assert not any(finding.kind in kinds.values() for finding in findings)
        assert has_part(yaml.safe_load(result.pipeline), yaml.safe_load(f"{{{here.strip('`')}}}"))


@pytest.mark.parametrize(
    ("smt", "option", "value", "step"),
    [
        ("Flatten$Value", "delimiter", "1", "flatten"),
        ("InsertField$Value", "topic.field", "true", "insert"),
        ("InsertField$Value", "timestamp.field", "1", "insert"),
        ("TimestampConverter$Value", "field", "7", "timestamp"),
    ],
)
def test_texts_that_look_like_numbers_stay_texts(smt: str, option: str, value: str, step: str, importer: Any) -> None:
    config = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "topic.prefix": "shop",
        "transforms": "u,t",
        "transforms.u.type": f"{DEBEZIUM}ExtractNewRecordState",
        "transforms.u.drop.tombstones": "false",
        "transforms.t.type": KAFKA + smt,
        **{f"transforms.t.{name}": text for name, text in {**REQUIRED.get(smt, {}), option: value}.items()},
    }
    unwrap, made = importer.load(config)["transforms"]
    assert (unwrap["unwrap"]["drop.tombstones"], made[step][option]) == (False, value)
