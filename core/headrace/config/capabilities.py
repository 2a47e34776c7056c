"""Capabilities of plugins, from their attributes and from the methods that they override."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.sdk.source import NativeSource, RangedSource

Plugin = type[Any]


@dataclass(frozen=True)
class Capability:
    """Capability that plugins of a kind may have."""

    name: str
    #: Description for users.
    meaning: str
    has: Callable[[Plugin], bool]


def list_capabilities(kind: str, plugin: Plugin) -> list[str]:
    """Return the names of a plugin's capabilities, in the order of their table."""
    return [capability.name for capability in (*CAPABILITIES.get(kind, ()), CONNECT) if capability.has(plugin)]


def _overrides(*methods: str) -> Callable[[Plugin], bool]:
    """Return a test for plugins that override one of these methods."""
    return lambda plugin: any(_has_own(plugin, method) for method in methods)


def _has_own(plugin: Plugin, method: str) -> bool:
    owners = [cls for cls in plugin.__mro__ if method in vars(cls)]
    return len(owners) > 1


def _has_flag(attribute: str) -> Callable[[Plugin], bool]:
    """Return a test for a class attribute that is True."""
    return lambda plugin: getattr(plugin, attribute, False) is True


def _claims(name: str) -> Callable[[Plugin], bool]:
    return lambda plugin: getattr(plugin.capabilities, name, False) is True


def _derives(base: type) -> Callable[[Plugin], bool]:
    return lambda plugin: issubclass(plugin, base)


def _make(*rows: tuple[str, Callable[[Plugin], bool], str]) -> tuple[Capability, ...]:
    return tuple(Capability(name, meaning, has) for name, has, meaning in rows)


(CONNECT,) = _make(("connect", _overrides("connect"), "`headrace check --connect` tries its connections"))
#: Kind → capabilities.
CAPABILITIES = {
    "source": _make(
        ("native", _derives(NativeSource), "a Spark stream; Spark keeps its offsets"),
        ("ranged", _derives(RangedSource), "headrace stores each range of offsets before it is read"),
        ("records", _has_flag("yields_records"), "it yields bytes, which the format in `value:` decodes"),
        ("replay", _overrides("replay_range"), "a failed table catches up while the others continue"),
        (
            "sample_records",
            _overrides("sample_records"),
            "columns are read from existing records before the first batch",
        ),
        ("known_schemas", _overrides("known_schemas"), "columns are known before the stream starts"),
        ("lag", _overrides("lag", "lag_ms"), "number of waiting records, or delay of the table"),
    ),
    "format": _make(
        ("records", _overrides("open"), "`value:` and `key:` of sources that yield bytes"),
        ("files", _overrides("scans"), "`format:` of files that contain their schema"),
        ("catalogs", _overrides("describe_storage"), "a catalog can have tables of its files (`sync:`)"),
    ),
    "dialect": _make(
        ("unavailable", _overrides("unavailable_tests"), "it detects values that the database omitted"),
        ("metadata", _overrides("metadata_topic"), "it detects topics without rows"),
        ("shared topics", _overrides("source_table"), "tables that share a topic are separated"),
    ),
    "connector": _make(
        ("whole rows", _has_flag("sends_whole_rows"), "events hold every value of a row"),
        (
            "snapshot start",
            _overrides("snapshot_start"),
            "a transaction that was open during a snapshot is not older than the snapshot",
        ),
    ),
    "transform": _make(
        ("flattens", _has_flag("flattens"), "envelopes become rows"),
        ("filters", _has_flag("filters"), "it removes changes, which are counted"),
        ("hides values", _has_flag("hides_values"), "dead letters hold its output, not its input"),
    ),
    "sink": _make(
        ("upsert", _claims("upsert"), "one row per key, the newest"),
        ("delete", _claims("delete"), "rows are removed"),
        ("schema evolution", _claims("schema_evolution"), "new columns are added"),
        ("exactly once", _claims("exactly_once"), "a repeated batch changes nothing"),
        ("time travel", _claims("time_travel"), "older versions of a table can be read (`as_of`)"),
        ("readable", _claims("readable"), "headrace reads its tables back: `show`, and `from:` of views"),
        ("single pass", _claims("single_pass"), "a batch is read once, without a cache"),
        ("concurrent writers", _claims("concurrent_writers"), "two pipelines may write a table at the same time"),
    ),
    "auth": _make(
        ("finds brokers", _has_flag("finds_brokers"), "`bootstrap.servers` may be omitted"),
        ("tokens", _overrides("token"), "Python clients can authenticate with it"),
    ),
}
