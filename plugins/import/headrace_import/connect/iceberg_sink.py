"""Sink connectors of Apache Iceberg and Tabular as sink ``iceberg``.

Tabular's connector also updates and deletes rows. The connector of Apache Iceberg comes from it, and only appends.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headrace_import.connect.key_columns import read_key
from headrace_import.connect.smt import NotImportableError, split_list
from headrace_import.import_report import Kind
from headrace_import.pipeline_draft import Block
from headrace_import.settings import Settings

APACHE, TABULAR = "org.apache.iceberg.connect.IcebergSinkConnector", "io.tabular.iceberg.connect.IcebergSinkConnector"
CLASSES = (APACHE, TABULAR)
_CATALOG, _TABLES = "iceberg.catalog.", "iceberg.tables"
_PROPERTIES, _OF_WRITER = "iceberg.tables.auto-create-props.", "iceberg.tables.write-props."
_DEFAULT_PARTITIONS = "iceberg.tables.default-partition-by"
_CDC, _UPSERT = "iceberg.tables.cdc-field", "iceberg.tables.upsert-mode-enabled"
#: Field with the operation of rows that ExtractNewRecordState has made, and of those of DebeziumTransform.
_FLAT_OP, _ICEBERG_OP = "__op", "_cdc.op"
_ROUTE, _DYNAMIC = "iceberg.tables.route-field", "iceberg.tables.dynamic-enabled"
#: Field that DebeziumTransform fills with the name of the table.
_CDC_TARGET = "_cdc.target"
_TIMES = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
_FIELD = re.compile(r"(?P<function>\w+)\((?P<column>[^,()]+)(?:,\s*(?P<number>\d+))?\)")


def is_append_only(settings: Settings) -> bool:
    """Return whether the connector adds a row for each record."""
    return not _has_operations(settings) or (settings.get(_UPSERT).lower() != "true" and not settings.get(_CDC))


def applies_rewritten_deletes(settings: Settings) -> bool:
    """Return whether the connector removes the rows of deletes that ExtractNewRecordState keeps as rows."""
    return _has_operations(settings) and settings.get(_CDC) == _FLAT_OP


def _has_operations(settings: Settings) -> bool:
    """Return whether the connector has options to update and delete rows."""
    return settings.get("connector.class") != APACHE


def has_static_tables(settings: Settings) -> bool:
    """Return whether the connector names its tables in its options, whatever the target of DebeziumTransform."""
    is_dynamic = settings.get(_DYNAMIC).lower() == "true" and settings.get(_ROUTE) == _CDC_TARGET
    return bool(settings.get(_TABLES)) and not is_dynamic


def report_operations(settings: Settings, *, unwraps: bool) -> None:
    """Report the field with the operations. ``unwraps``: a transform of the pipeline makes rows of Debezium's envelopes."""
    if not _has_operations(settings):
        settings.ignore([_CDC, _UPSERT], "the connector of Apache Iceberg has no such option: it appends each record")
    elif settings.get(_CDC) in ((_FLAT_OP, _ICEBERG_OP) if unwraps else (_FLAT_OP,)):
        settings.ignore([_CDC], "headrace applies the operations of Debezium's events and of rows with `__op` itself")
    elif settings.get(_CDC):
        why = "headrace reads no operation from this field: deleted rows stay in the table"
        fix = "records with `__op` = `d` or `__deleted` = `true`, or tombstones, remove rows"
        settings.reject([_CDC], why, fix, Kind.TO_DO)


def read_sink(settings: Settings) -> Block:
    """Return the sink with its options."""
    options = Block(comment=settings.cite("connector.class"))
    options.add("catalog", settings.read("iceberg.catalog") or "iceberg", settings.cite("iceberg.catalog"))
    properties = Block()
    for key in settings.list_keys(_CATALOG):
        properties.add(key.removeprefix(_CATALOG), settings.read(key), settings.cite(key))
    if properties.entries:
        options.entries["catalog.properties"] = properties
    if is_append_only(settings):
        why = "neither cdc-field nor upsert-mode-enabled" if _has_operations(settings) else "no updates and deletes"
        options.add("mode", "append", f"the connector has {why}")
    for key in settings.list_keys(_PROPERTIES):
        options.add(key.removeprefix(_PROPERTIES), settings.read(key), settings.cite(key))
    of_writer, fix = settings.list_keys(_OF_WRITER), "write them next to `catalog:`, as properties of new tables"
    settings.reject(of_writer, "headrace has no properties of the writer alone", fix)
    if (partitions := _read_partitions(settings)).entries:
        options.entries["partition.by"] = partitions
    return Block({"iceberg": options})


def read_spark(settings: Settings) -> Block:
    """Return the Hadoop settings of the connector as Spark settings."""
    spark = Block()
    for key in settings.list_keys("iceberg.hadoop."):
        name = f"spark.hadoop.{key.removeprefix('iceberg.hadoop.')}"
        spark.add(name, settings.read(key), settings.cite(key))
    return spark


def read_rules(settings: Settings, steps: Sequence[Block]) -> list[Block]:
    """Return the rules of ``tables:`` for the connector's tables. ``steps``: the transforms of the pipeline."""
    tables = split_list(settings.get(_TABLES))
    _report_branches(settings)
    if settings.get(_ROUTE) == _CDC_TARGET and not has_static_tables(settings):
        settings.ignore([_ROUTE, _DYNAMIC, _TABLES], "`target:` of `tables:` names the tables")
        _reject_table_options(settings)
        return []
    fix = "write a rule for each topic, or `route.by.field` with a field of the event, in `tables:`"
    routed = [key for key in settings.list_keys("iceberg.table.") if key.endswith(".route-regex")]
    rest = [_ROUTE, _DYNAMIC, *routed]
    settings.reject(
        [k for k in rest if k in settings.list_remaining()], "a column of the row cannot route it", fix, Kind.TO_DO
    )
    if len(tables) != 1:
        settings.reject([_TABLES], "several tables without rules for topics", fix, Kind.TO_DO)
        _reject_table_options(settings)
        return []
    settings.report_references([_TABLES], "the rule of all topics has one table")
    rule = Block()
    rule.add("source", "*", "all topics of the connector")
    rule.add("target", tables[0], settings.cite(_TABLES))
    ids = settings.find(f"iceberg.table.{tables[0]}.id-columns", "iceberg.tables.default-id-columns")
    if ids:
        _add_key(rule, settings, ids, steps)
    _reject_table_options(settings)
    return [rule]


def _add_key(rule: Block, settings: Settings, ids: str, steps: Sequence[Block]) -> None:
    try:
        rule.add("key", read_key(settings, ids, steps), settings.cite(ids))
    except NotImportableError as error:
        settings.reject([ids], error.why, error.fix, Kind.TO_DO)


def _report_branches(settings: Settings) -> None:
    """Report the branches of tables to which the connector commits."""
    keys = [key for key in settings.list_keys("iceberg.table") if key.endswith("commit-branch")]
    fix = "check that the readers of the branch may read `main`, or leave this table to the connector"
    settings.reject(keys, "headrace writes no branch: rows go to `main`", fix, Kind.TO_DO)


def _reject_table_options(settings: Settings) -> None:
    """Report the key columns that no rule has."""
    keys = [key for key in settings.list_remaining() if key.endswith("id-columns")]
    settings.reject(keys, "no rule of `tables:` has this table", "headrace uses the record key; otherwise write `key:`")


def _read_partitions(settings: Settings) -> Block:
    """Return table → fields."""
    partitions = Block()
    tables = split_list(settings.get(_TABLES)) if has_static_tables(settings) else []
    if tables and all(settings.has(f"iceberg.table.{table}.partition-by") for table in tables):
        settings.ignore([_DEFAULT_PARTITIONS], "each table has partitions of its own")
    for key in settings.list_keys("iceberg.table"):
        match = re.fullmatch(r"iceberg\.(?:table\.(?P<table>.+)\.|tables\.default-)partition-by", key)
        if match is None or key not in settings.list_remaining():
            continue
        fields = [_translate_field(item) for item in re.split(r",(?![^(]*\))", settings.get(key))]
        named = [field for field in fields if field]
        if len(named) == len(fields):
            partitions.add(match["table"] or "*", named, settings.cite(key))
        else:
            settings.reject([key], "`partition.by` has no such function", "name a column, or use bucket or days")
            if match["table"] and settings.has(_DEFAULT_PARTITIONS):
                partitions.add(match["table"], [], f"{settings.cite(key)}; not those of other tables")
    if "*" in partitions.entries:  # The first rule that matches applies.
        partitions.entries["*"] = partitions.entries.pop("*")
    return partitions


def _translate_field(text: str) -> str | None:
    """Return a partition field with the names of headrace; None for a function that it does not have."""
    match = _FIELD.fullmatch(text.strip())
    if match is None:
        return text.strip() if re.fullmatch(r"\w+", text.strip()) else None
    function, column, number = match["function"], match["column"].strip(), match["number"]
    if function == "bucket" and number:
        return f"bucket({number}, {column})"
    function = _TIMES.get(function, function)
    return f"{function}({column})" if function in _TIMES.values() and not number else None
