"""Aggregates over rows that another action reads."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace.spark.sessions import materialize

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Seconds to wait for the listener that delivers an observation after the action.
_DELIVERY_SECONDS = 10


class Observation:
    """Aggregates over a DataFrame, computed while another action reads it."""

    def __init__(self, **aggregates: Column) -> None:
        from pyspark.sql import Observation as SparkObservation

        self._observation, self._aggregates = SparkObservation(), aggregates

    def observe(self, frame: DataFrame) -> DataFrame:
        """Return the frame with the aggregates attached; they are computed when it is read."""
        return frame.observe(self._observation, *[column.alias(name) for name, column in self._aggregates.items()])

    def result(self) -> dict[str, Any]:
        """Return the aggregates after the DataFrame was read; empty if Spark does not deliver them."""
        result: dict[str, Any] = {}
        waiter = threading.Thread(target=lambda: result.update(self._observation.get), daemon=True)
        waiter.start()
        waiter.join(timeout=_DELIVERY_SECONDS)
        return result


@contextmanager
def materialize_with(frame: DataFrame, **aggregates: Column) -> Iterator[tuple[DataFrame, dict[str, Any]]]:
    """Yield the rows of ``materialize`` and aggregates over them by name, computed while they are read.

    Values are numbers, strings, times or null; Spark does not deliver lists to Python.
    """
    observation = Observation(**aggregates)
    with materialize(observation.observe(frame)) as kept:
        # Without an observation, the aggregates need one more job.
        yield kept, observation.result() or _aggregate(kept, aggregates)


def _aggregate(rows: DataFrame, aggregates: Mapping[str, Column]) -> dict[str, Any]:
    row = rows.agg(*[column.alias(name) for name, column in aggregates.items()]).first()
    return row.asDict() if row else {}
