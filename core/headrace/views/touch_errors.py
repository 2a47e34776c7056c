"""Errors of views whose touched keys cannot be derived from their SQL."""

from __future__ import annotations

from sqlglot import exp

from headrace.errors import ConfigError
from headrace.views.view_dialect import describe_node

#: Ways to keep a view without the derivation.
OTHER_WAYS = "give `touched_by:` for the table, or set `recompute: full`"


def refuse(what: str, node: exp.Expr, fix: str) -> ConfigError:
    """Return the error for a part of the SQL."""
    return ConfigError(what, where=f"sql: {describe_node(node)}", fix=fix)


def refuse_touch(what: str, node: exp.Expr, fix: str = "") -> ConfigError:
    """Return the error for a part of the SQL through which a change touches unknown keys, or all of them."""
    return refuse(f"{what}; headrace cannot derive the keys that a change touches", node, f"{fix}{OTHER_WAYS}")
