"""Ages and commands of VACUUM. A table that records commands stands in for one of Delta."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.disk_folder import DiskFolder

from headrace.sdk import MaintenancePolicy
from headrace_sinks.delta import delta_folders, delta_maintenance
from headrace_sinks.delta.delta_handle import DeltaHandle
from headrace_sinks.delta.delta_log import find_kept_time
from headrace_sinks.delta.delta_maintenance import ORPHANS_PROPERTY, _find_old_versions, _find_orphans

HOUR, DAY = 3600.0, 86400.0
POLICY = MaintenancePolicy(HOUR, 2)
#: Delta's parser of intervals, for texts such as ``interval 2 days``.
CONFIGS = SimpleNamespace(
    parseCalendarInterval=lambda text: int(text.split()[1]), getMilliSeconds=lambda days: days * DAY * 1000
)


class Session:
    """Session that records the commands of SQL."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        self.conf = SimpleNamespace(set=lambda key, value: None, unset=lambda key: None)

    def sql(self, text: str) -> Any:
        self.commands.append(text)
        return SimpleNamespace(collect=list)


class Table(DeltaHandle):
    """Table of headrace or of another program, created at the beginning of 1970."""

    def __init__(self, path: Path, properties: Mapping[str, str] | None = None, *, is_own: bool = True) -> None:
        self.session = Session()
        super().__init__(cast("Any", self.session), str(path), None)
        self.found, self.own = dict(properties or {}), is_own

    @property
    def jvm(self) -> Any:
        delta = SimpleNamespace(DeltaConfigs=CONFIGS)
        spark = SimpleNamespace(sql=SimpleNamespace(delta=delta))
        return SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(spark=spark)))

    @property
    def metadata(self) -> Mapping[str, Any]:
        return {"createdTime": 1, "configuration": self.found}

    @property
    def is_own(self) -> bool:
        return self.own

    def set_properties(self, properties: Mapping[str, str]) -> None:
        self.found |= properties


@pytest.fixture(autouse=True)
def use_folders_of_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_folders, "Folder", DiskFolder)


def search(table: Table, policy: MaintenancePolicy = POLICY) -> str | None:
    step = _find_orphans(table, policy)
    return None if step is None else step.run()


def test_orphans_are_searched_in_own_tables_only(tmp_path: Path) -> None:
    own, other = Table(tmp_path), Table(tmp_path, is_own=False)
    assert search(own) == "removed"
    assert own.session.commands == [f"VACUUM delta.`{tmp_path}` FULL RETAIN {72:.6f} HOURS"]
    assert search(own) is None
    assert search(other) is None
    assert search(Table(tmp_path, {ORPHANS_PROPERTY: "0"}, is_own=False)) == "removed"


def test_files_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    table = Table(tmp_path)
    assert search(table) == "none: 'orders' in the folder of the table is not a file of this table"
    assert table.session.commands == []


def test_properties_of_a_table_keep_versions_for_longer(tmp_path: Path) -> None:
    properties = {
        "delta.logRetentionDuration": "interval 5 days",
        "delta.deletedFileRetentionDuration": "interval 2 days",
    }
    assert find_kept_time(Table(tmp_path), POLICY) == HOUR
    assert find_kept_time(Table(tmp_path, properties), POLICY) == 5 * DAY
    table = Table(tmp_path, properties)
    search(table)
    assert table.session.commands[0].endswith(f"FULL RETAIN {120:.6f} HOURS")


def test_jump_of_the_system_clock_makes_no_file_older(tmp_path: Path) -> None:
    table, before = Table(tmp_path), time.time() - 10 * HOUR
    search(table, MaintenancePolicy(HOUR, 2, clock=lambda: before))
    assert 82 <= float(table.session.commands[0].split()[-2]) < 82.1


def test_log_without_its_first_commits_needs_a_search_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_maintenance, "list_commits", lambda handle: {7: 0, 8: 0})
    monkeypatch.setattr(delta_maintenance, "read_last_vacuum", lambda handle: -1)
    monkeypatch.setattr(delta_maintenance, "remove_old_commits", lambda handle, seconds: None)
    assert _find_old_versions(Table(tmp_path, is_own=False), POLICY) is None
    for last, kind in ((-1, "FULL"), (6, "LITE")):
        monkeypatch.setattr(delta_maintenance, "read_last_vacuum", lambda handle, last=last: last)
        table = Table(tmp_path)
        step = _find_old_versions(table, POLICY)
        assert step is not None
        step.run()
        assert f" {kind} RETAIN" in table.session.commands[0]
