"""Columns of tables from which the columns of a view are made."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.lineage import Node, lineage

from headrace.errors import ConfigError
from headrace.progress.lineage import ColumnSource
from headrace.views.view_dialect import ViewDialect, parse_query
from headrace.views.view_text import read_name

_LOG = logging.getLogger(__name__)
#: Relation of a table while its columns are found: dots of its name would be those of a schema.
_RELATION = "relation_{}"


def find_view_sources(
    sql: str, tables: Mapping[str, Mapping[str, str]], columns: Mapping[str, str]
) -> dict[str, frozenset[ColumnSource]]:
    """Return column of a view → the columns of tables from which it is made; empty if the SQL does not show them.

    ``tables``: table → column → type; ``columns``: those of the view.
    """
    relations = {table.lower(): _RELATION.format(number) for number, table in enumerate(tables)}
    names = {_RELATION.format(number): table for number, table in enumerate(tables)}
    schema: dict[str, object] = {
        _RELATION.format(number): dict.fromkeys(types, "string") for number, types in enumerate(tables.values())
    }
    try:
        tree = parse_query(sql)
        for use in list(tree.find_all(exp.Table)):
            if (relation := relations.get(read_name(use).lower())) is not None:
                alias = use.alias or use.name
                use.replace(exp.alias_(exp.table_(relation), alias, table=True))
        roots = {column: lineage(column, tree.copy(), schema=schema, dialect=ViewDialect) for column in columns}
        return {column: _find_sources(root, tables, names) for column, root in roots.items()}
    except (SqlglotError, ConfigError, RecursionError, ValueError, KeyError) as error:
        _LOG.debug("the columns of a view have no lineage: %s", type(error).__name__)
        return {}


def _find_sources(
    root: Node, tables: Mapping[str, Mapping[str, str]], names: Mapping[str, str]
) -> frozenset[ColumnSource]:
    """Return the columns of tables at the ends of a column's lineage. ``names``: relation → table."""
    found: set[ColumnSource] = set()
    waiting = [(root, False)]
    while waiting:
        node, is_changed = waiting.pop()
        table = names.get(node.source.name) if isinstance(node.source, exp.Table) else None
        if table is not None:
            name = node.name.rpartition(".")[2].strip('`"')
            known = {each.lower(): each for each in tables[table]}
            found |= {ColumnSource(table, known[name.lower()], is_changed)} if name.lower() in known else set()
        is_changed = is_changed or not _is_copy(node)
        waiting += [(each, is_changed) for each in node.downstream]
    return frozenset(found)


def _is_copy(node: Node) -> bool:
    return isinstance(node.expression.unalias(), exp.Column | exp.Table | exp.SetOperation)
