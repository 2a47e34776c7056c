"""What a plugin can do: by what it says of itself, and by the methods that it brings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from headrace.sdk.source import NativeSource, RangedSource

Plugin = type[Any]


@dataclass(frozen=True)
class Capability:
    """One thing that a plugin of a kind may be able to do."""

    name: str
    #: What that means to whoever runs it.
    meaning: str
    has: Callable[[Plugin], bool]


def list_capabilities(kind: str, plugin: Plugin) -> list[str]:
    """Return the names of a plugin's capabilities, in the order of their table."""
    return [capability.name for capability in (*CAPABILITIES.get(kind, ()), CONNECT) if capability.has(plugin)]


def _brings(*methods: str) -> Callable[[Plugin], bool]:
    """Whether a plugin brings any of these methods: whether it is not that of the class that named it first."""
    return lambda plugin: any(_has_own(plugin, method) for method in methods)


def _has_own(plugin: Plugin, method: str) -> bool:
    owners = [cls for cls in plugin.__mro__ if method in vars(cls)]
    return len(owners) > 1


def _says(attribute: str) -> Callable[[Plugin], bool]:
    """Whether a plugin says so, whatever its options are."""
    return lambda plugin: getattr(plugin, attribute, False) is True


def _claims(name: str) -> Callable[[Plugin], bool]:
    return lambda plugin: getattr(plugin.capabilities, name, False) is True


def _derives(base: type) -> Callable[[Plugin], bool]:
    return lambda plugin: issubclass(plugin, base)


def _make(*rows: tuple[str, Callable[[Plugin], bool], str]) -> tuple[Capability, ...]:
    return tuple(Capability(name, meaning, has) for name, has, meaning in rows)


(CONNECT,) = _make(("connect", _brings("connect"), "`headrace check --connect` tries what it talks to"))
#: Kind → what there is.
CAPABILITIES = {
    "source": _make(
        ("native", _derives(NativeSource), "Spark streams it and keeps its offsets"),
        ("ranged", _derives(RangedSource), "headrace writes down each range before it is read"),
        ("records", _says("yields_records"), "it gives bytes, and `value:` says how they are read"),
        ("replay", _brings("replay_range"), "a table that fails alone catches up, while the others go on"),
        (
            "sample_records",
            _brings("sample_records"),
            "columns are looked for in records that are there, before the first batch",
        ),
        ("known_schemas", _brings("known_schemas"), "columns are known before it starts"),
        ("lag", _brings("lag", "lag_ms"), "how many records wait, or how late the table is"),
    ),
    "format": _make(
        ("records", _brings("open"), "`value:` and `key:` of sources that give bytes"),
        ("files", _brings("scans"), "`format:` of files that carry their schema"),
        ("catalogs", _brings("describe_storage"), "tables of its files can be in a catalog (`sync:`)"),
    ),
    "dialect": _make(
        ("unavailable", _brings("unavailable_tests"), "it knows values that the database left out"),
        ("metadata", _brings("metadata_topic"), "it knows topics that hold no rows"),
        ("shared topics", _brings("source_table"), "tables that share a topic come apart"),
    ),
    "connector": _make(
        ("whole rows", _says("sends_whole_rows"), "events hold every value of a row"),
        (
            "snapshot start",
            _brings("snapshot_start"),
            "a transaction that was open during a snapshot is not older than the snapshot",
        ),
    ),
    "transform": _make(
        ("flattens", _says("flattens"), "envelopes become rows"),
        ("filters", _says("filters"), "it leaves changes out, and they are counted"),
        ("hides values", _says("hides_values"), "dead letters hold what it gave, not what came in"),
    ),
    "sink": _make(
        ("upsert", _claims("upsert"), "one row per key, the newest"),
        ("delete", _claims("delete"), "rows are removed"),
        ("schema evolution", _claims("schema_evolution"), "new columns are added"),
        ("exactly once", _claims("exactly_once"), "a batch that comes again changes nothing"),
        ("time travel", _claims("time_travel"), "a table can be read as it was (`as_of`)"),
        ("single pass", _claims("single_pass"), "a batch is read once, without a cache"),
        ("concurrent writers", _claims("concurrent_writers"), "two pipelines may write a table at once"),
    ),
    "auth": _make(
        ("finds brokers", _says("finds_brokers"), "`bootstrap.servers` may be left out"),
        ("tokens", _brings("token"), "clients in Python log in with it, too"),
    ),
}


def list_lines(plugin: Plugin, lines: tuple[str, ...] = ("3.5", "4.0")) -> Iterator[str]:
    """Yield the Spark lines that a plugin supports."""
    return (line for line in lines if line not in plugin.refuses)
