"""Results of statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace_stack.sqlserver.sql_types import SqlType, Value


@dataclass(frozen=True)
class Result:
    """Rows and their columns."""

    columns: Sequence[tuple[str, SqlType]]
    rows: Sequence[Sequence[Value]]
    #: Name of the table in the metadata of text, ntext and image.
    table: str = ""
