"""Rows of outer joins, as inner joins and as rows without a partner.

A change can give a row of an outer join its first partner, or take its last one. The relations that touched keys are derived from
contain old and new rows together, so that they show a partner in both cases. Each outer join therefore becomes two
or three alternatives: pairs, and rows of each preserved side with nulls for the other side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.views.scopes import Scope, weaken
from headrace.views.touch_errors import refuse_touch

#: Most alternatives of a SELECT. Spark plans each as a query of its own.
MOST_ALTERNATIVES = 100


@dataclass(frozen=True, slots=True)
class JoinedSource:
    """A source of FROM with its join.

    ``is_changed``: the source contains the changed rows; ``is_referenced``: more than its own ON reads its columns.
    """

    relation: exp.Expr
    is_changed: bool
    is_referenced: bool
    join: exp.Join | None = None

    @property
    def kind(self) -> str:
        """Return LEFT, RIGHT or FULL for outer joins, SEMI for semi and anti joins, otherwise INNER."""
        if self.join is None:
            return "INNER"
        if (self.join.kind or "").upper() in ("SEMI", "ANTI"):
            return "SEMI"
        return (self.join.side or "INNER").upper()

    @property
    def is_left_out(self) -> bool:
        """Return whether the join neither adds keys nor removes some: the other side has more rows without it."""
        return not self.is_changed and (self.kind == "SEMI" or (self.kind == "LEFT" and not self.is_referenced))


@dataclass(frozen=True, slots=True)
class Alternative:
    """Joined sources of one alternative, and the conditions on its rows."""

    joins: tuple[exp.Expr, ...] = ()
    conditions: tuple[exp.Expr, ...] = ()

    def require(self, *conditions: exp.Expr) -> Alternative:
        """Return the alternative with further conditions."""
        return Alternative(self.joins, (*self.conditions, *conditions))

    def build_select(self) -> exp.Select:
        """Return a SELECT of the alternative's rows, without columns."""
        select = exp.Select()
        if self.joins:
            first, *others = (join.copy() for join in self.joins)
            select = exp.Select(from_=exp.From(this=first), joins=others or None)
        if self.conditions:
            select.set("where", exp.Where(this=exp.and_(*self.conditions)))
        return select


def list_alternatives(sources: Sequence[JoinedSource], scope: Scope) -> list[Alternative]:
    """Return alternatives that together contain each row that the sources had or have."""
    alternatives, has_changed = [Alternative()], False
    for source in sources:
        on = _weaken_join(source.join, scope) if source.join and not source.is_left_out else []
        alternatives = [new for left in alternatives for new in _join_source(left, source, on, has_changed=has_changed)]
        has_changed = has_changed or source.is_changed
        if source.join is not None and len(alternatives) > MOST_ALTERNATIVES:
            what = f"its outer joins have more than {MOST_ALTERNATIVES} combinations of rows with and without a partner"
            raise refuse_touch(what, source.join, "join in steps, by a view that another view reads")
    return list(dict.fromkeys(alternatives))


def _weaken_join(join: exp.Join, scope: Scope) -> list[exp.Expr]:
    """Return the known conjuncts of ON; an error if none is left, because the join then pairs all rows."""
    if any(scope.is_unknown_column(exp.column(name.copy())) for name in join.args.get("using") or ()):
        raise refuse_touch("USING compares a result of an aggregate, a window function or a subquery", join)
    on = weaken(join.args.get("on"), scope)
    if join.args.get("on") and not on:
        raise refuse_touch("ON compares only results of aggregates, window functions or subqueries", join.args["on"])
    return on


def _join_source(
    left: Alternative, source: JoinedSource, on: list[exp.Expr], *, has_changed: bool
) -> list[Alternative]:
    if source.join is None:
        return [Alternative((source.relation,))]
    if source.is_left_out:
        return [left]
    if source.kind == "SEMI":
        return [_append(left, source, on, kind="SEMI", side="LEFT")]
    found = [_append(left, source, on)]
    if source.kind == "LEFT" and not source.is_referenced:
        return found
    if source.kind in ("LEFT", "FULL"):
        # Of the unchanged left side, the rows count that have or had a partner among the changed rows.
        matched = _append(left, source, on, kind="SEMI", side="LEFT") if source.is_changed else left
        found.append(_append(matched, source, [exp.false()], side="LEFT"))
    if source.kind in ("RIGHT", "FULL"):
        relation = _keep_matched(source, left, on) if has_changed else source.relation
        found.append(_append(left, replace(source, relation=relation), [exp.false()], side="RIGHT"))
    return found


def _keep_matched(source: JoinedSource, left: Alternative, on: list[exp.Expr]) -> exp.Expr:
    """Return the rows of a source that have or had a partner on the left side, which a condition reads by its aliases.

    EXISTS would not do: Spark reads `c.id` inside of it as a field if a source inside has a column `c`.
    """
    partner = replace(source, relation=_parenthesize(left.joins))
    return _parenthesize(_append(Alternative((source.relation,)), partner, on, kind="SEMI", side="LEFT").joins)


def _parenthesize(joins: Sequence[exp.Expr]) -> exp.Expr:
    first, *others = (join.copy() for join in joins)
    if not others:
        return first
    if not isinstance(first, exp.Table | exp.Subquery):
        raise refuse_touch("an outer join follows a source that is no table or SELECT", first)
    first.set("joins", others)
    return exp.Subquery(this=first)


def _append(left: Alternative, source: JoinedSource, on: list[exp.Expr], **kind: str) -> Alternative:
    join = exp.Join(this=source.relation.copy(), **kind)
    if source.join is not None and source.join.args.get("using"):
        join.set("using", [name.copy() for name in source.join.args["using"]])
    elif on:
        join.set("on", exp.and_(*on))
    elif not kind:
        join.set("kind", "CROSS")
    return Alternative((*left.joins, join), left.conditions)
