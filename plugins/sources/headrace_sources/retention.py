"""Records that expire before they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.sdk.findings import Finding, FindingKind, Severity

RECORDS_EXPIRED = FindingKind(
    "records-expired", Severity.ERROR, "Records of the source expired before they were read: their changes are lost."
)
RECORDS_EXPIRE_SOON = FindingKind(
    "records-expire-soon", Severity.WARNING, "The oldest unread records of the source expire soon."
)
#: Share of the retention, by time or by number of records, after which it is nearly over.
_NEAR = 0.75
_FIX_LOST = "raise the retention, then load the tables again: docs/backfill.md"
_FIX_SOON = "start the run, or make it faster (docs/sizing.md); raise the retention in the meantime"
#: Topic → partition → offset.
_Offsets = Mapping[str, Mapping[str, int]]


def find_expiring(delay_seconds: float | None, retention_seconds: float, where: str) -> Iterator[Finding]:
    """Yield a finding if a pipeline is behind by more than the retention of its source, or nearly."""
    delay = delay_seconds or 0.0
    if delay > _NEAR * retention_seconds:
        kind, fix = (RECORDS_EXPIRED, _FIX_LOST) if delay > retention_seconds else (RECORDS_EXPIRE_SOON, _FIX_SOON)
        what = f"the pipeline is {delay / 3600:.1f} hours behind, and records are kept for {retention_seconds / 3600:.0f} hours"
        yield Finding(kind, what, where, fix)


def find_expired(read: _Offsets, earliest: _Offsets, latest: _Offsets) -> Iterator[Finding]:
    """Yield a finding for each partition whose next record has expired, or is one of the oldest.

    ``read``: the next record of each partition; ``earliest``, ``latest``: the oldest record, and the end. A topic that has lost no
    record yet is not near the end of its retention.
    """
    for topic, partitions in earliest.items():
        for partition, first in partitions.items():
            position, end, where = (
                read[topic][partition],
                latest[topic][partition],
                f"topic {topic}, partition {partition}",
            )
            if position < first:
                what = f"the records {position:,} to {first - 1:,} expired before they were read"
                yield Finding(RECORDS_EXPIRED, what, where, _FIX_LOST)
            elif first and end - position > _NEAR * (end - first):
                what = f"{end - position:,} of the {end - first:,} records that are kept are not read yet"
                yield Finding(RECORDS_EXPIRE_SOON, what, where, _FIX_SOON)
