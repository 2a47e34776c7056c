"""What others rely on changes when somebody wants it to: docs/stability.md says how."""

from __future__ import annotations

from difflib import unified_diff

from tests.support.public_api import FILE, write_api

_HOW = "if the change is intended, add a changelog fragment and run `python -m tests.support.public_api`"


def test_the_public_api_is_what_the_file_says() -> None:
    before, now = FILE.read_text(encoding="utf-8").splitlines(), write_api().splitlines()
    changed = "\n".join(unified_diff(before, now, "public_api.txt", "the code", n=1, lineterm=""))
    assert not changed, f"{_HOW}\n{changed}"


def test_all_that_it_is_made_of_is_found() -> None:
    """Abstract methods, fields, constants and what is set when an object is made, each once."""
    lines = write_api().splitlines()
    for line in (
        "    @abstractmethod def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult",
        "    exactly_once: bool = False",
        "POSITION = '_headrace_position'",
        "    mode: TableMode | None = None",
        "    @classmethod def from_file(cls, path: str | Path) -> Pipeline",
        "    self.warnings",
        "sink iceberg: headrace_sinks.IcebergSink",
    ):
        assert line in lines
    assert not [line for line in lines if "test_" in line]
