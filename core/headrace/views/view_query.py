"""SQL of a view: the tables and columns that it reads, its rows, and the keys that a change of a table touches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from sqlglot import exp

from headrace.errors import ConfigError
from headrace.views.column_usage import list_needed_columns
from headrace.views.common_tables import inline_common_tables
from headrace.views.key_filters import find_key_filters
from headrace.views.touched_keys import QueryRelaxation
from headrace.views.view_checks import (
    check_columns,
    check_derivable,
    check_every_run,
    check_tables,
    check_touched_by,
    check_touched_by_expression,
    not_one_expression,
)
from headrace.views.view_dialect import parse_query, print_sql, quote_name, refuse_deep_nesting
from headrace.views.view_text import ViewText, read_name

#: Relation of a table → text of a relation to read.
Relations = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ViewQuery:
    """SQL of a view, without the schemas of its tables. Names of tables and columns are equal in any case, as in Spark.

    A *relation* is text that Spark's SQL reads rows from, such as the name of a temporary view, in backquotes if necessary. Its
    columns have the names of the table's columns. Each mapping of relations contains all ``tables``.
    """

    #: Dotted names of the tables that the SQL reads, each once, as first written.
    tables: tuple[str, ...]
    key: tuple[str, ...]
    _text: ViewText = field(repr=False)
    _tree: exp.Query = field(repr=False, compare=False)
    _touched_by: Mapping[str, ViewText] = field(repr=False)

    @classmethod
    def parse(
        cls,
        sql: str,
        key: Sequence[str],
        touched_by: Mapping[str, Sequence[str]] | None = None,
        *,
        is_full: bool = False,
    ) -> Self:
        """Return the query of a view; ConfigError if it is refused, located inside of the SQL.

        ``touched_by``: table → expressions over its row that give the key columns in order; ``is_full``: the view is
        always computed whole, so that ``touched_keys_sql`` is never called.
        """
        with refuse_deep_nesting():
            return cls._parse(sql, key, touched_by or {}, is_full=is_full)

    @classmethod
    def _parse(cls, sql: str, key: Sequence[str], touched_by: Mapping[str, Sequence[str]], *, is_full: bool) -> Self:
        text = ViewText.parse(sql)
        check_tables(text)
        check_columns(text.tree, key)
        check_touched_by(touched_by, text.tables, key)
        if not is_full:
            check_every_run(text.tree)
        given = {
            table.lower(): _parse_expressions(table, expressions, key) for table, expressions in touched_by.items()
        }
        derived = [] if is_full else [name for name in text.tables if name.lower() not in given]
        if derived:
            check_derivable(text)
        query = cls(text.tables, tuple(key), text, _inline_text(text), given)
        names = {name: quote_name(name) for name in query.tables}
        for name in derived:
            query.touched_keys_sql(name, names, names[name])
        return query

    def needed_columns(self, table: str) -> frozenset[str] | None:
        """Return the columns of a table that the SQL may read, in lower case; None for all columns.

        The set may contain names that the table lacks, of columns without a qualifier that belong to other tables.
        """
        given = self._touched_by.get(table.lower())
        needed = list_needed_columns(self._tree, table)
        if needed is None or given is None:
            return needed
        return needed | (list_needed_columns(_inline_text(given), table) or frozenset())

    def touched_keys_sql(self, changed: str, names: Relations, changed_name: str) -> str:
        """Return SQL for the distinct keys of the view that changed rows of a table can touch.

        ``changed``: the table; ``changed_name``: relation of its changed rows, old and new. ``names``: table →
        relation of the rows that it had or has: the stored rows with the old rows of its queue, if it has a queue, also for
        ``changed``. The result has the key columns in order. It may contain keys that the view does not have, and nulls.
        """
        if given := self._touched_by.get(changed.lower()):
            return given.render({changed.lower(): changed_name})
        relations = {name.lower(): relation for name, relation in names.items()}
        uses = [
            table.meta["use"]
            for table in self._tree.find_all(exp.Table)
            if "use" in table.meta and read_name(table).lower() == changed.lower()
        ]
        keep = frozenset(name.lower() for name in self.key)
        columns = ", ".join(quote_name(name) for name in self.key)
        # A definition in WITH that the query does not use reads its table for nothing.
        parts = [] if uses else [_select_nothing(self.key, changed_name)]
        for use in uses:
            relaxed = QueryRelaxation(use, relations, changed_name).relax(self._tree, keep=keep)
            if hidden := [name for name in self.key if name.lower() in relaxed.columns.unknown]:
                raise ConfigError(
                    f"the key column {hidden[0]!r} is a result of an aggregate, a window function or a subquery",
                    where="sql",
                    fix="choose another key, give `touched_by:` for the tables that it reads, or set `recompute: full`",
                )
            parts += [f"SELECT {columns} FROM (\n{print_sql(select)}\n) AS q" for select in relaxed.selects]
        return f"SELECT DISTINCT {columns} FROM (\n" + "\nUNION ALL\n".join(parts) + "\n) AS q"

    def rows_sql(self, names: Relations) -> str:
        """Return the SQL over other relations; ``names``: table → relation of its stored rows."""
        return self._text.render({name.lower(): relation for name, relation in names.items()})

    def touched_rows_sql(
        self, names: Relations, touched_name: str, columns: Mapping[str, Collection[str]] | None = None
    ) -> str:
        """Return the SQL like ``rows_sql``, restricted to the keys in the relation ``touched_name``.

        ``columns``: table → its columns in lower case, if the touched keys have exactly the types of the view's key: tables
        that are joined by the key are then restricted before the join.
        """
        relations = {name.lower(): relation for name, relation in names.items()}
        existing = {name.lower(): found for name, found in (columns or {}).items()}
        uses = {
            start: _restrict(relations[table], touched_name, pairs)
            for start, table, filters in find_key_filters(self._text.tree, self.key)
            if (pairs := [pair for pair in filters if pair[0].lower() in existing.get(table, ())])
        }
        rows = self._text.render(relations, uses)
        return "SELECT headrace_view.* FROM " + _semi_join(
            f"(\n{rows}\n)", "headrace_view", touched_name, [(name, name) for name in self.key]
        )


def _restrict(relation: str, touched_name: str, pairs: Sequence[tuple[str, str]]) -> str:
    """Return the rows of a relation that have touched keys, as a relation; ``pairs``: its column and the key column."""
    return f"(SELECT headrace_table.* FROM {_semi_join(relation, 'headrace_table', touched_name, pairs)})"


def _semi_join(relation: str, alias: str, touched_name: str, pairs: Sequence[tuple[str, str]]) -> str:
    condition = " AND ".join(
        f"{alias}.{quote_name(column)} <=> headrace_touched.{quote_name(key)}" for column, key in pairs
    )
    return f"{relation} AS {alias}\nLEFT SEMI JOIN {touched_name} AS headrace_touched ON {condition}"


def _select_nothing(key: Sequence[str], relation: str) -> str:
    columns = ", ".join(f"NULL AS {quote_name(name)}" for name in key)
    return f"SELECT {columns} FROM {relation} WHERE FALSE"


def _parse_expressions(table: str, expressions: Sequence[str], key: Sequence[str]) -> ViewText:
    """Return a SELECT of the key columns from a table; ConfigError for other expressions than those over one row."""
    # The line break ends a comment of the expression.
    columns = ", ".join(f"({part}\n) AS {quote_name(name)}" for part, name in zip(expressions, key, strict=True))
    name = ".".join(quote_name(part) for part in table.split("."))
    text = ViewText.parse(f"SELECT DISTINCT {columns} FROM {name}")
    for item in text.tree.expressions:
        check_touched_by_expression(item.unalias())
    if len(text.tree.expressions) != len(key):
        raise not_one_expression(", ".join(expressions))
    return text


def _inline_text(text: ViewText) -> exp.Query:
    """Return the query with an alias and a number at each use of a table, and without WITH."""
    tree = inline_common_tables(parse_query(text.render({name.lower(): quote_name(name) for name in text.tables})))
    for number, table in enumerate(tree.find_all(exp.Table)):
        if isinstance(table.this, exp.Identifier):
            table.meta["use"] = number
    return tree
