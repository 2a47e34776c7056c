"""The plan that a pipeline uses now."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.engine.plan.pipeline_plan import Plan
from headrace.sdk.schema_log import SchemaLog
from headrace.sdk.source import RangedSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.spark.storage import Folder


#: Rotations in a row for which a batch is repeated. A secret may be new each time.
MAX_ROTATIONS = 3


class CurrentPlan:
    """Holder of a pipeline's plan, which rotated credentials replace. Threads may share it."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        #: Pipeline with other credentials whose source could not be opened yet.
        self._renewed: Any = None
        #: Newest values of ``spark:`` in the file.
        self._spark_conf = plan.spark_conf
        #: Rotations for a batch since the credentials were last accepted.
        self._rotations = 0
        #: Called after the credentials were replaced.
        self.on_renewed: Callable[[], None] = lambda: None

    @property
    def plan(self) -> Plan:
        """The plan for the next batch."""
        return self._plan

    @property
    def is_exhausted(self) -> bool:
        """Whether the last MAX_ROTATIONS credentials for a batch, each of them new, were all rejected."""
        return self._rotations >= MAX_ROTATIONS

    @property
    def has_outdated_session(self) -> bool:
        """Whether the values of ``spark:`` have changed. A session keeps those of its start."""
        return self._spark_conf != self._plan.spark_conf

    def note_accepted(self) -> None:
        """Record that no server rejects the credentials."""
        self._rotations = 0

    def rotate(self, used: Plan, session: SparkSession) -> bool:
        """Return whether there is a plan with other credentials than ``used``; resolve the references again to find out.

        ``session``: plans the ranges of a ranged source. Raises HeadraceError if the references cannot be resolved.
        """
        with self._lock:
            if self._plan is not used:  # Another thread has replaced it.
                return True
            if used.renewal is not None and (renewed := used.renewal.build()) is not None:
                self._renewed, self._spark_conf = renewed, renewed.plan.spark_conf
            if self._renewed is None:
                return False
            if isinstance(self._renewed.source, RangedSource):
                self._renewed.source.open(session)
            self._plan, self._renewed = used.with_credentials_of(self._renewed.plan), None
        self.on_renewed()
        return True

    def rotate_for_batch(self, used: Plan, session: SparkSession) -> bool:
        """Return whether a batch can be repeated with other credentials than ``used``: at most MAX_ROTATIONS times in a row."""
        before = self._plan
        if before is used and self.is_exhausted:
            return False
        has_rotated = self.rotate(used, session)
        self._rotations += self._plan is not before
        return has_rotated

    def open_schema_log(self, session: SparkSession, folder: Folder) -> SchemaLog:
        """Open the schema log of a run. It reads stored tables with the credentials of the current plan."""
        return self._plan.open_schema_log(
            session, folder, table_types=lambda topic: self._plan.read_stored_types(session, topic)
        )
