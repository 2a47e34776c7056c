"""Text of a view's SQL, with places for the relations that its tables are read from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from headrace.views.common_tables import find_common_table
from headrace.views.view_dialect import parse_query, quote_name, tokenize_sql

#: Function that returns the relation of a table in lower case, for the use that starts at an offset of the text.
_FindRelation = Callable[[str, int], str]
#: Part of the text from one offset to another, and the function that returns its replacement.
_Splice = tuple[int, int, Callable[[_FindRelation], str]]


@dataclass(frozen=True, slots=True)
class ViewText:
    """SQL of a view. Everything except names of tables stays as the user wrote it, so that Spark reads the same SQL.

    ``tables``: the dotted names that the SQL reads, each once, as first written; ``tree``: the SQL as the user wrote it.
    """

    tables: tuple[str, ...]
    text: str
    tree: exp.Query
    splices: tuple[_Splice, ...]

    @classmethod
    def parse(cls, sql: str) -> ViewText:
        """Return the text with its tables located; ConfigError if it is not one SELECT."""
        tokens = tokenize_sql(sql)
        tree = parse_query(sql, tokens)
        uses = [table for table in tree.find_all(exp.Table) if _is_base_table(table)]
        aliases = _choose_aliases(uses)
        splices = [_splice_table(table, aliases) for table in uses]
        splices += _splice_columns(tree, aliases)
        splices.sort(key=lambda splice: splice[0])
        names = {name.lower(): name for name in reversed([read_name(use) for use in uses])}
        tables = dict.fromkeys(names[read_name(use).lower()] for use in sorted(uses, key=find_start))
        return cls(tuple(tables), sql[: tokens[-1].end + 1], tree, tuple(splices))

    def render(self, relations: Mapping[str, str], uses: Mapping[int, str] | None = None) -> str:
        """Return the SQL over other relations.

        ``relations``: table in lower case → text of a relation; ``uses``: start of a use of a table → relation of this use alone.
        """
        parts, position, own = [], 0, uses or {}
        for start, end, replace in self.splices:
            parts += [self.text[position:start], replace(lambda table, use: own.get(use) or relations[table])]
            position = end
        return "".join([*parts, self.text[position:]])


def read_name(table: exp.Table) -> str:
    """Return a table's dotted name: `shop.orders` and `` `shop.orders` `` are one table."""
    return ".".join(part.name for part in table.parts)


def _is_base_table(table: exp.Table) -> bool:
    is_named = all(isinstance(part, exp.Identifier) for part in table.parts)
    return is_named and not table.find_ancestor(exp.Hint) and find_common_table(table) is None


def find_start(table: exp.Table) -> int:
    """Return the offset of a table's name in the text."""
    start: int = table.parts[0].meta["start"]
    return start


def _choose_aliases(uses: list[exp.Table]) -> dict[str, str]:
    """Map each name of a table without an alias to the alias that it gets: Spark's, or the whole name if two are equal."""
    plain = {read_name(use).lower(): use for use in uses if not use.alias}
    last_parts = Counter(use.parts[-1].name.lower() for use in plain.values())
    return {
        name: use.parts[-1].name if last_parts[use.parts[-1].name.lower()] == 1 else read_name(use)
        for name, use in plain.items()
    }


def _splice_table(table: exp.Table, aliases: Mapping[str, str]) -> _Splice:
    name, start = read_name(table).lower(), find_start(table)
    alias = "" if table.alias else f" AS {quote_name(aliases[name])}"
    return start, table.parts[-1].meta["end"] + 1, lambda find_relation: find_relation(name, start) + alias


def _splice_columns(tree: exp.Expr, aliases: Mapping[str, str]) -> Iterator[_Splice]:
    """Yield the qualifiers of columns that are names of tables without an alias, such as `shop.orders` of `shop.orders.id`."""
    for column in tree.find_all(exp.Column):
        parts = column.parts
        for length in range(len(parts) - 1, 0, -1):
            name = ".".join(part.name for part in parts[:length]).lower()
            if name in aliases and (length > 1 or aliases[name].lower() != name):
                alias = quote_name(aliases[name])
                yield parts[0].meta["start"], parts[length - 1].meta["end"] + 1, partial(_ignore_relations, alias)
                break


def _ignore_relations(text: str, _: _FindRelation) -> str:
    return text
