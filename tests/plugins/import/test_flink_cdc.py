"""Pipelines of Flink CDC as pipelines of headrace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given, strategies as st
from tests.support.dist import ROOT

from headrace.cli.main import cli
from headrace_import.connect.smt import NotImportableError
from headrace_import.flink.projections import parse_projection, translate_expression
from headrace_import.flink.table_patterns import parse_pattern
from headrace_import.import_report import Kind
from headrace_import.input_files import flatten_mapping

DATA = ROOT / "tests/data/import"
SOURCE = {"type": "mysql", "hostname": "db", "tables": "shop.orders, shop.people"}


@pytest.fixture(autouse=True)
def _variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPIC_PREFIX", "cdc")
    monkeypatch.setenv("SINK_CATALOG_PROPERTIES_TOKEN", "example")


def load(importer: Any, tmp_path: Path, **sections: Any) -> Any:
    """Return the pipeline and the result of an import with these sections; the pipeline passes the check."""
    document = {"source": SOURCE, "sink": {"type": "iceberg", "catalog.properties.type": "hadoop"}} | sections
    file = tmp_path / "a.yaml"
    file.write_text(yaml.safe_dump(document))
    result = importer.run(file)
    importer.check(result)
    return yaml.safe_load(result.pipeline), result


def test_published_form_with_routes_transforms_and_an_iceberg_sink(importer: Any) -> None:
    result = importer.run(DATA / "flink_cdc_iceberg.yaml")
    importer.check(result)
    pipeline = yaml.safe_load(result.pipeline)
    topics = "${env:TOPIC_PREFIX}[.](?:shop[.].*|archive[.]orders_[0-9]+|[app|web][.]visit_.*)"
    assert (pipeline["name"], pipeline["source"]["kafka"]["subscribePattern"]) == ("Sync-shop-to-the-lake", topics)
    assert pipeline["tables"] == [
        {"source": "/${env:TOPIC_PREFIX}[.]archive[.]orders_[0-9]+/", "target": "lake.orders"},
        {"source": "/${env:TOPIC_PREFIX}[.]shop[.].*/", "target": "lake.ods_{table}"},
        {"source": "*", "target": "{schema}.{table}"},
    ]
    assert pipeline["transforms"] == [
        {"unwrap": {}},
        {"compute": {"columns": {"total": "price * amount"}, "tables": ["lake.ods_orders"]}},
        {"keep": {"columns": ["id", "person_id", "total"], "tables": ["lake.ods_orders"]}},
        {
            "compute": {
                "columns": {"note": "COALESCE(note, '')"},
                "tables.exclude": ["lake.ods_people", "lake.ods_orders", "lake.ods_visits"],
            }
        },
    ]
    assert pipeline["sink"]["iceberg"]["catalog.properties"] == {
        "type": "rest",
        "uri": "http://catalog:8181",
        "token": "${env:SINK_CATALOG_PROPERTIES_TOKEN}",
    }
    assert pipeline["sink"]["iceberg"]["partition.by"] == {"lake.orders": ["days(created_at)", "bucket(16, person_id)"]}
    assert pipeline["spark"] == {"spark.hadoop.fs.s3a.endpoint": "http://s3:9000"}


@pytest.mark.parametrize("name", ["flink_cdc_iceberg.yaml", "flink_cdc_kafka.yaml"])
def test_every_option_is_named(name: str, importer: Any) -> None:
    result = importer.run(DATA / name)
    text = result.pipeline + " ".join(key for finding in result.report.findings for key in finding.keys)
    document = yaml.safe_load((DATA / name).read_text())
    for section, content in document.items():
        items = content if isinstance(content, list) else [content]
        starts = [f"{section}[{n}]." for n, _ in enumerate(items, 1)] if isinstance(content, list) else [f"{section}."]
        keys = [f"{start}{key}" for start, item in zip(starts, items, strict=True) for key in flatten_mapping(item)]
        assert [key for key in keys if key not in text] == []
    assert "hunter2" not in result.pipeline + str(result.report)


def test_kafka_sink_becomes_the_source(importer: Any, find_keys: Any) -> None:
    result = importer.run(DATA / "flink_cdc_kafka.yaml")
    importer.check(result)
    pipeline = yaml.safe_load(result.pipeline)
    assert pipeline["source"] == {
        "kafka": {
            "bootstrap.servers": "broker:9092",
            "kafka.security.protocol": "PLAINTEXT",
            "subscribe": ["shop-changes"],
        },
        "value": "json",
    }
    assert pipeline["tables"] == [
        {"source": "shop-changes", "target": "{topic}", "route.by.field": ["source.db", "source.table"]}
    ]
    assert pipeline["transforms"] == [{"unwrap": {}}]
    assert find_keys(result, Kind.TO_DO) == {"sink.type"}  # its route may name topics


def test_names_become_topics_and_a_filter_belongs_to_its_table(importer: Any, tmp_path: Path) -> None:
    transform = {"source-table": "shop.people", "projection": "\\*, UPPER(name) AS name", "filter": "id > 1"}
    route = {"source-table": "shop.people", "sink-table": "lake.people"}
    pipeline, _ = load(importer, tmp_path, transform=[transform], route=[route])
    assert pipeline["source"]["kafka"]["subscribe"] == [f"${{env:TOPIC_PREFIX}}.shop.{t}" for t in ("orders", "people")]
    assert pipeline["transforms"][1:] == [
        {"compute": {"columns": {"name": "UPPER(name)"}, "tables": ["lake.people"]}},
        {"filter": {"condition": "id > 1", "tables": ["lake.people"]}},
    ]


@pytest.mark.parametrize("prefix", ["cdc", "cdc.eu", "app1"])
@pytest.mark.parametrize(
    ("kind", "tables", "names"),
    [
        ("mysql", "app1.orders, app2.orders", ["app1.orders", "app2.orders"]),
        ("postgres", "shop.app1.orders, shop.app2.orders", ["app1.orders", "app2.orders"]),
        ("sqlserver", "app1.dbo.orders, app2.dbo.orders", ["app1.dbo.orders", "app2.dbo.orders"]),
    ],
)
def test_tables_of_several_databases_keep_their_names(
    kind: str,
    tables: str,
    names: list[str],
    prefix: str,
    importer: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOPIC_PREFIX", prefix)
    source = {"type": kind, "tables": tables}
    transforms = [{"source-table": name, "projection": "id"} for name in tables.split(", ")]
    pipeline, result = load(importer, tmp_path, source=source, transform=transforms)
    assert importer.name_tables(result, *(f"{prefix}.{name}" for name in names)) == names
    assert pipeline["transforms"][1:] == [{"keep": {"columns": ["id"], "tables": [name]}} for name in names]


def test_sqlserver_route_without_a_database_is_for_any(importer: Any, tmp_path: Path) -> None:
    source = {"type": "sqlserver", "tables": "shop.dbo.\\.*"}
    route = {"source-table": "dbo.orders", "sink-table": "lake.orders"}
    transform = {"source-table": "dbo.people", "filter": "id > 1"}
    pipeline, result = load(importer, tmp_path, source=source, route=[route], transform=[transform])
    topics = ["cdc.shop.dbo.orders", "cdc.shop.dbo.people"]
    assert importer.name_tables(result, *topics) == ["lake.orders", "shop.dbo.people"]
    assert pipeline["transforms"][1] == {"filter": {"condition": "id > 1", "tables": ["*.dbo.people"]}}


def test_lists_of_tables_and_quoted_columns(importer: Any, tmp_path: Path) -> None:
    tables = "shop.orders, shop.people"
    route = {"source-table": tables, "sink-table": "lake.<>", "replace-symbol": "<>"}
    transform = {"source-table": tables, "projection": "\\*, `price` * `qty` AS total, `a` AS b", "partition-keys": "a"}
    pipeline, result = load(importer, tmp_path, route=[route], transform=[transform])
    targets = ["lake.orders", "lake.people"]
    assert importer.name_tables(result, "cdc.shop.orders", "cdc.shop.people") == targets
    assert pipeline["transforms"][1] == {
        "compute": {"columns": {"total": "`price` * `qty`", "b": "a"}, "tables": targets}
    }
    assert pipeline["sink"]["iceberg"]["partition.by"] == {target: ["a"] for target in targets}
    assert "all tables get one partitioning" not in str(result.report)


def test_transform_after_one_of_all_tables_is_not_imported(importer: Any, tmp_path: Path, find_keys: Any) -> None:
    transforms = [{"source-table": "\\.*.\\.*", "projection": "id"}, {"source-table": "shop.people", "projection": "b"}]
    pipeline, result = load(importer, tmp_path, transform=transforms)
    assert pipeline["transforms"][1:] == [{"keep": {"columns": ["id"]}}]
    assert "transform[2].projection" in find_keys(result, Kind.NOT_IMPORTED)


def test_second_transform_of_a_table_is_not_imported(importer: Any, tmp_path: Path, find_keys: Any) -> None:
    transforms = [{"source-table": "shop.people", "projection": name} for name in ("a", "b")]
    pipeline, result = load(importer, tmp_path, transform=transforms)
    assert pipeline["transforms"][1:] == [{"keep": {"columns": ["a"], "tables": ["shop.people"]}}]
    assert "transform[2].projection" in find_keys(result, Kind.NOT_IMPORTED)


def test_filters_of_one_table_are_not_imported(importer: Any, tmp_path: Path, find_keys: Any) -> None:
    transforms = [{"source-table": "shop.orders", "filter": f"country = '{country}'"} for country in ("CH", "DE")]
    pipeline, result = load(importer, tmp_path, transform=transforms)
    assert pipeline["transforms"] == [{"unwrap": {}}]
    assert {"transform[1].filter", "transform[2].filter"} <= find_keys(result, Kind.NOT_IMPORTED)


def test_soft_deletes_keep_rows_with_their_operation(importer: Any, tmp_path: Path) -> None:
    transform = {
        "source-table": "\\.*.\\.*",
        "projection": "\\*, __data_event_type__ AS op_type",
        "converter-after-transform": "SOFT_DELETE",
    }
    pipeline, result = load(importer, tmp_path, transform=[transform])
    assert pipeline["transforms"] == [
        {"unwrap": {"delete.tombstone.handling.mode": "rewrite", "add.fields": "op:op_type", "add.fields.prefix": ""}}
    ]
    assert "c, u, d and r" in str(result.report)


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        ({"projection": "\\*, UUID() AS id"}, "field of the event"),
        ({"projection": "\\*, addone(id) AS id"}, "compute"),
        ({"projection": "\\*, id + 1"}, "compute"),
        ({"projection": "\\*, id / 10 AS tens"}, "div"),
        ({"projection": "\\*, tags[1] AS first"}, "element_at"),
        ({"filter": "name LIKE 'a\\_b'"}, "compute"),
        ({"projection": "\\*, __table_name__ AS t"}, "add.fields"),
    ],
)
def test_transform_without_counterpart_is_reported(options: Any, fix: str, importer: Any, tmp_path: Path) -> None:
    pipeline, result = load(importer, tmp_path, transform=[{"source-table": "shop.orders"} | options])
    assert pipeline["transforms"] == [{"unwrap": {}}]
    (found,) = [item for item in result.report.findings if item.kind is Kind.NOT_IMPORTED]
    assert {f"transform[1].{key}" for key in options} <= set(found.keys)
    assert fix in str(found.fix)


def test_hudi_sink_and_a_sink_without_counterpart(importer: Any, tmp_path: Path, find_keys: Any) -> None:
    hudi = {"type": "hudi", "path": "s3://lake/flink", "hoodie.table.type": "COPY_ON_WRITE", "hoodie.x": "1"}
    pipeline, _ = load(importer, tmp_path, sink=hudi)
    assert pipeline["sink"] == {"hudi": {"path": "s3://lake/headrace", "table.type": "COPY_ON_WRITE", "hoodie.x": "1"}}
    pipeline, result = load(importer, tmp_path, sink={"type": "doris", "fenodes": "f:1", "password": "hunter2"})
    assert pipeline["sink"] == {"iceberg": {"warehouse": "warehouse/"}}
    assert "sink.type" in find_keys(result, Kind.TO_DO)
    assert {"sink.fenodes", "sink.password"} <= find_keys(result, Kind.NOT_IMPORTED)


@pytest.mark.parametrize(("operation", "is_reported"), [("insert", True), ("UPSERT", False)])
def test_hudi_sink_that_only_appends_is_reported(
    operation: str, is_reported: bool, importer: Any, tmp_path: Path, find_keys: Any
) -> None:
    hudi = {"type": "hudi", "path": "s3://lake/flink", "write.operation": operation}
    _, result = load(importer, tmp_path, sink=hudi)
    assert ("sink.write.operation" in find_keys(result, Kind.TO_DO)) is is_reported


@pytest.mark.parametrize(
    ("sections", "error"),
    [
        ({"source": {"type": "mongodb"}}, "headrace has no source for this database"),
        ({"route": ["a"]}, "`route[1]` is not a mapping"),
        ({"route": [{"sink-table": "a.b"}]}, "it selects no tables"),
        ({"transform": 5}, "`transform` is not a list"),
        ({"source": SOURCE | {"tables": "shop.*"}}, "the pattern of tables repeats nothing"),
    ],
)
def test_wrong_pipelines(sections: Any, error: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(yaml.safe_dump({"source": SOURCE, "sink": {"type": "iceberg"}} | sections))
    result = CliRunner().invoke(cli, ["import", str(file)])
    assert (result.exit_code, error in result.stderr) == (2, True), result.stderr


@given(st.lists(st.sampled_from(["a", "_", "1"]), min_size=1).map("".join), st.sampled_from(["x", "y_2"]))
def test_name_matches_itself_only(database: str, table: str) -> None:
    pattern = parse_pattern(f"{database}.{table}", 2, "a")
    assert (pattern.is_name, pattern.text) == (True, f"{database}.{table}")
    assert pattern.matches(pattern.text)
    assert not pattern.matches(f"{database}x{table}")


@given(st.lists(st.sampled_from(["id", "\\*", "f(a, ',') AS b", "concat(a, '(,') c", "`d`"]), min_size=1))
def test_items_of_a_projection_are_split_outside_of_quotes(items: list[str]) -> None:
    text = ", ".join(item.replace("f(", "coalesce(") for item in items)
    names = [{"id": "id", "`d`": "d"}.get(item, item[-1]) for item in items if item != "\\*"]
    projection = parse_projection(text)
    assert (projection.keeps_all, projection.names) == ("\\*" in items, names)


def test_quoted_columns_keep_their_quotes() -> None:
    projection = parse_projection("`order-id` AS oid, `first name` AS n, `id` AS number, `a[1]` AS a")
    assert projection.computed == {"oid": "`order-id`", "n": "`first name`", "number": "id", "a": "`a[1]`"}


_ROUTES = [
    {"source-table": "shop.orders", "sink-table": "lake.orders"},
    {"source-table": "shop.orders", "sink-table": "lake.copy"},
    {"source-table": "shop.\\.*", "sink-table": "lake.merged"},
    {"source-table": "shop.people", "sink-table": "lake.people"},
]


def test_second_route_of_a_table_is_reported(importer: Any, tmp_path: Path) -> None:
    pipeline, result = load(importer, tmp_path, route=_ROUTES)
    assert [rule["target"] for rule in pipeline["tables"]] == ["lake.orders", "lake.merged", "{schema}.{table}"]
    found = [finding for finding in result.report.findings if finding.kind is Kind.NOT_IMPORTED]
    assert [finding.keys[0] for finding in found] == [f"route[{number}].sink-table" for number in (2, 3, 4)]
    assert all("all its routes" in finding.why for finding in found)


def test_route_mode_that_applies_the_first_route(importer: Any, tmp_path: Path, find_keys: Any) -> None:
    _, result = load(importer, tmp_path, route=_ROUTES, pipeline={"route-mode": "FIRST_MATCH"})
    hidden = {f"route[{number}].{key}" for number in (2, 4) for key in ("source-table", "sink-table")}
    assert find_keys(result, Kind.NOT_IMPORTED) == hidden
    assert "pipeline.route-mode" in find_keys(result, Kind.NO_MEANING)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("CEIL(price)", "CEIL"),
        ("floor (price)", "FLOOR"),
        ("id % 10", "remainder"),
        ("MOD(id, 10)", "remainder"),
        ("name LIKE 'a%'", "LIKE"),
        ("TRIM(BOTH 'x' FROM name)", "TRIM"),
        ("REGEXP_REPLACE(name, 'a(b)', '$1')", "REGEXP_REPLACE"),
    ],
)
def test_expression_with_another_result_in_spark_is_not_imported(expression: str, why: str) -> None:
    with pytest.raises(NotImportableError, match=why):
        translate_expression(expression)


@pytest.mark.parametrize(
    "expression", ["TRIM(name)", "name = '50% [off] / like'", "`a/b[%]`", "REGEXP_REPLACE(name, 'a', 'b')"]
)
def test_expression_with_the_same_result_in_spark(expression: str) -> None:
    assert translate_expression(expression) == expression
