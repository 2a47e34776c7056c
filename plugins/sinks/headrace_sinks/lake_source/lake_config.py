"""Options that all sources of lake tables have."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from headrace.sdk import Config

_EMPTY_PART = re.compile(r"^$|^\.|\.\.|\.$")


def _split(value: Any) -> Any:
    """Return the parts of a text with commas."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _check_name(name: str) -> str:
    if _EMPTY_PART.search(name):
        raise ValueError(f"{name!r} is not the name of a table", "write it like silver.orders, or as a glob: silver.*")
    return name


#: Names and globs of tables.
TableNames = Annotated[tuple[Annotated[str, AfterValidator(_check_name)], ...], BeforeValidator(_split)]


class LakeSourceConfig(Config):
    """Options of a source of lake tables."""

    tables: TableNames = Field(min_length=1)
    """Names of the tables, or globs: ``[silver.orders, "silver.dim_*"]``. A ``*`` stays within one part of a name. The name is the topic of
    the rules under ``tables:``.
    """

    exclude: TableNames = ()
    """Names or globs of tables that ``tables`` leaves out."""

    limit: int | None = Field(None, alias="batch.max.versions", gt=0)
    """Maximum number of new versions of a table in a batch. Default: all of them. The first batch of a table reads its newest version."""

    poll_interval: int = Field(5000, alias="poll.interval.ms", ge=0)
    """Pause between two searches for new versions, in milliseconds."""

    table_poll_interval: int = Field(60_000, alias="table.poll.interval.ms", ge=0)
    """Pause between two searches for new tables, in milliseconds."""

    on_expired: Literal["fail", "reload"] = Field("fail", alias="on.expired.version")
    """A version from which changes are to be read has expired: ``fail`` sets the table aside. ``reload`` reads all rows of the table, and
    removes the rows that it no longer has. ``reload`` requires sinks that keep one row per key.
    """
