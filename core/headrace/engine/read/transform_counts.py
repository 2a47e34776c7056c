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
        return any(not counted.transform.filters for counted in self._counted)

    def count(self, transform: Transform, changes: Changes) -> Changes:
        """Apply a transform, with counts before and after it that are known once the changes were read."""
        counted = _Counted(transform, _count_changes(), _count_changes())
        result = transform.process(replace(changes, frame=counted.before.observe(changes.frame)))
        self._counted.append(counted)
        return replace(result, frame=counted.after.observe(result.frame))

    def count_filtered(self) -> int:
        """Return the number of changes that were left out, once they were read.

        PluginError for an undeclared change of the number.
        """
        return sum(_subtract(counted) for counted in self._counted)


def apply_transform(transform: Transform, changes: Changes, balance: TransformCounter | None) -> Changes:
    """Apply a transform. PluginError if its plan removes changes without declaring it, or multiplies them."""
    result = transform.process(changes)
    _check_columns(transform, changes, result)
    nodes = find_nodes(changes.frame, result.frame)
    if transform.multiplies:
        _check_key(transform, changes, result)
        return result
    if multiplying := nodes & _MULTIPLY:
        raise PluginError(
            f"it may multiply changes (its plan has {', '.join(sorted(multiplying))})",
            where=f"transform {transform.name}",
            fix="return one change for each input change, or drop it; set `multiplies = True` in its class if the key of its result "
            "distinguishes several",
        )
    if (leaving_out := nodes & _LEAVE_OUT) and not transform.filters:
        raise PluginError(
            f"it may drop changes (its plan has {', '.join(sorted(leaving_out))}) without declaring it",
            where=f"transform {transform.name}",
            fix="set `filters = True` in its class, so that the dropped changes are counted",
        )
    return balance.count(transform, changes) if nodes and balance is not None else result


def _check_columns(transform: Transform, changes: Changes, result: Any) -> None:
    """Raise PluginError for a result that lacks required columns."""
    where, fix = f"transform {transform.name}", "report it to its author"
    if not isinstance(result, Changes):
        raise PluginError(f"apply returns {type(result).__name__} instead of Changes", where=where, fix=fix)
    if lost := {KEY, DELETED, POSITION, ERROR} & set(changes.own_columns) - set(result.own_columns):
        raise PluginError(f"it removes required columns: {', '.join(sorted(lost))}", where=where, fix=fix)


def _check_key(transform: Transform, changes: Changes, result: Changes) -> None:
    """Raise PluginError if several changes of a row have its key: they would overwrite each other."""
    if transform.applies_to(changes.table) and not set(result.key_columns) > set(changes.key_columns):
        raise PluginError(
            "it makes several changes of one, and adds no column to their key",
            where=f"transform {transform.name}",
            fix="add columns to KEY that distinguish the changes",
        )


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


def _subtract(counted: _Counted) -> int:
    before = counted.before.result().get("changes")
    after = None if before is None else counted.after.result().get("changes")
    if before is None or after is None:  # Spark did not deliver them.
        return 0
    if before != after and not (counted.transform.filters and after < before):
        raise PluginError(
            f"it returns {after} changes for {before}",
            where=f"transform {counted.transform.name}",
            fix="return one change for each input change; to drop changes, set `filters = True` in its class",
        )
    return int(before) - int(after)
