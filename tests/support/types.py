"""Columns of every type, with expressions that print values the same way in a database and in Spark.

A ``Type`` is a column of a table. Each row has one of its values, and null after the last one. The converted value depends on modes
of the connector, such as ``decimal.handling.mode``; there is a ``Way`` for each value of a mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: Modes of a connector and its converters: ``decimal``, ``time``, ``binary``, ``hstore``, ``interval``, ``unsigned``,
#: and ``wire``, which is ``avro``, ``json`` (with schemas) or ``bare`` (JSON without).
Modes = Mapping[str, str]
#: Type of a column in JSON without a schema, where it differs.
BARE = {"tinyint": "bigint", "smallint": "bigint", "int": "bigint", "float": "double"}


@dataclass(frozen=True)
class Way:
    """Representation of a type in the table. ``{c}`` is the column, in the database's SQL and in Spark's."""

    #: The type in the table.
    kind: str
    sql: str
    spark: str = "{c}"
    #: Type without a schema if BARE does not contain it, and the Spark expression for it.
    bare: str = ""
    bare_spark: str = ""

    def expression(self, modes: Modes) -> str:
        """Return the Spark expression."""
        return (self.bare_spark if modes["wire"] == "bare" else "") or self.spark


def make_byte_ways(sql: str) -> dict[str, Way]:
    """Return the ways of bytes by mode ``binary``. ``sql`` prints bytes in hexadecimal."""
    return {
        "bytes": Way("binary", sql, "lower(hex({c}))", bare="string"),
        "base64": Way("string", sql, "lower(hex(unbase64({c})))"),
        "base64-url-safe": Way("string", sql, "lower(hex(unbase64(translate({c}, '-_', '+/'))))"),
        "hex": Way("string", sql),
    }


def make_bit_way(sql: str) -> Way:
    """Return the way of bits, which arrive as little-endian bytes. ``sql`` prints their number."""
    digits = "concat_ws('', reverse(transform(sequence(1, length({c})), i -> hex(substring({c}, i, 1)))))"
    number = f"if(length({{c}}) = 0, '0', conv({digits}, 16, 10))"
    return Way("binary", sql, number, "string", number.replace("{c}", "unbase64({c})"))


@dataclass(frozen=True)
class Quirk:
    """Value that Debezium changes, and the changed value as printed by Spark."""

    value: str
    arrives: Any
    #: ``snapshot`` or ``stream``; both if empty.
    phase: str = ""
    #: Modes in which the quirk occurs; all modes if empty.
    modes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def holds(self, phase: str, modes: Modes) -> bool:
        return self.phase in {"", phase} and all(modes.get(name) in some for name, some in self.modes.items())


@dataclass(frozen=True)
class Type:
    """Column with ``values`` as SQL literals."""

    name: str
    ddl: str
    values: Sequence[str]
    #: One way, or one for each value of ``mode``.
    ways: Way | Mapping[str, Way]
    mode: str = ""
    quirks: Sequence[Quirk] = ()

    def way(self, modes: Modes) -> Way:
        return self.ways if isinstance(self.ways, Way) else self.ways[modes[self.mode]]

    def kind(self, modes: Modes) -> str:
        way = self.way(modes)
        return way.kind if modes["wire"] != "bare" else way.bare or BARE.get(way.kind, way.kind)

    def value(self, row: int) -> str:
        """Return the literal of a row."""
        return self.values[row] if row < len(self.values) else _default(self)

    def arrives(self, row: int, printed: Any, phase: str, modes: Modes) -> Any:
        """Return the expected value in the table for a printed value of the database."""
        for quirk in self.quirks:
            if quirk.value == self.value(row) and quirk.holds(phase, modes):
                return quirk.arrives
        return printed


@dataclass(frozen=True)
class TypeTable:
    """Table with a column of each type."""

    types: Sequence[Type]
    #: Types of columns that the connector omits from its events, with a value.
    unsent: Mapping[str, str] = field(default_factory=dict)

    def create(self, name: str) -> str:
        columns = ", ".join(
            [f"{t.name} {t.ddl}" for t in self.types]
            + [f"u_{n} {ddl} default {value}" for n, (ddl, value) in enumerate(self.unsent.items())]
        )
        return f"create table {name} (id int primary key, {columns})"

    def insert(self, name: str, first: int) -> str:
        """Return an insert of one row per value and one row of nulls. IDs count from ``first``."""
        rows = [f"({first + row}, {', '.join(t.value(row) for t in self.types)})" for row in range(self.count)]
        return f"insert into {name} values {', '.join(rows)}"

    @property
    def count(self) -> int:
        return max(len(t.values) for t in self.types) + 1

    def sql(self, modes: Modes) -> str:
        """Return the select expression of the database."""
        return ", ".join(t.way(modes).sql.format(c=t.name) for t in self.types)

    def spark(self, modes: Modes) -> list[str]:
        return [f"{t.way(modes).expression(modes).format(c=t.name)} as {t.name}" for t in self.types]


def _default(type_: Type) -> str:
    return type_.values[0] if "not null" in type_.ddl else "null"


def same(a: Any, b: Any) -> bool:
    """Return whether two values are equal, where NaN equals NaN and 0.0 differs from -0.0."""
    return a == b if not isinstance(a, float) and not isinstance(a, list) else repr(a) == repr(b)
