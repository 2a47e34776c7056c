"""Repair of rows by signals, with a database that is held in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from headrace_verify import repair
from headrace_verify.compared_table import ComparedTable, choose_columns
from headrace_verify.comparison import Comparison, Difference
from headrace_verify.mysql_database import MySqlDatabase
from headrace_verify.postgresql_database import PostgreSqlDatabase
from headrace_verify.repair import Repair, write_signals
from headrace_verify.sides import Key, Row, SourceSide
from headrace_verify.source_table import SourceColumn, SourceDatabase, SourceTable
from headrace_verify.table_verification import Verified
from headrace_verify.value_texts import find_mysql_form, find_postgresql_scalar
from headrace_verify.verify_report import describe_result, list_notes
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from headrace.sdk import ConfigError, FatalError

STORED = StructType([StructField("id", IntegerType()), StructField("name", StringType())])
OPTIONS = {"signal.data.collection": "debezium.signals"}


def make_table(database: SourceDatabase, name: str = "orders", key: tuple[str, ...] = ("id",)) -> ComparedTable:
    text, number, find = "text", "int4", find_postgresql_scalar
    if isinstance(database, MySqlDatabase):
        text, number, find = "varchar", "int", find_mysql_form
    table = SourceTable("shop", name, (SourceColumn("id", number), SourceColumn("name", text)), key)
    return choose_columns(database, find, table, STORED, ())


def find_signals(database: SourceDatabase, keys: Sequence[Key], **options: Any) -> list[dict[str, Any]]:
    table = make_table(database, **options)
    found = list(write_signals(table.source, SourceSide(database, table, 1, None), keys))
    assert all(len(data) <= 2048 for data in found)
    return list(map(json.loads, found))


def answer(sql: str) -> list[tuple[Any, ...]]:
    return [("UTF8",)] if sql == "show server_encoding" else []


def test_signal_has_the_rows_as_a_condition() -> None:
    [data] = find_signals(PostgreSqlDatabase(answer, {}), [("7",), ("8",)])
    assert data == {
        "data-collections": ["shop.orders"],
        "type": "incremental",
        "additional-conditions": [
            {"data-collection": "shop.orders", "filter": """("id" = E'7') or ("id" = E'8')"""},
        ],
    }


def test_keys_of_several_columns_and_names_are_quoted() -> None:
    [data] = find_signals(PostgreSqlDatabase(answer, {}), [("3:o'k", "7")], name="order$", key=("name", "id"))
    [condition] = data["additional-conditions"]
    assert condition == {
        "data-collection": "shop.order\\$",
        "filter": """("name" = E'o''k' and "id" = E'7')""",
    }
    [data] = find_signals(MySqlDatabase(answer, {}), [("7",)])
    text = "convert(0x37 using utf8mb4)"
    assert data["additional-conditions"][0]["filter"] == f"(`id` = cast({text} as decimal(20)))"


def test_signals_fit_the_signal_table() -> None:
    keys = [(str(n),) for n in range(1000)]
    found = find_signals(PostgreSqlDatabase(answer, {}), keys)
    conditions = [part for data in found for part in data["additional-conditions"][0]["filter"].split(" or ")]
    assert conditions == [f"""("id" = E'{n}')""" for n in range(1000)]
    assert 2 < len(found) < 20


@dataclass
class World:
    """Database and table in memory: id → digest of the row. A signal makes the table equal to the database, if it is applied."""

    rows: dict[str, int]
    stored: dict[str, int]
    is_applied: bool = True
    statements: list[str] = field(default_factory=list)
    recorded: list[dict[str, Any]] = field(default_factory=list)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        if sql.startswith("insert"):
            self.statements.append(sql)
            assert self.recorded  # The log has the command before the signal is sent.
            if self.is_applied:
                self.stored |= self.rows
        return answer(sql)

    @contextmanager
    def record(self, command: str, spark: Any, **arguments: Any) -> Iterator[None]:
        self.recorded.append({"command": command, **arguments})
        yield

    def repair(self, *differences: Difference, timeout: float = 60, options: dict[str, str] = OPTIONS) -> Verified:
        database = PostgreSqlDatabase(self.query, options)
        sides: Any = (Memory(self.rows), Memory(self.stored))
        comparison = Comparison(len(self.rows))
        for difference in differences:
            comparison.add(difference)
        result = Verified("lake.orders", compared=make_table(database), comparison=comparison, sides=sides)
        pipeline: Any = self
        spark: Any = None
        Repair(database, timeout, self.statements.append).repair([result], pipeline, spark)
        return result


class Memory(SourceSide):
    """Side in memory."""

    def __init__(self, rows: dict[str, int]) -> None:
        self._rows = rows

    def find_rows(self, keys: Sequence[Key]) -> dict[Key, Row]:
        return {key: Row((self._rows[key[0]],)) for key in keys if key[0] in self._rows}

    def match(self, key: Key) -> str:
        return f"id = {key[0]}"


DIFFERENT = Difference(("1",), "different", ("name",))
MISSING = Difference(("2",), "missing")
EXTRA = Difference(("3",), "extra")


def test_rows_are_repaired_by_one_signal() -> None:
    world = World({"1": 10, "2": 20}, {"1": 11})
    result = world.repair(DIFFERENT, MISSING)
    assert result.comparison.differences == []
    assert (result.comparison.equal, result.comparison.is_different) == (2, False)
    assert world.recorded == [{"command": "verify", "tables": ("lake.orders",), "repair": True}]
    statement, line = world.statements
    [signal] = result.signals
    assert statement.startswith(
        f"""insert into "debezium"."signals" (id, type, data) values (E'{signal}', E'execute-snapshot', E'{{"data-"""
    )
    assert line.startswith(f"lake.orders: sent signal {signal}: execute-snapshot {{")
    assert "(id = 1) or (id = 2)" in line
    assert list_notes(result) == ["lake.orders: repaired rows: 2"]
    assert describe_result(result)["signals"] == [signal]


def test_extra_rows_need_a_resync() -> None:
    world = World({}, {"3": 30})
    result = world.repair(EXTRA)
    assert (result.comparison.differences, world.statements, world.recorded) == ([EXTRA], [], [])
    [note] = result.notes
    assert note.endswith("run `headrace resync FILE lake.orders`")


def test_rows_that_still_differ_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "_PAUSE", 0.01)
    result = World({"1": 10}, {"1": 11}, is_applied=False).repair(DIFFERENT, timeout=0.05)
    assert result.comparison.differences == [DIFFERENT]
    assert result.notes[0] == "repaired rows: 0"
    assert result.notes[1].startswith("rows that still differ 0.05 seconds after the signal: 1. Check")


def test_many_rows_need_a_snapshot_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "MAX_ROWS", 1)
    world = World({"1": 10, "2": 20}, {})
    result = world.repair(DIFFERENT, MISSING)
    assert (len(result.comparison.differences), world.statements) == (2, [])
    assert result.notes == ["more than 1 rows differ: take a snapshot of the whole table (docs/backfill.md)"]


def test_signal_needs_its_table() -> None:
    with pytest.raises(ConfigError, match="the connector has no signal table"):
        World({"1": 10}, {}).repair(DIFFERENT, options={})

    def refuse(sql: str) -> list[tuple[Any, ...]]:
        if sql.startswith("insert"):
            raise FatalError("permission denied")
        return answer(sql)

    with pytest.raises(ConfigError, match="no signal can be written: permission denied"):
        PostgreSqlDatabase(refuse, OPTIONS).send_signal("log", "{}")
