"""Public API: it changes only intentionally. docs/stability.md describes the policy."""

from __future__ import annotations

from difflib import unified_diff

from tests.support.public_api import FILE, write_api

_FIX = "if the change is intended, add a changelog fragment and run `python -m tests.support.public_api`"


def test_public_api_equals_the_recorded_file() -> None:
    before, now = FILE.read_text(encoding="utf-8").splitlines(), write_api().splitlines()
    changed = "\n".join(unified_diff(before, now, "public_api.txt", "the code", n=1, lineterm=""))
    assert not changed, f"{_FIX}\n{changed}"


def test_every_kind_of_public_name_is_listed() -> None:
    """The lines contain an abstract method, fields, constants and an attribute set by ``__init__``."""
    lines = write_api().splitlines()
    for line in (
        "    @abstractmethod def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult",
        "    exactly_once: bool = False",
        "POSITION = '_headrace_position'",
        "    mode: TableMode | None = None",
        "    @classmethod def from_dict(cls, config: Mapping[str, Any]) -> Pipeline",
        "    self.warnings",
        "sink iceberg: headrace_sinks.IcebergSink",
    ):
        assert line in lines
    assert not [line for line in lines if "test_" in line]
