"""Differences between two configurations of a connector."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from headrace_connect.connector_class import is_same_class
from headrace_connect.connector_secrets import ConnectorSecrets

#: Options that a pipeline's connector keeps: its offsets are positions in this database.
_IDENTITY = (
    "connector.class",
    "database.hostname",
    "database.port",
    "database.dbname",
    "database.names",
    "topic.prefix",
)


def describe_differences(before: Mapping[str, str], after: Mapping[str, str], secrets: ConnectorSecrets) -> list[str]:
    """Return one line per option that differs: ``+`` is new, ``-`` is removed, ``~`` changes. Secrets are hidden."""
    return list(_describe(before, after, secrets))


def describe_takeover(before: Mapping[str, str], after: Mapping[str, str], secrets: ConnectorSecrets) -> list[str]:
    """Return the changes which show that a deployed connector is not of this pipeline: another class, database or prefix."""
    keys = [key for key in _IDENTITY if before.get(key) and before[key] != after.get(key)]
    if is_same_class(before.get("connector.class", ""), after["connector.class"]):
        keys = [key for key in keys if key != "connector.class"]
    return [f"{key} is {secrets.show_value(key, before[key])}" for key in keys]


def find_references(options: Mapping[str, str]) -> list[str]:
    """Return the config providers that the worker needs for the references in the options."""
    names = {match[1] for value in options.values() for match in re.finditer(r"\$\{([\w-]+):[^{}]*\}", value)}
    return sorted(names)


def _describe(before: Mapping[str, str], after: Mapping[str, str], secrets: ConnectorSecrets) -> Iterator[str]:
    for key in sorted({*before, *after} - {"name"}):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        name = secrets.show_key(key)
        if old is None:
            yield f"+ {name}: {secrets.show_value(key, str(new))}"
        elif new is None:
            yield f"- {name}: {secrets.show_value(key, old)}"
        else:
            yield f"~ {name}: {secrets.show_value(key, old)} -> {secrets.show_value(key, new)}"
