"""Entry points of installed distributions that register plugins."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points

GROUP = "headrace"


def list_entry_points() -> Iterator[tuple[EntryPoint, str]]:
    """Yield each entry point with its ``name version``, sorted by distribution."""
    found = [(point, _distribution(point)) for point in entry_points(group=GROUP)]
    yield from sorted(found, key=lambda item: (item[1], item[0].name))


def _distribution(entry_point: EntryPoint) -> str:
    try:
        return f"{entry_point.dist.name} {entry_point.dist.version}"  # type: ignore[union-attr]
    except Exception:  # noqa: BLE001 - its metadata is missing or damaged
        return "unknown"
