"""Grammar and model of the oracle, without Spark: hand-written cases, coverage of the grammar, and minimization."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from tests.support.oracle import grammar
from tests.support.oracle.decode import Misfit, conform, infer, plain, read_connect
from tests.support.oracle.minimize import minimize
from tests.support.oracle.model import expect, position

SOURCE = [["connector", "string"], ["db", "string"], ["table", "string"], ["lsn", "int64"]]
ROW = ["struct", [["id", "int64"], ["name", "string"]]]
KINDS = {
    "people": ["struct", [["before", ROW], ["after", ROW], ["source", ["struct", SOURCE]], ["op", "string"]]],
    "flat": ["struct", [["id", "int64"], ["name", "string"], ["__deleted", "string"]]],
}


def event(op: str | None, lsn: int, key: int | None, name: str | None = None, table: str = "people") -> dict[str, Any]:
    row = {"id": key, "name": name}
    images = {"before": row, "after": None} if op == "d" else {"before": None, "after": None if op == "t" else row}
    source = {"connector": "postgresql", "db": "shop", "table": table, "lsn": lsn}
    return {"topic": "c.people", "kind": "people", "value": {**images, "source": source, "op": op}}


def flat(key: int, name: str, *, deleted: bool = False) -> dict[str, Any]:
    return {"topic": "c.people", "kind": "flat", "value": {"id": key, "name": name, "__deleted": str(deleted).lower()}}


def pack(*batches: list[dict[str, Any]], style: str = "json", **changed: Any) -> dict[str, Any]:
    rule = {"source": "c.*", "target": "c.{table}", "key": ["id"]}
    case = {"name": "c", "rules": [rule], "kinds": KINDS, "batches": list(batches)}
    steps = [{"repeat": False, "replay": False} for _ in batches]
    settings = {"transport": "files", "format": style, "mode": "upsert", "deletes": "tombstone", "steps": steps}
    return {**settings, "cases": [case], **changed}


def names(result: Any, table: str = "c.people") -> dict[int, Any]:
    return {row["id"]: row.get("name") for row in result.tables[table]}


def counts(result: Any) -> list[tuple[int, ...]]:
    return [
        tuple(run["c.people"][name] for name in ("rows_in", "applied", "late", "superseded")) for run in result.runs
    ]


STYLES = pytest.mark.parametrize("style", ["json", "json-schema", "avro"])


@STYLES
def test_newest_change_wins(style: str) -> None:
    first = [event("c", 10, 1, "a"), event("u", 30, 1, "c"), event("c", 11, 2, "x")]
    second = [event("u", 20, 1, "b"), event("d", 40, 2)]
    third = [event("u", 39, 2, "late")]
    result = expect(pack(first, second, third, style=style))
    assert names(result) == {1: "c"}
    assert counts(result) == [(3, 2, 0, 1), (2, 1, 1, 0), (1, 0, 1, 0)]


def test_truncate_removes_older_rows() -> None:
    result = expect(
        pack([event("c", 10, 1, "a"), event("t", 20, None)], [event("c", 15, 2, "b"), event("c", 30, 3, "c")])
    )
    assert names(result) == {3: "c"}
    assert counts(result) == [(2, 1, 0, 0), (2, 1, 0, 1)]


@pytest.mark.parametrize(
    ("settings", "rows", "reasons"),
    [
        ({"deletes": "rewrite"}, [{"id": 1, "name": "a", "__deleted": "true"}], ["truncated"]),
        ({"deletes": "drop"}, [{"id": 1, "name": "a"}], ["truncated"]),
        ({"mode": "append"}, [{"id": 1}, {"id": 1, "name": "a"}], ["truncated"]),
        ({"mode": "changelog"}, [{"id": 1, "__op": "d"}, {"id": 1, "name": "a", "__op": "c"}], ["truncated"]),
    ],
)
def test_modes(settings: dict[str, Any], rows: list[Any], reasons: list[str]) -> None:
    result = expect(pack([event("c", 10, 1, "a"), event("d", 20, 1, "a"), event("t", 30, None)], **settings))
    assert sorted(result.tables["c.people"], key=str) == sorted(rows, key=str)
    assert [letter[1] for letter in result.dead_letters] == reasons


def test_dead_letters_by_reason() -> None:
    bad = [
        {**event("c", 2, 1), "bytes": b"no json".hex()},
        {**event("c", 3, 1, "a"), "raw": [[["after", "id"], '"seven"']]},
        event(None, 4, 1),
        event("x", 5, 1),
        event("c", 6, None, "a"),
        event("c", 7, 3, "a", table="places"),
    ]
    result = expect(pack([event("c", 1, 1, "a")], bad))
    reasons = [(letter[4], letter[1]) for letter in result.dead_letters]
    expected = ["undecodable", "undecodable", "op-missing", "op-unknown", "key-missing", "other-table"]
    assert sorted(reasons) == list(enumerate(expected, 1))


@STYLES
def test_flat_rows_without_positions_are_ordered_by_place(style: str) -> None:
    result = expect(pack([flat(1, "new"), flat(1, "newer"), flat(2, "x")], [flat(2, "x", deleted=True)], style=style))
    assert names(result) == {1: "newer"}


def test_positions() -> None:
    assert position({"lsn": 7, "sequence": '["5","7"]'}) == (5, 7)
    assert position({"lsn": 7, "sequence": '[null,"7"]'}) == (7, 7)
    assert position({"file": "binlog.000010", "pos": 4, "row": 0}) > position(
        {"file": "binlog.000009", "pos": 90, "row": 1}
    )
    one = {"commit_lsn": "00000025:00000d58:0003", "change_lsn": "00000025:00000d58:0002", "event_serial_no": 2}
    assert position(one) > position({**one, "event_serial_no": 1}) > position({"commit_lsn": None})


def test_types_of_json_without_schemas() -> None:
    kind = infer({"a": 1, "b": [1, 2.5], "c": {"d": None}, "e": None})
    assert kind == {"a": "long", "b": ["double"], "c": {}}
    assert conform({"b": ["double"]}, {"b": [1]}) == {"b": [1.0]}


@pytest.mark.parametrize("style", ["json-schema", "avro"])
def test_values_keep_their_type(style: str) -> None:
    columns = [
        *(["id", "int64"], ["price", ["decimal", 38, 2]], ["day", "date"], ["at", "micros"], ["zone", "zoned"]),
        *(
            ["photo", "bytes"],
            ["tags", ["array", "string"]],
            ["more", ["map", "string"]],
            ["box", ["struct", [["x", "float64"]]]],
        ),
    ]
    row = {"id": 1, "price": f"{'9' * 36}.99", "day": -1, "at": 1, "zone": "2024-01-31T10:20:30.5Z", "photo": "ff00"}
    row |= {"tags": ["a", ""], "more": {"k": "v"}, "box": {"x": 0.5}}
    case = pack([{"topic": "c.people", "kind": "typed", "value": row}], style=style)
    case["cases"][0]["kinds"] = {"typed": ["struct", columns]}
    assert expect(case).tables["c.people"] == [
        {
            "id": 1,
            "price": f"decimal {'9' * 36}.99",
            "day": "date 1969-12-31",
            "at": "time 1970-01-01T00:00:00.000001",
            "zone": "time 2024-01-31T10:20:30.500000",
            "photo": "bytes ff00",
            "tags": ["a", ""],
            "more": {"k": "v"},
            "box": {"x": "float 0.5"},
        }
    ]


def test_truncate_removes_rows_of_its_source_only() -> None:
    rule = {"source": "c.*", "target": "c.{table}", "key": ["id"], "logical.table": True}
    batches = [event("c", 10, 1, "a"), event("c", 11, 2, "b", table="places")], [event("t", 20, None, table="places")]
    case = pack(*batches, [event("c", 15, 3, "c"), event("u", 16, 2, "late", table="places")])
    case["cases"][0]["rules"] = [rule]
    assert names(expect(case)) == {1: "a", 3: "c"}


@STYLES
def test_messages_of_a_broker_give_the_same_rows_as_files(style: str) -> None:
    def keyed(record: dict[str, Any], key: int) -> dict[str, Any]:
        return {**record, "key": {"id": key}}

    batches = [keyed(event("c", 10, 1, "a"), 1), keyed(event("c", 11, 2, "b"), 2)], [keyed(event("d", 20, 2), 2)]
    tombstone = {**keyed(event("d", 20, 2), 2), "value": None}
    case = pack(*batches, [tombstone, {**event("c", 21, 3, "c"), "key": None}], style=style, transport="log")
    case["cases"][0]["kinds"] = {**KINDS, "key": ["struct", [["id", "int64"]]]}
    result = expect(case)
    assert names(result) == {1: "a"}
    assert [letter[1] for letter in result.dead_letters] == ["key-missing"]
    assert counts(result) == [(2, 2, 0, 0), (1, 1, 0, 0), (1, 0, 0, 0)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12.50", "decimal 12.5"),
        ("1e2", "decimal 100"),
        ('"7"', "decimal 7"),
        ("0.005", None),
        ("1e400000000", None),
        ("[]", None),
    ],
)
def test_declared_decimals(text: str, value: str | None) -> None:
    number = ["struct", [["id", "int64"], ["price", ["number", 10, 2]]]]
    record = {"topic": "c.people", "kind": "row", "value": {"id": 1, "price": "1.00"}, "raw": [[["price"], text]]}
    case = pack([record])
    case["cases"][0]["kinds"] = {"row": number}
    case["cases"][0]["rules"][0]["columns"] = {"price": [10, 2]}
    result = expect(case)
    assert result.tables["c.people"] == ([] if value is None else [{"id": 1, "price": value}])
    assert [letter[1] for letter in result.dead_letters] == (["undecodable"] if value is None else [])


def test_declared_decimal_of_a_row_whose_columns_have_the_names_of_row_images() -> None:
    row = ["struct", [["id", "int64"], ["before", "string"], ["after", "boolean"], ["price", ["number", 10, 2]]]]
    value = {"id": 1, "before": "a", "after": True, "price": "1.00"}
    flat_record = {"topic": "c.people", "kind": "row", "value": value}
    case = pack([flat_record])
    case["cases"][0]["kinds"] = {"row": row}
    envelope = {**event("c", 10, 1), "kind": "row"}
    envelope["value"] = {**envelope["value"], "after": value}
    other = pack([envelope])
    people: Any = KINDS["people"]
    other["cases"][0]["kinds"] = {"row": ["struct", [["before", row], ["after", row], *people[1][2:]]]}
    for found in (case, other):
        found["cases"][0]["rules"][0]["columns"] = {"price": [10, 2]}
        assert expect(found).tables["c.people"] == [{**value, "price": "decimal 1"}]


@pytest.mark.parametrize(("deletes", "reasons"), [("tombstone", []), ("drop", []), ("rewrite", ["undecodable"])])
def test_row_before_a_change_must_fit_where_it_is_read(deletes: str, reasons: list[str]) -> None:
    update: dict[str, Any] = event("u", 20, 1, "b")
    update["value"] = {**update["value"], "before": {"id": 1, "name": "a"}}
    case = pack([event("c", 10, 1, "1.00"), {**update, "raw": [[["before", "name"], '"x"']]}], deletes=deletes)
    row = ["struct", [["id", "int64"], ["name", ["number", 10, 2]]]]
    people: Any = KINDS["people"]
    case["cases"][0]["kinds"] = {"people": ["struct", [["before", row], ["after", row], *people[1][2:]]]}
    case["cases"][0]["rules"][0]["columns"] = {"name": [10, 2]}
    update["value"]["after"]["name"] = "2.00"
    result = expect(case)
    assert names(result) == {1: "decimal 1" if reasons else "decimal 2"}
    assert [letter[1] for letter in result.dead_letters] == reasons


@pytest.mark.parametrize("style", ["json", "json-schema"])
@pytest.mark.parametrize("text", ["1e400", "-1e400000000", "9" * 310, "1.79e308", r'"\ud800"', r'"\\ud800"'])
def test_values_that_are_no_double_and_no_character(style: str, text: str) -> None:
    kind = ["struct", [["id", "int64"], ["x", "string" if '"' in text else "float64"]]]
    value = "" if '"' in text else 0.5
    records = [{"topic": "c.people", "kind": "row", "value": {"id": n, "x": value}} for n in (1, 2)]
    case = pack([records[0], {**records[1], "raw": [[["x"], text]]}], style=style)
    case["cases"][0]["kinds"] = {"row": kind}
    result = expect(case)
    is_good = text in ("1.79e308", r'"\\ud800"')
    assert len(result.tables["c.people"]) == 1 + is_good
    assert [letter[1] for letter in result.dead_letters] == ([] if is_good else ["undecodable"])


@pytest.mark.parametrize(("kind", "bits"), [("int16", 15), ("int32", 31), ("int64", 63)])
def test_integers_have_the_limits_of_their_type(kind: str, bits: int) -> None:
    assert [read_connect({"type": kind}, value) for value in (-(2**bits), 2**bits - 1)] == [-(2**bits), 2**bits - 1]
    for value in (-(2**bits) - 1, 2**bits):
        with pytest.raises(Misfit):
            read_connect({"type": kind}, value)


def test_json_field_that_differs_from_a_known_one_by_case_rejects_its_record() -> None:
    row = ["struct", [["id", "int64"], ["NAME", "string"]]]
    other: dict[str, Any] = {**event("c", 11, 2), "kind": "other"}
    other["value"] = {**other["value"], "after": {"id": 2, "NAME": "b"}}
    case = pack([event("c", 10, 1, "a")], [other, event("c", 12, 3, "c")])
    people: Any = KINDS["people"]
    case["cases"][0]["kinds"] = {**KINDS, "other": ["struct", [people[1][0], ["after", row], *people[1][2:]]]}
    result = expect(case)
    assert names(result) == {1: "a", 3: "c"}
    assert [letter[1] for letter in result.dead_letters] == ["field-name"]


def test_key_of_dms_is_that_of_its_rule() -> None:
    kind = ["struct", [["data", ROW], ["metadata", ["struct", [["operation", "string"], ["table-name", "string"]]]]]]
    value = {"data": {"id": 7, "name": "a"}, "metadata": {"operation": "insert", "table-name": "people"}}
    case = pack([{"topic": "c.people", "kind": "dms", "key": "shop.people", "value": value}], transport="log")
    case["cases"][0]["kinds"] = {"dms": kind}
    assert names(expect(case)) == {7: "a"}
    assert expect(case).dead_letters == []


def test_plain_values_distinguish_types() -> None:
    assert len({json.dumps(plain(value)) for value in (1, 1.0, "1", True, b"1")}) == 5


def test_grammar_covers_enabled_features_and_nothing_else() -> None:
    used: Counter[str] = Counter()
    for seed in range(75):
        for case in grammar.make_pack(seed)["cases"]:
            used.update(case["features"])
    enabled = {name for name, is_on in grammar.FEATURES.items() if is_on}
    assert used.keys() - set(grammar.DIALECTS) == enabled - grammar.COMBINED
    assert set(grammar.DIALECTS) < used.keys()


def test_every_record_is_counted_once_with_all_features() -> None:
    used: set[str] = set()
    for seed in range(75):
        case = grammar.make_pack(seed, features=dict.fromkeys(grammar.FEATURES, True))
        used |= {feature for one in case["cases"] for feature in one["features"]}
        used |= {action for step in case["steps"] for action, is_on in step.items() if is_on}
        truncates = [
            record["topic"]
            for one in case["cases"]
            for batch in one["batches"]
            for record in batch
            if _is_truncate(record)
        ]
        found: Counter[str] = Counter()
        for run in expect(case).runs:
            for row in run.values():
                found.update({name: count or 0 for name, count in row.items()})
        rest = found["rows_in"] - sum(found[name] for name in found if name != "rows_in")
        assert 0 <= rest <= len(truncates)
    assert used >= {"backup"} | grammar.FEATURES.keys() - grammar.COMBINED


def _is_truncate(record: dict[str, Any]) -> bool:
    return bool(record["value"]) and record["value"].get("op") == "t"


def test_pack_is_plain_json_and_depends_on_its_seed_only() -> None:
    one = grammar.make_pack(7)
    assert json.loads(json.dumps(one)) == one == grammar.make_pack(7)
    assert expect(one) == expect(json.loads(json.dumps(one)))


def test_minimized_pack_has_only_what_fails() -> None:
    rows = [event("c", 10 + number, number, f"n{number}") for number in range(1, 7)]
    large = pack(rows[:3], rows[3:], [event("c", 40, 9)])
    large["cases"].append({**large["cases"][0], "name": "other", "batches": [[], [], []]})

    def fails(smaller: dict[str, Any]) -> bool:
        return 5 in names(expect(smaller)) if expect(smaller).tables else False

    smallest = minimize(large, fails)
    assert [len(batch) for case in smallest["cases"] for batch in case["batches"]] == [1]
    assert len(smallest["steps"]) == 1


def test_columns_of_one_name_have_one_type_in_the_tables_of_avro_files() -> None:
    packs = [grammar.make_pack(seed) for seed in range(150)]
    packs = [found for found in packs if found["transport"] == "files" and found["format"] == "avro"]
    features = [case["features"] for found in packs for case in found["cases"]]
    assert any("split" in found for found in features)
    assert not any("split-types" in found for found in features)
