"""Record keys that are not JSON objects, with and without key columns in the pipeline file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.memory_sink import MemorySink
from tests.support.ranged import TOPIC, LinesSource
from tests.support.records import make_changes, record, rows_of

from headrace import DataError, Pipeline
from headrace.progress.model import BatchProgress
from headrace.sdk import Transform
from headrace.sdk.changes import ERROR, KEY
from headrace.sdk.sink import Table
from headrace_sources.dialects.flat import FlatDialect
from headrace_sources.formats.json.json_format import JsonFormat
from headrace_transforms.cast import Cast
from headrace_transforms.unwrap import Unwrap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

SOURCE = {"connector": "acme", "ts_ms": 1}
#: Keys of other serializers: a number, plain text, bytes.
OTHER_KEYS = [b"5", b"order 5", b"\x00\x00\x00\x05", b'"5"', b"[5]"]


def envelope(op: str, id_: int, key: Any, offset: int) -> dict[str, Any]:
    row = {"id": id_, "item": f"item {id_}"}
    images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    return record({**images, "source": SOURCE, "op": op}, key=key, offset=offset)


def keys(spark: SparkSession, records: list[dict[str, Any]], **options: Any) -> list[tuple[Any, str | None]]:
    """Return the key and the error of each change, in the order of the records. A key of nulls is none."""
    (changes,) = make_changes(spark, records, **options).values()
    found = rows_of(changes, KEY, ERROR) if KEY in changes.frame.columns else rows_of(changes, ERROR)
    known = [tuple((row.get(KEY) or {}).values()) for row in found]
    return [(key if set(key) - {None} else None, row[ERROR]) for key, row in zip(known, found, strict=True)]


def test_keys_other_than_objects_are_ignored_with_key_columns(spark: SparkSession) -> None:
    events = [envelope("d" if i == 2 else "c", i, key, i) for i, key in enumerate(OTHER_KEYS)]
    assert keys(spark, events, key=["id"]) == [((i,), None) for i in range(5)]
    rows = [record({"id": i}, key=key, offset=i) for i, key in enumerate(OTHER_KEYS)]
    assert keys(spark, rows, key=["id"], dialect=FlatDialect()) == [((i,), None) for i in range(5)]


@pytest.mark.nightly
def test_missing_or_undecodable_key_is_taken_from_value(spark: SparkSession) -> None:
    cases = {
        "insert, decodable": ("c", {"id": 0}),
        "insert, undecodable": ("c", b"garbage"),
        "delete, undecodable": ("d", b"garbage"),
        "insert, missing": ("c", None),
        "delete, missing": ("d", None),
    }
    expected = {name: ((i,), None) for i, name in enumerate(cases)}
    events = [envelope(op, i, key, i) for i, (op, key) in enumerate(cases.values())]
    assert dict(zip(cases, keys(spark, events, key=["id"]), strict=True)) == expected
    rows = [record({"id": i}, key=key, offset=i) for i, (_, key) in enumerate(cases.values())]
    assert dict(zip(cases, keys(spark, rows, key=["id"], dialect=FlatDialect()), strict=True)) == expected


@pytest.mark.nightly
def test_undecodable_key_without_key_columns_is_a_dead_letter(spark: SparkSession) -> None:
    events = [envelope("c", 1, {"id": 1}, 0), envelope("c", 2, b"garbage", 1)]
    unnamed, other = keys(spark, events), keys(spark, events, key=["item"])
    assert unnamed == other == [((1,), None), (None, "undecodable")]
    # A tombstone has no value that could identify the deleted row.
    rows = [record({"id": 1}, key={"id": 1}), record(None, key=b"garbage", offset=1)]
    assert keys(spark, rows, key=["id"], dialect=FlatDialect()) == [((1,), None), (None, "undecodable")]


def test_record_key_is_kept_when_value_lacks_rule_columns(spark: SparkSession) -> None:
    rows = [record({"item": "a"}, key={"id": 1})]
    assert keys(spark, rows, key=["id"], dialect=FlatDialect()) == [((1,), None)]


def test_error_names_the_keys(spark: SparkSession) -> None:
    with pytest.raises(DataError) as caught:
        keys(spark, [envelope("c", 1, b"garbage", 0)])
    assert str(caught.value) == (
        "topic moma.public.artists: none of the keys is a JSON object\n"
        "  fix: name key columns of the value, `tables: - {source: …, key: [id]}`; or write next to `value:` how the keys are "
        "written, or `key: none`"
    )


def test_null_of_an_updated_key_column_is_not_replaced_by_its_old_value(spark: SparkSession) -> None:
    old, new = {"a": 1, "b": 5, "v": "x"}, {"a": 1, "b": None, "v": "y"}
    images = {"c": (None, old), "u": (old, new), "d": (old, None)}
    events = [
        record({"before": before, "after": after, "source": SOURCE, "op": op}, offset=i)
        for i, (op, (before, after)) in enumerate(images.items())
    ]
    (changes,) = make_changes(spark, events, key=["a", "b"], keyed=False).values()
    assert [row[KEY] for row in rows_of(changes, KEY)] == [{"a": 1, "b": 5}, {"a": 1, "b": None}, {"a": 1, "b": 5}]
    rows = Unwrap().apply(changes)
    assert [(row["a"], row["b"]) for row in rows_of(rows, "a", "b")] == [(1, 5), (1, None), (1, 5)]


@pytest.mark.one_spark
def test_keys_are_not_read_with_key_none(tmp_path: Path, spark: SparkSession) -> None:
    with (tmp_path / "lines").open("w") as lines:
        for number, (id_, item) in enumerate([(1, "a"), (2, "b"), (1, "c")], 1):
            value = {"id": id_, "item": item}
            print(json.dumps({"line": number, "topic": TOPIC, "key": {"other": number}, "value": value}), file=lines)
    sink = MemorySink(store=str(tmp_path))
    progress: list[BatchProgress] = []
    pipeline = Pipeline(
        "orders",
        LinesSource(path=str(tmp_path / "lines")),
        [sink],
        str(tmp_path / "checkpoint"),
        tables=[{"source": TOPIC, "key": ["id"], "target": "orders"}],
        value=JsonFormat(),
        key="none",
    )
    pipeline.run(spark, on_progress=progress.append)
    found = sink.read_back(spark, Table("orders")).orderBy("id").select("id", "item").collect()
    assert [tuple(row) for row in found] == [(1, "c"), (2, "b")]
    assert [table.dead_letters for batch in progress for table in batch.tables] == [0]


def test_update_of_a_key_that_a_rule_names_removes_the_old_row(tmp_path: Path, spark: SparkSession) -> None:
    """A connector does not split this update into a delete and an insert: the columns are not its key."""
    rows = [{"code": code, "size": size} for code, size in [("a", 1), ("b", 2), ("c", 3), (None, 4)]]
    changes: list[tuple[str, Any, Any]] = [("c", None, rows[0]), ("c", None, rows[1]), ("u", rows[0], rows[2])]
    changes += [("u", rows[3], {"code": "b", "size": 5}), ("u", None, {"code": "c", "size": 6}), ("u", rows[2], None)]
    table, log = MemorySink(store=f"{tmp_path}/table"), MemorySink(store=f"{tmp_path}/log", mode="changelog")
    make_pipeline(tmp_path, changes, [table, log]).run(spark)
    assert sorted(tuple(row)[:2] for row in table.read_back(spark, Table("orders")).collect()) == [("b", 5), ("c", 6)]
    logged = log.read_back(spark, Table("orders")).select("code", "__op").collect()
    assert sorted(map(tuple, logged)) == [("a", "c"), ("a", "d"), ("b", "c"), ("b", "u"), ("c", "u"), ("c", "u")]


@pytest.mark.nightly
@pytest.mark.parametrize("has_log", [False, True])
def test_rejected_update_of_a_key_that_a_rule_names_keeps_the_old_row(
    tmp_path: Path, spark: SparkSession, has_log: bool
) -> None:
    """An update is applied as a whole, or is one dead letter."""
    changes: list[tuple[str, Any, Any]] = [
        ("c", None, {"code": "a", "size": "1"}),
        ("c", None, {"code": "b", "size": "2"}),
        ("u", {"code": "a", "size": "1"}, {"code": "c", "size": "large"}),
        ("u", {"code": "b", "size": "2"}, {"code": "d", "size": "3"}),
    ]
    table, log = MemorySink(store=f"{tmp_path}/table"), MemorySink(store=f"{tmp_path}/log", mode="changelog")
    sinks, progress = [table, log] if has_log else [table], list[BatchProgress]()
    pipeline = make_pipeline(tmp_path, changes, sinks, Cast(columns={"size": "int"}))
    pipeline.run(spark, on_progress=progress.append)
    assert sorted(tuple(row)[:2] for row in table.read_back(spark, Table("orders")).collect()) == [("a", 1), ("d", 3)]
    ((first, *_),) = [batch.tables for batch in progress]
    # Two inserts, the rejected update, and the delete and the update of the other one.
    assert (first.rows_in, first.dead_letters, first.applied, first.superseded) == (5, 1, 3, 1)
    dead_letters = pipeline.read_dead_letters(spark)
    assert dead_letters is not None
    ((reason, text),) = dead_letters.select("reason", "value").collect()
    assert (reason, json.loads(text)["after"]["code"]) == ("untransformable", "c")
    if has_log:
        logged = log.read_back(spark, Table("orders")).select("code", "__op").collect()
        assert sorted(map(tuple, logged)) == [("a", "c"), ("b", "c"), ("b", "d"), ("d", "u")]


def make_pipeline(
    folder: Path, changes: list[tuple[str, Any, Any]], sinks: list[MemorySink], *transforms: Transform
) -> Pipeline:
    """Return a pipeline over changes without keys: their operation, and the row before and after it."""
    with (folder / "lines").open("w") as lines:
        for number, (op, before, after) in enumerate(changes, 1):
            source = {**SOURCE, "connector": "postgresql", "lsn": number}
            value = {"before": before, "after": after, "op": op, "source": source}
            print(json.dumps({"line": number, "topic": TOPIC, "key": None, "value": value}), file=lines)
    return Pipeline(
        "orders",
        LinesSource(path=str(folder / "lines")),
        list(sinks),
        str(folder / "checkpoint"),
        tables=[{"source": TOPIC, "key": ["code"], "target": "orders"}],
        value=JsonFormat(),
        key="none",
        transforms=[Unwrap(), *transforms],
    )


@pytest.mark.nightly
def test_mongodb_events_are_rejected(spark: SparkSession) -> None:
    """MongoDB's rows are documents in strings, so they have no columns and no key columns."""
    source = {"connector": "mongodb", "ts_ms": 1, "collection": "orders", "ord": 1}
    event = {"before": None, "after": '{"_id": 1, "item": "a"}', "source": source, "op": "c"}
    records = [record(event, key={"id": "1"})]
    message = "the events contain documents as strings (as from MongoDB) instead of rows\n  fix: flatten them with ExtractNewDocumentState of Debezium's "
    (changes,) = make_changes(spark, records).values()
    with pytest.raises(DataError) as caught:
        Unwrap().apply(changes)
    assert message in str(caught.value)
    with pytest.raises(DataError) as caught:
        make_changes(spark, [record(event)], keyed=False, key=["_id"])
    assert message in str(caught.value)
    assert changes.frame.count() == 1  # envelopes without unwrap are kept
