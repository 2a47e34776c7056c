"""Tags: masks select columns by them, and a tagged column that no transform masks is not written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.plugins.transforms.test_mask_tables import (
    PEOPLE,
    PII,
    STAFF,
    UNCOMPRESSED,
    event,
    find_on_disk,
    of_table,
    pipeline_of,
    write_events,
)
from tests.support.pipelines import rows
from tests.support.tiers import nightly_after
from tests.support.waiting import until

from headrace import ConfigError, Pipeline
from headrace.engine.plan.column_tags import ColumnTags
from headrace.errors import HeadraceError
from headrace_transforms import Mask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

TAGS = {"pii": ["email", "*.phone", "people.name"]}


def tagged_pipeline(folder: Path, *transforms: Any, **changed: Any) -> Pipeline:
    options = {"tags": TAGS, "transforms": [{"unwrap": {}}, *transforms], "target": "{table}", **changed}
    return pipeline_of(folder, masks={}, spark=UNCOMPRESSED, **options)


def by_tag(**rule: Any) -> dict[str, Any]:
    return {"mask": {"tags": {"pii": rule}}}


def test_patterns_name_columns_with_or_without_a_table() -> None:
    tags = ColumnTags(TAGS)
    columns = ["id", "EMAIL", "Phone", "name"]
    assert tags.find("people", columns) == {"pii": {"EMAIL", "Phone", "name"}}
    assert tags.find("shop.staff", columns) == {"pii": {"EMAIL", "Phone"}}
    assert tags.find(None, columns) == {"pii": {"EMAIL", "Phone", "name"}}
    assert tags.find_unused({"people": columns}) == []
    assert tags.find_unused({"staff": columns}) == [("pii", "people.name")]
    assert not ColumnTags()


def test_patterns_name_fields() -> None:
    tags = ColumnTags({"pii": ["address.street", "people.contacts.email", "*.phone"]})
    paths = ["street", "address", "address.street", "contacts.email", "contacts.phone"]
    assert tags.find("people", paths) == {"pii": {"address.street", "contacts.email", "contacts.phone"}}
    assert tags.find("staff", paths) == {"pii": {"address.street", "contacts.phone"}}
    assert tags.find(None, paths) == {"pii": {"street", "address.street", "contacts.email", "contacts.phone"}}


@pytest.mark.parametrize(
    ("transforms", "expected"),
    nightly_after(6, [
        ([], "'address.street'"),
        ([{"rename": {"columns": {"address": "home"}}}], "'home.street'"),
        ([{"flatten": {"delimiter": "_"}}], "'address_street'"),
        ([{"compute": {"columns": {"copy": "address.street"}}}, {"drop": {"columns": ["address"]}}], "'copy'"),
        ([{"mask": {"columns": {"address.city": {"nullify": True}}}}], "'address.street'"),
        ([by_tag(characters=1)], {"address": {"city": "Bern", "street": "*"}, "phones": ["*"]}),
        ([{"rename": {"columns": {"address": "home"}}}, by_tag(nullify=True)], {"home": {"city": "Bern", "street": None}}),
        ([{"mask": {"columns": {"address": {"nullify": True}}}}, {"drop": {"columns": ["phones"]}}], {"address": None}),
    ]),
)  # fmt: skip
def test_tagged_fields(spark: SparkSession, tmp_path: Path, transforms: list[Any], expected: Any) -> None:
    row = {"id": 1, "address": {"city": "Bern", "street": PII}, "phones": [PII]}
    write_events(tmp_path, PEOPLE, event(row, 1))
    pipeline = tagged_pipeline(tmp_path, *transforms, tags={"pii": ["address.street", "*.phones.element"]})
    if isinstance(expected, str):
        with pytest.raises(HeadraceError, match=f"the column {expected} of the table people has the tag 'pii'"):
            pipeline.check(spark)
        return
    assert [item.found for item in pipeline.check(spark) if item.what == "warning"] == []
    pipeline.run(spark)
    (found,) = rows(pipeline, spark, "people", "id")
    assert found.items() >= expected.items()
    assert not find_on_disk(PII, tmp_path / "lake", tmp_path / "checkpoint")


@pytest.mark.nightly
def test_rows_that_when_does_not_select_have_the_tag(spark: SparkSession, tmp_path: Path) -> None:
    people = [{"id": n, "address": {"street": PII}, "contacts": [{"email": PII}]} for n in (1, 200)]
    write_events(tmp_path, PEOPLE, *(event(row, n) for n, row in enumerate(people)))
    steps = [{"flatten": {"columns": ["address"], "delimiter": "_", "when": "id > 100"}}, by_tag(nullify=True)]
    pipeline = tagged_pipeline(tmp_path, *steps, tags={"pii": ["address_street", "contacts.email"]})
    pipeline.run(spark)
    hidden = {"address_street": None, "contacts": [{"email": None}]}
    assert rows(pipeline, spark, "people", "id") == [
        {"id": 1, "address": {"street": None}, **hidden},
        {"id": 200, "address": None, **hidden},
    ]
    assert not find_on_disk(PII, tmp_path / "lake", tmp_path / "checkpoint")


def test_mask_selects_columns_by_tag_in_each_table(spark: SparkSession, tmp_path: Path) -> None:
    write_events(tmp_path, PEOPLE, event({"id": 1, "Email": PII, "name": PII, "phone": PII}, 1))
    write_events(tmp_path, STAFF, event({"id": 2, "phone": PII, "name": "Staff"}, 1))
    mask = {"mask": {"columns": {"phone": {"characters": 2}}, "tags": {"pii": {"nullify": True}}}}
    masked_pipeline = tagged_pipeline(tmp_path, {"rename": {"columns": {"name": "called"}}}, mask)
    found = {item.what: item.found for item in masked_pipeline.check(spark) if item.what.startswith("masks")}
    assert found == {
        f"masks of topic {PEOPLE}": "table people: Email by nullify, called by nullify, phone by characters: 2",
        f"masks of topic {STAFF}": "table staff: phone by characters: 2",
    }
    masked_pipeline.run(spark)
    assert rows(masked_pipeline, spark, "people", "id") == [{"Email": None, "called": None, "id": 1, "phone": "**"}]
    assert rows(masked_pipeline, spark, "staff", "id") == [{"called": "Staff", "id": 2, "phone": "**"}]
    assert not find_on_disk(PII, tmp_path / "lake", tmp_path / "checkpoint")


@pytest.mark.parametrize(
    ("transforms", "column"),
    nightly_after(
        2,
        [
            ([], "email"),
            ([{"rename": {"columns": {"email": "mail"}}}], "mail"),
            ([{"mask": {"columns": {"email": {"nullify": True}}, "tables": "staff"}}], "email"),
            ([{"compute": {"columns": {"copy": "upper(email)"}}}, {"drop": {"columns": ["email"]}}], "copy"),
            ([by_tag(nullify=True), {"insert": {"static.field": "phone", "static.value": "x"}}], "phone"),
        ],
    ),
)
def test_unmasked_column_with_a_tag_fails_check_and_run(
    spark: SparkSession, tmp_path: Path, transforms: list[dict[str, Any]], column: str
) -> None:
    write_events(tmp_path, PEOPLE, event({"id": 1, "email": PII}, 1))
    write_events(tmp_path, STAFF, event({"id": 2}, 1))
    unmasked = tagged_pipeline(tmp_path, *transforms)
    for start in (unmasked.check, unmasked.run):
        with pytest.raises(HeadraceError) as raised:
            start(spark)
        text = str(raised.value)
        assert f"the column '{column}' of the table people has the tag 'pii', and no transform masks it" in text
        assert (
            "mask it by its tag with `mask: {tags: {pii: {nullify: true}}}` after the other transforms, `drop` it"
            in text
        )
    assert not (tmp_path / "lake").exists()


@pytest.mark.nightly
def test_masked_or_dropped_columns_pass(spark: SparkSession, tmp_path: Path) -> None:
    write_events(tmp_path, PEOPLE, event({"id": 1, "email": PII, "phone": PII}, 1))
    transforms = [
        {"drop": {"columns": ["phone"]}},
        {"mask": {"columns": {"email": {"characters": 1}}}},
        {"compute": {"columns": {"copy": "upper(email)"}}},
        {"rename": {"columns": {"email": "mail"}}},
    ]
    masked_pipeline = tagged_pipeline(tmp_path, *transforms)
    warnings = [item.found for item in masked_pipeline.check(spark) if item.what == "warning"]
    assert warnings == ["the tag 'pii' names 'people.name', which no column of a table matches"]
    masked_pipeline.run(spark)
    assert rows(masked_pipeline, spark, "people", "id") == [{"copy": "*", "id": 1, "mail": "*"}]


@pytest.mark.nightly
def test_first_batch_with_the_column_sets_its_table_aside(spark: SparkSession, tmp_path: Path) -> None:
    write_events(tmp_path, PEOPLE, event({"id": 1}, 1))
    write_events(tmp_path, STAFF, event({"id": 1}, 1))
    unmasked = tagged_pipeline(tmp_path)
    query = unmasked.start(spark, "100 milliseconds")
    try:
        until(lambda: query.last_progress is not None, "the first batch", seconds=60)
        write_events(tmp_path, PEOPLE, event({"id": 2, "phone": PII}, 2))
        write_events(tmp_path, STAFF, event({"id": 2}, 2))
        until(lambda: len(rows(unmasked, spark, "staff", "id")) == 2, "the second batch", seconds=60)
    finally:
        query.stop()
    assert rows(unmasked, spark, "people", "id") == [{"id": 1}]
    assert not find_on_disk(PII, tmp_path / "lake")


@pytest.mark.nightly
def test_record_of_another_table_is_masked_by_the_tags_of_all_tables(spark: SparkSession, tmp_path: Path) -> None:
    rule = {"source": "shop.public.*", "target": "{table}", "key": ["id"]}
    masked_pipeline = tagged_pipeline(tmp_path, by_tag(characters=3), tables=[rule])
    write_events(tmp_path, PEOPLE, of_table("people", {"id": 1, "name": PII}, 1))
    write_events(
        tmp_path, STAFF, of_table("staff", {"id": 1, "name": "S"}, 1), of_table("people", {"id": 2, "name": PII}, 2)
    )
    masked_pipeline.run(spark)
    assert rows(masked_pipeline, spark, "staff", "id") == [{"id": 1, "name": "S"}]
    [letter] = masked_pipeline.read("dead_letters", spark=spark).collect()
    assert (letter["reason"], letter["masked"]) == ("other-table", True)
    assert not find_on_disk(PII, tmp_path / "lake", tmp_path / "checkpoint")


def test_rows_without_a_pipeline_have_no_tags(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="the pipeline has no tag 'pii'"):
        Mask(tags={"pii": {"nullify": True}})(spark.range(1))


@pytest.mark.nightly
def test_change_of_tags_is_a_change_of_masks(spark: SparkSession, tmp_path: Path) -> None:
    write_events(tmp_path, PEOPLE, event({"id": 1}, 1))
    tagged_pipeline(tmp_path, by_tag(nullify=True)).run(spark)
    wider = tagged_pipeline(tmp_path, by_tag(nullify=True), tags={"pii": [*TAGS["pii"], "ssn"]})
    [warning] = [item.found for item in wider.check(spark) if item.what == "warning" and "the mask of" in item.found]
    assert warning.startswith("the mask of 'a column of `tags:`' is new or changed since batch 1")
