"""Notes next to the history of one row."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.cli.history_output import list_notes
from headrace.engine.commands.row_history import RowHistory
from headrace.sdk.sink import TableVersion

OLDEST = TableVersion("v3", 1_700_000_000_000)
FIRST = TableVersion("v1", 1_700_000_000_000, is_first=True)
SINCE = "changes since version v3 (2023-11-14 22:13:20 UTC)"


def make(**about: Any) -> RowHistory:
    return RowHistory(**{"changes": None, "table": "shop.people", "key": {"id": "1", "region": "eu"}, **about})


@pytest.mark.parametrize(
    ("history", "is_empty", "limit", "expected"),
    [
        (make(), False, None, []),
        (make(oldest=FIRST), False, None, []),
        (make(oldest=FIRST), False, 20, ["there are more changes than these 20 (--limit)"]),
        (make(), True, None, ["no version of shop.people that was read has a row with id=1, region=eu"]),
        (make(oldest=OLDEST, unread=1200), False, None, [f"{SINCE}; for those of 1,200 older versions: --until v3"]),
    ],
)
def test_notes_tell_what_is_unknown(
    history: RowHistory, is_empty: bool, limit: int | None, expected: list[str]
) -> None:
    assert list_notes(history, is_empty=is_empty, limit=limit) == expected


def test_note_on_expired_versions_names_the_option_and_its_default() -> None:
    missing, start = list_notes(make(oldest=OLDEST), is_empty=True, limit=None)
    assert "no version of shop.people that was read" in missing
    assert start.startswith(f"{SINCE}, the oldest version that was read")
    assert "`history` under `maintenance:` (default: 1 hour)" in start
