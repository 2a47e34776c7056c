"""Aggregates over rows that something else reads."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace.spark.sessions import materialize

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


@contextmanager
def materialize_with(frame: DataFrame, **aggregates: Column) -> Iterator[tuple[DataFrame, dict[str, Any]]]:
    """The rows as ``materialize`` gives them, and aggregates over them by name that are taken while they are read.

    Values are numbers, texts, times or null: of lists Spark gives Python none.
    """
    observation = Observation(**aggregates)
    with materialize(observation.observe(frame)) as kept:
        # What Spark does not deliver takes a job more.
        yield kept, observation.result() or _aggregate(kept, aggregates)


def _aggregate(rows: DataFrame, aggregates: Mapping[str, Column]) -> dict[str, Any]:
    row = rows.agg(*[column.alias(name) for name, column in aggregates.items()]).first()
    return row.asDict() if row else {}
