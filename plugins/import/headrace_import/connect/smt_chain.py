"""Chain of single message transforms (SMTs) as transforms and rules of tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace_import.connect.column_smts import (
    import_cast,
    import_extract_field,
    import_filter,
    import_flatten,
    import_iceberg_debezium,
    import_insert_field,
    import_mask_field,
    import_replace_field,
    import_timestamp_converter,
    import_unwrap,
    keep_deleted_rows,
)
from headrace_import.connect.predicates import PREDICATE_OPTIONS, read_condition
from headrace_import.connect.routing_smts import (
    import_logical_table_router,
    import_regex_router,
    import_value_to_key,
    reject_key_smt,
    report_extract_key,
)
from headrace_import.connect.smt import Imported, NotImportableError, Smt, split_list
from headrace_import.pipeline_draft import Block
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
    "ValueToKey": import_value_to_key,
}
#: SMTs without a counterpart → why, and what to do.
_NEAREST: Mapping[str, tuple[str, str]] = {
    "DropHeaders": ("a table has no headers", "remove it"),
    "HeaderFrom": ("a table has no headers", "`add.headers` of `unwrap` adds fields of the event as columns"),
    "InsertHeader": ("a table has no headers", "`insert` adds a column"),
    "HoistField": ("the columns of the rows are not in this file", '`compute: {columns: {all: "struct(a, b)"}}`'),
    "SetSchemaMetadata": ("a table has no schema name", "remove it"),
    "TimestampRouter": ("a row would move to another table with every update", "partition the table by a date"),
    "ExtractNewDocumentState": ("it needs the connector", "leave it in the connector: headrace reads its rows"),
    "ExtractChangedRecordState": ("its headers are for consumers of the topic", "remove it"),
    "ContentBasedRouter": ("its expression is Groovy or JavaScript", "`route.by.field` in `tables:`"),
    "PartitionRouting": ("partitions of a topic have no meaning for a table", "remove it"),
    "HeaderToValue": ("transforms do not read headers as columns", "add the value in the connector"),
    "TimezoneConverter": (
        "the columns are not in this file",
        "`compute: {columns: {at: \"from_utc_timestamp(at, 'Europe/Zurich')\"}}`",
    ),
    "TimescaleDb": ("it needs the connector", "leave it in the connector"),
    "SchemaChangeEventFilter": ("it needs the connector", "leave it in the connector"),
    "DecodeLogicalDecodingMessageContent": ("it needs the connector", "leave it in the connector"),
    "EventRouter": ("the outbox pattern is not supported", "leave it in the connector"),
    "ActivateTracingSpan": ("tracing is not supported", "remove it"),
    "VectorToJsonConverter": ("it is not supported", "leave it in the connector"),
    "KafkaMetadataTransform": (
        "its struct of metadata has no counterpart",
        "`insert` adds topic, partition, offset and timestamp",
    ),
}
_ROUTERS = ("RegexRouter", "ByLogicalTableRouter")
_NO_WHEN = ("`unwrap` has no condition", "select tables with `unwrap: {tables: […]}`")
_NO_RULE = ("a rule of `tables:` has no condition", "write a rule for the topics in `tables:`")
#: SMTs that are not imported with a predicate.
_WITHOUT_CONDITION = {
    **dict.fromkeys(("ExtractNewRecordState", "ExtractField", "DebeziumTransform"), _NO_WHEN),
    **dict.fromkeys((*_ROUTERS, "ValueToKey"), _NO_RULE),
}
_CUSTOM = ("a class of your own has no counterpart", "use `compute` or `filter` with SQL, or write a transform plugin")


@dataclass
class Chain:
    """Result of a chain: steps of ``transforms:``, rules of ``tables:``, and the key columns of ``ValueToKey``."""

    steps: list[Block] = field(default_factory=list)
    rules: list[Block] = field(default_factory=list)
    key: Block | None = None
    comment: str = ""

    @property
    def unwraps(self) -> bool:
        return any("unwrap" in step.entries for step in self.steps)


def import_chain(settings: Settings, *, appends_only: bool) -> Chain:
    """Return the SMTs of a connector in their order. ``appends_only``: its sink cannot remove rows."""
    chain = Chain()
    aliases = split_list(settings.get("transforms"))
    for alias in aliases:
        smt, before = Smt(settings, alias), settings.snapshot()
        try:
            _import_smt(smt, chain, appends_only=appends_only)
        except NotImportableError as error:
            settings.restore(before)
            remaining = [key for key in smt.list_keys() if key in settings.list_remaining()]
            settings.reject(remaining, f"{smt.class_name or 'an SMT without `type`'}: {error.why}", error.fix)
    if chain.steps or chain.rules or chain.key:
        chain.comment = settings.cite("transforms")
    else:
        settings.reject(["transforms"], "none of its SMTs is imported")
    _account_for_rest(settings, aliases)
    return chain


def keep_chain(settings: Settings) -> None:
    """Report the SMTs of a source connector that stay in the connector."""
    settings.ignore(
        [*settings.list_keys("transforms"), *settings.list_keys("predicates")],
        "the connector applies its transforms before headrace reads the topic",
    )


def _import_smt(smt: Smt, chain: Chain, *, appends_only: bool) -> None:
    if report_extract_key(smt, chain.key):
        return
    mapper = _find_mapper(smt)
    reject_key_smt(smt)
    condition = read_condition(smt)
    if condition and smt.class_name in _WITHOUT_CONDITION:
        raise NotImportableError(*_WITHOUT_CONDITION[smt.class_name])
    if condition and condition.topics and chain.rules:
        why = "its predicate compares the name that a router before it gave to the topic; headrace compares the topic's own name"
        raise NotImportableError(why, "add the transform with `tables:`, which compares the target")
    if chain.rules and smt.class_name in _ROUTERS:
        raise NotImportableError("one router of a chain is imported", "write its result in `target:` of `tables:`")
    result = mapper(smt)
    for step in result.steps:
        (name, options), *_ = step.entries.items()
        assert isinstance(options, Block)
        if condition:
            options.add("when", condition.sql, smt.settings.cite(*condition.keys))
        if name == "filter":
            options.add("updates", "drop", "Kafka Connect leaves out the record, and the stored row stays")
        if name == "unwrap" and appends_only:
            keep_deleted_rows(options)
    chain.steps += result.steps
    chain.rules += result.rules
    chain.key = result.key or chain.key


def _find_mapper(smt: Smt) -> Callable[[Smt], Imported]:
    """Return the function that imports an SMT. NotImportableError with the nearest transform if there is none."""
    if smt.get("type").startswith("io.debezium.") and smt.class_name == "Filter":
        raise NotImportableError("its condition is Groovy or JavaScript", "`filter: {condition: …}` with SQL")
    if not smt.is_builtin:
        raise NotImportableError(*_CUSTOM)
    if smt.class_name not in _MAPPERS:
        raise NotImportableError(*_NEAREST.get(smt.class_name, _CUSTOM))
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
