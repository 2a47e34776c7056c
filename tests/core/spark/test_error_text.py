"""Texts of errors without values of rows."""

from __future__ import annotations

from headrace.spark.error_text import hide_values


def test_only_messages_of_spark_lose_their_quoted_texts() -> None:
    assert hide_values("the disk 'a' is full [x]") == "the disk 'a' is full [x]"
    assert hide_values("'t': [DIVIDE_BY_ZERO.X] 'it''s' \"b\"") == "'t': [DIVIDE_BY_ZERO.X] '…' '…'"
