"""Start of a run: one at a time on a checkpoint."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from headrace.engine.run.current_plan import CurrentPlan
from headrace.engine.run.native_query import NativeQuery
from headrace.engine.run.query import Query, RunOptions
from headrace.engine.run.ranged_query import RangedQuery
from headrace.errors import ConfigError
from headrace.sdk.source import NativeSource, RangedSource, Source
from headrace.spark.storage import qualify_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUERIES: dict[type[Source], type[Query]] = {NativeSource: NativeQuery, RangedSource: RangedQuery}
#: Checkpoint → the last query that this process started on it.
_LAST_QUERIES: WeakValueDictionary[str, Query] = WeakValueDictionary()
_LOCK = threading.Lock()


def start(current: CurrentPlan, spark: SparkSession, options: RunOptions) -> Query:
    """Start a run. ConfigError if this process already runs a pipeline on the same checkpoint."""
    plan = current.plan
    query_class = next((query for source, query in _QUERIES.items() if isinstance(plan.source, source)), None)
    if query_class is None:
        raise ConfigError(
            f"the source {plan.source.name!r} is neither native nor ranged",
            fix="derive it from NativeSource or RangedSource",
        )
    path = qualify_path(spark, plan.checkpoint)
    with _LOCK:
        other = _LAST_QUERIES.get(path)
        if other is not None and other.is_active:
            raise ConfigError("is in use by another run", where=f"checkpoint {path}", fix="stop that run first")
        query = query_class(current, spark, options)
        query.start()
        _LAST_QUERIES[path] = query
    return query
