"""Row counts before and after each transform. A transform that changes the number must declare it, or is rejected."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace.errors import PluginError
from headrace.sdk.changes import DELETED, ERROR, KEY, POSITION, Changes
from headrace.sdk.positions import is_tombstone
from headrace.sdk.transform import Transform
from headrace.spark.observation import Observation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Nodes of Spark's plans that keep the number of rows.
_KEEP = {"Project", "SubqueryAlias", "Window", "Sort", "Repartition", "RepartitionByExpression", "CollectMetrics"}
#: Nodes that remove rows. For all others, such as joins and Python, only counting shows their effect.
_LEAVE_OUT = {
    *("Filter", "Deduplicate", "Distinct", "Aggregate", "GlobalLimit", "LocalLimit", "Offset", "Sample"),
    *("Intersect", "Except"),
}
_MULTIPLY = {"Union", "Generate", "Expand"}


@dataclass(frozen=True)
class _Counted:
    """Transform of a topic with the counts before and after it."""

    transform: Transform
    before: Observation
    after: Observation


class TransformCounter:
    """Counter for the transforms of a table's part of a batch that may change the number of rows."""

    def __init__(self) -> None:
        self._counted: list[_Counted] = []

    @property
    def has_undeclared_filters(self) -> bool:
        """Whether a transform may filter rows without declaring it: then rows are counted before anything is written."""
        return any(not one.transform.filters for one in self._counted)

    def count(self, transform: Transform, changes: Changes) -> Changes:
        """Apply a transform, with counts before and after it that are known once the changes were read."""
        one = _Counted(transform, _count_changes(), _count_changes())
        made = transform.apply(replace(changes, frame=one.before.observe(changes.frame)))
        self._counted.append(one)
        return replace(made, frame=one.after.observe(made.frame))

    def count_filtered(self) -> int:
        """Return the number of changes that were left out, once they were read. PluginError for an undeclared change of the number."""
        return sum(_subtract(one) for one in self._counted)


def apply_transform(transform: Transform, changes: Changes, balance: TransformCounter | None) -> Changes:
    """Apply a transform. PluginError if its plan removes changes without declaring it, or multiplies them."""
    made = transform.apply(changes)
    _check_columns(transform, changes, made)
    nodes = find_nodes(changes.frame, made.frame)
    if multiplying := nodes & _MULTIPLY:
        raise PluginError(
            f"it may make several changes of one (its plan has {', '.join(sorted(multiplying))})",
            where=f"transform {transform.name}",
            fix="a transform gives one change for each, or leaves it out",
        )
    if (leaving_out := nodes & _LEAVE_OUT) and not transform.filters:
        raise PluginError(
            f"it may leave changes out (its plan has {', '.join(sorted(leaving_out))}) and does not say so",
            where=f"transform {transform.name}",
            fix="`filters = True` in its class says so, and what it leaves out is counted",
        )
    return balance.count(transform, changes) if nodes and balance is not None else made


def _check_columns(transform: Transform, given: Changes, made: Any) -> None:
    """Raise PluginError for a result that lacks required columns."""
    where, fix = f"transform {transform.name}", "report it to its author"
    if not isinstance(made, Changes):
        raise PluginError(f"apply gives no Changes, but {type(made).__name__}", where=where, fix=fix)
    if lost := {KEY, DELETED, POSITION, ERROR} & set(given.own_columns) - set(made.own_columns):
        raise PluginError(f"it took columns of headrace's away: {', '.join(sorted(lost))}", where=where, fix=fix)


def find_nodes(before: DataFrame, after: DataFrame) -> set[str]:
    """Return the nodes that a transform added to a frame's plan and that may change the number of rows."""
    plan, node = _plan_of(before), _plan_of(after)
    found: set[str] = set()
    while not node.fastEquals(plan):
        name = str(node.nodeName())
        if name not in _KEEP:
            found.add(name)
        children = node.children()
        if children.size() != 1:  # One input of a join is somewhere below.
            break
        node = children.head()
    return found


def _plan_of(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark does not expose plans


def _count_changes() -> Observation:
    from pyspark.sql import functions as F

    return Observation(changes=F.count_if(~is_tombstone(F.col(POSITION))))


def _subtract(one: _Counted) -> int:
    before = one.before.result().get("changes")
    after = None if before is None else one.after.result().get("changes")
    if before is None or after is None:  # Spark did not deliver them.
        return 0
    if before != after and not (one.transform.filters and after < before):
        raise PluginError(
            f"it made {after} changes of {before}",
            where=f"transform {one.transform.name}",
            fix="a transform gives one change for each; where it leaves some out, `filters = True` in its class says so",
        )
    return int(before) - int(after)
