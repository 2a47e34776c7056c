"""JSON as Kafka Connect's JsonConverter writes it with ``schemas.enable``: a schema precedes each payload."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace.sdk import DataError, RecordReader, RejectReason, SchemaLog, Subject, UnknownSchemaError, events as E
from headrace.sdk.changes import IMAGES
from headrace.sdk.columns import any_of, barrier, quote_name, reuse_columns
from headrace.sdk.schemas import convert_fitting, fail_on_unknown_schema, find_unknown_schemas, union_schemas
from headrace_sources.formats.json.declared_columns import refuse_declared_columns
from headrace_sources.formats.json.parsing import (
    BODY,
    CORRUPT,
    NULL_WITH_SCHEMA,
    PARSED,
    TABLE,
    has_several_documents,
    parse_options,
)
from headrace_sources.formats.json.schema_groups import SchemaGroup, group_trees
from headrace_sources.kafka_connect.connect_schema import (
    ConnectSchema,
    drop_bad_names,
    find_schema_name,
    is_metadata_key,
    limit_schema,
    parse_connect_schema,
)
from headrace_sources.kafka_connect.connect_types import convert_column, table_type, wire_type
from headrace_sources.kafka_connect.decimals import with_numeric_decimals
from headrace_sources.kafka_connect.json_values import HALF_PAIR, has_half_pair, keep_utf8, parse_json
from headrace_sources.kafka_connect.misfits import JsonMisfits, take_newest
from headrace_sources.limits import EMBEDDED_SCHEMA_CHARACTERS, SCHEMA_COLUMNS, WRITER_SCHEMAS
from headrace_sources.registries.registry_reader import EmptyReader

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

_HEAD, _PAYLOAD, _ID = "_headrace_head", "_headrace_payload", "_headrace_id"
#: Start of a record of JsonConverter, and its separator of schema and payload. Quotes in a string are escaped, so that a
#: string cannot contain the separator.
_BEGIN, _BETWEEN = '{"schema":{"type":', ',"payload":'
#: Name in the errors of tasks that read an unknown schema.
_DECODER = "json"
#: Entry next to the ids of a subject's writer schemas: some records have decimals as numbers, which no schema shows. Only then are
#: records parsed in both ways, by a plan of twice the size.
_NUMERIC = "decimal.format=NUMERIC"


@dataclass(frozen=True)
class EmbeddedSchemaReader(RecordReader):
    """Reader of records with embedded schemas."""

    schema: StructType
    subject: Subject
    groups: Sequence[SchemaGroup]
    #: Ids of invalid schemas and of schemas without columns.
    unreadable: Sequence[str]
    #: Schemas that conflict with others or have invalid names. Their records are rejected, with the columns that fit.
    rejected: Sequence[SchemaGroup]
    #: Ids of schemas whose records are null, without an error.
    ignored: Sequence[str]
    #: Options of Spark's JSON reader.
    options: Mapping[str, str]
    #: Whether decimals may also be numbers. Otherwise a task fails that reads such a record.
    numeric: bool
    #: Whether records of unknown schemas are dead letters, because no further schemas are stored.
    is_full: bool
    #: Name of a schema → its ids.
    type_ids: Mapping[str, Sequence[str]]

    @property
    def types(self) -> Sequence[str]:
        return tuple(self.type_ids)

    def decode(self, frame: DataFrame, column: str, schema: StructType, error: str) -> DataFrame:
        from pyspark.sql import functions as F

        others = [F.col(quote_name(name)) for name in frame.columns if name != column]
        text = F.col(BODY)
        frame = frame.select(*others, F.col(column).cast("string").alias(BODY))
        frame = frame.select(*others, text, _head().alias(_HEAD))
        frame = frame.select(*others, text, _payload().alias(_PAYLOAD), _id().alias(_ID))
        parts = []
        for i, group in enumerate(self.groups):
            frame, part = self._parse_group(frame, group, schema, f"{i}")
            parts.append(part)
        values = [part.value for part in parts]
        for i, group in enumerate(self.rejected):
            own: Any = table_type(group.tree)
            condition = F.col(_ID).isin(list(group.ids))
            frame, value, _ = self._parse_payload(frame, group.tree, own, f"r{i}", condition)
            values.append(convert_fitting(value, own, schema))
        reason = F.when(text.isNotNull() & ~has_null_payload(text), self._reject_reason(parts))
        type_ = F.lit(None).cast("string")
        for name, ids in self.type_ids.items():
            type_ = F.when(F.col(_ID).isin(list(ids)), F.lit(name)).otherwise(type_)
        types = [type_.alias(E.TYPE)] if len(self.types) > 1 else []
        return frame.select(*others, F.coalesce(*values).alias(column), barrier(reason).alias(error), *types)

    def locate_errors(self, frame: DataFrame, column: str, schema: StructType) -> DataFrame:
        from pyspark.sql import functions as F

        others = [F.col(quote_name(name)) for name in frame.columns if name != column]
        text, id_ = F.col(column).cast("string"), F.col(_ID)
        frame = frame.select(*others, F.when(~has_null_payload(text), text).alias(BODY))
        frame = frame.select("*", barrier(_head()).alias(_HEAD))
        frame = frame.select("*", barrier(_payload()).alias(_PAYLOAD), barrier(_id()).alias(_ID))
        noun = "the record key" if self.subject.part == "key" else "the record"
        long = f"{noun} has a schema of more than {EMBEDDED_SCHEMA_CHARACTERS:,} characters"
        has_body = F.col(BODY).isNotNull()
        found = [
            F.when(F.length(_HEAD) > EMBEDDED_SCHEMA_CHARACTERS, F.lit(long)),
            F.when(has_body & keep_utf8(F.col(BODY)).isNull(), F.lit(f"{noun} is not UTF-8")),
            F.when(has_half_pair(F.col(_PAYLOAD)), F.lit(f"{noun} {HALF_PAIR}")),
            F.when(has_body & id_.isNull(), F.lit(f"{noun} has no schema, or is not valid JSON")),
            F.when(id_.isin(list(self.unreadable)), F.lit(f"{noun} has a schema that is not a row of Kafka Connect")),
        ]
        groups = take_newest(self.groups, lambda group: group.tree)
        texts = {f"{_PAYLOAD}{i}": group for i, group in enumerate(groups)}
        misfits = [self._misfits_of(group, schema, name) for name, group in texts.items()]
        payloads = [F.when(id_.isin(list(group.ids)), F.col(_PAYLOAD)) for group in groups]
        frame = frame.select("*", *[barrier(text).alias(name) for text, name in zip(payloads, texts, strict=True)])
        frame = frame.select("*", *[parsed for each in misfits for parsed in each.parse()])
        return frame.select(*others, F.coalesce(*found, *[each.describe() for each in misfits]).alias(column))

    def _misfits_of(self, group: SchemaGroup, schema: StructType, text: str) -> JsonMisfits:
        tree = group.tree.project(schema)
        trees = (tree, *filter(None, [with_numeric_decimals(tree)]))
        return JsonMisfits(text, trees, schema, self.options, self.subject.part == "key", ("payload",))

    def _parse_group(
        self, frame: DataFrame, group: SchemaGroup, schema: StructType, name: str
    ) -> tuple[DataFrame, _ParsedGroup]:
        """Parse the payloads of a group; return the frame and the parsed columns."""
        from pyspark.sql import functions as F

        in_group = F.col(_ID).isin(list(group.ids))
        tree = group.tree.project(schema)
        frame, value, fits = self._parse_payload(frame, tree, schema, name, in_group)
        numeric_tree = with_numeric_decimals(tree)
        if numeric_tree is None:
            return frame, _ParsedGroup(value, fits)
        others = in_group & ~fits
        if not self.numeric:
            return frame, _ParsedGroup(value, fits, others)
        frame, numeric_value, numeric_fits = self._parse_payload(frame, numeric_tree, schema, f"{name}n", others)
        return frame, _ParsedGroup(F.coalesce(F.when(fits, value), numeric_value), fits | numeric_fits)

    def _parse_payload(
        self, frame: DataFrame, tree: ConnectSchema, schema: StructType, name: str, condition: Column
    ) -> tuple[DataFrame, Column, Column]:
        """Parse the payloads with a schema; return the frame, the value, and whether it is complete."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructField, StructType

        record_type = StructType([StructField("payload", wire_type(tree)), StructField(CORRUPT, StringType())])
        parsed, table = PARSED + name, TABLE + name
        struct = parse_json(F.col(_PAYLOAD), record_type, parse_options(self.options))
        frame = frame.select("*", barrier(F.when(condition, struct)).alias(parsed))
        converted, failed = convert_column(f"{parsed}.payload", table, tree, schema)
        frame = frame.select("*", barrier(converted).alias(table))
        fits = F.col(parsed).isNotNull() & F.col(parsed).getField(CORRUPT).isNull()
        return frame, F.col(table), fits if failed is None else fits & ~failed

    def _reject_reason(self, parts: Sequence[_ParsedGroup]) -> Column:
        """Return the reject reason of a record, or null. The task fails if the record's schema or decimal format is unknown."""
        from pyspark.sql import functions as F

        id_ = F.col(_ID)
        known = [*self.unreadable, *self.ignored]
        known += [id_ for group in (*self.rejected, *self.groups) for id_ in group.ids]
        rejected = F.lit(None).cast("string")
        for group in self.rejected:
            rejected = F.when(id_.isin(list(group.ids)), F.lit(group.reason)).otherwise(rejected)
        fits = any_of(part.fits for part in parts)
        may_be_numeric = any_of(part.may_be_numeric for part in parts if part.may_be_numeric is not None)
        return (
            F.when(id_.isNull() | id_.isin(list(self.unreadable)), F.lit(RejectReason.UNDECODABLE))
            .when(rejected.isNotNull(), rejected)
            .when(~id_.isin(known), F.lit(RejectReason.UNDECODABLE) if self.is_full else self._fail_on(id_))
            .when(id_.isin(list(self.ignored)), F.lit(None).cast("string"))
            .when(may_be_numeric, self._fail_on(F.lit(_NUMERIC)))
            .when(~fits | has_several_documents(F.col(_PAYLOAD), self.options), F.lit(RejectReason.UNDECODABLE))
            .when(has_half_pair(F.col(_PAYLOAD)), F.lit(RejectReason.UNDECODABLE))
        )

    def _fail_on(self, id_: Column) -> Column:
        return fail_on_unknown_schema(_DECODER, self.subject, id_).cast("string")


@dataclass(frozen=True)
class _ParsedGroup:
    """Columns of a parsed payload: its value, the part that fits the types, and whether all of it does."""

    value: Column
    fits: Column
    #: Whether it does not fit and its decimals were not yet read as numbers.
    may_be_numeric: Column | None = None


def learn_schemas(texts: DataFrame, subject: Subject, log: SchemaLog, met: Collection[str] = ()) -> None:
    """Log the new schemas of the records (column ``BODY``) in order of arrival, in one pass.

    ``met``: ids for which tasks failed.
    """
    from pyspark.sql import functions as F

    known = list(log.writers(subject))
    texts = texts.where(F.col(BODY).isNotNull() & ~has_null_payload(F.col(BODY)))
    heads = texts.select(_head().alias(_HEAD), F.monotonically_increasing_id().alias("row"))
    fresh = heads.withColumn(_ID, _id()).where(F.col(_ID).isNotNull())
    if known:
        fresh = fresh.where(~F.col(_ID).isin(known))
    # Grouped by the string, which Spark hashes. As an aggregated value it would be sorted.
    rows = fresh.groupBy(_ID, _HEAD).agg(F.min("row").alias("row"))
    for row in rows.orderBy("row").limit(max(WRITER_SCHEMAS - len(known), 0)).collect():
        log.add_writer(subject, row[_ID], row[_HEAD])
    if _NUMERIC in met:
        log.add_writer(subject, _NUMERIC, "")


def open_by_writers(subject: Subject, log: SchemaLog, options: Mapping[str, str]) -> RecordReader:
    """Return the reader of all logged writer schemas. DataError if their records are not rows."""
    refuse_declared_columns(log, subject)
    heads = {id_: head for id_, head in log.writers(subject).items() if id_ != _NUMERIC}
    ignored = [id_ for id_, head in heads.items() if subject.part == "key" and _is_metadata_key(head)]
    trees, broken, refusal = _parse_heads({id_: head for id_, head in heads.items() if id_ not in ignored})
    partial = [id_ for id_, tree in trees.items() if drop_bad_names(tree) is not tree]
    trees |= {id_: drop_bad_names(trees[id_]) for id_ in partial}
    types: dict[str, Any] = {id_: table_type(tree) for id_, tree in trees.items()}
    rows = {id_: data_type for id_, data_type in types.items() if data_type.typeName() == "struct"}
    if (trees or ignored) and not rows:
        if subject.part == "key":  # a value without a name is not a column: the rule names the key columns
            return EmptyReader()
        refusal = DataError(
            "the records are single values, not rows", fix="exclude the topic, or wrap the values with HoistField"
        )
    if not rows:
        assert refusal is not None, "a subject has writer schemas"
        refusal.where = f"topic {subject.topic}"
        raise refusal
    schema, contradicting = union_schemas(rows, f"topic {subject.topic}", aside=log.allows_conflicts(subject))
    reasons = dict.fromkeys(partial, RejectReason.FIELD_NAME)
    reasons |= dict.fromkeys(contradicting, RejectReason.SCHEMA_INCOMPATIBLE)
    groups = group_trees({id_: trees[id_] for id_ in rows if id_ not in reasons})
    rejected = [
        replace(group, reason=reason)
        for reason in sorted(set(reasons.values()))
        for group in group_trees({id_: trees[id_] for id_ in rows if reasons.get(id_) == reason})
    ]
    unreadable = [*broken, *(id_ for id_ in trees if id_ not in rows)]
    names = _find_types({id_: heads[id_] for id_ in rows}) if subject.part == "value" else {}
    return EmbeddedSchemaReader(
        schema,
        subject,
        groups,
        unreadable,
        rejected,
        ignored,
        options,
        numeric=_NUMERIC in log.writers(subject),
        is_full=len(log.writers(subject)) >= WRITER_SCHEMAS,
        type_ids=names,
    )


def explain_unknown_schemas(error_text: str) -> UnknownSchemaError | None:
    """Return the error for schemas that tasks do not know; None if there are none."""
    unknown = find_unknown_schemas(_DECODER, error_text)
    if not unknown:
        return None
    return UnknownSchemaError(
        "records have a schema that no record had before",
        where=f"topic {unknown[0][0].topic}",
        fix="run it again: the batch is planned with the new schema",
        schemas=unknown,
    )


def has_null_payload(text: Column) -> Column:
    """Return whether a record is a tombstone with a schema, or with null as its schema.

    The schema may differ from that of the rows: SMTs that skip tombstones do not change it.
    """
    is_null = text.startswith(_BEGIN) & text.endswith(f"{_BETWEEN}null}}")
    return text.rlike(NULL_WITH_SCHEMA) | is_null


def is_schema_with_payload(record: Mapping[str, Any]) -> bool:
    """Return whether a record has a schema that is not null, and a payload."""
    if set(record) != {"schema", "payload"}:
        return False
    return isinstance(record["schema"], dict) and "type" in record["schema"]


@reuse_columns
def _head() -> Column:
    """Return the part of BODY before the payload; null if it has no schema, or if BODY is not UTF-8."""
    from pyspark.sql import functions as F

    # The converter's own output is found without a parse. Other writers' JSON may have spaces, or the payload first.
    text = F.col(BODY)
    cut = F.substring_index(text, _BETWEEN, 1)
    likely = text.rlike(r'^\s*\{\s*"(schema|payload)"\s*:')
    is_schema = F.get_json_object(text, "$.schema.type").isNotNull()
    parsed = F.when(is_schema, F.concat(F.lit('{"schema":'), F.get_json_object(text, "$.schema")))
    return F.when(keep_utf8(text).isNotNull(), F.when(_is_as_converter_writes(text), cut).when(likely, parsed))


def _is_as_converter_writes(text: Column) -> Column:
    return text.startswith(_BEGIN) & text.contains(_BETWEEN)


@reuse_columns
def _payload() -> Column:
    """Return BODY without its schema, which is often ten times as long as the payload."""
    from pyspark.sql import functions as F

    text = F.col(BODY)
    body = text.cast("binary")  # where the length is known
    rest = body.substr(F.octet_length(_HEAD) + 2, F.length(body)).cast("string")
    return F.when(_is_as_converter_writes(text), F.concat(F.lit("{"), rest)).otherwise(text)


@reuse_columns
def _id() -> Column:
    """Return the id of the schema in _HEAD; null without a schema, or if the schema is too long."""
    from pyspark.sql import functions as F

    head = F.col(_HEAD)
    return F.when(F.length(head) <= EMBEDDED_SCHEMA_CHARACTERS, F.xxhash64(head).cast("string"))


def _find_types(heads: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    """Return name of a schema → its ids."""
    types: dict[str, list[str]] = {}
    for id_, head in heads.items():
        if name := find_schema_name(json.loads(head + "}")["schema"]):
            types.setdefault(name, []).append(id_)
    return types


def _is_metadata_key(head: str) -> bool:
    try:
        return is_metadata_key(json.loads(head + "}")["schema"])
    except (ValueError, RecursionError):  # Reported when the schema is parsed.
        return False


def _parse_heads(writers: Mapping[str, str]) -> tuple[dict[str, ConnectSchema], list[str], DataError | None]:
    """Return the parsed writer schemas by id, the ids of invalid ones, and their error."""
    trees, broken, refusal = {}, [], None
    columns: set[tuple[str, ...]] = set()
    for id_, head in writers.items():
        try:
            tree = _parse_head(head)
            columns = _add_columns(columns, tree)
            trees[id_] = tree
        except DataError as error:
            broken.append(id_)
            refusal = error
        except ValueError as error:
            broken.append(id_)
            refusal = DataError(f"the schema in the records is not JSON: {error}")
    return trees, broken, refusal


def _add_columns(columns: set[tuple[str, ...]], tree: ConnectSchema) -> set[tuple[str, ...]]:
    """Return the columns and the columns of another schema; DataError above the limit."""
    wider = columns.union(tree.paths())
    if len(wider) > SCHEMA_COLUMNS:
        raise DataError(f"the schemas of the records have more than {SCHEMA_COLUMNS:,} columns")
    return wider


@limit_schema
def _parse_head(head: str) -> ConnectSchema:
    return _complete_envelope(parse_connect_schema(json.loads(head + "}")["schema"]))


def _complete_envelope(tree: ConnectSchema) -> ConnectSchema:
    """Return the schema of an envelope with the fields that Flink CDC's ``debezium-json`` writes without naming them in the schema."""
    from pyspark.sql.types import StringType

    images = [tree.fields.get(name) for name in IMAGES] if tree.fields and set(tree.fields) == set(IMAGES) else []
    if not tree.fields or not images or not all(image and image.fields for image in images):
        return tree
    text = ConnectSchema(StringType())
    return replace(
        tree, fields={**tree.fields, "op": text, "source": ConnectSchema(fields={"db": text, "table": text})}
    )
