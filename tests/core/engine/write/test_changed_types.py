"""Types that change between the commit of a batch and its dead letters: no record is lost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import types as T
from tests.support.bronze import write_lines
from tests.support.memory_sink import TABLES, MemorySink
from tests.support.tiers import nightly_after

from headrace import Pipeline
from headrace.config.settings import Settings
from headrace.dead_letters.file_store import DeadLetterFiles
from headrace.errors import HeadraceError, RuleError
from headrace.sdk.sink import Table
from headrace_sources.transports.files import FilesSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

TOPIC = "shop.orders"


class Orders:
    """Pipeline of JSON files whose rule declares the type of the column ``amount``."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.sink = spark, folder, MemorySink(store=str(folder))

    def add(self, *amounts: Any) -> None:
        """Add a file of rows, numbered through all files."""
        files = sorted((self.folder / "landing").rglob("*.json"))
        first = sum(len(file.read_text().splitlines()) for file in files)
        rows = [{"id": first + n, "amount": amount} for n, amount in enumerate(amounts)]
        write_lines(self.folder / "landing" / TOPIC / f"{TOPIC}+0+{len(files)}.json", rows)

    def pipeline(self, amount: str, policies: Mapping[str, str]) -> Pipeline:
        source = FilesSource(path=str(self.folder / "landing"), format="json")
        tables = [{"source": TOPIC, "key": ["id"], "columns": {"amount": amount}}]
        settings = Settings.model_validate({"dead.letters": policies})
        return Pipeline("shop", source, [self.sink], str(self.folder / "checkpoint"), tables=tables, settings=settings)

    def run(self, amount: str, **policies: str) -> None:
        policies = {reason.replace("_", "-"): policy for reason, policy in policies.items()}
        self.pipeline(amount, policies).run(self.spark)

    def rows(self) -> list[tuple[int, Any]]:
        rows = self.sink.read_back(self.spark, Table(TOPIC)).select("id", "amount").collect()
        return sorted(tuple(row) for row in rows)

    def dead_letters(self) -> list[Any]:
        found = self.pipeline("int", {}).read_dead_letters(self.spark)
        return [json.loads(row["value"])["amount"] for row in (found.collect() if found else [])]

    def store_texts(self) -> None:
        """Change the type of the stored column to STRING, as another program does."""
        newest = TABLES[str(self.folder), TOPIC][-1]
        assert isinstance(newest.schema, T.StructType)
        columns = [T.StructField(c.name, T.StringType()) if c.name == "amount" else c for c in newest.schema]
        rows = tuple({**row, "amount": row["amount"] and str(row["amount"])} for row in newest.rows)
        TABLES[str(self.folder), TOPIC][-1] = replace(newest, rows=rows, schema=T.StructType(columns))


@pytest.fixture
def orders(spark: SparkSession, tmp_path: Path) -> Orders:
    return Orders(spark, tmp_path)


def test_record_that_stopped_a_run_fits_the_widened_type(orders: Orders) -> None:
    """The rule stops the run after the commit of the other records."""
    orders.add(1, 5_000_000_000, 3)
    with pytest.raises(RuleError, match="undecodable"):
        orders.run("int", undecodable="stop")
    assert orders.rows() == [(0, 1), (2, 3)]
    orders.run("bigint", undecodable="stop")
    assert orders.rows() == [(0, 1), (1, 5_000_000_000), (2, 3)]


@pytest.mark.parametrize("is_changed", nightly_after(1, [True, False]))
def test_record_rejected_by_the_stored_type(orders: Orders, monkeypatch: pytest.MonkeyPatch, is_changed: bool) -> None:
    """The run ends after the commit, before the dead letters are saved."""

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    orders.add(1)
    orders.run("int")
    orders.add("two", None)
    with monkeypatch.context() as patch:
        patch.setattr(DeadLetterFiles, "save", fail)
        with pytest.raises(HeadraceError, match="the disk is full"):
            orders.run("string", schema_incompatible="dead-letter")
    assert orders.rows() == [(0, 1), (2, None)]
    if is_changed:
        orders.store_texts()
    orders.run("string", schema_incompatible="dead-letter")
    rows = [(0, "1"), (1, "two"), (2, None)] if is_changed else [(0, 1), (2, None)]
    assert (orders.rows(), orders.dead_letters()) == (rows, [] if is_changed else ["two"])
