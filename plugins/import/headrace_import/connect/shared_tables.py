"""Topics that the rules of the pipeline file write to one table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any

from headrace_import.connect.topics import Topics
from headrace_import.import_report import Kind
from headrace_import.pipeline_draft import Block, Blocks, read_values
from headrace_import.settings import Settings


def report_shared_tables(draft: Block, topics: Topics, sources: Sequence[Settings], sinks: Sequence[Settings]) -> None:
    """Report several topics of one table: a row replaces the row of another topic that has the same key."""
    places = [settings.place for settings in (*sources, *sinks)]
    tables = draft.entries.get("tables")
    rules = [read_values(rule) for rule in tables.items] if isinstance(tables, Blocks) else []
    topics_by_table: dict[str, list[str]] = {}
    for topic in topics.names:
        if table := _find_table(rules, topic):
            topics_by_table.setdefault(table, []).append(topic)
    for table, shared in topics_by_table.items():
        if len(shared) > 1:
            _report(sources or sinks, places, f"the topics {', '.join(shared)} become the table {table}")
    if topics.pattern and len(sources) > 1 and any(map(_drops_prefix, rules)):
        _report(sources, places, "topics that differ only in their prefixes become one table")


def _report(connectors: Sequence[Settings], places: Sequence[str], what: str) -> None:
    why = f"{what}, where a row replaces a row of another topic with the same key"
    fix = "check that their keys differ, or give each topic a rule with its own `target:` under `tables:`"
    connectors[0].report.add(Kind.TO_DO, ", ".join(dict.fromkeys(places)), (), why, fix)


def _find_table(rules: Sequence[Mapping[str, Any]], topic: str) -> str | None:
    """Return the table of a topic; None if it has several, or if its rows are known to have keys of their own."""
    for rule in rules:
        groups = match_source(str(rule["source"]), topic)
        if groups is None:
            continue
        if "route.by.field" in rule or "logical.table" in rule:
            return None
        parts = topic.split(".")
        names = {"topic": topic, "prefix": parts[0], "db": parts[-3:][0], "schema": parts[-2:][0], "table": parts[-1]}
        with suppress(LookupError, ValueError):  # A reference in the target.
            return str(rule.get("target", topic)).format(topic, *groups, **names)
        return None
    return topic


def match_source(source: str, topic: str) -> Sequence[str] | None:
    """Return the groups of a rule's source in a topic that it matches."""
    if not (len(source) > 1 and source.startswith("/") and source.endswith("/")):
        return () if fnmatchcase(topic, source) else None
    found = re.fullmatch(source[1:-1], topic)
    return found.groups("") if found else None


def _drops_prefix(rule: Mapping[str, Any]) -> bool:
    return "target" in rule and not re.search(r"\{(topic|prefix|0)\}", str(rule["target"]))
