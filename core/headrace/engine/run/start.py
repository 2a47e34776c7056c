"""Starting a plan: one run at a time on a checkpoint."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from headrace.engine.plan.pipeline_plan import Plan
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


def start(plan: Plan, spark: SparkSession, options: RunOptions) -> Query:
    """Starts a plan. ConfigError when this process runs another on the same checkpoint."""
    query_class = next((query for source, query in _QUERIES.items() if isinstance(plan.source, source)), None)
    if query_class is None:
        raise ConfigError(
            f"the source {plan.source.name!r} is neither native nor ranged", fix="derive it from one of them"
        )
    path = qualify_path(spark, plan.checkpoint)
    with _LOCK:
        other = _LAST_QUERIES.get(path)
        if other is not None and other.is_active:
            raise ConfigError("is in use by a run that goes on", where=f"checkpoint {path}", fix="stop that one first")
        _LAST_QUERIES[path] = query = query_class(plan, spark, options)
    return query
