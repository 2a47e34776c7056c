"""JDBC source connectors of Confluent and Aiven: the topics that they write."""

from __future__ import annotations

from headrace_import.connect.smt import split_list
from headrace_import.connect.topics import Topics, quote_pattern
from headrace_import.settings import Settings

CLASSES = ("io.confluent.connect.jdbc.JdbcSourceConnector", "io.aiven.connect.jdbc.JdbcSourceConnector")


def read_topics(settings: Settings) -> Topics:
    """Return the topics of a connector."""
    why = "a JDBC source does not see deletes, and may miss changes between two polls"
    settings.add_to_do(["connector.class"], why, "replace it with a Debezium connector")
    prefix = settings.get("topic.prefix")
    if settings.get("query"):
        return Topics((prefix,), comment=settings.cite("topic.prefix", "query"))
    tables = settings.find("table.whitelist", "table.include.list", "table.include")
    if tables:
        names = [prefix + table.rpartition(".")[2] for table in split_list(settings.get(tables))]
        return Topics(tuple(names), comment=settings.cite("topic.prefix", tables))
    settings.ignore(["table.blacklist", "table.exclude"], "the pattern of topics includes the excluded tables")
    return Topics(pattern=f"{quote_pattern(prefix)}.+", comment=settings.cite("topic.prefix"))
