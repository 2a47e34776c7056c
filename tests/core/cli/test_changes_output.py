"""Cells of changes on the screen."""

from __future__ import annotations

from headrace.cli.changes_output import describe_row

COLUMNS = ["id", "name", "tags", "born"]


def test_update_shows_both_values_of_each_changed_column() -> None:
    before = {"id": 1, "name": "Arp", "tags": ["a"]}
    after = {"id": 1, "name": "Hans Arp", "tags": ["a", "b"], "born": 1886}
    assert describe_row(COLUMNS, before, after) == [1, "Arp → Hans Arp", '["a"] → ["a", "b"]', "null → 1886"]


def test_insert_and_delete_show_the_row() -> None:
    row = {"id": 1, "name": "Arp", "tags": None}
    assert describe_row(COLUMNS, None, row) == describe_row(COLUMNS, row, None) == [1, "Arp", None, None]
