"""Kinds and values of the grammar's columns, good and bad."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.oracle.encode import Kind
    from tests.support.oracle.grammar import Draw

_TEXTS = ("", "a", "null", "true", "1", "a,b:c", "Höch", "x" * 200, "a\tb\nc", "'\"\\", "😀", " padded ", "${x}")
_LONGS = (0, 1, -1, 7, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, -(2**63))
_INTS = (0, 1, -1, 12345, 2**31 - 1, -(2**31))
_DOUBLES = (0.5, -1.25, 1e300, 5e-324, 0.1, 123456789.125)
#: Parts of composite keys that an unescaped text of the key would confuse.
SEPARATORS = ("a:b", "a,id:1", "", "__null__", "__empty__", "a", "a,b")
_FLOATS = (0.5, -1.25, 1024.0)
_POOLS: dict[str, tuple[Any, ...]] = {
    "int16": (0, -1, 32767),
    "int32": _INTS,
    "int64": _LONGS,
    "float32": _FLOATS,
    "float64": _DOUBLES,
    "boolean": (True, False),
    "string": _TEXTS,
    "bytes": ("", "00", "ff00", "68c3b6"),
    "date": (0, 1, -1, 19_000),
    "micros": (0, 1, -1, 1_700_000_000_123_456),
    "zoned": ("2024-01-31T10:20:30.5Z", "1969-12-31T23:59:59Z"),
}
#: Names whose differences are easily lost.
_LOOK_ALIKES: tuple[tuple[str, str], ...] = (
    ("a_b", "ab"),
    ("a__b", "a_b"),
    ("key", "keys"),
    ("value", "values_"),
    ("before", "after"),
    ("op", "source_"),
)
_ODD = (("a.b", "a_b"), ("a b", "ab"), ("a`b", "x"), ("Größe", "Grosse"), ("select", "from"))
BAD_LINES = (b"no json", b'{"op": "c"', b"[1, 2]", b"7", b'"text"', b"\x00\x01")


def draw_columns(draw: Draw, pack: dict[str, Any]) -> list[list[Any]]:
    """Return the names and kinds of a table's columns, without its key."""
    names = ["name", "size", "more", "extra"][: draw.rng.randint(1, 4)]
    if draw.takes("look-alikes", 0.3):
        pairs = _LOOK_ALIKES
        if pack["format"] != "avro" and pack["sink"] == "iceberg":
            pairs += _ODD
        names = [*draw.rng.choice(pairs), *names[:1]]
    columns = [[name, draw_kind(draw, pack)] for name in names]
    draw.first_columns = frozenset(names)
    if pack["format"] == "json" and draw.takes("declared", 0.3):
        precision = draw.rng.choice((4, 10, 38))
        columns.append(["declared", ["number", precision, draw.rng.randint(0, 4)]])
    return columns


def draw_kind(draw: Draw, pack: dict[str, Any], depth: int = 0) -> Kind:
    """Return a kind that a pack's format has."""
    rng, has_types = draw.rng, pack["format"] != "json"
    simple = ["int64", "float64", "boolean", "string", "string"]
    if has_types:
        simple += ["int16", "int32", "float32", "bytes", "date", "micros", "zoned"]
        if draw.takes("decimal", 0.15):
            precision = rng.choice((4, 10, 18, 38))
            return ["decimal", precision, rng.randint(0, min(precision, 6))]
        if draw.takes("map", 0.08):
            inner = rng.choice(["int64", "boolean", "date"]) if draw.takes("map-values", 0.5) else "string"
            return ["map", inner]
        if pack["format"] == "avro" and draw.takes("union", 0.08):
            return ["union", ["int64", "string"]]
    if depth < 2 and draw.takes("struct", 0.15):
        return ["struct", [[name, draw_kind(draw, pack, depth + 1)] for name in ("x", "y")[: rng.randint(1, 2)]]]
    if depth < 2 and draw.takes("array", 0.12):
        return ["array", draw_kind(draw, pack, depth + 1)]
    return rng.choice(simple)


def draw_value(rng: Random, kind: Kind, *, null: float = 0.0) -> Any:
    """Return a value of a kind."""
    if rng.random() < null:
        return None
    name, *rest = kind if isinstance(kind, list) else [kind]
    match name:
        case "struct":
            value: Any = {field: draw_value(rng, inner, null=0.2) for field, inner in rest[0]}
        case "array":
            value = [draw_value(rng, rest[0]) for _ in range(rng.randint(1, 3))]
        case "map":
            value = {key: draw_value(rng, rest[0]) for key in rng.sample(("k", "a b", "ü"), rng.randint(1, 2))}
        case "union":
            branch = rng.randrange(len(rest[0]))
            value = [branch, draw_value(rng, rest[0][branch])]
        case "decimal" | "number":
            digits = rng.choice((0, 1, 10 ** rest[0] - 1, rng.randrange(10 ** rest[0])))
            sign = rng.choice(("", "-"))
            value = f"{Decimal(f'{sign}{digits}e-{rest[1]}'):f}"
        case _:
            value = rng.choice(_POOLS[name])
    return value


def widen(draw: Draw, kind: Kind, pack: dict[str, Any]) -> Kind:
    """Return a wider kind of a column, or the same one."""
    wider = {"int16": "int32", "int32": "int64", "float32": "float64"}
    if isinstance(kind, str):
        return wider[kind] if kind in wider and draw.takes("widen", 0.5) else kind
    if kind[0] == "decimal" and kind[1] < 30 and draw.takes("widen", 0.5):
        return ["decimal", kind[1] + 4, kind[2]]
    if kind[0] == "struct" and draw.takes("add-field", 0.5):
        names = {name for name, _ in kind[1]}
        new = next(name for name in ("z", "z1", "z2", "z3") if name not in names)
        return ["struct", [*kind[1], [new, "string"]]]
    return kind


def source_block(rng: Random, connector: str, clock: int, commit: int | None) -> list[tuple[str, str, Any]]:
    """Return the fields of a source block that order its changes: name, kind and value."""
    if connector == "mysql":
        # Like rows of a compressed transaction, several changes have one position, and later ones may have a lower row.
        file = f"binlog.{clock // 1000 % 1_000_000:06d}"
        return [("file", "string", file), ("pos", "int64", clock % 1000 // 8), ("row", "int32", 7 - clock % 8)]
    if connector == "sqlserver":
        lsn = f"{clock >> 32:08x}:{clock >> 8 & 0xFFFFFF:08x}:{clock & 0xFF:04x}"
        names = [("commit_lsn", "string", lsn), ("change_lsn", "string", lsn)]
        return [*names, ("event_serial_no", "int64", rng.randint(1, 2))]
    sequence = json.dumps([None if commit is None else str(commit), str(clock)], separators=(",", ":"))
    return [("sequence", "string", sequence), ("lsn", "int64", clock)]


def dms_time(clock: int) -> str:
    """Return the time of a DMS record."""
    at = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(microseconds=clock)
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def bad_value(draw: Draw, columns: list[list[Any]]) -> tuple[str, str] | None:
    """Return a column and JSON text that does not fit it; None if every text fits the columns."""
    rng = draw.rng
    declared = [name for name, kind in columns if isinstance(kind, list) and kind[0] == "number"]
    if declared and draw.takes("huge-exponent", 0.5):
        return declared[0], rng.choice(("1e400000000", "-1e400000000", "1e-400000000"))
    if declared and rng.random() < 0.5:
        return declared[0], rng.choice(('"x"', "true", "{}", "0.00001", "1e40", "1" * 40))
    texts = {
        **dict.fromkeys(("int16", "int32", "int64"), ('"seven"', "1.5", "true", "{}", "99999999999999999999")),
        **dict.fromkeys(("float32", "float64"), ('"seven"', "true", "[1]", "1e400", "-1e400000000", "9" * 310)),
        "string": (r'"\ud800"', r'"a\uDC00b"'),
        "boolean": ('"yes"', "7"),
        "date": ('"today"',),
        "micros": ('"now"', "{}"),
        "zoned": ('"noon"',),
        "bytes": ('"###"', "{}"),
    }
    found = [
        (name, str(kind))
        for name, kind in columns
        if isinstance(kind, str) and kind in texts and name in draw.first_columns
    ]
    if not found:
        return None
    name, kind = rng.choice(found)
    return name, rng.choice(texts[kind])
