"""Tags in chains of transforms: a tagged value is hidden, or the chain is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, note, settings, strategies as st
from tests.plugins.transforms.test_row_transforms import OWN, frame_of

from headrace.engine.plan.column_tags import ColumnTags
from headrace.engine.read.tagged_columns import reject_unmasked, tag_columns, update_tags
from headrace.errors import DataError, HeadraceError
from headrace.sdk.changes import Changes
from headrace_transforms import Cast, Compute, Drop, Expand, Explode, Flatten, Keep, Mask, Rename, Unwrap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.sdk.transform import Transform

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

RAW = "canary"
ROW = (
    "struct<id int, email string, note string, address struct<street: string, city: string>, phones array<string>, "
    "contacts array<struct<kind: string, email: string>>, doc string, labels map<string, string>>"
)
PERSON = (1, RAW, "n", (RAW, "Bern"), [RAW], [{"kind": "home", "email": RAW}], f'{{"email": "{RAW}"}}', {"k": RAW})
TAGS = {"pii": ["email", "address.street", "phones.element", "contacts.element.email", "doc.email", "labels.value"]}
HIDE: dict[str, Any] = {"nullify": True}


def run_chain(spark: SparkSession, *transforms: Transform, patterns: dict[str, list[str]] | None = None) -> str:
    """Return the rows of an update after the transforms, as text. DataError for a tagged column that none of them hides."""
    event = (PERSON, PERSON, "u", (1,), "u", False, None, None, "people", 0)
    frame = frame_of(spark, f"before {ROW}, after {ROW}, op string, {OWN}", event)
    tags = ColumnTags(patterns or TAGS)
    changes = tag_columns(tags, Changes(frame, envelope=True, table="people"))
    for transform in transforms:
        changes = update_tags(tags, changes, transform.process(changes), transform)
    reject_unmasked(changes, changes.table)
    return str(changes.frame.select(*changes.event_columns).toJSON().collect())


def by_tag() -> Mask:
    return Mask(tags={"pii": HIDE})


UNWRAP = Unwrap({"add.fields": "before.email,before.address,before:was"})
REST = Drop(columns=["phones", "contacts", "doc", "labels"])


@pytest.mark.parametrize(
    ("transforms", "column"),
    [
        # The elements of an array become values of a column with another path.
        ([Explode(column="phones", tables="*"), Drop(columns=["email", "address", "contacts", "doc", "labels"])], "phones"),
        ([Drop(columns=["email", "address", "phones", "doc", "labels"])], "contacts.email"),
        # The row has lost the column, and keeps a copy of it.
        ([UNWRAP, Keep(columns=["id", "__before_email"])], "__before_email"),
        ([UNWRAP, Keep(columns=["id", "__before_address"])], "__before_address.street"),
        # A text or map may have the field.
        ([Drop(columns=["email", "address", "phones", "contacts", "labels"])], "doc.email"),
        ([Drop(columns=["email", "address", "phones", "contacts", "labels"]), Cast(columns={"doc": "binary"})], "doc"),
        ([Drop(columns=["email", "address", "phones", "contacts", "labels"]), Rename(columns={"doc": "d"})], "d.email"),
        # Another value takes the name of a tagged column.
        ([UNWRAP, REST, by_tag(), Compute(columns={"email": "note"})], "email"),
        ([UNWRAP, REST, by_tag(), Rename(columns={"email": "note", "note": "email"}), by_tag()], None),
        ([UNWRAP, REST, Rename(columns={"email": "note", "note": "email"}), Mask(columns={"note": HIDE, "address": HIDE})], "email"),
        ([UNWRAP, REST, by_tag(), Compute(columns={"email": "lower(email)"})], None),
        ([Drop(columns=["phones", "contacts", "labels"]), Expand(columns={"doc": "email STRING"}), by_tag(), UNWRAP], None),
        ([Explode(column="contacts", tables="*"), Drop(columns=["doc", "labels"]), by_tag(), UNWRAP], None),
    ],
)  # fmt: skip
def test_tag_follows_the_value(spark: SparkSession, transforms: list[Transform], column: str | None) -> None:
    if column is None:
        assert RAW not in run_chain(spark, *transforms)
        return
    with pytest.raises(DataError, match=f"the column '{column}' of the table people has the tag 'pii'"):
        run_chain(spark, *transforms)


def test_text_that_may_have_a_tagged_field_is_masked_as_a_whole(spark: SparkSession) -> None:
    rest = Drop(columns=["email", "address", "phones", "contacts", "labels"])
    with pytest.raises(DataError, match=r"the column 'doc' has a string, in which 'doc.email' may be"):
        run_chain(spark, rest, by_tag())
    assert RAW not in run_chain(spark, rest, Mask(columns={"doc": HIDE}), by_tag(), UNWRAP)


def test_two_rules_of_one_place_mask_it_once(spark: SparkSession) -> None:
    mask = Mask(tags={"pii": {"replacement": "x"}}, columns={"address.street": {"partial": {"prefix": 1, "suffix": 0}}})
    assert '"__before_address":{"street":"c****","city":"Bern"}' in run_chain(spark, REST, UNWRAP, mask)
    assert '"street":"c****"' in run_chain(spark, UNWRAP, REST, mask)


def test_patterns_name_fields_in_texts() -> None:
    tags = ColumnTags({"pii": ["doc.email", "people.doc.phone", "*.doc.name", "people.email", "*.x"]})
    assert tags.find_inside("people", ["doc", "people"]) == {"pii": {"doc.email", "doc.phone", "doc.name"}}
    assert tags.find_inside("staff", ["Doc", "people"]) == {
        "pii": {"Doc.email", "Doc.name", "people.doc.phone", "people.email"}
    }
    assert tags.find_inside(None, ["doc"]) == {"pii": set()}


COLUMNS = ("email", "note", "address", "phones", "contacts", "doc", "labels", "was", "mail")
PATHS = (*COLUMNS, "address.street", "phones.element", "contacts.email", "labels.value", "doc.email", "__before_email")


column, path = st.sampled_from(COLUMNS), st.sampled_from(PATHS)
condition = st.sampled_from([None, "id = 1", "id = 2"])
STEP = st.one_of(
    st.builds(lambda old, new, when: Rename({"columns": {old: new}, "when": when}), column, column, condition),
    st.builds(lambda a, b: Rename(columns={a: b, b: a}), column, column),
    st.builds(lambda name, text, when: Compute({"columns": {name: text}, "when": when}), column, path, condition),
    st.builds(lambda name, other: Compute(columns={name: f"concat('', {other})"}), column, column),
    st.builds(lambda name: Cast(columns={name: "string"}), column),
    st.builds(lambda name, when: Flatten({"columns": [name], "delimiter": "_", "when": when}), column, condition),
    st.builds(lambda names: Keep(columns=["id", *names]), st.lists(path, min_size=1, max_size=3)),
    st.builds(lambda names: Drop(columns=names), st.lists(column, min_size=1, max_size=5)),
    st.builds(lambda name: Mask(columns={name: HIDE}), path),
    st.builds(lambda name: Mask(columns={name: {"sha256": {"salt": "0123456789abcdef"}}}), column),
    st.builds(lambda name: Explode(column=name, tables="*"), st.sampled_from(["phones", "contacts"])),
    st.builds(lambda: Expand(columns={"doc": "email STRING, n INT"})),
    st.builds(by_tag),
    st.builds(lambda fields: Unwrap({"add.fields": fields}), st.sampled_from(["", "before", "before:was", "before.email,before.address:mail"])),
)  # fmt: skip


@settings(max_examples=25)
@given(steps=st.lists(STEP, min_size=1, max_size=5), masks_last=st.booleans())
def test_no_chain_shows_a_tagged_value(spark: SparkSession, steps: list[Transform], masks_last: bool) -> None:
    chain = [*steps, *([by_tag()] if masks_last else [])]
    note(str([(step.name, step.config) for step in chain]))
    try:
        found = run_chain(spark, *chain)
    except HeadraceError:
        return
    assert RAW not in found
