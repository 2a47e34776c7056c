"""The block ``verify:`` of the pipeline file."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from headrace.sdk import Config, Interval
from headrace.sdk.options import option_text


class VerifyConfig(Config):
    """Connection of ``headrace verify`` to the source database, and the load that it may add. A run ignores the block."""

    config: dict[str, Any] = Field(default_factory=dict)
    """Options of the connection under the names of Debezium's connector, such as ``database.hostname``. They replace those of ``connect:``.
    Without ``connect:``, ``connector.class`` is required.
    """

    max_load: int | None = Field(default=None, alias="max.load", ge=1)
    """Number of other sessions that may run a statement in the database. While there are more, ``headrace verify`` reads no rows from it.
    Default: any number.
    """

    max_load_timeout: Interval = Field(default="10 minutes", alias="max.load.timeout")
    """Longest pause. A table for which the load stays above ``max.load`` is not verified."""

    def connection_options(self) -> dict[str, str | None]:
        """Return the options as strings; None for one without a value."""
        return {key: None if value is None else option_text(value) for key, value in self.config.items()}
