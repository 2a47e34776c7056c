"""Maintenance of Iceberg tables that is interrupted before each call with side effects. No row is lost or restored."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support.iceberg import java_table, load_table_handle
from tests.support.tiers import nightly_after

from headrace.sdk.maintenance import MaintenancePolicy, MaintenanceStep
from headrace.sdk.sink import MARK_SEARCH_DEPTH
from headrace.spark.sessions import Sessions
from headrace.testing._internal.faults import Calls, Fault, LostError
from headrace.testing.tables import Target, put, remove
from headrace_sinks.active_session import active
from headrace_sinks.iceberg import IcebergSink
from headrace_sinks.iceberg.orphans import ORPHANS_PROPERTY
from headrace_sinks.iceberg.staging import stage_files

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

PEOPLE = "id int, name string"
DAY = 86400.0
#: Calls with side effects: a Spark job that writes, a commit, Iceberg's actions.
_SIDE_EFFECTS = re.compile(r"(\w+\.)?(append|parquet|execute|commit)\b")


@dataclass
class Shop:
    """Table with known rows."""

    target: Target
    rows: dict[int, str] = field(default_factory=dict)
    at: int = 0

    def write(self, *keys: int) -> None:
        """Write newer rows of these keys, and delete the row of the first key."""
        self.at += 1
        deleted, *written = keys
        self.rows |= dict.fromkeys(written, f"n{self.at}")
        self.rows.pop(deleted, None)
        changes = [put(self.at, key, f"n{self.at}") for key in written]
        self.target.write(PEOPLE, *changes, remove(self.at, deleted, ""))

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
        handle = load_table_handle(shop.target)
        stage_files(handle, handle.read())


def find_step(shop: Shop, name: str, policy: MaintenancePolicy) -> MaintenanceStep:
    steps: Iterator[MaintenanceStep] = shop.target.sink.plan_maintenance(shop.target.session, shop.target.table, policy)
    return next(step for step in steps if step.name == name)


@pytest.mark.parametrize(
    ("name", "prepare", "policy", "readers", "largest"),
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
def test_interrupted_step(
    tmp_path: Path,
    sessions: Sessions,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    prepare: Callable[[Shop], None],
    policy: MaintenancePolicy,
    readers: tuple[str, ...],
    largest: int | None,
) -> None:
    if largest is not None:  # no file is small enough for compaction
        monkeypatch.setattr("headrace_sinks.iceberg.iceberg_maintenance._LARGE_BYTES", largest)
    options = {"write.delete.granularity": "partition"} if name == "rewrite-deletes" else {}
    sink = IcebergSink({"warehouse": str(tmp_path), "readers": list(readers), **options})
    shop, interruptions, call_numbers = Shop(Target(sink, sessions.of("one"))), 0, list[int]()
    shop.write(*range(60))
    while True:
        prepare(shop)
        step, calls = find_step(shop, name, policy), Calls()
        if not call_numbers:
            with calls.watch():
                step.run()
            call_numbers = [at for at, call in enumerate(calls.steps) if _SIDE_EFFECTS.match(call)]
            shop.check()
            continue
        if interruptions == len(call_numbers):
            break
        # The state equals that of a process that dies before the next call.
        with calls.watch(Fault.UNANSWERED, call_numbers[interruptions]), pytest.raises(LostError):
            step.run()
        shop.check()
        shop.write(53, 54, 59)
        shop.check()
        interruptions += 1
    step.run()
    shop.check()
