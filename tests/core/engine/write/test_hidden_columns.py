"""Tables of another writer whose columns transforms hide."""

from __future__ import annotations

import pytest

from headrace.engine.write.hidden_columns import check_continued
from headrace.errors import ConfigError


def test_a_continued_table_has_no_hidden_columns() -> None:
    check_continued("shop.people", "lake", None, ["email"])
    check_continued("shop.people", "lake", "the first batch rewrites its rows", [])
    with pytest.raises(ConfigError, match="transforms hide email, name") as error:
        check_continued("shop.people", "lake", "the first batch rewrites its rows", ["name", "email"])
    assert error.value.where == "table shop.people, sink lake"
    assert error.value.fix == "load the rows into a new table, or hide no column of this one"
