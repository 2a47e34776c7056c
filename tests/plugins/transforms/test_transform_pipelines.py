"""A complete pipeline with transforms for some tables and rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.bronze import write_lines
from tests.support.pipelines import pipeline, rows

from headrace import Pipeline
from headrace.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

PEOPLE, ORDERS = "shop.public.people", "shop.public.orders"
TRANSFORMS: list[dict[str, Any]] = [
    {"unwrap": {"add.headers": "op"}},
    {"filter": {"condition": "country = 'CH'", "tables": "shop.people"}},
    {"cast": {"columns": {"price": "decimal(5,2)"}}},
    {"compute": {"columns": {"label": "upper(name)"}, "when": "id > 1"}},
    {"mask": {"columns": {"name": {"empty": True}}, "tables.exclude": "shop.o*"}},
]


def event(op: str, lsn: int, **row: Any) -> dict[str, Any]:
    return {"before": None, "after": row, "source": {"connector": "postgresql", "lsn": lsn}, "op": op}


def write_events(folder: Path, topic: str, number: int, *events: dict[str, Any]) -> None:
    write_lines(folder / "bronze" / topic / f"{topic}+0+{number:010d}.json", list(events))


def pipeline_of(folder: Path, transforms: list[dict[str, Any]]) -> Pipeline:
    return pipeline(
        folder,
        source={"files": {"path": str(folder / "bronze"), "format": "json"}},
        tables=[{"source": r"/shop\.public\.(\w+)/", "target": "shop.{1}", "key": ["id"]}],
        transforms=transforms,
    )


def test_transforms_of_some_tables_and_rows(spark: SparkSession, tmp_path: Path) -> None:
    """The mask after `compute` would leave the copy unmasked, so the pipeline masks first."""
    write_events(
        tmp_path,
        PEOPLE,
        0,
        event("c", 1, id=1, name="Arp", country="CH"),
        event("c", 2, id=2, name="Höch", country="DE"),
        event("c", 3, id=3, name="Taeuber", country="CH"),
    )
    write_events(
        tmp_path,
        ORDERS,
        0,
        event("c", 4, id=1, name="pen", price="1.5"),
        event("c", 5, id=2, name="ink", price="4711 francs"),
        event("c", 6, id=3, name="nib", price="2"),
    )
    with pytest.raises(DataError, match="'label' is computed from 'name', which is masked only later"):
        pipeline_of(tmp_path, TRANSFORMS).check(spark)
    people = pipeline_of(tmp_path, [*TRANSFORMS[:3], TRANSFORMS[4], TRANSFORMS[3]])
    people.run(spark)
    assert rows(people, spark, "shop.people", "id") == [
        {"id": 1, "name": "", "country": "CH", "__op": "c", "label": None},
        {"id": 3, "name": "", "country": "CH", "__op": "c", "label": ""},
    ]
    orders = rows(people, spark, "shop.orders", "id")
    assert [(r["id"], str(r["price"]), r["label"]) for r in orders] == [(1, "1.50", None), (3, "2.00", "NIB")]
    write_events(
        tmp_path,
        PEOPLE,
        3,
        event("u", 7, id=1, name="Arp", country="FR"),
        event("u", 8, id=2, name="Höch", country="CH"),
    )
    people.run(spark)
    assert [row["id"] for row in rows(people, spark, "shop.people", "id")] == [2, 3]
    [dead_letter] = people.read("dead_letters", spark=spark).collect()
    assert (dead_letter["reason"], dead_letter["error"], dead_letter["table"]) == (
        "untransformable",
        "the column `price` does not fit its type decimal(5,2)",
        "shop.orders",
    )
