"""Common table expressions (WITH) of a view's SQL."""

from __future__ import annotations

from sqlglot import exp


def find_common_table(table: exp.Table) -> exp.CTE | None:
    """Return the definition of a name in WITH that a table refers to, or None for a table of the pipeline.

    A definition sees those before it, and a recursive one itself. In ``WITH orders AS (SELECT … FROM orders)``, the second
    name is a table.
    """
    if len(table.parts) > 1:
        return None
    name, node = table.name.lower(), table
    inside: exp.Expr | None = table
    while inside is not None:
        if isinstance(inside, exp.CTE) and isinstance(inside.parent, exp.With):
            others = inside.parent
            end = len(others.expressions) if others.args.get("recursive") else others.expressions.index(inside)
            before = others.expressions[:end]
            inside = others.parent
        else:
            with_clause = inside.args.get("with_") if inside is not node else None
            before = with_clause.expressions if with_clause else []
        for definition in reversed(before):
            if definition.alias.lower() == name:
                return definition  # type: ignore[no-any-return]
        inside = inside.parent if inside is not None else None
    return None


def inline_common_tables(tree: exp.Query) -> exp.Query:
    """Return a copy of the query with derived tables in place of names in WITH, and without hints.

    A recursive query keeps its WITH.
    """
    tree = tree.copy()
    for hint in list(tree.find_all(exp.Hint)):
        hint.pop()
    if any(definitions.args.get("recursive") for definitions in tree.find_all(exp.With)):
        return tree
    definitions: list[exp.CTE] = []
    # Resolve all names first: a definition's tables would mean something else where the definition is copied to.
    for table in tree.find_all(exp.Table):
        if definition := find_common_table(table):
            table.meta["common"] = len(definitions)
            definitions.append(definition)
    while uses := [table for table in tree.find_all(exp.Table) if "common" in table.meta]:
        for use in uses:
            use.replace(_derive_table(use, definitions[use.meta["common"]]))
    for query in list(tree.find_all(exp.Query)):
        query.set("with_", None)
    return tree


def _derive_table(use: exp.Table, definition: exp.CTE) -> exp.Subquery:
    """Return a definition as a derived table with the alias of its use."""
    alias = definition.args["alias"].copy()
    if written := use.args.get("alias"):
        alias.set("this", written.this.copy())
        if written.columns:
            alias.set("columns", [column.copy() for column in written.columns])
    return exp.Subquery(this=definition.this.copy(), alias=alias)
