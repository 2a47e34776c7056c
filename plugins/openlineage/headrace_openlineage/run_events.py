"""OpenLineage events of a pipeline and of its tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import attr
import pyspark
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    JobFacet,
    RunFacet,
    error_message_run,
    job_type_job,
    parent_run,
    processing_engine_run,
    sql_job,
)
from openlineage.client.uuid import generate_new_uuid

from headrace import __version__
from headrace.sdk.error_text import hide_values
from headrace.sdk.observer import TableLineage
from headrace_openlineage.lineage_facets import LineageFacets
from headrace_openlineage.producer import PRODUCER
from headrace_openlineage.table_counts import TableCounts


@attr.define
class BatchesRunFacet(RunFacet):
    """Batches and records since the start of the run. Records whose number is unknown are absent."""

    batches: int = attr.field(default=0)
    lastBatch: int | None = attr.field(default=None)  # noqa: N815 - names in the event
    records: dict[str, int] = attr.field(factory=dict)


class JobRun:
    """OpenLineage run of a pipeline, or of one of its tables."""

    def __init__(self, namespace: str, name: str, kind: str, parent: JobRun | None = None) -> None:
        self.id, self.name, self.counts = str(generate_new_uuid()), name, TableCounts()
        self._namespace, self._kind, self._parent = namespace, kind, parent

    def make_event(
        self, state: RunState, time: float, *, error: str | None = None, lineage: TableLineage | None = None
    ) -> RunEvent:
        """Return an event. ``time``: seconds since 1970; ``error``: why the run failed, without secrets."""
        datasets: dict[str, Any] = {}
        if lineage is not None:
            facets = LineageFacets(lineage, self._namespace)
            datasets = {"inputs": facets.list_inputs(), "outputs": facets.list_outputs(self.counts.sinks)}
        return RunEvent(
            eventTime=datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds"),
            eventType=state,
            producer=PRODUCER,
            run=Run(self.id, facets=self._describe_run(error)),
            job=Job(self._namespace, self.name, facets=self._describe_job(lineage)),
            **datasets,
        )

    def _describe_run(self, error: str | None) -> dict[str, RunFacet]:
        engine = processing_engine_run.ProcessingEngineRunFacet(
            version=pyspark.__version__, name="spark", openlineageAdapterVersion=__version__, producer=PRODUCER
        )
        counts = self.counts
        batches = BatchesRunFacet(
            batches=counts.batches, lastBatch=counts.last_batch, records=dict(counts.records), producer=PRODUCER
        )
        facets: dict[str, RunFacet] = {"processing_engine": engine, "headrace_batches": batches}
        if self._parent is not None:
            facets["parent"] = parent_run.ParentRunFacet(
                run=parent_run.Run(self._parent.id),
                job=parent_run.Job(self._namespace, self._parent.name),
                producer=PRODUCER,
            )
        if error is not None:
            # Spark's messages may quote values of rows.
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                message=hide_values(error), programmingLanguage="PYTHON", producer=PRODUCER
            )
        return facets

    def _describe_job(self, lineage: TableLineage | None) -> dict[str, JobFacet]:
        kind = job_type_job.JobTypeJobFacet(
            processingType="STREAMING", integration="HEADRACE", jobType=self._kind, producer=PRODUCER
        )
        facets: dict[str, JobFacet] = {"jobType": kind}
        if lineage is not None and lineage.sql is not None:
            facets["sql"] = sql_job.SQLJobFacet(query=lineage.sql, producer=PRODUCER)
        return facets
