"""State that the batches of one run share."""

from __future__ import annotations

from headrace.checkpoint.layout import Checkpoint
from headrace.engine.batch.backlogs import Backlogs
from headrace.engine.batch.order_watch import OrderWatch
from headrace.engine.batch.table_locks import TableLocks
from headrace.engine.batch.table_pool import TablePool
from headrace.engine.batch.view_refresh import ViewRefresher
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.read.lineage_log import LineageLog
from headrace.progress.activity import BatchActivity
from headrace.sdk.source import SourceContext
from headrace.spark.job_tags import cancel_jobs
from headrace.spark.sessions import Sessions
from headrace.upsert.table_state import TableStates


class BatchResources:
    """What stays the same from batch to batch, also when rotated credentials replace the plan."""

    def __init__(
        self, plan: Plan, checkpoint: Checkpoint, sessions: Sessions, locks: TableLocks, *, names_checked: bool
    ) -> None:
        """``names_checked``: the columns that transforms name were found before the start."""
        self.checkpoint, self.sessions, self.locks, self.names_checked = checkpoint, sessions, locks, names_checked
        self.session = sessions.of("batch")
        self.context = SourceContext(
            self.session,
            checkpoint.schemas,
            stream=checkpoint.stream,
            max_message_bytes=plan.settings.max_message_bytes,
        )
        self.states = TableStates(checkpoint, plan.delete_retention_of)
        self.backlogs = Backlogs(checkpoint.backlog)
        self.order_watch = OrderWatch(checkpoint)
        #: None: no observer asks for it.
        self.lineage = LineageLog() if plan.observers else None
        self.views = ViewRefresher(checkpoint, sessions, self.lineage)
        self.activity = BatchActivity()
        self.pool = TablePool(
            lambda table: cancel_jobs(self.session, plan.checkpoint, table),
            plan.settings.table_timeout_seconds,
            self.activity,
        )
