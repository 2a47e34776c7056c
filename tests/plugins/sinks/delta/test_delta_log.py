"""Readable versions of a Delta table, from the files of its log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace_sinks.delta import delta_log
from headrace_sinks.delta.delta_log import choose_readable, find_oldest_after


def name_commits(first: int, last: int) -> dict[str, int]:
    return {f"{version:020d}.json": version * 1000 for version in range(first, last + 1)}


def name_checkpoint(version: int, rest: str = "parquet") -> str:
    return f"{version:020d}.checkpoint.{rest}"


@pytest.mark.parametrize(
    ("files", "last_vacuum", "expected"),
    [
        (name_commits(0, 3), -1, [0, 1, 2, 3]),
        (name_commits(0, 3), 2, [2, 3]),
        ({**name_commits(2, 5), name_checkpoint(4): 1}, -1, [4, 5]),
        ({**name_commits(2, 5), name_checkpoint(3, "0000000001.0000000002.parquet"): 1}, 2, [3, 4, 5]),
        ({**name_commits(2, 5), name_checkpoint(1): 1, name_checkpoint(4, "a-b.json"): 1}, -1, [4, 5]),
        (name_commits(2, 3), -1, []),
        ({"_last_checkpoint": 1, "00000000000000000000.crc": 1}, -1, []),
    ],
)
def test_versions_with_a_state_and_files_are_readable(
    files: dict[str, int], last_vacuum: int, expected: list[int]
) -> None:
    found = choose_readable(files, last_vacuum)
    assert [(version.version, version.written_ms) for version in found] == [(str(n), n * 1000) for n in expected]
    assert [version.is_first for version in found] == [n == 0 for n in expected]


@pytest.mark.parametrize(
    ("as_of", "expected"),
    [("1", "3"), ("3", None), ("9", None), (2_500, "3"), (3_000, None), (1_000, None), (9_000, None)],
)
def test_expired_version_is_found(monkeypatch: pytest.MonkeyPatch, as_of: str | int, expected: str | None) -> None:
    """A time before all commits of the log is left to Delta, which may have other times of commits."""
    monkeypatch.setattr(delta_log, "_list_files", lambda handle: {**name_commits(2, 5), name_checkpoint(2): 1})
    monkeypatch.setattr(delta_log, "read_last_vacuum", lambda handle: 3)
    assert find_oldest_after(cast("Any", SimpleNamespace()), as_of) == expected
