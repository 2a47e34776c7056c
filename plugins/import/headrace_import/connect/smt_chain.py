"""Chain of single message transforms (SMTs) as transforms and rules of tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace_import.connect.changed_headers import ChangedHeader, list_changed_headers, replace_headers
from headrace_import.connect.column_smts import (
    import_cast,
    import_extract_field,
    import_filter,
    import_flatten,
    import_header_from,
    import_header_to_value,
    import_iceberg_debezium,
    import_insert_field,
    import_mask_field,
    import_replace_field,
    import_timestamp_converter,
    import_timezone_converter,
    import_unwrap,
    keep_deleted_rows,
    remove_rewritten_rows,
)
from headrace_import.connect.key_columns import read_key
from headrace_import.connect.nearest_smts import CUSTOM, find_nearest
from headrace_import.connect.outbox_smt import import_event_router, keep_empty_events
from headrace_import.connect.predicates import PREDICATE_OPTIONS, read_condition
from headrace_import.connect.routing_smts import (
    import_logical_table_router,
    import_regex_router,
    import_value_to_key,
    reject_key_smt,
    report_extract_key,
)
from headrace_import.connect.smt import (
    Condition,
    Imported,
    NotImportableError,
    Smt,
    copy_options,
    make_step,
    split_list,
)
from headrace_import.pipeline_draft import Block, Line
from headrace_import.settings import Settings

_MAPPERS: Mapping[str, Callable[[Smt], Imported]] = {
    "Cast": import_cast,
    "ReplaceField": import_replace_field,
    "InsertField": import_insert_field,
    "TimestampConverter": import_timestamp_converter,
    "Flatten": import_flatten,
    "MaskField": import_mask_field,
    "Filter": import_filter,
    "ExtractField": import_extract_field,
    "ExtractNewRecordState": import_unwrap,
    "DebeziumTransform": import_iceberg_debezium,
    "RegexRouter": import_regex_router,
    "ByLogicalTableRouter": import_logical_table_router,
    "ToLogicalTopicRouter": import_logical_table_router,
    "ValueToKey": import_value_to_key,
    "EventRouter": import_event_router,
    "HeaderFrom": import_header_from,
    "HeaderToValue": import_header_to_value,
    "TimezoneConverter": import_timezone_converter,
}
_ROUTERS = ("RegexRouter", "ByLogicalTableRouter", "ToLogicalTopicRouter")
_NO_WHEN = ("`unwrap` has no condition", "select tables with `unwrap: {tables: […]}`")
_NO_RULE = ("a rule of `tables:` has no condition", "write a rule for the topics in `tables:`")
#: SMTs that are not imported with a predicate.
_WITHOUT_CONDITION = {
    **dict.fromkeys(("ExtractNewRecordState", "ExtractField", "DebeziumTransform"), _NO_WHEN),
    **dict.fromkeys((*_ROUTERS, "ValueToKey"), _NO_RULE),
}
#: SMTs that change the columns of the value that they receive, of a row or of an envelope.
_OF_COLUMNS = (
    "Cast",
    "ReplaceField",
    "InsertField",
    "TimestampConverter",
    "Flatten",
    "MaskField",
    "HeaderFrom",
    "HeaderToValue",
)
_UNWRAPS = ("ExtractNewRecordState", "DebeziumTransform")
_NEW_TOPIC = re.compile(r"Router$|Routing$|^ExtractTopic$")
#: Options of ``unwrap`` for deletes.
_DELETES = ("delete.tombstone.handling.mode", "delete.handling.mode", "drop.tombstones")


@dataclass(frozen=True)
class ChainUse:
    """Facts about the pipeline of a chain.

    ``appends_only``: its sinks cannot remove rows; ``rewritten_deletes``: why its sinks remove rows that an SMT has kept as
    deleted; ``names_own_tables``: a sink names its tables, whatever
    the target of Iceberg's DebeziumTransform; ``without_routers``: why names of topics do not name the tables;
    ``has_envelopes``: the first SMT receives Debezium's envelopes.
    """

    appends_only: bool = False
    rewritten_deletes: str = ""
    names_own_tables: bool = False
    without_routers: str = ""
    has_envelopes: bool = False


@dataclass
class Chain:
    """Result of a chain: steps of ``transforms:``, rules of ``tables:``, and the key columns of ``ValueToKey``."""

    steps: list[Block] = field(default_factory=list)
    rules: list[Block] = field(default_factory=list)
    key: Block | None = None
    #: Names that ``ValueToKey`` gives to the key columns.
    key_fields: list[str] = field(default_factory=list)
    comment: str = ""
    #: Steps of the source connector, which precede those of a sink.
    earlier_steps: list[Block] = field(default_factory=list)
    #: Whether an SMT gives the topics other names.
    is_routed: bool = False
    #: Headers that an SMT adds or removes.
    changed_headers: dict[str, ChangedHeader] = field(default_factory=dict)
    #: Whether an SMT without a predicate turns all envelopes into rows.
    has_only_rows: bool = False

    @property
    def unwraps(self) -> bool:
        """Whether the chain turns the envelopes of all topics into rows."""
        routes_all = any("tables" not in options.entries for options in self.list_options("outbox"))
        return routes_all or bool(self.list_options("unwrap"))

    @property
    def all_steps(self) -> list[Block]:
        """Steps of the source connector, then steps of this chain."""
        return [*self.earlier_steps, *self.steps]

    def list_options(self, name: str) -> list[Block]:
        """Return the options of the steps of a transform."""
        found = (step.entries.get(name) for step in self.steps)
        return [options for options in found if isinstance(options, Block)]


def start_sink_chain(chains: Sequence[Chain]) -> Chain:
    """Return the empty chain of a sink that receives the records after the chains of the sources."""
    return Chain(
        earlier_steps=[step for chain in chains for step in chain.steps],
        is_routed=any(chain.is_routed for chain in chains),
        changed_headers={name: header for chain in chains for name, header in chain.changed_headers.items()},
        has_only_rows=any(chain.has_only_rows for chain in chains),
    )


def import_chain(settings: Settings, use: ChainUse, chain: Chain) -> Chain:
    """Return a chain with the SMTs of a connector in their order."""
    aliases = split_list(settings.get("transforms"))
    for number, alias in enumerate(aliases):
        smt, before = Smt(settings, alias), settings.snapshot()
        unwraps_later = any(Smt(settings, later).class_name in _UNWRAPS for later in aliases[number + 1 :])
        has_envelopes = not chain.unwraps and (use.has_envelopes or unwraps_later)
        try:
            _import_smt(smt, chain, replace(use, has_envelopes=has_envelopes))
        except NotImportableError as error:
            settings.restore(before)
            remaining = [key for key in smt.list_keys() if key in settings.list_remaining()]
            settings.reject(
                remaining, f"{smt.class_name or 'an SMT without `type`'}: {error.why}", error.fix, error.kind
            )
        chain.is_routed |= _changes_topic(smt)
        chain.changed_headers |= list_changed_headers(smt)
    if chain.steps or chain.rules or chain.key:
        chain.comment = settings.cite("transforms")
    else:
        settings.reject(["transforms"], "none of its SMTs is imported")
    _account_for_rest(settings, aliases)
    return chain


def keep_chain(settings: Settings, use: ChainUse) -> Chain:
    """Report the SMTs of a source connector that stay in the connector. The chain has its handling of deletes, if it writes rows."""
    chain = Chain()
    for alias in split_list(settings.get("transforms")):
        smt = Smt(settings, alias)
        if smt.is_builtin and smt.class_name == "ExtractNewRecordState":
            step, options = make_step(smt, "unwrap")
            copy_options(smt, options, *_DELETES)
            _adapt_deletes(options, use)
            chain.steps = [step]
    settings.ignore(
        [*settings.list_keys("transforms"), *settings.list_keys("predicates")],
        "the connector applies its transforms before headrace reads the topic",
    )
    return chain


def _import_smt(smt: Smt, chain: Chain, use: ChainUse) -> None:
    if report_extract_key(smt, chain.key, chain.key_fields):
        return
    mapper = _find_mapper(smt)
    reject_key_smt(smt)
    condition = read_condition(smt)
    if smt.class_name in _ROUTERS and use.without_routers and not condition:
        smt.settings.ignore(smt.list_keys(), use.without_routers)
        return
    _check_condition(smt, condition, chain)
    _check_topic(smt, chain)
    result = mapper(smt)
    if use.has_envelopes and smt.class_name in _OF_COLUMNS:
        why = "it changes the fields of Debezium's envelopes, because no `unwrap` is before it"
        raise NotImportableError(why, "add the transform after `unwrap`, if it is for columns of the rows")
    if smt.class_name == "HeaderToValue":
        replace_headers(smt, result, condition, chain.changed_headers, chain.all_steps)
    for step in result.steps:
        _complete_step(smt, step, condition, use)
    chain.has_only_rows |= condition is None and any("unwrap" in step.entries for step in result.steps)
    if smt.class_name == "EventRouter":
        _add_router(chain, result, use)
    else:
        chain.steps += result.steps
    if smt.class_name == "DebeziumTransform" and use.names_own_tables:
        why = (
            "`iceberg.tables` names the table; the target is a field in the column `_cdc`, which headrace does not add"
        )
        smt.settings.reject(
            [f"{smt.prefix}cdc.target.pattern"], why, "`add.fields` of `unwrap` adds fields of the event"
        )
        result.rules = []
    chain.rules += result.rules
    if result.key:
        columns = read_key(smt.settings, f"{smt.prefix}fields", chain.all_steps)
        chain.key, chain.key_fields = result.key, smt.list_items("fields")
        chain.key.add("key", columns, smt.cite("type", "fields"))


def _check_topic(smt: Smt, chain: Chain) -> None:
    """Raise for an SMT that needs the name that a router before it gave to the topic."""
    if chain.is_routed and smt.class_name in (*_ROUTERS, "EventRouter"):
        raise NotImportableError("one router of a chain is imported", "write its result in `target:` of `tables:`")
    if chain.is_routed and smt.get("topic.field"):
        why = "a router before it changes the name of the topic; headrace inserts the topic's own name"
        raise NotImportableError(why, "`insert: {topic.field: …}`, if the topic's own name is what you need")


def _changes_topic(smt: Smt) -> bool:
    """Return whether an SMT gives records another topic."""
    is_unwrap = smt.class_name == "ExtractNewRecordState"
    return bool(_NEW_TOPIC.search(smt.class_name)) or (is_unwrap and bool(smt.get("route.by.field")))


def _add_router(chain: Chain, router: Imported, use: ChainUse) -> None:
    """Add the step of a router of outbox events before an `unwrap`, which is for all topics.

    NotImportableError if the router receives rows, which it passes on, or if the sink names one table for all topics.
    """
    (step,) = router.steps
    (options,) = step.entries.values()
    assert isinstance(options, Block)
    tables = options.entries.get("tables")
    are_earlier_rows = any("unwrap" in other.entries for other in chain.earlier_steps)
    if chain.has_only_rows or are_earlier_rows or (chain.unwraps and tables is None):
        why = "an SMT before it makes rows of the events, and the router passes rows on"
        raise NotImportableError(why, "limit both SMTs with TopicNameMatches, or list the router first")
    if use.without_routers:
        if tables is not None:
            raise NotImportableError(use.without_routers, "write a rule for the topic of the outbox table in `tables:`")
        router.rules = []
    place = next((number for number, other in enumerate(chain.steps) if "unwrap" in other.entries), len(chain.steps))
    for other in chain.steps[place:]:
        (others,) = other.entries.values()
        if "unwrap" not in other.entries and isinstance(others, Block) and isinstance(tables, Line):
            others.add("tables.exclude", [tables.value], "the SMT receives no rows of the outbox table")
    chain.steps.insert(place, step)


def _check_condition(smt: Smt, condition: Condition | None, chain: Chain) -> None:
    """Raise for a predicate that the transform cannot have, or that would compare another name."""
    if condition is None:
        return
    if condition.topics and chain.is_routed:
        why = "its predicate compares the name that a router before it gave to the topic; headrace compares the topic's own name"
        raise NotImportableError(why, "add the transform with `tables:`, which compares the target")
    if condition.header in chain.changed_headers:
        why = "its predicate reads a header that an SMT before it adds or removes; headrace reads the headers before that SMT"
        raise NotImportableError(why, "add the transform with a SQL condition over the row in `when`")
    if smt.class_name in _WITHOUT_CONDITION and not (condition.topics and smt.class_name in _UNWRAPS):
        raise NotImportableError(*_WITHOUT_CONDITION[smt.class_name])


def _complete_step(smt: Smt, step: Block, condition: Condition | None, use: ChainUse) -> None:
    """Add what follows from the predicate and the sink."""
    (name, options), *_ = step.entries.items()
    assert isinstance(options, Block)
    if name == "outbox":  # Its options have the topics of the predicate.
        if use.appends_only:
            keep_empty_events(smt, options)
    elif condition and name == "unwrap":
        options.comment += f"; {smt.settings.cite(*condition.keys)}"
        why = "`unwrap` applies to all topics of the pipeline, the SMT to the topics of its predicate"
        fix = "select tables with `unwrap: {tables: […]}`, if some topics have no envelopes"
        smt.settings.add_to_do([f"{smt.prefix}predicate"], why, fix)
    elif condition:
        options.add("when", condition.sql, smt.settings.cite(*condition.keys))
    if name == "filter":
        options.add("updates", "drop", "Kafka Connect leaves out the record, and the stored row stays")
    if name == "unwrap" and smt.class_name == "DebeziumTransform" and use.appends_only:
        options.add("delete.tombstone.handling.mode", "rewrite", "the sink appends deletes as well")
        why = "headrace does not add the column `_cdc`, which distinguishes the appended rows"
        smt.settings.add_to_do(
            [smt.type_key], why, "`add.fields: op,source.ts_ms` of `unwrap`; deletes have `__deleted`"
        )
    elif name == "unwrap":
        _adapt_deletes(options, use)


def _adapt_deletes(options: Block, use: ChainUse) -> None:
    """Change the handling of deletes of an unwrap to that of the sinks."""
    if use.appends_only:
        keep_deleted_rows(options)
    elif use.rewritten_deletes:
        remove_rewritten_rows(options, use.rewritten_deletes)


def _find_mapper(smt: Smt) -> Callable[[Smt], Imported]:
    """Return the function that imports an SMT. NotImportableError with the nearest transform if there is none."""
    kind = smt.get("type")
    if not smt.is_builtin:
        raise NotImportableError(*CUSTOM)
    is_other_filter = smt.class_name == "Filter" and not kind.startswith("org.apache.kafka.")
    if smt.class_name not in _MAPPERS or is_other_filter:
        raise find_nearest(kind, smt.class_name)
    return _MAPPERS[smt.class_name]


def _account_for_rest(settings: Settings, aliases: list[str]) -> None:
    """Report options of SMTs and predicates that the list does not name."""
    listed = tuple(f"transforms.{alias}." for alias in aliases)
    unused = [
        k for k in settings.list_keys("transforms.") if not k.startswith(listed) and k in settings.list_remaining()
    ]
    settings.reject(unused, "the list `transforms` does not name this SMT", "remove its options")
    rest = [key for key in settings.list_keys("predicates") if key in settings.list_remaining()]
    settings.reject(rest, "no imported SMT uses this predicate")
    negated = [f"{prefix}{option}" for prefix in listed for option in PREDICATE_OPTIONS]
    settings.reject([k for k in negated if k in settings.list_remaining()], "negates a predicate that is not imported")
