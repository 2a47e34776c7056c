"""Differences between two configurations of a connector, without the values of secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from headrace.sdk.options import has_secret_name

_REFERENCE = re.compile(r"\$\{[^{}]+\}")
_HIDDEN = "******"
#: Options that a pipeline's connector keeps: its offsets are positions in this database.
_IDENTITY = (
    "connector.class",
    "database.hostname",
    "database.port",
    "database.dbname",
    "database.names",
    "topic.prefix",
)


def describe_differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return one line per option that differs: ``+`` is new, ``-`` is removed, ``~`` changes."""
    return list(_describe(before, after))


def describe_takeover(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the changes which show that a deployed connector is not of this pipeline: another class, database or prefix."""
    keys = [key for key in _IDENTITY if before.get(key) and before[key] != after.get(key)]
    return [f"{key} is {show_option(key, before[key])}" for key in keys]


def find_plain_secrets(options: Mapping[str, str | None]) -> dict[str, str]:
    """Return the options whose names indicate secrets, and whose values have no reference."""
    return {key: text for key, text in options.items() if text and has_secret_name(key) and not _REFERENCE.search(text)}


def find_references(options: Mapping[str, str]) -> list[str]:
    """Return the config providers that the worker needs for the references in the options."""
    names = {match[1] for value in options.values() for match in re.finditer(r"\$\{([\w-]+):[^{}]*\}", value)}
    return sorted(names)


def _describe(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for key in sorted({*before, *after} - {"name"}):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        if old is None:
            yield f"+ {key}: {show_option(key, str(new))}"
        elif new is None:
            yield f"- {key}: {show_option(key, old)}"
        else:
            yield f"~ {key}: {show_option(key, old)} -> {show_option(key, new)}"


def show_option(key: str, value: str) -> str:
    """Return the value of an option for display: references as they are written, and no other secrets."""
    return _HIDDEN if _is_hidden(key, value) else value


def _is_hidden(key: str, value: str) -> bool:
    return has_secret_name(key) and not _REFERENCE.fullmatch(value)
