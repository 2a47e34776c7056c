"""Findings about a pipeline and its machine: a name, what is wrong, where, and the fix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.spark.storage import Folder


class Severity(StrEnum):
    """Severity of a finding. An error prevents a run, or loses data; a warning may become one."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class FindingKind:
    """Kind of finding. ``name``: words with hyphens, unique among all kinds; ``meaning``: a sentence for docs/doctor.md."""

    name: str
    severity: Severity
    meaning: str


@dataclass(frozen=True)
class Finding:
    """Finding of a check. ``what``: the problem; ``where``: the file, server or table; ``fix``: a command or a setting."""

    kind: FindingKind
    what: str
    where: str | None = None
    fix: str | None = None

    @property
    def severity(self) -> Severity:
        return self.kind.severity

    def redact(self, clean: Callable[[str], str]) -> Self:
        """Return the finding with ``clean`` applied to its texts."""
        where, fix = (part and clean(part) for part in (self.where, self.fix))
        return replace(self, what=clean(self.what), where=where, fix=fix)


@dataclass(frozen=True)
class Checkup:
    """State of a pipeline, for the findings of its plugins."""

    spark: SparkSession | None = None
    #: Seconds by which the pipeline may be behind its source; None: unknown.
    delay_seconds: float | None = None
    #: Log of Spark's stream, and its newest batch; None without a session or a batch.
    stream: Folder | None = None
    batch: int | None = None
    #: Returns the path of an address on a local disk; None for an address in another file system.
    find_local: Callable[[str], Path | None] = lambda address: None
    #: Called with the name of a server and its time in seconds since 1970, which is compared with this machine's.
    note_time: Callable[[str, float], None] = lambda where, seconds: None
