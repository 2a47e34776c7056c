"""Options of Hudi that have one allowed value, as rows would be wrong with any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.sdk import ConfigError, Table, TableMode
from headrace.sdk.changes import POSITION
from headrace_sinks.hudi.record_keys import RECORD_KEY

_WRITE = "hoodie.datasource.write."


@dataclass(frozen=True)
class _Protected:
    """Allowed value of an option (None: Hudi's default), and the damage that another value does."""

    value: str | None
    damage: str


_ORDER = "late changes would overwrite newer ones"
_PROTECTED: Mapping[str, _Protected] = {
    f"{_WRITE}operation": _Protected("upsert", "rows would be duplicated or lost"),
    f"{_WRITE}insert.drop.duplicates": _Protected("false", "changes of existing rows would be dropped"),
    f"{_WRITE}precombine.field": _Protected(POSITION, _ORDER),
    "hoodie.table.precombine.field": _Protected(POSITION, _ORDER),
    "hoodie.table.ordering.fields": _Protected(POSITION, _ORDER),
    "hoodie.write.record.merge.mode": _Protected("EVENT_TIME_ORDERING", _ORDER),
    "hoodie.record.merge.mode": _Protected("EVENT_TIME_ORDERING", _ORDER),
    f"{_WRITE}payload.class": _Protected(None, _ORDER),
    "hoodie.compaction.payload.class": _Protected(None, _ORDER),
    "hoodie.populate.meta.fields": _Protected("true", "the index would find no row"),
}


def check_options(options: Mapping[str, str]) -> None:
    """Raise ConfigError for a configured option with which rows would be wrong."""
    for option, protected in _PROTECTED.items():
        value = options.get(option)
        if value is not None and (protected.value is None or value.lower() != protected.value.lower()):
            raise ConfigError(
                f"with {value!r} {protected.damage}",
                where=f"sink hudi, {option}",
                fix="remove the option" + (f": headrace sets {protected.value}" if protected.value else ""),
            )


def check_record_key(options: Mapping[str, str], table: Table, mode: TableMode) -> None:
    """Raise ConfigError if an option sets a key that differs from the table's key."""
    value, key = options.get(RECORD_KEY), list(table.key) if mode == "upsert" else [POSITION]
    if value is not None and [name.strip() for name in value.split(",")] != key:
        raise ConfigError(
            f"the key of the table is {','.join(key)}; with {value!r} rows would be duplicated or overwritten",
            where=f"table {table.name}, sink hudi, {RECORD_KEY}",
            fix="remove the option; to use another key, set `key: […]` under `tables:`",
        )
