"""Texts of whole rows, which ExtractNewDocumentState adds: masks of columns do not find values in them, and make them null."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.plugins.transforms.test_row_transforms import flat, rows

from headrace.engine.plan.column_tags import ColumnTags
from headrace.engine.read.tagged_columns import reject_unmasked, tag_columns, update_tags
from headrace.errors import DataError
from headrace.sdk.changes import ERROR, Changes
from headrace_transforms import Compute, Drop, Mask, Rename

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.sdk.transform import Transform

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

KEY = "a-key-of-sixteen-characters"
HIDE: dict[str, Any] = {"nullify": True}
ORIGINS = {
    "__before": ("before",),
    "__set": ("updateDescription", "updatedFields"),
    "__removed": ("updateDescription", "removedFields"),
}


@pytest.fixture
def changes(spark: SparkSession) -> Changes:
    columns = (
        "id int, email string, address struct<city: string>, __before string, __set string, __removed array<string>"
    )
    found = flat(spark, columns, (1, "canary@x.org", ("canary",), '{"email": "canary"}', "canary", ["email"]))
    return replace(found, origins=ORIGINS)


def run_tagged(changes: Changes, *transforms: Transform) -> Changes:
    """Return the changes after the transforms. DataError for a tagged column that none of them hides."""
    tags = ColumnTags({"pii": ["email"]})
    changes = tag_columns(tags, changes)
    for transform in transforms:
        changes = update_tags(tags, changes, transform.process(changes), transform)
    reject_unmasked(changes, changes.table)
    return changes


@pytest.mark.parametrize("rules", [{"email": HIDE}, {"address.city": HIDE}], ids=["column", "field"])
@pytest.mark.parametrize("when", [None, "id = 1", "id = 2"])
def test_mask_makes_them_null(changes: Changes, rules: dict[str, Any], when: str | None) -> None:
    masked = Mask({"columns": rules, "when": when}).process(changes)
    assert rows(masked, "__before", "__set", "__removed") == [(None, None, ["email"])]
    assert masked.frame.schema["__before"].dataType.simpleString() == "string"


def test_table_without_the_column_keeps_them(changes: Changes) -> None:
    masked = Mask(columns={"phone": HIDE}).process(changes)
    assert rows(masked, "__before") == [('{"email": "canary"}',)]


def test_mask_of_the_text_itself_applies(changes: Changes) -> None:
    masked = Mask(columns={"__before": {"replacement": "?"}, "email": HIDE}).process(changes)
    assert rows(masked, "__before", "__set", "email") == [("?", None, None)]
    with pytest.raises(DataError, match="mask the whole column '__before'"):
        Mask(columns={"__before.email": HIDE}).process(changes)


def test_expression_over_a_text_before_the_mask_is_refused(changes: Changes) -> None:
    computed = Compute(columns={"was": "get_json_object(__before, '$.email')"}).process(changes)
    with pytest.raises(DataError, match="'was' is computed from '__before', which is masked only later"):
        Mask(columns={"email": HIDE}).process(computed)


@pytest.mark.parametrize("before", [[], [Drop(columns=["email"])], [Rename(columns={"__before": "was"})]])
def test_mask_by_tag_makes_them_null(changes: Changes, before: list[Transform]) -> None:
    """A rule of the tag, such as a token of an e-mail address, does not fit the text of a row."""
    mask = Mask(tags={"pii": {"token": {"format": "email", "key": KEY}}})
    masked = run_tagged(changes, *before, mask)
    text = "was" if "was" in masked.event_columns else "__before"
    assert rows(masked, text, "__set", ERROR) == [(None, None, None)]
    assert "canary@" not in str(rows(masked))


@pytest.mark.parametrize(
    ("transforms", "column"),
    [
        ([Drop(columns=["email"])], "__before"),
        ([Drop(columns=["email", "__before"])], "__set"),
        ([Drop(columns=["email", "__before", "__set"])], None),
        ([Mask(columns={"email": HIDE})], None),
    ],
)
def test_text_has_the_tags_of_its_row(changes: Changes, transforms: list[Transform], column: str | None) -> None:
    if column is None:
        run_tagged(changes, *transforms)
        return
    with pytest.raises(DataError, match=f"the column '{column}' of the table people has the tag 'pii'"):
        run_tagged(changes, *transforms)
