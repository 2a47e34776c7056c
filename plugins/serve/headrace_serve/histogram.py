"""Histogram with fixed buckets."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """Counts of values by bucket, with their sum. The caller holds a lock."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds, self._counts = bounds, [0] * (len(bounds) + 1)
        self.sum, self.count = 0.0, 0

    def add(self, value: float) -> None:
        """Count a value. A clock that is behind makes negative ones, which count as 0."""
        value = max(value, 0.0)
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum, self.count = self.sum + value, self.count + 1

    @property
    def buckets(self) -> list[tuple[str, float]]:
        """Upper bound → number of values up to it, as Prometheus counts them."""
        total, found = 0, list[tuple[str, float]]()
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            found.append((bound, total))
        return found
