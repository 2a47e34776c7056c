"""Ranges of the versions of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headrace.sdk.sink import TableVersion


@dataclass(frozen=True)
class VersionRange:
    """Changes of a table after one version, up to and including another."""

    #: None: all rows of ``upto``.
    after: str | None
    upto: str
    #: Order of the changes: the time of the commit in milliseconds since 1970. It always increases.
    order: int

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> VersionRange:
        """Return the range of an offset."""
        return cls(data["after"], data["upto"], data["order"])

    def to_json(self) -> dict[str, Any]:
        """Return the range for an offset."""
        return asdict(self)

    @classmethod
    def plan(cls, known: VersionRange | None, version: TableVersion) -> VersionRange:
        """Return the range from the end of the ``known`` range to a version.

        A table that was taken back to an older version, or created again, has a version with an earlier time.
        """
        if known is None:
            return cls(None, version.version, version.written_ms)
        return cls(known.upto, version.version, max(known.order + 1, version.written_ms))
