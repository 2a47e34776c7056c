"""Positions in database logs, from the source blocks of Debezium's events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from headrace.sdk import PluginError, Subject, UnknownSchemaError, changes as C
from headrace.sdk.error_text import full_text
from headrace.sdk.plugin_lookup import get_registry
from headrace.sdk.positions import OFFSET_ORDER, position
from headrace.sdk.schemas import fail_on_unknown_schema, find_unknown_schemas

if TYPE_CHECKING:
    from pyspark.sql import Column

    from headrace.sdk import Connector

    #: Returns a source block's field by its name.
    GetField = Callable[[str], Column]

#: Operation of a snapshot's rows. Rows without a position are older than all changes, because the connector had not read the log yet.
SNAPSHOT_OP = "r"
#: Name in the errors of tasks that read an event without a position.
_DECODER = "position"
#: The field of a source block that names the connector.
CONNECTOR_NAME = "connector"
#: Values of ``source.snapshot`` that mark a row of a snapshot. Old connectors send a boolean, which casts to ``true``. The rows
#: of an ``incremental`` snapshot are not marked: it is read in chunks while changes continue.
_LAST_ROW = ("last_in_data_collection", "last")
_SNAPSHOT_ROW = ("true", "first", "first_in_data_collection", *_LAST_ROW)


@dataclass(frozen=True)
class Connectors:
    """Connectors that can be used. ``usable``: by priority, built-in ones first among equals."""

    usable: tuple[Connector, ...]
    third_party: tuple[Connector, ...]


def load_connectors() -> Connectors:
    """Return the connectors of this process."""
    return _load_connectors(get_registry())


def find_unusable_connectors() -> list[str]:
    """Return why installed connectors cannot be used."""
    return get_registry().find_unusable("connector")


def find_connector(fields: Collection[str]) -> Connector | None:
    """Return the connector whose events have these source fields; None if no connector matches."""
    return next((connector for connector in load_connectors().usable if connector.matches(fields)), None)


def list_position_fields() -> list[str]:
    """Return the source fields by which connectors are chosen, or from which they make positions."""
    usable = load_connectors().usable
    return list(dict.fromkeys(field for c in usable for field in (*c.fields, *c.foreign_fields)))


def list_own_orders(fields: Collection[str]) -> list[str]:
    """Return the names of the orders whose identifying fields are all among the source fields."""
    owners = (c for c in load_connectors().usable if c.own_fields and set(c.own_fields) <= set(fields))
    return sorted({connector.order for connector in owners})


def name_order(fields: Collection[str]) -> str:
    """Return the name of the order of events whose source block has ``fields``."""
    connector = find_connector(fields)
    return connector.order if connector else OFFSET_ORDER


def read_log_position(
    connector: Connector | None, fields: Collection[str], field: GetField, is_change: Column
) -> tuple[Sequence[Column], Column]:
    """Return the parts of an event's position in the database's log, and whether it needs one and has none.

    No parts without a connector. ``fields``: the source fields that the events have; ``is_change``: false for rows of a snapshot,
    which may lack a position. All events need one that name a connector with another order: their fields only have equal names.
    """
    from pyspark.sql import functions as F

    if connector is None:
        return (), F.lit(False)
    source = {name: field(name) for name in connector.fields if name in fields}
    lacks_position = is_change & connector.lacks_position(source)
    if CONNECTOR_NAME in fields:
        names = sorted(c.name for c in load_connectors().usable if c.order == connector.order)
        is_known = F.coalesce(field(CONNECTOR_NAME).isin(*names), F.lit(True))  # null: no connector is named
        source = {name: F.when(is_known, column) for name, column in source.items()}
        lacks_position |= ~is_known
    return connector.log_position(source), lacks_position


def fail_without_position(topic: str, lacks_position: Column) -> Column:
    """Return a null column that fails the task for an event without a position, in a topic that is ordered by positions.

    The batch is then planned again, with the record's offset as the order of the topic (``Events.by_offset``).
    """
    from pyspark.sql import functions as F

    failure = fail_on_unknown_schema(_DECODER, Subject(topic, "position"), F.lit(""))
    return F.when(lacks_position, failure.cast("string"))


def explain_missing_position(error: BaseException) -> UnknownSchemaError | None:
    """Return the error for an event without a position; None for other errors."""
    found = find_unknown_schemas(_DECODER, full_text(error))
    if not found:
        return None
    return UnknownSchemaError(
        "an event has no position in the database's log, unlike earlier events",
        where=f"topic {found[0][0].topic}",
        fix="run it again: the batch is planned with the record's offset as the order of the topic",
        schemas=found,
    )


def position_pattern(fields: Collection[str]) -> str:
    """Return a regular expression of the part of a ``source_position`` between the epoch and the place."""
    connector = find_connector(fields)
    return connector.pattern if connector else ""


def snapshot_columns(
    connector: Connector | None, log_position: Sequence[Column], marker: Column | None
) -> list[Column]:
    """Return the column SNAPSHOT, made from ``source.snapshot`` (``marker``); no column without a marker or a connector."""
    from pyspark.sql import functions as F

    if marker is None or connector is None:
        return []
    parts = connector.snapshot_start(log_position)
    text = marker.cast("string")
    row = F.struct(position(*parts, place=F.lit("")).alias("began"), text.isin(*_LAST_ROW).alias("is_last"))
    return [F.when(text.isin(*_SNAPSHOT_ROW), row).alias(C.SNAPSHOT)]


@cache
def _load_connectors(plugins: Any) -> Connectors:
    usable: list[tuple[Any, Connector]] = []
    for item in plugins.registrations():
        if item.kind == "connector":
            with suppress(PluginError):  # find_unusable_connectors returns it
                usable.append((item, plugins.build(item)))
    usable.sort(key=lambda loaded: (loaded[1].priority, not loaded[0].is_own))
    return Connectors(
        usable=tuple(connector for _, connector in usable),
        third_party=tuple(connector for item, connector in usable if not item.is_own),
    )
