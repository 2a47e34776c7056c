"""Checks that need a Spark session: connections, topics, columns, and due maintenance."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING

from headrace.doctor import finding_kinds as kinds
from headrace.doctor.examination import Check, Passed, Result, explain
from headrace.engine.commands.preflight import try_connections
from headrace.findings import Checkup, Finding
from headrace.http_client import time_listener
from headrace.spark.sessions import Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.engine.commands.check_item import CheckItem
    from headrace.pipeline import Pipeline

#: Seconds for all connections of a pipeline, and for the maintenance of its tables.
_LIMIT = 600.0
#: ``CheckItem.what`` of findings without an error.
_KINDS = {"warning": kinds.OPTION_UNWISE, "note": kinds.OPTION_NOTE}


def list_session_checks(pipeline: Pipeline, checkup: Checkup, known: Collection[str]) -> Iterator[Check]:
    """Yield the checks of ``headrace check --connect``, and those of maintenance. ``known``: texts of findings that other checks made.

    An error of the first ones does not prevent the connections.
    """
    spark = checkup.spark
    if spark is not None:
        yield Check("topics and columns", partial(_check_pipeline, pipeline, spark, known), limit=_LIMIT)
        yield Check("connections", partial(_try_connections, pipeline, spark, checkup.note_time), limit=_LIMIT)
        yield Check("maintenance", partial(_check_maintenance, pipeline, spark), limit=_LIMIT)


def _check_pipeline(pipeline: Pipeline, spark: SparkSession, known: Collection[str]) -> Iterator[Result]:
    for item in pipeline.check(spark):
        if item.what not in _KINDS or item.found.partition(": ")[2] not in known:
            yield _to_result(item, pipeline.name)


def _try_connections(
    pipeline: Pipeline, spark: SparkSession, note_time: Callable[[str, float], None]
) -> Iterator[Result]:
    time_listener.set(note_time)
    for item in try_connections(pipeline.plan, Sessions(spark, pipeline.plan.sql_conf).of("doctor")):
        yield _to_result(item, pipeline.name)


def _to_result(item: CheckItem, pipeline: str) -> Result:
    if item.error:
        return explain(item.error, item.what, kinds.CONNECTION_REJECTED)
    if kind := _KINDS.get(item.what):
        return Finding(kind, item.found, f"pipeline {pipeline}")
    return Passed(item.what, item.found)


def _check_maintenance(pipeline: Pipeline, spark: SparkSession) -> Iterator[Result]:
    for due in pipeline.maintain(dry_run=True, spark=spark):
        where = f"table {due.table}, sink {due.sink}"
        if due.error:
            yield Finding(kinds.MAINTENANCE_FAILED, due.error, where, "correct the cause, then headrace maintain FILE")
            continue
        is_made = pipeline.plan.for_table(due.table).settings.maintenance.enabled
        kind = kinds.MAINTENANCE_DUE if is_made else kinds.MAINTENANCE_OVERDUE
        yield Finding(kind, f"{due.step} is due: {due.what}", where, "headrace maintain FILE")
