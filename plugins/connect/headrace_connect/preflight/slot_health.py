"""State of a replication slot of PostgreSQL while a connector uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headrace.sdk.findings import Finding, FindingKind, Severity
from headrace_connect.preflight.postgresql_checks import quote_text

SLOT_INACTIVE = FindingKind(
    "slot-inactive",
    Severity.WARNING,
    "No connector reads the replication slot. PostgreSQL keeps its log for it, until the disk is full.",
)
SLOT_BEHIND = FindingKind(
    "slot-behind",
    Severity.WARNING,
    "The connector is more than 1 GB of PostgreSQL's log behind, which stays on the disk of the database.",
)
#: Bytes of the log.
_BEHIND = 1_000_000_000
#: A standby has no current position.
_STATE = """
select active, coalesce(pg_wal_lsn_diff(now.lsn, confirmed_flush_lsn), 0)::bigint, coalesce(pg_wal_lsn_diff(now.lsn, restart_lsn), 0)::bigint
from pg_replication_slots,
  (select case when pg_is_in_recovery() then pg_last_wal_receive_lsn() else pg_current_wal_lsn() end as lsn) now where slot_name = {}"""


def check_slot_health(
    query: Callable[[str], list[tuple[Any, ...]]], options: Mapping[str, str], where: str
) -> Iterator[Finding]:
    """Yield the findings about the slot of a connector. A new connector has none yet."""
    slot = options.get("slot.name", "debezium")
    for is_active, behind, kept in query(_STATE.format(quote_text(slot))):
        if not is_active:
            what = f"no connector reads the slot {slot}, and PostgreSQL keeps {kept / 1e9:.1f} GB of its log for it"
            drop = f"SELECT pg_drop_replication_slot({quote_text(slot)})"
            fix = f"headrace connect status FILE, then resume or restart the connector; if it is not used any more: {drop}"
            yield Finding(SLOT_INACTIVE, what, where, fix)
        if behind > _BEHIND:
            what = f"the slot {slot} is {behind / 1e9:.1f} GB of PostgreSQL's log behind"
            fix = "check the state and the load of the connector; for an idle database, set `heartbeat.action.query`"
            yield Finding(SLOT_BEHIND, what, where, fix)
