"""Aggregates over rows that something else reads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Seconds for which the listener that delivers an observation is waited for: it runs behind the action.
_DELIVERY_SECONDS = 10


class Observation:
    """Aggregates over a DataFrame, taken while something else reads it."""

    def __init__(self, **aggregates: Column) -> None:
        from pyspark.sql import Observation as SparkObservation

        self._observation, self._aggregates = SparkObservation(), aggregates

    def observe(self, frame: DataFrame) -> DataFrame:
        """The frame, which takes the aggregates when it is read."""
        return frame.observe(self._observation, *[column.alias(name) for name, column in self._aggregates.items()])

    def result(self) -> dict[str, Any]:
        """The aggregates, once the DataFrame has been read; empty when Spark does not deliver them."""
        result: dict[str, Any] = {}
        waiter = threading.Thread(target=lambda: result.update(self._observation.get), daemon=True)
        waiter.start()
        waiter.join(timeout=_DELIVERY_SECONDS)
        return result
