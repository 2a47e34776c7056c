"""JSON without a schema. Types are inferred from the data once and kept; later batches only add columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace.sdk import DataError, RecordReader, RejectReason, SchemaLog, Subject
from headrace.sdk.columns import barrier, quote_name
from headrace.sdk.schemas import add_missing_fields
from headrace_sources.formats.json.declared_columns import (
    add_time_options,
    find_declared_columns,
    find_rows,
    parse_declared_types,
    read_table_types,
    to_table_schema,
    to_wire_schema,
)
from headrace_sources.formats.json.field_names import (
    DroppedFields,
    count_names,
    drop_bad_key_names,
    drop_bad_names,
    has_dropped_field,
    has_half_pair_name,
    keep_distinct_names,
)
from headrace_sources.formats.json.inference import infer_schema, parse_object
from headrace_sources.formats.json.map_keys import find_map_names, put_declared_maps
from headrace_sources.formats.json.parsing import (
    BODY,
    CORRUPT,
    PARSED,
    TABLE,
    has_schema,
    has_several_documents,
    is_too_deep,
    parse_options,
)
from headrace_sources.formats.json.payload_wrapper import are_wrapped, is_wrapper, take_payload
from headrace_sources.kafka_connect.connect_schema import ConnectSchema
from headrace_sources.kafka_connect.connect_types import conversion_failed, convert, needs_conversion, wire_type
from headrace_sources.kafka_connect.decimals import find_rounded
from headrace_sources.kafka_connect.json_values import HALF_PAIR, has_half_pair, keep_utf8, parse_json
from headrace_sources.kafka_connect.misfits import JsonMisfits
from headrace_sources.limits import JSON_LEVELS
from headrace_sources.registries.registry_reader import KEY_FIX

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: Number of records with a schema that are not single records.
_MANY = 20
#: Column: the record's string, or null if it is not UTF-8.
_CHECKED = "_headrace_checked"
#: Column: the decimals of a record with more decimal places than their types.
_EXACT = "_headrace_exact"
_VALUE_FIX = "check `format:`, and that each line is one event; if the records are damaged, set `dead.letters: {undecodable: dead-letter}`"
#: A number that may have decimal places.
_FRACTION = r"\.[0-9]|[0-9][eE]"


@dataclass
class _KnownTypes:
    """Column types of a subject from the pipeline file and the table, looked up for new columns."""

    columns: Mapping[str, ConnectSchema] | None = None
    #: Types that the pipeline file declares.
    declared: Mapping[str, ConnectSchema] | None = None


@dataclass(frozen=True)
class SchemalessReader(RecordReader):
    """Reader of records by inferred types, and by the types of the pipeline file and the table."""

    schema: StructType
    #: Fields of events that are rows.
    row_fields: Collection[str]
    #: Column → schema to parse it with, if its type is not inferred.
    declared: Mapping[str, ConnectSchema]
    dropped: DroppedFields
    #: Options of Spark's JSON reader.
    options: Mapping[str, str]
    is_key: bool
    is_inferred: bool = True

    def decode(self, frame: DataFrame, column: str, schema: StructType, error: str) -> DataFrame:
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructField, StructType

        tree = self._make_tree(schema)
        record_type = StructType([*wire_type(tree), StructField(CORRUPT, StringType())])  # type: ignore[misc]
        text = F.col(column).cast("string")
        others = [F.col(quote_name(name)) for name in frame.columns if name != column]
        is_record = F.col(BODY).isNotNull()
        is_bad = F.col(PARSED).isNull() | F.col(f"{PARSED}.{CORRUPT}").isNotNull()
        is_bad |= is_too_deep(F.col(BODY))
        is_bad |= has_several_documents(F.col(BODY), self.options)
        is_bad |= has_half_pair(F.col(BODY)) & ~has_half_pair_name(F.col(BODY))
        if self._rejects_schemas:
            is_bad |= has_schema(F.col(BODY))
        if self._takes_payloads:
            is_bad |= is_wrapper(F.col(BODY))  # It has further fields next to the payload.
        fields = F.struct(*[F.col(PARSED).getField(name).alias(name) for name in schema.names])
        # A column of its own, because the parser refers to it several times.
        frame = frame.select(*others, self._take_body(text).alias(BODY))
        frame = frame.select(*others, BODY, barrier(keep_utf8(F.col(BODY))).alias(_CHECKED))
        struct = parse_json(F.col(_CHECKED), record_type, parse_options(self.options))
        frame = frame.select(*others, BODY, struct.alias(PARSED))
        if (rounded := find_rounded(tree)) is not None:
            frame, lost = self._find_lost_digits(frame, rounded)
            is_bad |= lost
        if needs_conversion(tree):
            frame = frame.select("*", barrier(convert(fields, tree, schema)).alias(TABLE))
            failed = conversion_failed(fields, F.col(TABLE), tree)
            fields, is_bad = F.col(TABLE), is_bad if failed is None else is_bad | failed
        return frame.select(
            *others,
            F.when(is_record, fields).alias(column),
            F.when(is_record & is_bad, F.lit(RejectReason.UNDECODABLE))
            .when(is_record & has_dropped_field(F.col(BODY), self.dropped), F.lit(RejectReason.FIELD_NAME))
            .alias(error),
        )

    def _find_lost_digits(self, frame: DataFrame, tree: ConnectSchema) -> tuple[DataFrame, Column]:
        """Add the decimals of ``tree`` to the frame, and return whether the first parse has rounded one of them."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructField, StructType

        exact_type = StructType([*wire_type(tree), StructField(CORRUPT, StringType())])  # type: ignore[misc]
        exact = parse_json(F.col(BODY), exact_type, parse_options(self.options))
        frame = frame.select("*", barrier(F.when(F.col(BODY).rlike(_FRACTION), exact)).alias(_EXACT))
        lost = conversion_failed(F.col(_EXACT), convert(F.col(_EXACT), tree), tree)
        assert lost is not None, "decimals may be rounded"
        return frame, lost

    def locate_errors(self, frame: DataFrame, column: str, schema: StructType) -> DataFrame:
        from pyspark.sql import functions as F

        others = [F.col(quote_name(name)) for name in frame.columns if name != column]
        frame = frame.select(*others, self._take_body(F.col(column).cast("string")).alias(BODY))
        tree = self._make_tree(schema)
        trees = {BODY: tree} if (rounded := find_rounded(tree)) is None else {BODY: tree, _EXACT: rounded}
        frame = frame.select("*", F.col(BODY).alias(_EXACT))
        misfits = [JsonMisfits(text, (each,), schema, self.options, self.is_key) for text, each in trees.items()]
        frame = frame.select("*", *[column for each in misfits for column in each.parse()])
        noun = "the record key" if self.is_key else "the record"
        deep = F.lit(f"{noun} has more than {JSON_LEVELS} levels of objects and arrays")
        is_damaged = F.col(BODY).isNotNull() & keep_utf8(F.col(BODY)).isNull()
        found = F.when(is_damaged, F.lit(f"{noun} is not UTF-8")).when(is_too_deep(F.col(BODY)), deep)
        found = found.when(has_half_pair(F.col(BODY)), F.lit(f"{noun} {HALF_PAIR}"))
        if self._rejects_schemas:
            found = found.when(
                has_schema(F.col(BODY)), F.lit(f"{noun} has a schema, and the topic's first records had none")
            )
        return frame.select(*others, found.otherwise(F.coalesce(*[each.describe() for each in misfits])).alias(column))

    @property
    def _rejects_schemas(self) -> bool:
        """Whether records with an embedded schema are dead letters: their fields are no columns of the topic."""
        return not {"schema", "payload"} <= set(self.schema.names)

    @property
    def _takes_payloads(self) -> bool:
        return "payload" not in self.schema.names

    def _take_body(self, text: Column) -> Column:
        """Return the record, which may be inside a payload."""
        return barrier(take_payload(text)) if self._takes_payloads else text

    def _make_tree(self, schema: StructType) -> ConnectSchema:
        """Return the schema to parse records with."""
        return add_time_options(to_wire_schema(schema, self.row_fields, self.declared), self.options)


def open_by_data(
    spark: SparkSession,
    texts: DataFrame,
    first: Sequence[str],
    subject: Subject,
    log: SchemaLog,
    options: Mapping[str, str],
) -> RecordReader:
    """Return the reader of the columns of a batch (``texts``: column ``BODY``) and of earlier batches.

    ``first``: a few of a new topic's first records.
    """
    from pyspark.sql import functions as F

    known_types = log.state(subject, _KnownTypes)
    if known_types.declared is None:
        known_types.declared = parse_declared_types(log.file_types(subject), subject.topic)
    stored = log.get(subject)
    known = None if stored is None else keep_distinct_names(stored)
    if are_wrapped(list(map(parse_object, first))) if known is None else "payload" not in known.names:
        texts = texts.select(barrier(take_payload(texts[BODY])).alias(BODY)).where(~is_wrapper(F.col(BODY)))
        first = [row[0] for row in texts.head(len(first))] if first else first
    inferred = infer_schema(spark, texts, first, options, known_types.declared, known)
    if _may_have_schemas(inferred, known) and _find_schemas(texts, subject, is_new=known is None):
        inferred = infer_schema(
            spark, texts.where(~has_schema(texts[BODY])), first, options, known_types.declared, known
        )
    if known is None and not inferred.fields:
        if not texts.isEmpty():
            _check_rule(subject, log)
        return SchemalessReader(inferred, (), {}, DroppedFields(), options, is_key=subject.part == "key")
    inferred = put_declared_maps(spark, inferred, known, known_types.declared, log)
    every_name = inferred
    drop_names = drop_bad_key_names if subject.part == "key" else drop_bad_names
    inferred, dropped = drop_names(inferred, known, count_names(first))
    schema: Any = inferred if known is None else add_missing_fields(known, inferred)
    row_fields = log.row_fields(schema)
    if schema != known or known_types.columns is None:  # types only change with a new column
        rows = find_rows(schema, row_fields)
        known_types.columns = {
            **read_table_types(spark, rows, log.table_types(subject)),
            **find_declared_columns(spark, rows, known_types.declared),
        }
    columns = known_types.columns
    schema = to_table_schema(schema, row_fields, columns) if columns else schema
    log.remember(subject, schema)
    dropped = replace(dropped, maps=find_map_names(schema, every_name))
    return SchemalessReader(schema, row_fields, columns, dropped, options, is_key=subject.part == "key")


def _check_rule(subject: Subject, log: SchemaLog) -> None:
    """Raise DataError for records of which none is a JSON object, unless a rule of the file accepts undecodable records.

    Most such topics have another format than the file names.
    """
    if subject.part == "key" or RejectReason.UNDECODABLE not in log.ruled(subject.topic):
        fix = KEY_FIX if subject.part == "key" else _VALUE_FIX
        raise DataError(f"none of the {subject.nouns} is a JSON object", where=f"topic {subject.topic}", fix=fix)


def _may_have_schemas(inferred: StructType, known: StructType | None) -> bool:
    """Return whether records of a batch may have embedded schemas."""
    if "payload" not in inferred.names:
        return False
    schema = inferred["schema"].dataType if "schema" in inferred.names else None
    return known is None or "payload" not in known.names or "type" in getattr(schema, "names", ())


def _find_schemas(texts: DataFrame, subject: Subject, *, is_new: bool) -> bool:
    """Return whether records have embedded schemas. DataError if most have one, for example after a change of the converter.

    In a small batch of a known topic, they are single records. ``is_new``: the topic is new.
    """
    from pyspark.sql import functions as F

    found = texts.agg(F.count("*"), F.count_if(has_schema(F.col(BODY)))).head()
    assert found is not None, "an aggregate has a row"
    if found[1] * 2 > found[0] and (is_new or found[1] >= _MANY):
        raise DataError(
            "some records have a schema, but the first records did not",
            where=f"topic {subject.topic}",
            fix="restore `schemas.enable`, or read the records after its change with a new checkpoint",
        )
    return bool(found[1])
