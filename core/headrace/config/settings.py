"""Options of a pipeline that do not depend on its plugins, with their defaults."""

from __future__ import annotations

from pydantic import Field, field_validator

from headrace.config.dead_letter_options import Limit, Policy
from headrace.config.maintenance_options import Maintenance
from headrace.config.table_names import check_table_name
from headrace.sdk.config import Config
from headrace.sdk.interval import Interval, seconds_of
from headrace.sdk.reject_reason import RejectReason


class Settings(Config):
    """Options of a pipeline without those of its plugins."""

    trigger: Interval | None = None
    """Interval between batches in continuous mode: ``"10 seconds"``. Default: half a second.
    """

    min_sync_interval: Interval | None = Field(default=None, alias="min.sync.interval")
    """Minimum time between the starts of two batches in continuous mode: ``"30 seconds"``. A change after a pause of that length is
    applied immediately; further changes wait, so that a busy table has fewer, larger commits.
    """

    delete_retention: Interval = Field("7 days", alias="delete.retention")
    """How long keys of deleted rows are kept: a change that is older than the delete and arrives within that time does not restore the
    row. ``"0 seconds"`` keeps none.
    """

    table_timeout: Interval = Field("30 minutes", alias="table.timeout")
    """Maximum time of a table in a batch. A table that takes longer is set aside and catches up later.
    """

    maintenance: Maintenance = Field(default_factory=Maintenance)
    """Maintenance of tables while they are written."""

    max_message_bytes: int = Field(16 * 1024 * 1024, alias="max.message.bytes", ge=1)
    """Maximum size of a record's key and value together, in bytes. A larger record is not parsed, because that needs many times its size of
    memory: it becomes a dead letter with its beginning.
    """

    dead_letters: dict[RejectReason, Policy] = Field(default_factory=dict, alias="dead.letters")
    """Policy for records that cannot become a row, by reason: ``dead-letter`` (they are stored), ``stop`` the run, or ``drop``. Reasons: ``undecodable``, ``field-name``, ``too-large``, ``schema-unknown``, ``schema-incompatible``, ``op-missing``, ``op-unknown``,
    ``op-not-a-row``, ``truncated``, ``truncated-source``, ``after-missing``, ``key-missing``, ``other-table``, ``table-name``,
    ``unsupported-value``. Default: all are stored, and a
    record with ``schema-unknown`` or ``schema-incompatible``, or many records with ``other-table`` in a topic's first batch, make their
    table wait.
    """

    max_dead_letters: Limit | None = Field(default=None, alias="max.dead.letters")
    """Number of dead letters above which a run stops: a number (``1000``), or a percentage of its records (``"5%"``) after the first
    hundred.
    """

    dead_letters_table: str | None = Field(default=None, alias="dead.letters.table")
    """Table for dead letters (``ops.dead_letters``) in the first sink that supports upserts and deletes; several pipelines may share it.
    Default: files in the checkpoint.
    """

    @field_validator("dead_letters_table")
    @classmethod
    def _check_table(cls, value: str | None) -> str | None:
        return value if value is None else check_table_name(value)

    @property
    def min_sync_seconds(self) -> float:
        return seconds_of(self.min_sync_interval) if self.min_sync_interval else 0.0

    @property
    def delete_retention_seconds(self) -> float:
        return seconds_of(self.delete_retention)

    @property
    def table_timeout_seconds(self) -> float:
        return seconds_of(self.table_timeout)
