"""Columns of a table that a view's SQL may read."""

from __future__ import annotations

from sqlglot import exp

from headrace.spark.columns import fold_name
from headrace.views.view_text import read_name


def list_needed_columns(tree: exp.Query, table: str) -> frozenset[str] | None:
    """Return folded names, also names that are no columns of the table; None for all columns."""
    uses = [use for use in tree.find_all(exp.Table) if read_name(use).lower() == table.lower()]
    aliases = {use.alias.lower() for use in uses}
    others = {fold_name(source.alias) for source in tree.find_all(exp.Table, exp.Subquery, exp.Lateral)} - set(
        map(fold_name, aliases)
    )
    if any(_is_wholly_read(use) for use in uses):
        return None
    needed: set[str] = set()
    for column in tree.find_all(exp.Column):
        parts = [fold_name(part.name) for part in column.parts]
        # The name before a dot may be a struct, also if a source has this name.
        is_of_other = len(parts) == 2 and parts[0] in others
        needed.update(parts[:1] if is_of_other else parts)
    for join in tree.find_all(exp.Join):
        needed.update(fold_name(name.name) for name in join.args.get("using") or ())
    return frozenset(needed)


def _is_wholly_read(use: exp.Table) -> bool:
    """Return whether a star or a natural join reads all columns of a use of a table."""
    select = use.find_ancestor(exp.Select)
    if select is None or use.args["alias"].columns:
        return True
    if any(join.method == "NATURAL" for join in select.args.get("joins") or ()):
        return True
    return any(_reads_all(star, use) for star in select.find_all(exp.Star) if star.find_ancestor(exp.Select) is select)


def _reads_all(star: exp.Star, use: exp.Table) -> bool:
    """Return whether a star stands for the columns of a use of a table; that of COUNT(*) stands for none."""
    around = star.parent
    if isinstance(around, exp.Column):
        return around.table.lower() == use.alias.lower()
    return not isinstance(around, exp.Anonymous) or around.name.lower() != "count"
