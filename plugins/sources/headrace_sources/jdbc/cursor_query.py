"""SQL of a table or query that is read by ranges of a cursor: the values of one or two columns of a row, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Values of the cursor's columns: a time as text, a number. A cursor with only the time includes all rows of that time.
Cursor = Sequence[str | int]


@dataclass(frozen=True)
class CursorQuery:
    """SQL of one relation. All names and expressions are quoted."""

    #: Table, or query in parentheses with an alias.
    relation: str
    #: Expressions of the cursor, most significant first; empty if the relation is always read as a whole.
    columns: tuple[str, ...] = ()
    #: First column as a number; empty without a cursor.
    number: str = ""

    def everything(self) -> str:
        """Return a query of all rows, including those without a cursor."""
        return f"SELECT * FROM {self.relation}"

    def nothing(self) -> str:
        """Return a query without rows. It fails if the relation cannot be read."""
        return f"{self.everything()} WHERE 1 = 0"

    def rows(self, after: Cursor | None, upto: Cursor | None) -> str:
        """Return a query of the rows after a cursor, up to and including another."""
        return f"{self.everything()}{self._where(after, upto)}"

    def newest(self, after: Cursor | None, upto: Cursor | None, limit: int | None = None) -> str:
        """Return a query of the highest cursor in a range, or among its first ``limit`` rows."""
        names = [f"c{number}" for number, _ in enumerate(self.columns)]
        selected = ", ".join(f"{column} AS {name}" for column, name in zip(self.columns, names, strict=True))
        rows = f"SELECT {selected} FROM {self.relation}{self._where(after, upto)}"
        if limit is None:
            descending = ", ".join(f"{column} DESC" for column in self.columns)
            return f"{rows} ORDER BY {descending} LIMIT 1"
        first = f"{rows} ORDER BY {', '.join(self.columns)} LIMIT {limit}"
        descending = ", ".join(f"{name} DESC" for name in names)
        return f"SELECT {', '.join(names)} FROM ({first}) b ORDER BY {descending} LIMIT 1"

    def fingerprint(self, after: Cursor | None, upto: Cursor | None) -> str:
        """Return a query of the number of rows in a range and the sum of their cursors, which change with the rows."""
        return f"SELECT count(*), sum({self.number}) FROM {self.relation}{self._where(after, upto)}"

    def lowest(self) -> str:
        """Return a query of the lowest value of the first column."""
        return f"SELECT min({self.columns[0]}) FROM {self.relation}"

    def count_nulls(self) -> str:
        """Return a query of the number of rows that have no cursor."""
        return f"SELECT count(*) FROM {self.relation} WHERE {' OR '.join(f'{c} IS NULL' for c in self.columns)}"

    def bounds(self, column: str, after: Cursor | None, upto: Cursor | None) -> str:
        """Return a query of the lowest and the highest value of a column in a range."""
        return f"SELECT min({column}), max({column}) FROM {self.relation}{self._where(after, upto)}"

    def _where(self, after: Cursor | None, upto: Cursor | None) -> str:
        conditions = [f"{column} IS NOT NULL" for column in self.columns]
        conditions += [] if after is None else [self._compare(after, ">", ">")]
        conditions += [] if upto is None else [self._compare(upto, "<", "<=")]
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def _compare(self, cursor: Cursor, strict: str, last: str) -> str:
        """Return a condition that compares the columns with a cursor. The first column alone bounds an index scan."""
        first, *others = zip(self.columns, map(write_literal, cursor), strict=False)
        if not others:
            return f"{first[0]} {last} {first[1]}"
        (second,) = others
        return f"{first[0]} {strict}= {first[1]} AND ({first[0]} {strict} {first[1]} OR {second[0]} {last} {second[1]})"


def write_literal(value: str | int) -> str:
    """Return a value as SQL."""
    if isinstance(value, int):
        return str(value)
    return "'" + value.replace("'", "''") + "'"
