"""The plan that a pipeline uses now."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from headrace.engine.plan.pipeline_plan import Plan
from headrace.sdk.schema_log import SchemaLog
from headrace.sdk.source import RangedSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.spark.storage import Folder


class CurrentPlan:
    """Holder of a pipeline's plan, which rotated credentials replace. Threads may share it."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._lock = threading.Lock()

    @property
    def plan(self) -> Plan:
        """The plan for the next batch."""
        return self._plan

    def rotate(self, used: Plan, session: SparkSession) -> bool:
        """Return whether there is a plan with other credentials than ``used``; resolve the references again to find out.

        ``session``: plans the ranges of a ranged source. Raises HeadraceError if the references cannot be resolved.
        """
        with self._lock:
            if self._plan is not used:  # Another thread has replaced it.
                return True
            renewed = used.renewal.build() if used.renewal else None
            if renewed is None:
                return False
            if isinstance(renewed.source, RangedSource):
                renewed.source.open(session)
            self._plan = used.with_credentials_of(renewed.plan)
            return True

    def open_schema_log(self, session: SparkSession, folder: Folder) -> SchemaLog:
        """Open the schema log of a run. It reads stored tables with the credentials of the current plan."""
        return self._plan.open_schema_log(
            session, folder, table_types=lambda topic: self._plan.read_stored_types(session, topic)
        )
