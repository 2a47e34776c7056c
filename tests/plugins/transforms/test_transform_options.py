"""Options of transforms, without Java."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.errors import ConfigError
from headrace.sdk import Transform
from headrace_transforms import (
    Cast,
    Compute,
    Drop,
    Expand,
    Explode,
    Filter,
    Flatten,
    Insert,
    Keep,
    Lookup,
    Mask,
    Rename,
    Timestamp,
    Unwrap,
)

NULL = {"nullify": True}


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({}, "tombstone"),
        ({"drop.tombstones": True}, "drop"),
        ({"drop.tombstones": "false"}, "tombstone"),
        ({"delete.handling.mode": "drop"}, "drop"),
        ({"delete.handling.mode": "none"}, "tombstone"),
        ({"delete.handling.mode": "none", "drop.tombstones": False}, "tombstone"),
        ({"delete.handling.mode": "rewrite"}, "rewrite"),
        ({"delete.handling.mode": "rewrite", "drop.tombstones": False}, "rewrite-with-tombstone"),
        # The current option takes precedence, as in Debezium.
        ({"delete.handling.mode": "rewrite", "delete.tombstone.handling.mode": "drop"}, "drop"),
    ],
)
def test_deprecated_handling_of_deletes(options: dict[str, Any], mode: str) -> None:
    assert Unwrap(options).config.mode == mode


@pytest.mark.parametrize(
    ("transform", "options", "message"),
    [
        (Unwrap, {"replace.null.with.default": True}, "a null of the database stays null"),
        (Unwrap, {"drop.fields.from.key": True}, "a key column identifies the row"),
        (Unwrap, {"route.by.field": "a"}, "selects a topic by a column"),
        (Unwrap, {"when": "id = 1"}, "a table has either envelopes or rows"),
        (Unwrap, {"add.fields": "op", "add.headers": "table:op"}, "`add.headers` adds a second column '__op'"),
        (Unwrap, {"add.headers": "op:headrace_x", "add.headers.prefix": "_"}, "'_headrace_x' is not a valid column"),
        (Filter, {}, "requires `condition`, or `when`"),
        (Filter, {"condition": " "}, "is empty"),
        (Filter, {"condition": "reflect('java.lang.System', 'exit') = 1"}, "calls reflect"),
        (Filter, {"condition": "`java_method`('a', 'b') = 1"}, "calls java_method"),
        (Rename, {"columns": {"a": "b"}, "when": "now() > at"}, "calls now"),
        (Compute, {"columns": {"a": "INPUT_FILE_NAME ()"}}, "calls INPUT_FILE_NAME"),
        (Compute, {"columns": {"a": "b > TIMESTAMP 'now'"}}, "reads the clock: TIMESTAMP 'now'"),
        (Filter, {"condition": "`date` <> date' Today UTC'"}, "reads the clock"),
        (Compute, {"columns": {"_headrace_op": "1"}}, "'_headrace_op' is not a valid column name"),
        (Compute, {"columns": {"a": "1", "A": "2"}}, "two columns would be named"),
        (Insert, {}, "requires static.field"),
        (Insert, {"static.field": "a"}, "belong together"),
        (Insert, {"headers": ["a", "b"], "fields": "a"}, "one column for each header"),
        (Insert, {"topic.field": "meta", "offset.field": "meta"}, "two columns would be named 'meta'"),
        (Insert, {"headers": "a", "fields": "A", "topic.field": "a"}, "two columns would be named"),
        (Insert, {"static.field": "a!", "static.value": "x", "topic.field": "A"}, "two columns would be named"),
        (Insert, {"offset.field": "_headrace_offset"}, "is not a valid column name"),
        (Cast, {"columns": {"a": "struct<b:int>"}}, "'struct<b:int>' is not a type of a column"),
        (Cast, {"columns": {"a": "decimal"}}, "'decimal' is not a type of a column"),
        (Timestamp, {"field": "a", "target.type": "string"}, "target.type string requires `format`"),
        (
            Timestamp,
            {"field": "a", "target.type": "Date", "format": "'Y' YYYY-MM-dd"},
            "'Y', which is no letter of Spark's",
        ),
        (Timestamp, {"field": "a", "target.type": "Date", "format": "yyyy-ww"}, "'w', which is no letter of Spark's"),
        (Timestamp, {"field": "a", "target.type": "timestamp"}, "target.type"),
        (Mask, {"columns": {"a": {"empty": True, "keep_type": True}}}, "keep_type belongs to `replacement`"),
        (Mask, {"columns": {"a": {"empty": True, "nullify": True}}}, "requires exactly one of"),
        (Mask, {"columns": {"a": "empty"}}, "write `{empty: true}`"),
        (Mask, {}, "masks nothing"),
        (
            Mask,
            {"columns": {"address..street": NULL}},
            "columns.address..street: 'address..street' is not a path of names",
        ),
        (Mask, {"columns": {" ": NULL}}, "' ' is not a valid column name"),
        (Mask, {"columns": {"email": {**NULL, "only_in": " people"}}}, "' people' matches no table"),
        (Mask, {"columns": {"email": {**NULL, "only_in": []}}}, "only_in: is empty or too short"),
        *[(t, {"columns": [""]}, "'' is not a valid column name") for t in (Drop, Expand, Flatten, Keep)],
        (Cast, {"columns": {" ": "int"}}, "' ' is not a valid column name"),
        (Compute, {"columns": {" ": "1"}}, "' ' is not a valid column name"),
        (Rename, {"columns": {"": "a"}}, "'' is not a valid column name"),
        (Rename, {"columns": {"a": " "}}, "' ' is not a valid column name"),
        (Timestamp, {"field": " ", "target.type": "unix"}, "' ' is not a valid column name"),
        (Explode, {"column": "", "tables": "*"}, "'' is not a valid column name"),
        (Lookup, {"from": {"csv": {"path": "a"}}, "key": " ", "columns": ["a"]}, "' ' is not a valid column name"),
        (Drop, {"columns": ["a"], "tables": []}, "tables: is empty or too short"),
        *[
            (Drop, {"columns": ["a"], option: glob}, f"{option}: {glob!r} matches no table: write names or globs")
            for option in ("tables", "tables.exclude")
            for glob in ("", " ", "shop.people, shop.staff", "shop..people", ".people", "`people`", "/shop.*/")
        ],
    ],
)
def test_invalid_options(transform: type[Transform], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        transform(options)
    assert message in str(raised.value)


def test_names_in_quotes_are_not_calls() -> None:
    Filter(condition="note = 'now()' AND `current_user` = \"user()\" AND b <> 'date \\'now\\'' AND c = 'today'")


def test_names_of_types_in_kafka_connect() -> None:
    columns = {"a": "int8", "b": "INT64", "c": "float32", "d": "Decimal(10,2)"}
    assert list(Cast(columns=columns).config.columns.values()) == ["tinyint", "bigint", "float", "decimal(10,2)"]


@pytest.mark.parametrize(
    ("options", "tables"),
    [
        ({}, ["shop.orders", "shop.audit", "crm.people"]),
        ({"tables": "shop.*"}, ["shop.orders", "shop.audit"]),
        ({"tables": ["shop.*", "crm.*"], "tables.exclude": "*.audit"}, ["shop.orders", "crm.people"]),
        ({"tables.exclude": ["shop.*"]}, ["crm.people"]),
    ],
)
@pytest.mark.parametrize("transform", [Keep, Drop])
def test_tables_of_a_transform(transform: type[Transform], options: dict[str, Any], tables: list[str]) -> None:
    selective = transform({"columns": ["id"], **options})
    known = ["shop.orders", "shop.audit", "crm.people"]
    assert [table for table in known if selective.applies_to(table)] == tables
    assert selective.applies_to(None), "a DataFrame outside of a pipeline has no table"
    assert list(selective.tables()) == (
        [options["tables"]] if options.get("tables") == "shop.*" else list(options.get("tables", []))
    )


def test_filter_that_keeps_stale_rows_needs_no_deletes_in_sinks() -> None:
    assert [Filter(condition="a = 1", updates=how).deletes_rows for how in ("delete", "drop")] == [True, False]


def test_mask_rules_in_the_checkpoint_name_their_limits() -> None:
    columns = {"email": {"replacement": "x", "keep_type": True}}
    mask = Mask({"columns": columns, "tables": "shop.*", "tables.exclude": "shop.audit", "when": "country = 'CH'"})
    assert mask.rules() == {
        "email": "replacement: x with its type in shop.* not in shop.audit when country = 'CH'",
    }


def test_flatten_reads_the_columns_that_it_names() -> None:
    assert list(Flatten(columns=["address"]).reads()) == ["address"]
