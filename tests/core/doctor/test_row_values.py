"""Values of rows in texts of errors."""

from __future__ import annotations

import pytest

from headrace.doctor.row_values import hide_row_values


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no column 'nam' in 'orders'", "no column '…' in 'orders'"),
        ('invalid input syntax for type integer: "Frida"', 'invalid input syntax for type integer: "…"'),
        ("Duplicate entry 'it''s 7' for key", "Duplicate entry '…' for key"),
        ("Key (id)=(4711) already exists", "Key (id)=(…) already exists"),
        ("the value is not a date: 31.02.2020", "the value is not a date: …"),
        (
            "[NUMERIC_VALUE_OUT_OF_RANGE] 12345.678 cannot be Decimal(5, 2)",
            "[NUMERIC_VALUE_OUT_OF_RANGE] … cannot be Decimal(…, …)",
        ),
        ("batch 17 of table orders failed after 30 seconds", "batch 17 of table orders failed after 30 seconds"),
    ],
)
def test_values_are_hidden_and_names_stay(text: str, shown: str) -> None:
    assert hide_row_values(text, {"orders"}) == shown
