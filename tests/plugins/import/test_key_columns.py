"""Key columns of ValueToKey that a later transform removes from the rows."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from headrace_import.import_report import Kind

KAFKA = "org.apache.kafka.connect.transforms."
SOURCE = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "topic.prefix": "p",
    "table.include.list": "public.a",
    "transforms": "u,k,x",
    "transforms.u.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.k.type": f"{KAFKA}ValueToKey",
    "transforms.k.fields": "pk",
    "transforms.x.type": f"{KAFKA}ReplaceField$Value",
}


@pytest.mark.parametrize(
    ("option", "columns", "steps", "is_reported"),
    [
        ("exclude", "pk", [], True),
        ("exclude", "pk,secret", [{"drop": {"columns": ["secret"]}}], True),
        ("exclude", "secret", [{"drop": {"columns": ["secret"]}}], False),
        ("include", "name", [{"keep": {"columns": ["name", "pk"]}}], True),
        ("include", "name,pk", [{"keep": {"columns": ["name", "pk"]}}], False),
    ],
)
def test_the_table_keeps_its_key(option: str, columns: str, steps: list[Any], is_reported: bool, importer: Any) -> None:
    result = importer.run(importer.write("a.json", SOURCE | {f"transforms.x.{option}": columns}))
    importer.check(result)
    pipeline = yaml.safe_load(result.pipeline)
    assert pipeline["tables"] == [{"source": "*", "key": ["pk"]}]
    assert pipeline["transforms"] == [{"unwrap": {}}, *steps]
    texts = [item.why for item in result.report.findings if item.kind is Kind.TO_DO]
    assert any("key columns pk" in text for text in texts) is is_reported
