"""Maintenance of Iceberg tables that is cut off at each call that changes something, as where the process is killed: no row is lost or back."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support.iceberg import java_table, load_handle
from tests.support.tiers import nightly_after

from headrace.sdk.maintenance import MaintenancePolicy, MaintenanceStep
from headrace.sdk.sink import MARK_SEARCH_DEPTH
from headrace.spark.sessions import Sessions
from headrace.testing._internal.faults import Calls, Fault, LostError
from headrace.testing.tables import Target, put, remove
from headrace_sinks.iceberg import IcebergSink
from headrace_sinks.iceberg.iceberg_catalog import active
from headrace_sinks.iceberg.orphans import ORPHANS_PROPERTY
from headrace_sinks.iceberg.staging import stage_files

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

PEOPLE = "id int, name string"
DAY = 86400.0
#: Calls that leave something: a job that writes, a commit, Iceberg's actions.
_LEAVES = re.compile(r"(\w+\.)?(append|parquet|execute|commit)\b")


@dataclass
class Shop:
    """A table whose rows are known."""

    target: Target
    rows: dict[int, str] = field(default_factory=dict)
    at: int = 0

    def write(self, *keys: int) -> None:
        """Newer rows of these keys; that of the first goes. What is late changes nothing."""
        self.at += 1
        gone, *kept = keys
        self.rows |= dict.fromkeys(kept, f"n{self.at}")
        self.rows.pop(gone, None)
        changes = [put(self.at, key, f"n{self.at}") for key in kept]
        self.target.write(PEOPLE, *changes, remove(self.at, gone, ""))

    def check(self) -> None:
        found = self.target.sink.read_back(self.target.session, self.target.table).collect()
        assert {row.id: row.name for row in found} == self.rows
        assert len(found) == len(self.rows)


def write_small_files(shop: Shop) -> None:
    for first in range(3):
        shop.write(first, *range(first + 1, first + 5))


def remove_rows(shop: Shop) -> None:
    for key in sorted(shop.rows)[:4]:
        shop.write(key)


def add_versions(shop: Shop) -> None:
    write_small_files(shop)
    java = java_table(shop.target)
    for _ in range(MARK_SEARCH_DEPTH):
        java.newAppend().commit()


def leave_files(shop: Shop) -> None:
    write_small_files(shop)
    java = java_table(shop.target)
    java.updateProperties().set(ORPHANS_PROPERTY, "0").commit()
    with active(shop.target.session):
        handle = load_handle(shop.target)
        stage_files(handle, handle.read())


def find_step(shop: Shop, name: str, upkeep: MaintenancePolicy) -> MaintenanceStep:
    steps: Iterator[MaintenanceStep] = shop.target.sink.plan_maintenance(shop.target.session, shop.target.table, upkeep)
    return next(step for step in steps if step.name == name)


@pytest.mark.parametrize(
    ("name", "age", "upkeep", "readers", "largest"),
    nightly_after(
        1,
        [
            ("compact", write_small_files, MaintenancePolicy(3600, 2), (), None),
            ("compact", write_small_files, MaintenancePolicy(3600, 2), ("spark",), None),
            ("convert-deletes", write_small_files, MaintenancePolicy(3600, 2), ("spark",), 1),
            ("rewrite-deletes", remove_rows, MaintenancePolicy(3600, 2), (), 1),
            ("expire", add_versions, MaintenancePolicy(0, 1000), (), None),
            (
                "remove-orphans",
                leave_files,
                MaintenancePolicy(3600, 1000, clock=lambda: time.time() + 4 * DAY),
                (),
                None,
            ),
        ],
    ),
)
def test_a_step_that_is_cut_off(
    tmp_path: Path,
    clones: Sessions,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    age: Callable[[Shop], None],
    upkeep: MaintenancePolicy,
    readers: tuple[str, ...],
    largest: int | None,
) -> None:
    if largest is not None:  # no file is small enough to be compacted
        monkeypatch.setattr("headrace_sinks.iceberg.iceberg_maintenance._LARGE_BYTES", largest)
    options = {"write.delete.granularity": "partition"} if name == "rewrite-deletes" else {}
    sink = IcebergSink({"warehouse": str(tmp_path), "readers": list(readers), **options})
    shop, cut, places = Shop(Target(sink, clones.of("one"))), 0, list[int]()
    shop.write(*range(60))
    while True:
        age(shop)
        step, calls = find_step(shop, name, upkeep), Calls()
        if not places:
            with calls.watch():
                step.run()
            places = [at for at, call in enumerate(calls.steps) if _LEAVES.match(call)]
            shop.check()
            continue
        if cut == len(places):
            break
        # What is there then is what is there where the process dies before the next call.
        with calls.watch(Fault.UNANSWERED, places[cut]), pytest.raises(LostError):
            step.run()
        shop.check()
        shop.write(53, 54, 59)
        shop.check()
        cut += 1
    step.run()
    shop.check()
