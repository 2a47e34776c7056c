"""SQL of the columns of a table. Spark's reader would pad some values, and fail for others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headrace.sdk.changes import PREFIX
from headrace_sources.jdbc.database_kinds import DatabaseKind
from headrace_sources.jdbc.jdbc_database import DatabaseColumn

#: CHAR in ``java.sql.Types``.
_CHAR = 1


def select_columns(
    query: str, columns: Sequence[DatabaseColumn], kind: DatabaseKind, arrays: Mapping[str, int] | None = None
) -> str:
    """Return a query of the columns of a query.

    ``arrays``: array → its number of dimensions. Another array is null, and the column ``name_nested`` has its text.
    """
    cells = {column.name: _write_value(column, kind) for column in columns}
    for name, nested in name_nested(arrays or {}).items():
        array, is_other = cells[name], f"array_ndims({_quote(name, kind)}) <> {(arrays or {})[name]}"
        cells[name] = f"CASE WHEN {is_other} THEN NULL ELSE {array} END"
        cells[nested] = f"CASE WHEN {is_other} THEN CAST({array} AS text) END"
    selected = ", ".join(f"{cell} AS {_quote(name, kind)}" for name, cell in cells.items())
    return f"SELECT {selected} FROM ({query}) c"  # noqa: S608 - the names are quoted


def name_nested(arrays: Iterable[str]) -> dict[str, str]:
    """Return array → column of its text, if its number of dimensions is not that of the column."""
    return {name: f"{PREFIX}nested_{number}" for number, name in enumerate(arrays)}


def _quote(name: str, kind: DatabaseKind) -> str:
    return f"{kind.quote}{name}{kind.quote}"  # Names that contain the letter are refused.


def _write_value(column: DatabaseColumn, kind: DatabaseKind) -> str:
    name, type_name = _quote(column.name, kind), column.type_name.lower()
    is_odd = column.precision > 0 and not 0 <= column.scale <= column.precision
    if type_name == "numeric" and is_odd:  # Spark has no decimal of this scale. A sum has no scale of its own.
        return f"{name} + 0"
    if type_name == "_numeric" and is_odd:
        return f"CAST(CAST({name} AS text[]) AS numeric[])"
    if type_name == "_bit" and column.precision != 1:  # Spark would read each element as a truth value.
        return f"CAST({name} AS text[])"
    # Drivers of MariaDB report ENUM, SET and INET6 as CHAR, which Spark pads with spaces. It does not know MariaDB's UUID.
    is_text = column.type_code == _CHAR or type_name == "uuid"
    return kind.text.format(name) if is_text else name
