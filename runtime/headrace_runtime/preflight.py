"""What a pipeline finds before it runs: its plugins, the topics and columns, and whether everything answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.contracts.dialect import Dialect
from headrace.contracts.source import SourceContext
from headrace.engine.plan import Plan, SeenColumns
from headrace.engine.records import Records, decoded
from headrace.engine.schemas import SchemaLog
from headrace.engine.storage import Folder
from headrace.engine.trouble import explained
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.contracts.events import Events


@dataclass(frozen=True)
class CheckItem:
    """One thing that ``check`` looked at and what it found; ``error`` where that stands in the way of a run."""

    what: str
    found: str
    error: HeadraceError | None = None


def plugins(plan: Plan) -> CheckItem:
    """The plugins that the pipeline names."""
    names = dict.fromkeys(p.name for p in plan.plugins if not isinstance(p, Dialect))
    return CheckItem("plugins", ", ".join(names))


def connections(plan: Plan, session: SparkSession) -> Iterator[CheckItem]:
    """What every plugin finds at the other end, and then what a few records of each topic would become."""
    broken = False
    folder = Folder(session, plan.checkpoint)
    try:
        folder.probe()
        yield CheckItem("checkpoint", f"{folder.path}: may be written")
    except Exception as raised:  # noqa: BLE001 - the others are tried as well
        yield _failed(raised, plan, "checkpoint")
    for plugin in plan.plugins:
        try:
            for what, found in plugin.connect(session):
                yield CheckItem(what, found)
        except Exception as raised:  # noqa: BLE001
            broken = True
            yield _failed(raised, plan, plugin.name)
    if broken or not plan.source.gives_records:
        return
    context = _context(plan, session)
    samples: Mapping[str, Records] = {}
    try:
        samples = plan.source.sample(context)
    except Exception as raised:  # noqa: BLE001
        yield _failed(raised, plan, f"source {plan.source.name}")
    for topic, records in samples.items():
        try:
            assert plan.value_format is not None, "a source of records has a value format; built so"
            events = decoded(context, {topic: records}, plan.value_format, plan.key_format)
            yield from (_topic(plan, session, one, {}) for one in events)
            if not events:
                yield CheckItem(
                    f"topic {topic}", f"its newest records are deletes, or are not {plan.value_format.name}"
                )
        except Exception as raised:  # noqa: BLE001
            yield _failed(raised, plan, f"topic {topic}")


def columns(plan: Plan, session: SparkSession) -> list[CheckItem]:
    """Reads schemas where the source can show them, and plans every topic's changes without reading data."""
    seen: SeenColumns = {}
    try:
        items = [_topic(plan, session, one, seen) for one in plan.source.peek(_context(plan, session))]
    except Exception as error:
        raise explained(error, plan) from error
    plan.check_names(seen)
    return items


def _context(plan: Plan, session: SparkSession) -> SourceContext:
    schemas = SchemaLog()
    schemas.columns = plan.routes.columns
    return SourceContext(session, schemas)


def _topic(plan: Plan, session: SparkSession, events: Events, seen: SeenColumns) -> CheckItem:
    name = f"topic {events.topic}"
    if about := plan.about(events):
        return CheckItem(name, f"{about}: no table")
    route = plan.routes.of(events.topic)
    if route is None:
        return CheckItem(name, "no rule of `tables:` names it: left out")
    changes = plan.changes(session, events, route, seen=seen)
    key = ", ".join(changes.key_columns) or "none: every change is appended"
    return CheckItem(name, f"table {route.table}, key {key}, columns {', '.join(changes.row_columns)}")


def _failed(raised: Exception, plan: Plan, what: str) -> CheckItem:
    error = explained(raised, plan)
    error.where = error.where or what
    return CheckItem(what, error.what, error)
