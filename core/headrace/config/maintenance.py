"""What a pipeline's file says of maintenance."""

from __future__ import annotations

from pydantic import Field

from headrace.sdk.config import Config
from headrace.sdk.interval import Interval, seconds_of
from headrace.sdk.maintenance import Upkeep


class Maintenance(Config):
    """How tables are kept quick while they are written, the same for every table format that needs it."""

    #: Whether a run does it. ``headrace maintain`` does it in any case.
    enabled: bool = True
    #: How long older versions of a table can be read (``--as-of``), at least.
    history: Interval = "1 hour"
    #: How many files more than it needs a table may have before they are compacted.
    files: int = Field(32, ge=2)

    @property
    def upkeep(self) -> Upkeep:
        return Upkeep(seconds_of(self.history), self.files)
