"""The block ``openlineage:`` of the pipeline file."""

from __future__ import annotations

import os

from pydantic import Field

from headrace.sdk import Config, Interval


class OpenLineageConfig(Config):
    """Lineage of tables and columns, as OpenLineage events.

    The variables ``OPENLINEAGE_*`` and the file ``openlineage.yml`` of OpenLineage's client name the receiver, such as Marquez.
    """

    namespace: str | None = Field(None, min_length=1)
    """Namespace of the jobs. Default: ``OPENLINEAGE_NAMESPACE``, or ``default``."""

    running_interval: Interval = Field("1 minute", alias="running.interval")
    """Shortest time between two ``RUNNING`` events of a table. Its other events are sent at once."""

    @property
    def job_namespace(self) -> str:
        """Namespace of the jobs."""
        return self.namespace or os.environ.get("OPENLINEAGE_NAMESPACE") or "default"
