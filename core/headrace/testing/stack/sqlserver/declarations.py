"""Columns as they are declared: ``name type [not null] [default literal]``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from headrace.testing.stack.sqlserver import moments, numbers, texts
from headrace.testing.stack.sqlserver.types import Refused, SqlType, Value

_COLUMN = re.compile(
    r"(?P<name>\w+|\[[^]]+\])\s+(?P<type>\w+)\s*(?:\((?P<size>[^)]*)\))?"
    r"(?:\s+(?P<null>(?:not\s+)?null))?(?:\s+default\s+(?P<default>.+))?",
    re.IGNORECASE | re.DOTALL,
)
_LITERAL = re.compile(
    r"(?P<number>[+-]?\d+(\.\d+)?)|N?'(?P<text>(?:[^']|'')*)'|(?P<null>null)|0x(?P<hex>([0-9a-f]{2})*)", re.IGNORECASE
)
#: Type → how to make it of the numbers in its parentheses; None stands for `max`.
_TYPES: dict[str, Callable[..., SqlType]] = {
    **dict.fromkeys(("bit", "tinyint", "smallint", "int", "bigint"), numbers.Integer),
    **dict.fromkeys(("real", "float"), numbers.Float),
    **dict.fromkeys(("decimal", "numeric"), numbers.Exact),
    **dict.fromkeys(("money", "smallmoney"), numbers.Money),
    "date": lambda name: moments.Date(),
    "time": lambda name, scale=7: moments.Time(scale),
    "datetime": lambda name: moments.DateTime(),
    "smalldatetime": lambda name: moments.SmallDateTime(),
    "datetime2": lambda name, scale=7: moments.DateTime2(scale),
    "datetimeoffset": lambda name, scale=7: moments.DateTimeOffset(scale),
    **dict.fromkeys(("char", "varchar", "nchar", "nvarchar"), texts.Text),
    **dict.fromkeys(("binary", "varbinary"), texts.Binary),
    **dict.fromkeys(("text", "ntext", "image"), texts.OldLarge),
    "xml": lambda name: texts.Xml(),
    "uniqueidentifier": lambda name: texts.Guid(),
    **dict.fromkeys(("rowversion", "timestamp"), lambda name: texts.RowVersion()),
}


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    type: SqlType
    nullable: bool = True
    #: What an insert without the column writes.
    default: Value = None
    #: As sys.default_constraints prints it: ``((0))``, ``('new')``.
    default_text: str | None = None


def type_of(name: str, size: str | None = None) -> SqlType:
    """A type by its name and what its parentheses say; Refused for one that is not known."""
    make = _TYPES.get(name.lower())
    if make is None:
        raise Refused(f"this stand-in for SQL Server has no type {name}; it has {', '.join(_TYPES)}", 2715)
    try:
        given = [None if part.strip().lower() == "max" else int(part) for part in size.split(",")] if size else []
        return make(name.lower(), *given)
    except (TypeError, ValueError):
        raise Refused(f"there is no type {name}({size})", 2716) from None


def column_of(declaration: str) -> Column:
    """The column of a declaration; Refused for what is none."""
    parts = _COLUMN.fullmatch(declaration.strip())
    if not parts:
        raise Refused(f"a column is `name type [not null] [default literal]`, not `{declaration}`", 102)
    kind = type_of(parts["type"], parts["size"])
    nullable = not (parts["null"] or "null").lower().startswith("not") and not isinstance(kind, texts.RowVersion)
    default, text = (None, None) if parts["default"] is None else _default(parts["default"].strip(), kind)
    return Column(parts["name"].strip("[]"), kind, nullable, default, text)


def _default(text: str, kind: SqlType) -> tuple[Value, str]:
    parts = _LITERAL.fullmatch(text)
    if not parts:
        raise Refused(f"this stand-in for SQL Server knows literals as defaults, not `{text}`", 102)
    if parts["null"]:
        return None, "(NULL)"
    if parts["hex"] is not None:
        return kind.keep(bytes.fromhex(parts["hex"])), f"({text})"
    if parts["text"] is not None:
        return kind.keep(parts["text"].replace("''", "'")), f"({text})"
    # A number of any type; exact ones take it as text.
    number: Value = (
        float(text) if isinstance(kind, numbers.Float) else int(text) if text.lstrip("+-").isdigit() else text
    )
    return kind.keep(number), f"(({text}))"
