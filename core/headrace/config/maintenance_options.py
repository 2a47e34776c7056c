"""Options of maintenance in a pipeline file."""

from __future__ import annotations

from pydantic import Field, field_validator

from headrace.sdk.config import Config
from headrace.sdk.interval import Interval, seconds_of
from headrace.sdk.maintenance import MaintenancePolicy

_DAY = 86400.0


class Maintenance(Config):
    """Maintenance of tables while they are written, for all table formats that need it."""

    enabled: bool = True
    """Whether a run maintains its tables. ``headrace maintain`` always does."""

    history: Interval = "1 hour"
    """Minimum time for which older versions of a table can be read (``--as-of``)."""

    files: int = Field(32, ge=2)
    """Number of extra files at which a table is compacted: data files beyond one per partition, delete files, and log files per base
    file.
    """

    orphans: Interval = "3 days"
    """Minimum age at which a file that no version references is removed; a killed writer leaves such files. At least one
    day, because the files of an active write belong to no version yet.
    """

    @field_validator("orphans")
    @classmethod
    def _is_safe(cls, interval: str) -> str:
        if seconds_of(interval) < _DAY:
            raise ValueError("files of an active write would be removed: use a day or more")
        return interval

    @property
    def policy(self) -> MaintenancePolicy:
        return MaintenancePolicy(seconds_of(self.history), self.files, seconds_of(self.orphans))
