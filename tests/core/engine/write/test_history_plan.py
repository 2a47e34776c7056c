"""Options of tables with a history. The checks need only schemas, so the tests do not start Spark."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.engine.write.test_table_plan import SinglePassSink, changes, decide, files, plan

from headrace.engine.write.feed_writer import find_first_table
from headrace.engine.write.table_plan import check_capabilities
from headrace.errors import ConfigError, DataError
from headrace.sdk.sink import Table


def sink(**options: Any) -> SinglePassSink:
    return SinglePassSink(options)


def test_both_writes_the_versions_to_a_second_table() -> None:
    history = sink(mode="both")
    made = decide(changes("id", "name"), history)
    assert made.writes == [
        (Table("shop.orders", ("id",)), history, "upsert"),
        (Table("shop.orders_history", ("id",)), history, "history"),
    ]
    assert made.keeps_history
    assert not made.is_read_once


def test_maintenance_of_a_second_table_excludes_the_batches_of_the_first() -> None:
    own = plan(sink(mode="both", changes=True))
    names = ("shop.orders", "shop.orders_history", "shop.orders_changes")
    assert {find_first_table(own, name) for name in names} == {"shop.orders"}
    assert [find_first_table(plan(sink()), name) for name in names] == [*names]


def test_history_is_the_only_table() -> None:
    history = sink(mode="history")
    made = decide(changes("id", "name"), history)
    assert made.writes == [(Table("shop.orders", ("id",)), history, "history")]
    assert made.upsert_sinks == made.truncated_sinks == (history,)
    assert not made.remembers_deletes


@pytest.mark.parametrize(
    ("options", "columns", "message"),
    [
        ({"mode": "history", "track": ["nam"]}, ("id", "name"), r"`track` names the column 'nam'.*\n.*name"),
        ({"mode": "both"}, ("id", "Valid_To"), "its rows have the column 'Valid_To', which a history adds"),
        ({"mode": "history"}, ("id", "is_current"), "its rows have the column 'is_current'"),
    ],
)
def test_columns_that_a_history_cannot_use(options: dict[str, Any], columns: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        decide(changes(*columns), sink(**options))


def test_history_needs_a_key() -> None:
    with pytest.raises(DataError, match="its events have no key"):
        decide(changes("id", key=None), sink(mode="history"))


def test_history_needs_rows() -> None:
    with pytest.raises(DataError, match="mode history requires rows"):
        decide(changes("before", "after", envelope=True), sink(mode="history"))


def test_sinks_that_keep_no_history() -> None:
    with pytest.raises(ConfigError, match="sink files: cannot keep a history"):
        check_capabilities(plan(files(mode="history")))
    with pytest.raises(ConfigError, match="sink single: `track` is set, and the sink keeps no history"):
        check_capabilities(plan(sink(mode="upsert", track=["name"])))
