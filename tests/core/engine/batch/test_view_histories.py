"""Random histories: after each batch, every view equals its computation by Spark from the stored tables.

Events arrive late and repeatedly, change keys, and truncate a table; a run ends in the middle of a write.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.bronze import Topic
from tests.support.memory_sink import MemorySink
from tests.support.pipelines import TABLE_SINKS
from tests.support.shop import CUSTOMERS, ORDERS, REGIONS, TOTALS, Shop
from tests.support.tiers import nightly_after

from headrace.errors import HeadraceError
from headrace.sdk.sink import Batch, Sink, Table, WriteResult
from headrace_sinks.delta import DeltaSink
from headrace_sinks.hudi import HudiSink
from headrace_sinks.iceberg import IcebergSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

VIEWS = [
    REGIONS,
    TOTALS,
    {
        "name": "shop.hours",
        "key": "hour",
        "sql": """
            SELECT unix_timestamp(window(timestamp_seconds(o.at), '1 hour').start) AS hour, COUNT(DISTINCT o.customer_id) AS n
            FROM shop.orders o GROUP BY window(timestamp_seconds(o.at), '1 hour')
        """,
    },
    {
        "name": "shop.all_customers",
        "key": "id",
        "sql": """
            SELECT c.id, c.region, COUNT(o.id) AS orders, MAX(o.amount) AS most
            FROM shop.customers c LEFT JOIN shop.orders o ON o.customer_id = c.id GROUP BY c.id, c.region
        """,
    },
    {
        "name": "shop.ranks",
        "key": "id",
        "sql": """
            SELECT id, customer_id, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY amount DESC, id) AS place
            FROM shop.orders
        """,
    },
    {
        "name": "shop.neighbors",
        "key": ["a", "b"],
        "sql": """
            SELECT a.id AS a, b.id AS b FROM shop.customers a JOIN shop.customers b ON a.region = b.region AND a.id < b.id
            WHERE EXISTS (SELECT 1 FROM shop.orders o WHERE o.customer_id = a.id)
        """,
    },
]


class History:
    """Random changes of a database, and their delivery."""

    def __init__(self, shop: Shop, seed: int) -> None:
        self.shop, self.random = shop, random.Random(seed)
        self.rows: dict[str, dict[int, dict[str, Any]]] = {CUSTOMERS: {}, ORDERS: {}}
        self.late: list[tuple[Topic, dict[str, Any]]] = []
        self.sent: list[tuple[Topic, dict[str, Any]]] = []

    def make_row(self, table: str) -> dict[str, Any]:
        draw = self.random
        if table == CUSTOMERS:
            return {"id": draw.randrange(5), "region": draw.choice(["north", "south", "west"])}
        at = 3600 * draw.randrange(4) + draw.randrange(3600)
        return {"id": draw.randrange(9), "customer_id": draw.randrange(5), "amount": draw.randrange(10), "at": at}

    def change(self, topic: Topic) -> None:
        """Insert, update or delete a row."""
        rows, row = self.rows[topic.name], self.make_row(topic.name)
        before = rows.get(row["id"])
        if before is None and rows and self.random.random() < 0.3:  # A row gets a new key.
            before = self.random.choice(list(rows.values()))
            topic.update(before, row)
            del rows[before["id"]]
        elif before is None:
            topic.insert(row)
        elif self.random.random() < 0.3:
            topic.delete(rows.pop(row["id"]))
            return
        else:
            topic.update(before, row)
        rows[row["id"]] = row

    def deliver(self) -> None:
        """Change rows; some events arrive with a later batch, or again."""
        draw, topics = self.random, [self.shop.customers, self.shop.orders]
        for _ in range(draw.randrange(1, 8)):
            self.change(draw.choice([topics[0], topics[1], topics[1]]))
        if draw.random() < 0.1:
            topics[1].event("t", None, None)
            self.rows[ORDERS].clear()
        late, self.late = self.late, []
        for topic in topics:
            kept = [event for event in topic.pending if event["op"] == "t" or draw.random() < 0.8]
            self.late += [(topic, event) for event in topic.pending if event not in kept]
            topic.pending = kept
        for topic, event in [*late, *draw.sample(self.sent, min(2, len(self.sent)))]:
            topic.pending.append(event)
        self.sent += [(topic, event) for topic in topics for event in topic.pending]


class Crash(BaseException):
    """End of the process."""


def run_with_crash(shop: Shop, monkeypatch: pytest.MonkeyPatch, kind: type[Sink], is_after: Callable[[], bool]) -> None:
    """End a run around the first write of a random table or view, then run again."""
    write = kind.write

    def crash(self: Any, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        if not is_after():
            raise Crash
        write(self, table, rows, batch)
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(kind, "write", crash)
        with pytest.raises(HeadraceError):
            shop.run()
    shop.run()


def run_history(shop: Shop, seed: int, batches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(shop, seed)
    for topic in (shop.customers, shop.orders):
        for _ in range(8):
            history.change(topic)
    shop.run()
    shop.check()
    for _ in range(batches):
        history.deliver()
        if history.random.random() < 0.3 and (shop.customers.pending or shop.orders.pending):
            run_with_crash(shop, monkeypatch, type(shop.sinks[0]), lambda: history.random.random() < 0.5)
        else:
            shop.run()
        shop.check()


@pytest.mark.parametrize(("seed", "views"), nightly_after(1, [(0, VIEWS[2:5]), *((seed, VIEWS) for seed in range(4))]))
def test_views_equal_their_computation(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, views: list[dict[str, Any]]
) -> None:
    run_history(Shop(spark, tmp_path, *views, sinks=[MemorySink(store=str(tmp_path))]), seed, 4, monkeypatch)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", [*TABLE_SINKS, "delta"])
def test_views_in_table_formats(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, seed: int
) -> None:
    lake = str(tmp_path / "lake")
    sinks: dict[str, Callable[[], Sink]] = {
        "iceberg": lambda: IcebergSink(warehouse=lake),
        "hudi": lambda: HudiSink(path=lake),
        "delta": lambda: DeltaSink(path=lake),
    }
    run_history(Shop(spark, tmp_path, *VIEWS, sinks=[sinks[kind]()]), seed, 5, monkeypatch)
