"""Choice of the dialects that read a pipeline's events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.errors import PluginError
from headrace.registry.plugin_errors import as_plugin_error
from headrace.registry.plugin_registry import PluginRegistry
from headrace.registry.registration import OWN
from headrace.sdk.dialect import Dialect
from headrace.sdk.plugin import Plugin

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

#: Description of a dialect → the dialect.
FallbackDialects = Mapping[str, Dialect]


def choose_dialects(
    registry: PluginRegistry, named: Sequence[Dialect], readers: Iterable[Plugin]
) -> tuple[tuple[Dialect, ...], FallbackDialects]:
    """Return the active dialects by priority, and the fallback dialects, used if no active one matches.

    ``named``: dialects of the pipeline file; ``readers``: the pipeline's source and formats. Dialects of headrace and of the
    readers' distributions are active; an installed dialect of another distribution is a fallback.
    """
    active_distributions = {OWN, *filter(None, map(registry.distribution_of, readers))}
    active_dialects: dict[str, Dialect] = {}
    fallback_dialects: dict[str, Dialect] = {}
    for item in registry.registrations():
        if item.kind != "dialect" or any(dialect.name == item.name for dialect in named):
            continue
        if item.distribution_name in active_distributions:
            active_dialects[item.name] = registry.build(item)
        else:
            with suppress(PluginError):  # `headrace plugins` reports it.
                fallback_dialects[str(item)] = registry.build(item)
    return tuple(sorted([*active_dialects.values(), *named], key=lambda dialect: dialect.priority)), fallback_dialects


def matches_schema(dialect: Dialect, schema: StructType) -> bool:
    """Return whether a dialect matches events of this schema. PluginError with the dialect's name if it raises."""
    with as_plugin_error(f"the dialect {dialect.name!r} failed to match events", PluginError):
        if dialect.matches(schema):
            return True
    return False


def find_fallback_dialects(fallback_dialects: FallbackDialects, schema: StructType) -> FallbackDialects:
    """Return the fallback dialects that match events of this schema, without those that raise."""
    found = {}
    for description, dialect in fallback_dialects.items():
        with suppress(PluginError):
            if matches_schema(dialect, schema):
                found[description] = dialect
    return found
