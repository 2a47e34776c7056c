"""Log of deleted keys, for small and large numbers of keys."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from headrace.sdk.changes import DELETED, POSITION
from headrace.spark.storage import Folder
from headrace.upsert import deleted_keys as deleted
from headrace.upsert.deleted_keys import DeletedKeys

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

SCHEMA = f"id int, code string, price decimal(9,2), {POSITION} string, {DELETED} boolean"


@pytest.mark.parametrize(("small", "few"), [(1 << 30, 0), (0, 100), (0, 0)], ids=["small", "large", "large batch"])
def test_change_older_than_the_delete_of_its_key_is_dropped(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int, few: int
) -> None:
    monkeypatch.setattr(deleted, "_BROADCAST_BYTES", small)
    monkeypatch.setattr(deleted, "_BROADCAST_ROWS", few)
    chance = Random(1)
    all_keys = [(n, f"k{n % 3}", Decimal(n)) for n in range(40)]
    keys = DeletedKeys(Folder(spark, str(tmp_path)), 3600)
    removed: dict[tuple[int, str, Decimal], str] = {}
    for batch in range(3):
        deletes = {key: f"{chance.randrange(100):02}" for key in chance.sample(all_keys, 15)}
        removed.update({key: max(at, removed.get(key, "")) for key, at in deletes.items()})
        rows = [(*key, at, True) for key, at in deletes.items()] + [
            (*key, "99", False) for key in all_keys if key not in deletes
        ]
        keys.remember(spark.createDataFrame(rows, SCHEMA), ["id", "code", "price"], batch)
    changes = [(*key, f"{chance.randrange(100):02}", chance.random() < 0.3) for key in all_keys]
    expected = [change for change in changes if change[3] >= removed.get(change[:3], "")]
    assert 5 < len(expected) < len(changes) - 5
    for log in (keys, DeletedKeys(Folder(spark, str(tmp_path)), 3600)):
        frame = spark.createDataFrame(changes, SCHEMA)
        with log.drop_late(frame, ["id", "code", "price"]) as left:
            assert sorted(tuple(row) for row in left.collect()) == sorted(expected)
