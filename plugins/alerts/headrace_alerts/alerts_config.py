"""The block ``alerts:`` of the pipeline file."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Self

from pydantic import Field, field_validator, model_validator

from headrace.sdk import Config, Interval
from headrace.sdk.options import seconds_of
from headrace.sdk.transform import TableGlobs
from headrace_alerts.receiver_config import ReceiverConfig, SecretAddress


class LimitsConfig(Config):
    """Conditions of single tables."""

    latency: Interval | None = None
    """Alert while a table is further behind its database than this."""

    lag: int | None = Field(default=None, ge=1)
    """Alert while more records than this wait in the source for a table."""

    dead_letters: int | None = Field(default=None, alias="dead.letters", ge=1)
    """Alert when a table has this number of dead letters within ``window``."""

    failed_table: bool = Field(default=True, alias="failed.table")
    """Alert while a table is set aside after an error."""


class TableLimitsConfig(LimitsConfig):
    """Conditions of some tables. Conditions that it does not name are those of ``when``; one without a value is off."""

    tables: TableGlobs = Field(min_length=1)
    """Names of tables after ``tables:``, or globs. The first entry that has a table applies to it."""


class WhenConfig(LimitsConfig):
    """Conditions of alerts. Those of tables apply to each table and sink alone."""

    source_failing: bool = Field(default=True, alias="source.failing")
    """Alert while the source or a sink is unreachable and the run tries again."""

    stopped: bool = True
    """Alert when the run ends with an error."""

    no_batch_for: Interval | None = Field(default=None, alias="no.batch.for")
    """Alert when no batch was committed for this time, also if the source has no new records."""

    schema_changed: bool = Field(default=False, alias="schema.changed")
    """Alert when the stored schema of a topic is replaced."""


class DeadManConfig(Config):
    """Dead man's switch: a service that raises the alarm when the requests of a run stay away.

    Such services are healthchecks.io, Cronitor and Dead Man's Snitch.
    """

    url: SecretAddress
    """Address that a GET request is sent to while the run is active, and at its regular end. It is never shown."""

    every: Interval = "1 minute"
    """Time between two requests."""

    @field_validator("every")
    @classmethod
    def _every(cls, value: str) -> str:
        if seconds_of(value) < 1:
            raise ValueError("is too short", "write `1 second` or more")
        return value


class AlertsConfig(Config):
    """Alerts about a run: one for each trouble, and one when it ends.

    ``headrace alert test FILE`` sends a test alert to each receiver.
    """

    to: tuple[ReceiverConfig, ...] = ()
    """Receivers. Each receives all alerts."""

    when: WhenConfig = Field(default_factory=WhenConfig)
    """Conditions. Without it: ``failed.table``, ``source.failing`` and ``stopped``."""

    tables: tuple[TableLimitsConfig, ...] = ()
    """Other conditions for some tables."""

    for_: Interval = Field(default="1 minute", alias="for")
    """Time for which ``latency``, ``lag``, ``failed.table`` or ``source.failing`` must be true before the alert."""

    keep_firing_for: Interval = Field(default="1 minute", alias="keep.firing.for")
    """Time for which a condition must be false before the trouble has ended."""

    window: Interval = "10 minutes"
    """Time over which dead letters are counted, and for which a changed schema is a trouble."""

    repeat_interval: Interval | None = Field(default=None, alias="repeat.interval")
    """Time after which the alert of a trouble that lasts is sent again. Default: never."""

    dead_man: DeadManConfig | None = Field(default=None, alias="dead.man")
    """Dead man's switch, for the case that the process or the machine ends."""

    state: str | None = Field(default=None, min_length=1)
    """File on the driver with the troubles that receivers have as open. A run that is started again then sends neither the same alert again
    nor misses its end.
    """

    @model_validator(mode="after")
    def _has_receiver(self) -> Self:
        if not self.to and not self.dead_man:
            raise ValueError("`to` has no receiver", "add one to `to:`, such as `- slack: {url: ${env:SLACK_URL}}`")
        return self

    @field_validator("repeat_interval")
    @classmethod
    def _repeat(cls, value: str | None) -> str | None:
        if value is not None and seconds_of(value) < 60:
            raise ValueError("is too short", "write `1 minute` or more")
        return value

    def find_limits(self, table: str) -> LimitsConfig:
        """Return the conditions of a table."""
        for entry in self.tables:
            if any(fnmatchcase(table, glob) for glob in entry.tables):
                names = LimitsConfig.model_fields
                return LimitsConfig.model_construct(
                    **{name: getattr(entry if name in entry.model_fields_set else self.when, name) for name in names}
                )
        return self.when

    @property
    def state_file(self) -> Path | None:
        """Path of the file with open troubles."""
        return Path(self.state).expanduser() if self.state else None
