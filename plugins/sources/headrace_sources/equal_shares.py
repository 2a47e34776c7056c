"""Equal shares of a limit, for sources whose batches are divided among topics."""

from __future__ import annotations

from collections.abc import Mapping


def share(limit: int, wanted: Mapping[str, int]) -> dict[str, int]:
    """Divide a limit into equal shares. A share is at most the wanted number; the others get the rest."""
    parts = {}
    for number, name in enumerate(sorted(wanted, key=wanted.__getitem__)):
        equal = -(-limit // (len(wanted) - number))  # rounded up, in favor of small shares
        parts[name] = min(wanted[name], equal)
        limit -= parts[name]
    return parts
