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


INSERT = {"type": f"{KAFKA}InsertField$Value", "static.field": "shop?", "static.value": "eu"}
FLATTEN = {"type": f"{KAFKA}Flatten$Value", "delimiter": "_"}


@pytest.mark.parametrize(
    ("smts", "named", "key", "is_reported"),
    [
        ([{"renames": "id:customer_id"}], "customer_id", ["id"], False),
        ([{"renames": "id:x"}, {"renames": "x:customer_id"}], "customer_id,b", ["id", "b"], False),
        ([{"renames": "a:b,b:a"}], "a", ["b"], False),
        ([{"renames": "id:customer_id", "predicate": "h"}], "customer_id", None, True),
        ([{"renames": "id:customer_id"}], "id", None, True),
        ([INSERT], "id,shop", None, True),
        ([INSERT | {"static.field": "shop"}, {"renames": "shop:store"}], "store", None, True),
        ([FLATTEN], "addr_id", ["addr_id"], True),
        ([FLATTEN], "id", ["id"], False),
    ],
)
@pytest.mark.parametrize("place", ["smt", "sink", "source"])
def test_key_has_the_names_of_the_events(
    smts: list[dict[str, str]],
    named: str,
    key: list[str] | None,
    is_reported: bool,
    place: str,
    importer: Any,
    find_keys: Any,
) -> None:
    source = {name: value for name, value in SOURCE.items() if not name.startswith("transforms")}
    chain = {"transforms.u.type": SOURCE["transforms.u.type"]}
    for number, smt in enumerate(smts):
        filled = {"type": SOURCE["transforms.x.type"]} | smt
        chain |= {f"transforms.t{number}.{name}": value for name, value in filled.items()}
    chain |= {"predicates": "h", "predicates.h.name": "h", "predicates.h.type": f"{KAFKA}predicates.HasHeaderKey"}
    names = ["u", *(f"t{number}" for number in range(len(smts)))]
    to_key = {"transforms.k.type": f"{KAFKA}ValueToKey", "transforms.k.fields": named}
    option = "transforms.k.fields"
    sink = {
        "connector.class": "io.tabular.iceberg.connect.IcebergSinkConnector",
        "topics": "p.public.a",
        "iceberg.tables": "db.a",
        "iceberg.tables.upsert-mode-enabled": "true",
    }
    if place == "smt":
        sink |= chain | to_key | {"transforms": ",".join([*names, "k"])}
    elif place == "source":
        source |= chain | {"transforms": ",".join(names)}
        sink |= to_key | {"transforms": "k"}
    else:
        option = "iceberg.table.db.a.id-columns"
        sink |= chain | {"transforms": ",".join(names), option: named}
    result = importer.run(importer.write("a.json", source), importer.write("b.json", sink))
    assert yaml.safe_load(result.pipeline)["tables"][0].get("key") == key
    reported = find_keys(result, Kind.NOT_IMPORTED) | find_keys(result, Kind.TO_DO)
    assert (option in reported) is is_reported


def test_the_table_keeps_a_renamed_key(importer: Any) -> None:
    smts = {"transforms": "u,r,k,x", "transforms.r.type": SOURCE["transforms.x.type"], "transforms.r.renames": "id:pk"}
    pipeline = importer.load(SOURCE | smts | {"transforms.x.exclude": "pk,secret"})
    assert pipeline["tables"] == [{"source": "*", "key": ["id"]}]
    assert pipeline["transforms"][1:] == [{"rename": {"columns": {"id": "pk"}}}, {"drop": {"columns": ["secret"]}}]
