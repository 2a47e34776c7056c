"""Nodes of expressions that Spark parsed or analyzed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.spark.row_arguments import Computed


def class_name(node: Any) -> str:
    """Return Spark's class of an expression."""
    return str(node.getClass().getSimpleName())


def items(sequence: Any) -> Iterator[Any]:
    """Yield the items of a sequence of Scala."""
    return (sequence.apply(n) for n in range(sequence.size()))


def is_interval(node: Any) -> bool:
    """Return whether a parsed expression is a literal or a call that makes an interval."""
    if class_name(node) == "UnresolvedFunction":
        return str(node.nameParts().last()).lower() in ("make_interval", "try_make_interval")
    return class_name(node) == "Literal" and "interval" in str(node.dataType().typeName())


def read_literal(node: Any) -> Any:
    """Return a literal as a value of Python, or ``map`` of literals as a list; Computed for another expression."""
    if class_name(node) == "UnresolvedFunction" and str(node.nameParts().last()).lower() == "map":
        values = [read_literal(argument) for argument in items(node.arguments())]
        return Computed if Computed in values else values
    if class_name(node) != "Literal":
        return Computed
    value = node.value()
    return value if isinstance(value, bool | int | bytes | bytearray | None) else str(value)


def find_span(node: Any) -> tuple[int, int] | None:
    """Return the start and the end of a parsed expression in its text, without brackets around it; None if Spark does not keep them."""
    start, stop = node.origin().startIndex(), node.origin().stopIndex()
    return (int(start.get()), int(stop.get()) + 1) if start.isDefined() and stop.isDefined() else None
