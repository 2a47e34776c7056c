"""Rows of outer joins, as inner joins and as rows without a partner.

A change can give a row of an outer join its first partner, or take its last one. The relations that touched keys are derived from
contain old and new rows together, so that they show a partner in both cases. Each outer join therefore becomes two
or three alternatives: pairs, and rows of each preserved side with nulls for the other side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.views.scopes import Scope, weaken


@dataclass(frozen=True, slots=True)
class JoinedSource:
    """A source of FROM with its join; ``is_changed``: it contains the changed rows."""

    relation: exp.Expr
    is_changed: bool
    join: exp.Join | None = None

    @property
    def kind(self) -> str:
        """Return LEFT, RIGHT or FULL for outer joins, SEMI for semi and anti joins, otherwise INNER."""
        if self.join is None:
            return "INNER"
        kind = (self.join.kind or "").upper()
        if kind in ("SEMI", "ANTI"):
            return "SEMI"
        return (self.join.side or "INNER").upper()


@dataclass(frozen=True, slots=True)
class Alternative:
    """Joined sources of one alternative, and the conditions on its rows."""

    joins: tuple[exp.Expr, ...]
    conditions: tuple[exp.Expr, ...] = ()

    def build_select(self, *conditions: exp.Expr) -> exp.Select:
        """Return a SELECT without columns of the alternative's rows that fulfill the conditions."""
        first, *others = (join.copy() for join in self.joins)
        select = exp.Select(from_=exp.From(this=first), joins=others or None)
        if wheres := [part.copy() for part in (*self.conditions, *conditions)]:
            select.set("where", exp.Where(this=exp.and_(*wheres)))
        return select


def list_alternatives(sources: Sequence[JoinedSource], scope: Scope) -> list[Alternative]:
    """Return alternatives that together contain each row that the sources had or have."""
    first, *others = sources
    alternatives, has_changed = [Alternative((first.relation,))], first.is_changed
    for source in others:
        on = weaken(source.join.args.get("on"), scope) if source.join else []
        alternatives = [new for left in alternatives for new in _join_source(left, source, on, has_changed=has_changed)]
        has_changed = has_changed or source.is_changed
    return alternatives


def _join_source(
    left: Alternative, source: JoinedSource, on: list[exp.Expr], *, has_changed: bool
) -> list[Alternative]:
    if source.kind == "SEMI":
        # Without the join, the left side has more rows. The join is needed to find those that the changed rows match.
        return [_append(left, source, on, kind="SEMI", side="LEFT")] if source.is_changed else [left]
    found = [_append(left, source, on)]
    if source.kind in ("LEFT", "FULL"):
        padded = _append(left, source, [exp.false()], side="LEFT")
        found.append(_require(padded, Alternative((source.relation,)), on) if source.is_changed else padded)
    if source.kind in ("RIGHT", "FULL"):
        padded = _append(Alternative(left.joins), source, [exp.false()], side="RIGHT")
        found.append(_require(padded, left, on) if has_changed else padded)
    return found


def _append(left: Alternative, source: JoinedSource, on: list[exp.Expr], **kind: str) -> Alternative:
    join = exp.Join(this=source.relation.copy(), **kind)
    if source.join is not None and source.join.args.get("using"):
        join.set("using", [name.copy() for name in source.join.args["using"]])
    elif on:
        join.set("on", exp.and_(*(part.copy() for part in on)))
    elif not kind:
        join.set("kind", "CROSS")
    return Alternative((*left.joins, join), left.conditions)


def _require(padded: Alternative, partner: Alternative, on: list[exp.Expr]) -> Alternative:
    """Keep the padded rows that have or had a partner among the changed rows."""
    partners = partner.build_select(*on).select("1")
    return Alternative(padded.joins, (*padded.conditions, exp.Exists(this=partners)))
