"""Topics of the tables that a connector captures."""

from __future__ import annotations

import re
from collections.abc import Mapping


def list_topics(options: Mapping[str, str]) -> list[str]:
    """Return the topics of the tables in ``table.include.list``; empty if one of them is a regular expression."""
    tables = [item.strip().replace("\\.", ".") for item in options.get("table.include.list", "").split(",")]
    prefix, databases = options.get("topic.prefix"), [""]
    is_renamed = any(key in options for key in ("topic.naming.strategy", "topic.delimiter", "transforms"))
    if not prefix or is_renamed or not all(re.fullmatch(r"[\w$-]+(\.[\w$-]+)+", table) for table in tables):
        return []
    if "database.names" in options:  # SQL Server: the topic has the database, the table in the list does not
        databases = [f"{name.strip()}." for name in options["database.names"].split(",")]
    return [re.sub(r"[^a-zA-Z0-9._-]", "_", f"{prefix}.{base}{table}") for base in databases for table in tables]
