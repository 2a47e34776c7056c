"""Errors of a view's SQL. Each one quotes the part of the SQL."""

from __future__ import annotations

from sqlglot import exp

from headrace.errors import ConfigError
from headrace.views.view_dialect import describe_node


def refuse(what: str, node: exp.Expr, fix: str) -> ConfigError:
    """Return the error for a part of the SQL."""
    return ConfigError(f"{what}: {describe_node(node)}", where="sql", fix=fix)


def refuse_touch(what: str, node: exp.Expr, fix: str = "") -> ConfigError:
    """Return the error for a part of the SQL through which a change touches unknown keys, or all keys."""
    ways = [fix] if fix else []
    ways += ["give `touched_by:` for the tables that it reads", "or set `recompute: full`"]
    return refuse(f"headrace cannot derive the keys that a change touches, because {what}", node, ", ".join(ways))
