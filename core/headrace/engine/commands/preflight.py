"""Checks before a run: plugins, topics and columns, and connections."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from headrace.checkpoint.layout import CheckpointFolders
from headrace.engine.commands.check_item import CheckItem
from headrace.engine.commands.view_check import check_view_columns
from headrace.engine.plan.dialect_choice import find_fallback_dialects
from headrace.engine.plan.error_translation import translate
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.stored_table import read_stored
from headrace.engine.plan.table_options import describe_settings, describe_sinks
from headrace.engine.read.change_reader import ChangeReader
from headrace.engine.read.column_order import describe_order
from headrace.engine.read.record_decoder import Records
from headrace.engine.read.seen_columns import SeenColumns, TopicMasks
from headrace.engine.write.hidden_columns import check_continued, find_hidden
from headrace.engine.write.table_plan import BatchMarks, TablePlan
from headrace.errors import ConfigError, HeadraceError
from headrace.registry.hook_results import check_strings
from headrace.sdk.dialect import Dialect
from headrace.sdk.events import Events
from headrace.sdk.sink import Sink
from headrace.sdk.source import SourceContext
from headrace.spark.storage import Folder, UnchangedFolder
from headrace.suggestions import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def list_plugins(plan: Plan) -> CheckItem:
    """Return the plugins of the pipeline."""
    names = dict.fromkeys(p.name for p in plan.plugins if not isinstance(p, Dialect))
    return CheckItem("plugins", ", ".join(names))


def try_connections(plan: Plan, session: SparkSession) -> Iterator[CheckItem]:
    """Connect every plugin, then plan the tables of a few records of each topic."""
    broken = False
    try:
        yield CheckItem("checkpoint", Folder(session, plan.checkpoint).probe())
    except Exception as raised:  # noqa: BLE001 - the other plugins are checked as well
        yield _make_failed_item(raised, plan, "checkpoint")
    for plugin in plan.plugins:
        try:
            for what, found in plugin.connect(session):
                yield CheckItem(what, found)
        except Exception as raised:  # noqa: BLE001
            broken = True
            yield _make_failed_item(raised, plan, plugin.name)
    if broken or not plan.source.yields_records:
        return
    yield from _try_samples(plan, session)


def _try_samples(plan: Plan, session: SparkSession) -> Iterator[CheckItem]:
    """Plan the tables of a few records of each topic."""
    reader, samples, found = ChangeReader(plan), dict[str, Records](), list[Events]()
    try:
        context = _make_context(plan, session)
        samples.update(plan.source.sample_records(context))
    except Exception as raised:  # noqa: BLE001
        yield _make_failed_item(raised, plan, f"source {plan.source.name}")
    for topic, records in samples.items():
        try:
            events = reader.decode(context, {topic: records})
            found += events
            for topic_events in events:
                yield from _check_topic(plan, session, topic_events, SeenColumns())
            if not events:
                kind = plan.value_format.name if plan.value_format else ""
                yield CheckItem(f"topic {topic}", f"its newest records are deletes, or not valid {kind}")
        except Exception as raised:  # noqa: BLE001
            yield _make_failed_item(raised, plan, f"topic {topic}")
    yield from _list_shared_tables(plan, found)


def find_names(plan: Plan, session: SparkSession) -> bool:
    """Return whether the columns that transforms name could be checked; ConfigError if no topic has one of them.

    They are checked at every start, in what the topics hold now: the first batch may lack a topic that gets its first record a
    moment later, and a repeated batch stays the same. The newest records of a topic without schemas may lack columns. Before the
    first batch, they decide nothing: that batch is checked itself.
    """
    if not plan.tags and not any(transform.reads() or transform.condition for transform in plan.transforms):
        return True
    topics = _list_topics(plan, session)
    if any(events.error for events in topics):  # Its table reports it, and might have the columns.
        return False
    seen = SeenColumns()
    if _plan_topics(plan, session, topics, seen):
        return seen.is_complete and not seen.check_names(has_every_column=False)
    return plan.source.yields_records and _find_names_in_samples(plan, session)


def _find_names_in_samples(plan: Plan, session: SparkSession) -> bool:
    seen, found = SeenColumns(), list[Events]()
    reader = ChangeReader(plan)
    try:
        context = _make_context(plan, session)
        for topic, records in plan.source.sample_records(context).items():
            for events in reader.decode(context, {topic: records}, apart=True):
                if events.error is not None:  # Its table reports it, and might have the columns.
                    return False
                found.append(events)
                _check_topic(plan, session, events, seen)
            if not plan.tags and seen.has_all(plan.transforms):  # Tags concern the columns of every topic.
                break
    except Exception as error:
        raise translate(error, plan) from error
    if seen and seen.check_names(has_every_column=_shows_every_column(plan, session, found)):
        return False
    return bool(seen) and seen.is_complete


def _shows_every_column(plan: Plan, session: SparkSession, topics: Sequence[Events]) -> bool:
    """Return whether the topics show all of their columns. Without schemas, the newest records may lack columns of the first batch.

    The columns of all later batches are in the checkpoint.
    """
    if not any(events.is_inferred for events in topics):
        return True
    return bool(CheckpointFolders(Folder(session, plan.checkpoint)).topic_schemas.names(hidden=True))


def plan_columns(plan: Plan, session: SparkSession) -> list[CheckItem]:
    """Plan every topic's changes, and the views, from the schemas that the source can show, without reading data."""
    topics = _list_topics(plan, session)
    items = _plan_topics(plan, session, topics, SeenColumns())
    return [*items, *check_view_columns(plan, session, topics)] if topics else items


def _list_topics(plan: Plan, session: SparkSession) -> list[Events]:
    """Return the events of every topic, from the schemas that the source can show."""
    try:
        context = _make_context(plan, session)
        return ChangeReader(plan).split(context, plan.source.known_schemas(context))
    except Exception as error:
        raise translate(error, plan) from error


def _plan_topics(plan: Plan, session: SparkSession, topics: Sequence[Events], seen: SeenColumns) -> list[CheckItem]:
    try:
        items = [item for events in topics for item in _check_topic(plan, session, events, seen)]
        items += [*_list_shared_tables(plan, topics), *_warn_of_unknown_tables(plan, topics)]
    except Exception as error:
        raise translate(error, plan) from error
    for missing in seen.check_names(has_every_column=_shows_every_column(plan, session, topics)):
        found = (
            f"{missing.where}: {missing.what} in the newest records, and the first batch must have it: {missing.fix}"
        )
        items.append(CheckItem("warning", found))
    for tag, pattern in plan.tags.find_unused(seen.tables) if seen.tables else ():
        items.append(CheckItem("warning", f"the tag {tag!r} names {pattern!r}, which no column of a table matches"))
    return items


def list_omitted(plan: Plan, session: SparkSession) -> list[CheckItem]:
    """Return the numbers of files or records that the source skips, by kind."""
    try:
        omitted = plan.source.omitted(_make_context(plan, session))
    except Exception as error:
        raise translate(error, plan) from error
    return [CheckItem(f"source {plan.source.name}", f"{count} skipped: {kind}") for kind, count in omitted.items()]


def plan_known_columns(plan: Plan, session: SparkSession) -> list[CheckItem]:
    """Return the items of ``plan_columns``, or a warning if a source of files has no files yet."""
    items = plan_columns(plan, session)
    if not items and not plan.source.yields_records:
        return [
            CheckItem(
                "warning", f"the source {plan.source.name} has no files yet: topics, keys and columns were not checked"
            )
        ]
    return items


def _make_context(plan: Plan, session: SparkSession) -> SourceContext:
    """Return a context with the schemas of the checkpoint: the newest records may lack columns of earlier ones."""
    folders = CheckpointFolders(UnchangedFolder(session, plan.checkpoint))
    limit = plan.settings.max_message_bytes
    return SourceContext(session, plan.open_schema_log(session, folders.topic_schemas), max_message_bytes=limit)


def _check_topic(plan: Plan, session: SparkSession, events: Events, seen: SeenColumns) -> list[CheckItem]:
    """Return the table of a topic, and its masks."""
    name = f"topic {events.topic}"
    if what := plan.metadata_topic(events.topic, events.schema):
        return [CheckItem(name, f"{what}: no table")]
    route = plan.routes.of(events.topic, events.part)
    if route is None:
        return [CheckItem(name, "no rule of `tables:` matches it: left out")]
    if route.error:
        return [CheckItem(name, route.error.what, route.error)]
    own_plan = plan.for_table(route.table)
    changes = ChangeReader(own_plan).read_changes(session, events, route, seen=seen)
    try:
        batch = TablePlan.decide(own_plan, route.table, changes, BatchMarks("check", 0))
        hidden: Collection[str] = seen.masks.get(events.topic, TopicMasks()).hidden
        notes = list[str]()
        for sink in own_plan.sinks:
            note = _check_table(sink, session, batch)
            if note and sink in batch.upsert_sinks:
                stored = read_stored(sink, batch.table, session)
                hidden = {*hidden, *find_hidden(own_plan, route.table, stored)}
                check_continued(route.table, own_plan.name_of(sink), note, hidden)
                notes.append(note)
    except HeadraceError as error:  # The table fails, and the others continue.
        return [CheckItem(name, error.what, error)]
    key = ", ".join(changes.key_columns) or "none: every change is a row, with its `__op`"
    order = f", ordered by {describe_order(plan, session, events, route.order_by)}" if changes.ordered else ""
    items = [CheckItem(name, f"table {route.table}, key {key}{order}, columns {', '.join(changes.row_columns)}")]
    items += [CheckItem(f"table {route.table}", note) for note in notes]
    for what, dialect in find_fallback_dialects(plan.fallback_dialects, events.schema).items():
        if plan.dialect_of(events) is not dialect:
            found = f"{what} also matches these events, but is not used; to use it, set `dialects: {{{dialect.name}: {{}}}}`"
            items.append(CheckItem(name, found))
    if own_plan is not plan:
        found = f"{describe_sinks(own_plan.sink_names)}; {describe_settings(own_plan.settings)}"
        items.append(CheckItem(f"options of {name}", f"table {route.table}: {found}"))
    masks = seen.masks.get(events.topic)
    return [*items, CheckItem(f"masks of {name}", f"table {route.table}: {masks}")] if masks else items


def _check_table(sink: Sink, session: SparkSession, batch: TablePlan) -> str | None:
    """Return the note about an existing table. ConfigError for a table that the sink cannot create, or that contradicts its options."""
    note = sink.check_stored(session, batch.table)
    if set(batch.columns) <= set(batch.table.key):  # Deletes may have only the key, and do not create the table.
        return note
    try:
        sink.check_new(batch.table, batch.columns)
    except ConfigError:
        if sink.read_or_none(session, batch.table) is None:
            raise
    return note


def _list_shared_tables(plan: Plan, topics: Iterable[Events]) -> Iterator[CheckItem]:
    """Yield the tables that receive several topics or parts of topics."""
    by_table: dict[str, list[str]] = {}
    for events in topics:
        route = plan.routes.of(events.topic, events.part)
        if route is not None and not route.error and not plan.metadata_topic(events.topic, events.schema):
            by_table.setdefault(route.table, []).append("/".join(filter(None, (events.topic, events.part))))
    for table, names in by_table.items():
        if len(names) > 1:
            found = f"receives rows of {', '.join(names)}: each key must exist in only one of them"
            yield CheckItem(f"table {table}", found)


def _warn_of_unknown_tables(plan: Plan, topics: Sequence[Events]) -> Iterator[CheckItem]:
    """Yield warnings about tables that a transform names and that no topic becomes. A topic may still come.

    The tables of a topic that a rule splits are unknown.
    """
    if any(plan.routes.splits(events.topic) for events in topics):
        return
    found = [plan.routes.of(events.topic, events.part) for events in topics]
    tables = {route.table for route in found if route is not None}
    for transform in plan.transforms if tables else ():
        for name in check_strings(transform, "tables", transform.tables()):
            if not any(fnmatchcase(table, name) for table in tables):
                text = f"transform {transform.name} names the table {name!r}, which no topic becomes: {did_you_mean(name, tables)}"
                yield CheckItem("warning", text)


def _make_failed_item(raised: Exception, plan: Plan, what: str) -> CheckItem:
    error = translate(raised, plan).at(what)
    return CheckItem(what, error.what, error)
