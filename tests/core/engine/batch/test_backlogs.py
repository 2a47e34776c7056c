"""Backlogs of the tables that were set aside, in a folder that cannot delete."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from headrace.engine.batch.backlogs import Backlogs
from headrace.engine.run import catch_up
from headrace.engine.run.catch_up import CatchUp
from headrace.errors import DataError, RetriableError
from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps, pytest.mark.one_spark]


def test_table_is_removed_after_its_folder_could_not_be_deleted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catch_up, "FIRST_PAUSE_SECONDS", 0.01)
    folder = Folder(spark, str(tmp_path))
    failures = [RetriableError("the server does not respond")] * 2
    delete = folder.delete

    def fail_twice(name: str) -> None:
        if failures:
            raise failures.pop()
        delete(name)

    monkeypatch.setattr(folder, "delete", fail_twice)
    backlogs, applied = Backlogs(folder), cast("list[tuple[str, int]]", [])
    threads = CatchUp(backlogs, lambda table, entry: applied.append((table, entry.first)))
    backlogs.set_aside("_shop.orders", 3, {}, DataError("a value is too long"), "a value is too long")
    assert Backlogs(folder).errors == {"_shop.orders": None}
    threads.start()
    for thread in [*threads._threads.values()]:
        thread.join(30)
    assert (applied, backlogs.errors, failures) == ([("_shop.orders", 3)], {}, [])
    assert threads.finish() is None
