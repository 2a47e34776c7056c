"""What a table that is partitioned by its column ``city`` has to do, whatever its format."""

from __future__ import annotations

from headrace import ConfigError
from headrace.testing.tables import Target, gone, put


def rows_move(table: Target) -> None:
    """In the end there are partitions x, y, z and that of null."""
    schema = "id int, city string, name string"
    table.write(schema, put(1, 1, "x", "a"), put(1, 2, "x", "b"), put(1, 3, None, "c"), put(9, 4, "y", "d"))
    # A move, a delete that says no partition, a move from no city, and one that is late.
    table.write(schema, put(2, 1, "y", "A"), gone(2, 2, None, None), put(2, 3, "y", "C"), put(8, 4, "x", "late"))
    table.write(schema, gone(8, 4, None, None), put(3, 1, "z", "AA"))
    assert [(row["id"], row["city"], row["name"]) for row in table.rows()] == [
        (1, "z", "AA"),
        (3, "y", "C"),
        (4, "y", "d"),
    ]


def waits_for_its_column(table: Target) -> ConfigError:
    """The error for rows without the column; what only removes rows need not say it."""
    error = table.refusal(lambda: table.write("id int, name string", put(1, 1, "a")))
    assert isinstance(error, ConfigError)
    assert f"the table {table.name!r} has no column 'city' to be partitioned by; it has id, name" in str(error)
    table.write("id int", gone(2, 1))
    table.write("id int, city string", put(3, 2, "x"))
    assert [(row["id"], row["city"]) for row in table.rows()] == [(2, "x")]
    return error
