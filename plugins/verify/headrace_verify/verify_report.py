"""Results as a table, as JSON, and as an exit code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headrace_verify.comparison import MAX_KEYS, Difference
from headrace_verify.sides import read_key
from headrace_verify.table_verification import Verified

EQUAL, DIFFERENT, NOT_VERIFIED = 0, 1, 2
_KINDS = ("missing", "extra", "different")
_HEAD = ("table", "rows", "equal", "missing", "extra", "different", "columns", "seconds")


def choose_exit_code(results: Sequence[Verified]) -> int:
    """Return 2 if a table could not be verified, 1 if one differs, 0 if all are equal."""
    if any(result.error or result.comparison.unsettled for result in results):
        return NOT_VERIFIED
    return DIFFERENT if any(result.comparison.is_different for result in results) else EQUAL


def format_table(results: Sequence[Verified]) -> list[str]:
    """Return the lines of the table of results."""
    rows = [_HEAD, *map(_list_cells, results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def list_notes(result: Verified) -> list[str]:
    """Return lines about columns that are not compared, about rows that are not settled, and about a repair."""
    left_out = result.compared.left_out if result.compared else {}
    notes = [f"{result.table}: {column} is left out: {reason}" for column, reason in left_out.items()]
    if unsettled := len(result.comparison.unsettled):
        notes.append(f"{result.table}: {unsettled} rows changed each time they were compared")
    if result.comparison.has_more:
        notes.append(f"{result.table}: more than {MAX_KEYS:,} rows differ; the others were not compared")
    return [*notes, *(f"{result.table}: {note}" for note in result.notes)]


def list_keys(result: Verified) -> list[str]:
    """Return a line for each key that differs: the key, and the columns."""
    keys, rows = len(result.comparison.differences), result.comparison.counts.total()
    more = [f"{result.table}: … and the other keys of {rows:,} rows"] if keys == MAX_KEYS and rows > keys else []
    return [
        f"{result.table}: {', '.join(f'{name}={value}' for name, value in _name_key(result, difference).items())}: "
        f"{' in '.join(filter(None, [difference.kind, ', '.join(difference.columns)]))}"
        for difference in result.comparison.differences
    ] + more


def describe_result(result: Verified) -> dict[str, Any]:
    """Return a result as JSON."""
    if result.error:
        return {"table": result.table, "error": result.error.what, "fix": result.error.fix}
    comparison = result.comparison
    return {
        "table": result.table,
        "source": result.source,
        "rows": comparison.rows,
        "equal": comparison.equal,
        **{kind: comparison.counts[kind] for kind in _KINDS},
        "unsettled": len(comparison.unsettled),
        "has_more": comparison.has_more,
        "columns": dict(comparison.columns.most_common()),
        "left_out": dict(result.compared.left_out) if result.compared else {},
        "signals": result.signals,
        "notes": result.notes,
        "seconds": round(result.seconds, 1),
        "keys": [
            {"key": _name_key(result, item), "kind": item.kind, "columns": list(item.columns)}
            for item in comparison.differences
        ],
    }


def describe_all(results: Iterable[Verified]) -> dict[str, Any]:
    """Return all results as JSON."""
    listed = list(results)
    return {"exit_code": choose_exit_code(listed), "tables": [describe_result(result) for result in listed]}


def _name_key(result: Verified, difference: Difference) -> dict[str, str]:
    assert result.compared is not None
    names = (column.name for column in result.compared.key)
    return dict(zip(names, read_key(result.compared, difference.key), strict=True))


def _list_cells(result: Verified) -> tuple[str, ...]:
    if result.error:
        return (result.table, *("-" * 6), f"{result.seconds:.1f}")
    comparison = result.comparison
    counts = (comparison.rows, comparison.equal, *(comparison.counts[kind] for kind in _KINDS))
    columns = ", ".join(name for name, _ in comparison.columns.most_common())
    return (result.table, *(f"{count:,}" for count in counts), columns, f"{result.seconds:.1f}")
