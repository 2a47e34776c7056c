"""Parser of column declarations: ``name type [not null] [default literal]``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from headrace_stack.sqlserver import numeric_types, temporal_types, text_types
from headrace_stack.sqlserver.sql_types import Refused, SqlType, Value

_COLUMN = re.compile(
    r"(?P<name>\w+|\[[^]]+\])\s+(?P<type>\w+)\s*(?:\((?P<size>[^)]*)\))?"
    r"(?:\s+(?P<null>(?:not\s+)?null))?(?:\s+default\s+(?P<default>.+))?",
    re.IGNORECASE | re.DOTALL,
)
_LITERAL = re.compile(
    r"(?P<number>[+-]?\d+(\.\d+)?)|N?'(?P<text>(?:[^']|'')*)'|(?P<null>null)|0x(?P<hex>([0-9a-f]{2})*)", re.IGNORECASE
)
#: Type name → constructor with the numbers in parentheses; None stands for `max`.
_TYPES: dict[str, Callable[..., SqlType]] = {
    **dict.fromkeys(("bit", "tinyint", "smallint", "int", "bigint"), numeric_types.Integer),
    **dict.fromkeys(("real", "float"), numeric_types.Float),
    **dict.fromkeys(("decimal", "numeric"), numeric_types.Exact),
    **dict.fromkeys(("money", "smallmoney"), numeric_types.Money),
    "date": lambda name: temporal_types.Date(),
    "time": lambda name, scale=7: temporal_types.Time(scale),
    "datetime": lambda name: temporal_types.DateTime(),
    "smalldatetime": lambda name: temporal_types.SmallDateTime(),
    "datetime2": lambda name, scale=7: temporal_types.DateTime2(scale),
    "datetimeoffset": lambda name, scale=7: temporal_types.DateTimeOffset(scale),
    **dict.fromkeys(("char", "varchar", "nchar", "nvarchar"), text_types.Text),
    **dict.fromkeys(("binary", "varbinary"), text_types.Binary),
    **dict.fromkeys(("text", "ntext", "image"), text_types.OldLarge),
    "xml": lambda name: text_types.Xml(),
    "uniqueidentifier": lambda name: text_types.Guid(),
    **dict.fromkeys(("rowversion", "timestamp"), lambda name: text_types.RowVersion()),
}


@dataclass(frozen=True)
class SqlColumn:
    """Column of a table."""

    name: str
    type: SqlType
    nullable: bool = True
    #: Value for inserts that omit the column.
    default: Value = None
    #: Default as in sys.default_constraints: ``((0))``, ``('new')``.
    default_text: str | None = None


def type_of(name: str, size: str | None = None) -> SqlType:
    """Return a type by its name and size; Refused for an unknown type."""
    make = _TYPES.get(name.lower())
    if make is None:
        raise Refused(f"this stand-in for SQL Server has no type {name}; it has {', '.join(_TYPES)}", 2715)
    try:
        given = [None if part.strip().lower() == "max" else int(part) for part in size.split(",")] if size else []
        return make(name.lower(), *given)
    except (TypeError, ValueError):
        raise Refused(f"invalid type {name}({size})", 2716) from None


def column_of(declaration: str) -> SqlColumn:
    """Parse a declaration; Refused for an invalid one."""
    parts = _COLUMN.fullmatch(declaration.strip())
    if not parts:
        raise Refused(f"a column is `name type [not null] [default literal]`, not `{declaration}`", 102)
    kind = type_of(parts["type"], parts["size"])
    nullable = not (parts["null"] or "null").lower().startswith("not") and not isinstance(kind, text_types.RowVersion)
    default, text = (None, None) if parts["default"] is None else _default(parts["default"].strip(), kind)
    return SqlColumn(parts["name"].strip("[]"), kind, nullable, default, text)


def _default(text: str, kind: SqlType) -> tuple[Value, str]:
    parts = _LITERAL.fullmatch(text)
    if not parts:
        raise Refused(f"this stand-in for SQL Server supports only literals as defaults, not `{text}`", 102)
    if parts["null"]:
        return None, "(NULL)"
    if parts["hex"] is not None:
        return kind.keep(bytes.fromhex(parts["hex"])), f"({text})"
    if parts["text"] is not None:
        return kind.keep(parts["text"].replace("''", "'")), f"({text})"
    # A number for a column of any type; exact types parse it from a string.
    number: Value = (
        float(text) if isinstance(kind, numeric_types.Float) else int(text) if text.lstrip("+-").isdigit() else text
    )
    return kind.keep(number), f"(({text}))"
