"""Progress of a batch, by table; it is stored in the checkpoint."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class TableCounts:
    """Counts of records and rows of one table in one sink. None: unknown without reading the table."""

    #: Records that arrived for the table, including bad ones.
    rows_in: int | None = None
    #: Rows written or removed.
    applied: int | None = None
    #: Changes that lost against a newer stored row.
    late: int | None = None
    #: Changes that a newer change of the same batch, or a truncate, superseded before they were written.
    superseded: int | None = None
    dead_letters: int = 0
    #: Records that could not become a row and were dropped, by a policy of the file.
    dropped: int = 0
    #: Changes that a filtering transform removed.
    filtered: int = 0

    def __add__(self, other: TableCounts) -> Self:
        """Return the counts with the sum of both; a count that is unknown in one of them is unknown."""
        return replace(
            self,
            rows_in=_add(self.rows_in, other.rows_in),
            applied=_add(self.applied, other.applied),
            late=_add(self.late, other.late),
            superseded=_add(self.superseded, other.superseded),
            dead_letters=self.dead_letters + other.dead_letters,
            dropped=self.dropped + other.dropped,
            filtered=self.filtered + other.filtered,
        )


@dataclass(frozen=True)
class TableProgress(TableCounts):
    """Progress of one table in one sink in one batch."""

    table: str
    sink: str
    _: KW_ONLY
    #: Milliseconds from the newest change's commit in the database to the row being readable.
    latency_ms: int | None = None
    #: The same from the oldest change's commit: the maximum of the batch.
    latency_max_ms: int | None = None
    #: Parts of ``latency_ms``: ``transport``, from the commit in the database to the record's time in the transport; ``read``, until
    #: the write began; ``write``, until the row was readable. Empty if records have no time. Clocks that differ make parts negative.
    stages_ms: dict[str, int] = field(default_factory=dict, hash=False)
    bytes: int | None = None
    #: Snapshot id, instant or batch folder, for ``show --as-of``.
    version: str | None = None
    seconds: float = 0.0
    #: Records that waited in the source when the batch was done.
    lag: int | None = None
    #: Milliseconds by which the batch was behind the newest record, for sources without ``lag``.
    lag_ms: int | None = None
    #: The batch had been applied already: a crash occurred between the write and its mark.
    skipped: bool = False
    error: str | None = None
    #: Note on the table for users.
    note: str | None = None
    #: Reject reason → number of dead letters.
    reasons: dict[str, int] = field(default_factory=dict, hash=False)

    def join(self, later: TableProgress) -> TableProgress:
        """Return the progress of two parts of the table's batch, of which ``later`` was written later."""
        notes = dict.fromkeys(filter(None, [self.note, later.note]))
        known = [part for part in (self, later) if part.latency_ms is not None]
        newest = min(known, key=lambda part: part.latency_ms or 0, default=self)
        return replace(
            self + later,
            latency_ms=newest.latency_ms,
            stages_ms=newest.stages_ms,
            latency_max_ms=max(_list_known(self.latency_max_ms, later.latency_max_ms), default=None),
            bytes=_add(self.bytes, later.bytes),
            version=later.version or self.version,
            seconds=round(self.seconds + later.seconds, 3),
            skipped=self.skipped and later.skipped,
            note="; ".join(notes) or None,
            reasons=dict(Counter(self.reasons) + Counter(later.reasons)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in the order of the file."""
        fields = {name: getattr(self, name) for name in _FIELDS_IN_FILE}
        rare = {"stages_ms": self.stages_ms or None, "lag_ms": self.lag_ms}
        rare |= {"filtered": self.filtered or None, "reasons": self.reasons or None}
        return fields | {name: value for name, value in rare.items() if value is not None}


#: Order of a table's fields in the checkpoint.
_FIELDS_IN_FILE = (
    *("table", "sink", "rows_in", "applied", "late", "dead_letters", "latency_ms", "bytes", "version", "seconds"),
    *("latency_max_ms", "superseded", "dropped", "lag", "skipped", "error", "note"),
)


@dataclass(frozen=True)
class BatchProgress:
    """Progress of one batch. ``started``: UTC, ISO 8601; ``seconds``: duration of the whole batch."""

    pipeline: str
    batch: int
    started: str
    seconds: float
    tables: tuple[TableProgress, ...]
    #: Topics that match no rule of ``tables:``.
    unrouted: tuple[str, ...] = ()
    #: Topics without rows → their kind.
    notices: dict[str, str] = field(default_factory=dict)
    #: Number of records of these topics, when it could be counted.
    left_out: dict[str, int] = field(default_factory=dict)
    #: Parts of ``seconds``: ``plan`` reads schemas and routes topics, ``write`` writes the tables, ``views`` refreshes the views, and
    #: ``measure`` reads the lag.
    steps: dict[str, float] = field(default_factory=dict)

    def json(self) -> str:
        data = {**vars(self), "tables": [table.to_dict() for table in self.tables]}
        for name in ("left_out", "steps"):
            if not data[name]:
                del data[name]
        return json.dumps(data, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> BatchProgress:
        data: dict[str, Any] = json.loads(text)
        tables = tuple(TableProgress(**table) for table in data.pop("tables"))
        return cls(**{**data, "tables": tables, "unrouted": tuple(data["unrouted"])})


def _list_known(*values: int | None) -> list[int]:
    return [value for value in values if value is not None]


def _add(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
