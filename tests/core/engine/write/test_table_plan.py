"""Plan of a batch for one table. It depends only on schemas, so the tests do not start Spark."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import types as T

from headrace.config.settings import Settings
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.routing import Routes
from headrace.engine.write.table_plan import KEYLESS, BatchMarks, TablePlan, check_capabilities
from headrace.errors import ConfigError, DataError
from headrace.sdk import changes as C
from headrace.sdk.changes import Changes
from headrace.sdk.sink import Capabilities, Sink
from headrace_sinks import ConsoleSink, FilesSink
from headrace_sources import FilesSource
from headrace_transforms import Unwrap

MARKS = BatchMarks("checkpoint", 7)
KEY = T.StructType().add("id", T.IntegerType())


def changes(*columns: str, key: T.StructType | None = KEY, envelope: bool = False, **own: T.DataType) -> Changes:
    schema = T.StructType()
    for name in columns:
        schema.add(name, T.StringType())
    if key is not None:
        schema.add(C.KEY, key)
    for name, data_type in own.items():
        schema.add(C.PREFIX + name, data_type)
    return Changes(cast("Any", SimpleNamespace(columns=schema.names, schema=schema, sparkSession=None)), envelope)


class SinglePassSink(ConsoleSink):
    """Sink that evaluates the rows only once."""

    name = "single"
    capabilities = Capabilities(upsert=True, delete=True, schema_evolution=True, single_pass=True)


def plan(*sinks: Sink, transforms: Any = (), **settings: Any) -> Plan:
    source = FilesSource(path="x", format="json")
    return Plan("shop", source, sinks, "checkpoint", Routes([]), (), transforms, settings=Settings(**settings))


def decide(changes: Changes, *sinks: Sink, **settings: Any) -> TablePlan:
    return TablePlan.decide(plan(*sinks, **settings), "shop.orders", changes, MARKS)


def files(**options: Any) -> FilesSink:
    return FilesSink(path="lake", **options)


def test_a_truncate_without_columns_needs_a_known_key_and_a_table_without_deleted_rows() -> None:
    sinks, empty = (SinglePassSink(), files()), changes(key=None)

    def find_truncated(key: tuple[str, ...], *transforms: Unwrap) -> list[str]:
        table_plan = TablePlan.decide(plan(*sinks, transforms=transforms), "shop.orders", empty, MARKS, key)
        assert not table_plan.columns
        return [sink.name for sink in table_plan.truncated_sinks]

    assert find_truncated(("id",)) == ["single"]
    assert find_truncated(()) == []
    assert find_truncated(("id",), Unwrap({"delete.tombstone.handling.mode": "rewrite"})) == []


def test_rows_with_a_key_are_upserted_if_the_sink_supports_it() -> None:
    table_plan = decide(changes("id", "name"), ConsoleSink(), files())
    assert list(table_plan.modes.values()) == ["upsert", "append"]
    assert (table_plan.table.key, table_plan.columns, table_plan.remembers_deletes) == (("id",), ("id", "name"), True)
    assert table_plan.note is None


def test_rows_without_a_key_become_a_changelog_with_a_note() -> None:
    table_plan = decide(changes("id", key=None), ConsoleSink())
    assert list(table_plan.modes.values()) == ["changelog"]
    assert (table_plan.note, table_plan.remembers_deletes, table_plan.truncated_sinks) == (KEYLESS, False, ())


def test_rows_without_their_key_column_are_not_upserted() -> None:
    with pytest.raises(DataError, match=r"have the column 'id', and the rows lack it") as raised:
        decide(changes("name"), ConsoleSink())
    assert "`include`" in str(raised.value.fix)
    assert list(decide(changes("ID"), ConsoleSink()).modes.values()) == ["upsert"]
    assert list(decide(changes("name"), files()).modes.values()) == ["append"]


def test_envelopes_are_appended() -> None:
    assert list(decide(changes("before", "after", envelope=True), ConsoleSink()).modes.values()) == ["append"]


@pytest.mark.parametrize("mode", ["upsert", "changelog"])
def test_envelopes_cannot_be_upserted(mode: str) -> None:
    with pytest.raises(DataError, match=f"mode {mode} requires rows"):
        decide(changes("after", envelope=True), ConsoleSink(mode=mode))


def test_upsert_needs_a_key() -> None:
    with pytest.raises(DataError, match="rows cannot be updated"):
        decide(changes("id", key=None), ConsoleSink(mode="upsert"))


def test_deletes_are_not_remembered_if_disabled_in_the_file() -> None:
    assert not decide(changes("id"), ConsoleSink(), delete_retention="0 seconds").remembers_deletes


def test_unavailable_columns_are_columns_of_the_row() -> None:
    marks = T.StructType().add("text", T.BooleanType()).add("elsewhere", T.BooleanType())
    table_plan = decide(changes("id", "text", unchanged=marks, new_key=KEY), ConsoleSink())
    assert (table_plan.unavailable, table_plan.has_key_changes) == (("text",), True)
    assert not decide(changes("id", "text", new_key=KEY), ConsoleSink()).has_key_changes


def test_sink_that_reads_rows_once_needs_no_cache() -> None:
    assert decide(changes("id", "text"), SinglePassSink()).is_read_once
    assert not decide(changes("id", "text"), ConsoleSink()).is_read_once
    assert not decide(changes("id", "text"), SinglePassSink(), files()).is_read_once
    marks = T.StructType().add("text", T.BooleanType())
    assert decide(changes("id", "text", unchanged=marks), SinglePassSink()).is_read_once


def test_truncate_applies_only_if_deletes_remove_rows() -> None:
    sink = ConsoleSink()
    removes = plan(sink, transforms=(Unwrap(),))
    keeps = plan(sink, transforms=(Unwrap({"delete.tombstone.handling.mode": "rewrite"}),))
    assert TablePlan.decide(removes, "t", changes("id"), MARKS).truncated_sinks == (sink,)
    assert TablePlan.decide(keeps, "t", changes("id"), MARKS).truncated_sinks == ()


@pytest.mark.parametrize("data_type", [KEY, T.MapType(T.StringType(), T.StringType())])
def test_key_of_an_upserted_table_has_plain_values(data_type: T.DataType) -> None:
    nested = changes("id", "line", key=T.StructType().add("id", T.IntegerType()).add("line", data_type))
    with pytest.raises(DataError, match=r"key column 'line' has the type .*, and a key consists of plain values"):
        decide(nested, ConsoleSink())
    assert list(decide(nested, files()).modes.values()) == ["append"]


def test_sink_without_a_required_capability_is_rejected_before_the_start() -> None:
    with pytest.raises(ConfigError, match="cannot keep one row per key"):
        check_capabilities(plan(files(mode="upsert")))
    with pytest.raises(ConfigError, match="it appends, so it cannot remove rows"):
        check_capabilities(plan(files(), transforms=(Unwrap(),)))
    check_capabilities(plan(files(mode="changelog"), transforms=(Unwrap(),)))


class ComparedSource(FilesSource):
    """Source that finds missing rows by their keys."""

    finds_missing_rows = True


@pytest.mark.parametrize("sink", [files(), ConsoleSink(mode="append"), ConsoleSink(mode="changelog")])
def test_source_that_compares_keys_needs_one_row_per_key(sink: Sink) -> None:
    source = ComparedSource(path="x", format="json")
    with pytest.raises(
        ConfigError, match=f"sink {sink.name}: the source compares keys .* does not keep one row per key"
    ):
        check_capabilities(replace(plan(sink), source=source))
    compared = replace(plan(ConsoleSink()), source=source)
    check_capabilities(compared)
    assert TablePlan.decide(compared, "t", changes("id"), MARKS).upsert_sinks
    with pytest.raises(DataError, match="its events have no key"):
        TablePlan.decide(compared, "t", changes("id", key=None), MARKS)


def test_two_sinks_in_one_place_are_rejected() -> None:
    """The second sink would find the marks of the first, and skip every batch."""
    first, second = FilesSink(path="out", format="json"), FilesSink(path="out/", format="parquet")
    with pytest.raises(ConfigError, match="sink files-2: it writes to the same place as the sink files: out"):
        check_capabilities(plan(first, second))
    check_capabilities(plan(first, FilesSink(path="out/parquet", format="parquet")))


def test_marks_of_a_batch() -> None:
    assert (MARKS.truncate, MARKS.dead_letters("shop.orders")) == (
        "checkpoint/truncate",
        "checkpoint/dead_letters/shop.orders",
    )


class DeletingAppender(FilesSink):
    """Sink that appends and applies deletes, such as a log of changes."""

    name = "log"
    capabilities = Capabilities(delete=True, schema_evolution=True)


def test_sink_that_appends_and_deletes_accepts_deletes() -> None:
    check_capabilities(plan(DeletingAppender(path="lake"), transforms=(Unwrap(),)))
    check_capabilities(plan(DeletingAppender(path="lake", mode="append"), transforms=(Unwrap(),)))
    with pytest.raises(ConfigError, match="cannot remove rows"):
        check_capabilities(plan(ConsoleSink(mode="append"), transforms=(Unwrap(),)))
