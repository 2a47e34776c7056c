"""Defaults of Debezium's connectors that fit the pipeline, for options that the block does not name."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from headrace.sdk.options import option_text
from headrace_connect.connector_class import resolve_class
from headrace_connect.record_converters import list_converter_options
from headrace_connect.source_block import find_brokers

Options = Mapping[str, str | None]

#: Of every connector. Kafka Connect keeps the last position of an idle database only with heartbeats. Truncates are applied to tables.
_COMMON = {"tasks.max": "1", "heartbeat.interval.ms": "10000", "skipped.operations": "none"}
#: Limit of PostgreSQL for the names of slots and publications.
_LONGEST_NAME = 63


def complete_options(options: Options, name: str, pipeline: Mapping[str, Any]) -> dict[str, str]:
    """Return the configuration of the connector ``name`` with the defaults for its class and the pipeline file.

    An option without a value removes its default.
    """
    prefix = options.get("topic.prefix") or re.sub(r"[^a-zA-Z0-9._-]", "_", name)
    defaults: dict[str, str] = {}
    if add := _BY_CLASS.get(resolve_class(str(options["connector.class"]), DEBEZIUM_CLASSES)):
        defaults |= {"topic.prefix": prefix} | _COMMON | _read_placeholder(pipeline) | add(prefix, options, pipeline)
    merged: dict[str, str | None] = {**defaults, **list_converter_options(pipeline), **options}
    for part in ("key", "value"):
        if f"{part}.converter" in options:  # the options of another converter do not belong to it
            merged = {
                key: value for key, value in merged.items() if key in options or not key.startswith(f"{part}.converter")
            }
    return {key: value for key, value in merged.items() if value is not None}


def _read_placeholder(pipeline: Mapping[str, Any]) -> dict[str, str]:
    """Return the placeholder of unavailable values that the pipeline expects, if it is not Debezium's own."""
    dialect = (pipeline.get("dialects") or {}).get("debezium") or {}
    key = "unavailable.value.placeholder"
    return {key: option_text(dialect[key])} if key in dialect else {}


def _list_postgresql(prefix: str, options: Options, _: Mapping[str, Any]) -> dict[str, str]:
    name = re.sub(r"[^a-z0-9_]", "_", prefix.lower())[:_LONGEST_NAME]
    return {
        # The plugin of PostgreSQL itself; Debezium's default needs an extension.
        "plugin.name": "pgoutput",
        # With the default names, a second connector takes the slot of the first.
        "slot.name": name,
        "publication.name": name,
        # A publication of all tables requires a superuser.
        "publication.autocreate.mode": "filtered",
        **_SIGNALS["postgresql"](options),
    }


def _list_mysql(prefix: str, options: Options, pipeline: Mapping[str, Any]) -> dict[str, str]:
    # Two connectors with one id end each other's connections; servers mostly have low ids.
    server_id = str(zlib.crc32(prefix.encode()) % 2_000_000_000 + 100_000)
    return {"database.server.id": server_id, **_list_history(prefix, pipeline), **_SIGNALS["mysql"](options)}


def _list_sqlserver(prefix: str, options: Options, pipeline: Mapping[str, Any]) -> dict[str, str]:
    return {**_list_history(prefix, pipeline), **_SIGNALS["sqlserver"](options)}


def _list_history(prefix: str, pipeline: Mapping[str, Any]) -> dict[str, str]:
    """Return the place of the schema history: the brokers of the source, and a topic outside the connector's prefix."""
    brokers = find_brokers(pipeline)
    start = "schema.history.internal.kafka"
    return {
        f"{start}.topic": f"schema-history.{prefix}",
        **({f"{start}.bootstrap.servers": brokers} if brokers else {}),
    }


def _signal_table(database_key: str | None, table: str) -> Callable[[Options], dict[str, str]]:
    """Return a function that names the signal table; it is empty without one database under ``database_key``."""

    def name_table(options: Options) -> dict[str, str]:
        database = str(options.get(database_key) or "") if database_key else ""
        if database_key and not re.fullmatch(r"\w+", database):
            return {}
        return {"signal.data.collection": ".".join(part for part in (database, table) if part)}

    return name_table


_SIGNALS = {
    "postgresql": _signal_table(None, "debezium.signals"),
    "mysql": _signal_table("database.include.list", "signals"),
    "sqlserver": _signal_table("database.names", "dbo.signals"),
}
_BY_CLASS: Mapping[str, Callable[[str, Options, Mapping[str, Any]], dict[str, str]]] = {
    "io.debezium.connector.postgresql.PostgresConnector": _list_postgresql,
    "io.debezium.connector.mysql.MySqlConnector": _list_mysql,
    "io.debezium.connector.mariadb.MariaDbConnector": _list_mysql,
    "io.debezium.connector.sqlserver.SqlServerConnector": _list_sqlserver,
}
#: Classes with defaults.
DEBEZIUM_CLASSES = tuple(_BY_CLASS)
