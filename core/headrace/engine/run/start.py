"""Start of a run: one at a time on a checkpoint."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from headrace.checkpoint.audit_log import record_command
from headrace.checkpoint.layout import CheckpointFolders
from headrace.checkpoint.run_note import RunNote
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.run.current_plan import CurrentPlan
from headrace.engine.run.native_query import NativeQuery
from headrace.engine.run.query import Query
from headrace.engine.run.ranged_query import RangedQuery
from headrace.engine.run.run_options import RunOptions
from headrace.errors import ConfigError
from headrace.sdk.source import NativeSource, RangedSource, Source
from headrace.spark.storage import Folder, qualify_path

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
        _refuse_used(path)
        query = query_class(current, spark, options)
        query.start()
        _LAST_QUERIES[path] = query
    return query


@contextmanager
def hold_checkpoint(spark: SparkSession, checkpoint: str) -> Iterator[None]:
    """Keep runs on this machine from using a checkpoint for the time of a block. ConfigError if a run is active."""
    folder = Folder(spark, checkpoint)
    with _LOCK:
        _refuse_used(folder.path)
    folder.make_private()
    with RunNote(folder).hold():
        yield


@contextmanager
def hold_for_command(plan: Plan, spark: SparkSession, command: str, **arguments: Any) -> Iterator[None]:
    """Hold the checkpoint for a command that changes it, and record the command there."""
    with hold_checkpoint(spark, plan.checkpoint), record_for(plan, spark, command, **arguments):
        yield


def record_for(plan: Plan, spark: SparkSession, command: str, **arguments: Any) -> AbstractContextManager[None]:
    """Return a block that records a command in the checkpoint. ``arguments``: as the user gave them."""
    folders = CheckpointFolders(Folder(spark, plan.checkpoint))
    return record_command(folders.audit, command, arguments, plan.redact)


def _refuse_used(path: str) -> None:
    """Raise ConfigError if this process runs a pipeline on a checkpoint."""
    other = _LAST_QUERIES.get(path)
    if other is not None and other.is_active:
        raise ConfigError("is in use by another run", where=f"checkpoint {path}", fix="stop that run first")
