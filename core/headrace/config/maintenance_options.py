"""What a pipeline's file says of maintenance."""

from __future__ import annotations

from pydantic import Field, field_validator

from headrace.sdk.config import Config
from headrace.sdk.interval import Interval, seconds_of
from headrace.sdk.maintenance import MaintenancePolicy

_DAY = 86400.0


class Maintenance(Config):
    """How tables are kept quick while they are written, the same for every table format that needs it."""

    enabled: bool = True
    """Whether a run does it. ``headrace maintain`` does it in any case."""

    history: Interval = "1 hour"
    """How long older versions of a table can be read (``--as-of``), at least."""

    files: int = Field(32, ge=2)
    """How many files more than it needs a table may have before they are compacted."""

    orphans: Interval = "3 days"
    """How old a file must be, at least, that no version names before it is removed: a writer that was killed leaves some. Not below
    a day: a file of a write that is under way has no version yet.
    """

    @field_validator("orphans")
    @classmethod
    def _is_safe(cls, interval: str) -> str:
        if seconds_of(interval) < _DAY:
            raise ValueError("files of a write that is under way would be removed: take a day or more")
        return interval

    @property
    def policy(self) -> MaintenancePolicy:
        return MaintenancePolicy(seconds_of(self.history), self.files, seconds_of(self.orphans))
