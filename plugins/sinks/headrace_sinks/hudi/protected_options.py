"""Options of Hudi's that are not for the user to choose, for rows would not be right with another value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.sdk import ConfigError, Table, TableMode
from headrace.sdk.changes import POSITION

_WRITE = "hoodie.datasource.write."
RECORD_KEY = f"{_WRITE}recordkey.field"


@dataclass(frozen=True)
class _Kept:
    """An option, the value that it keeps (None: whatever Hudi itself has), and what any other would do."""

    value: str | None
    otherwise: str


_ORDER = "changes that come late would win over newer ones"
_KEPT: Mapping[str, _Kept] = {
    f"{_WRITE}operation": _Kept("upsert", "rows would be there twice, or be gone that nobody removed"),
    f"{_WRITE}insert.drop.duplicates": _Kept("false", "changes of rows that are there would be left out"),
    f"{_WRITE}precombine.field": _Kept(POSITION, _ORDER),
    "hoodie.table.precombine.field": _Kept(POSITION, _ORDER),
    "hoodie.table.ordering.fields": _Kept(POSITION, _ORDER),
    "hoodie.write.record.merge.mode": _Kept("EVENT_TIME_ORDERING", _ORDER),
    "hoodie.record.merge.mode": _Kept("EVENT_TIME_ORDERING", _ORDER),
    f"{_WRITE}payload.class": _Kept(None, _ORDER),
    "hoodie.compaction.payload.class": _Kept(None, _ORDER),
    "hoodie.populate.meta.fields": _Kept("true", "no index would find a row"),
}


def check_options(options: Mapping[str, str]) -> None:
    """ConfigError for one of the user's with which rows would not be right."""
    for option, kept in _KEPT.items():
        value = options.get(option)
        if value is not None and (kept.value is None or value.lower() != kept.value.lower()):
            raise ConfigError(
                f"with {value!r} {kept.otherwise}",
                where=f"sink hudi, {option}",
                fix="leave the option out" + (f": it is {kept.value}" if kept.value else ""),
            )


def name_record_key(table: Table, mode: TableMode) -> str:
    """The columns of a record's key, as Hudi has them."""
    # Appended rows have positions of their own: with them as keys, appending a batch again changes nothing.
    return ",".join(table.key) if mode == "upsert" else POSITION


def check_record_key(options: Mapping[str, str], table: Table, mode: TableMode) -> None:
    """ConfigError where the user names another key than the table's."""
    value, kept = options.get(RECORD_KEY), name_record_key(table, mode)
    if value is not None and [name.strip() for name in value.split(",")] != kept.split(","):
        raise ConfigError(
            f"the table's rows are told apart by {kept}, and with {value!r} there would be one twice, or one in another's place",
            where=f"table {table.name}, sink hudi, {RECORD_KEY}",
            fix="leave the option out; another key is named under `tables:` (`key: […]`)",
        )
