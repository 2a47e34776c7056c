"""How a pipeline runs, whatever its plugins are: options of the file, each with its default, here alone."""

from __future__ import annotations

from pydantic import Field, field_validator

from headrace.config.dead_letter_options import Limit, Policy
from headrace.config.maintenance_options import Maintenance
from headrace.config.table_names import check_table_name
from headrace.sdk.config import Config
from headrace.sdk.interval import Interval, seconds_of
from headrace.sdk.reject_reason import RejectReason


class Settings(Config):
    """The options of a pipeline beside its plugins."""

    trigger: Interval | None = None
    """How often a batch starts in continuous mode: ``"10 seconds"``. Default: it looks for new data every half second.
    """

    min_sync_interval: Interval | None = Field(default=None, alias="min.sync.interval")
    """The least time between the starts of two batches in continuous mode: ``"30 seconds"``. A change that comes after a
    pause of that length is applied at once; what comes meanwhile waits, so that a busy table has fewer, larger commits.
    """

    delete_retention: Interval = Field("7 days", alias="delete.retention")
    """How long keys of deleted rows are remembered: a change older than the delete that comes within that time does not
    bring its row back. ``"0 seconds"`` remembers none.
    """

    table_timeout: Interval = Field("30 minutes", alias="table.timeout")
    """How long a table may take in a batch. One that takes longer is set aside, and catches up when it can be written.
    """

    maintenance: Maintenance = Field(default_factory=Maintenance)
    """How tables are kept quick while they are written."""

    max_message_bytes: int = Field(16 * 1024 * 1024, alias="max.message.bytes", ge=1)
    """The most bytes that a record's key and value may have together. A larger one is a dead letter, of which the beginning is
    kept: it is not parsed, which takes many times its size of memory.
    """

    dead_letters: dict[RejectReason, Policy] = Field(default_factory=dict, alias="dead.letters")
    """What becomes of records that cannot become a row, by reason: ``dead-letter`` (they are kept aside), ``stop`` the run, or
    ``drop``. Reasons: ``undecodable``, ``too-large``, ``schema-unknown``, ``schema-incompatible``, ``op-missing``, ``op-unknown``,
    ``op-not-a-row``, ``truncated``, ``after-missing``, ``key-missing``, ``other-table``. Default: all are kept aside, and a
    record of ``schema-unknown`` or ``schema-incompatible`` makes its table wait.
    """

    max_dead_letters: Limit | None = Field(default=None, alias="max.dead.letters")
    """How many dead letters stop a run: more than a number (``1000``), or more than a share of its records (``"5%"``), once
    it has read a hundred.
    """

    dead_letters_table: str | None = Field(default=None, alias="dead.letters.table")
    """A table that keeps the dead letters, as ``ops.dead_letters``, in the first sink that replaces and removes rows; several
    pipelines may share it. Default: they are files in the checkpoint.
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
