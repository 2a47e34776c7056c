"""JSON, one event a record: with a schema of its own, with one in a registry, or without.

Without one, types are taken from the data once and remembered: a later batch adds columns and never changes a type. With
one, as JsonConverter writes it (``{"schema": …, "payload": …}``), they are those of the schema, and nothing is guessed.
Schemas in a registry are ``registered``'s. A record that does not fit is an error of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import model_validator

from headrace.sdk import (
    DataError,
    Format,
    HeadraceError,
    RejectReason,
    UnknownSchemaError,
    add_missing_fields,
    fail_on_unknown_schema,
    find_unknown_schemas,
    full_text,
    quote_name,
    union_schemas,
)
from headrace_sources.connect import schema as connect
from headrace_sources.connect.schema import Wire
from headrace_sources.formats.json import declared_columns as columns, field_names as names
from headrace_sources.registries.client import Registry
from headrace_sources.registries.config import RegistryConfig
from headrace_sources.registries.decoder import RegisteredRecords
from headrace_sources.registries.json_payload import JsonParsing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.sdk import SchemaLog
    from headrace_sources.formats.json.field_names import Naming

_BODY, _PARSED, _CORRUPT = "_headrace_body", "_headrace_parsed", "_headrace_corrupt"
_HEAD, _PAYLOAD, _ID, _TABLE = "_headrace_head", "_headrace_payload", "_headrace_id", "_headrace_table"
#: Where the fields of a schema say whose it is: a dialect restricts the schema, and hands its fields on.
_SUBJECT = "headrace.subject"
#: How JsonConverter begins a record, and what it puts between the two halves. Quotes in a text are escaped, so this is
#: no part of one.
_BEGIN, _BETWEEN = '{"schema":{"type":', ',"payload":'
#: A null with a schema of null, as old converters write a tombstone.
_NOTHING = r'^\s*\{\s*"schema"\s*:\s*null\s*,\s*"payload"\s*:\s*null\s*\}\s*$'


@dataclass(frozen=True)
class _Writers:
    """The writer schemas of a subject: those that one tree can parse together, those that nobody can read, and those
    that contradict others.
    """

    readable: tuple[tuple[tuple[str, ...], Wire], ...]
    broken: tuple[str, ...]
    contradicting: tuple[str, ...] = ()

    @property
    def ids(self) -> list[str]:
        return [*self.broken, *self.contradicting, *(id_ for ids, _ in self.readable for id_ in ids)]


class JsonConfig(RegistryConfig):
    """Options of Spark's JSON reader, and of the registry that has the records' schemas, where one has."""

    passthrough: ClassVar[tuple[str, ...]] = (
        "allowBackslashEscapingAnyCharacter",
        "allowComments",
        "allowNonNumericNumbers",
        "allowNumericLeadingZeros",
        "allowSingleQuotes",
        "allowUnquotedControlChars",
        "allowUnquotedFieldNames",
        "dateFormat",
        "lineSep",
        "locale",
        "prefersDecimal",
        "primitivesAsString",
        "timestampFormat",
        "timestampNTZFormat",
    )

    @model_validator(mode="after")
    def _not_glue(self) -> JsonConfig:
        if self.registry == "glue":
            raise ValueError("`registry: glue` is for Avro: JSON whose schema is in AWS Glue is not read")
        return self


class JsonFormat(Format):
    """``format: json``, ``value: {json: {}}``."""

    name = "json"
    api_version = 1
    Config = JsonConfig

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self._writers: dict[str, _Writers] = {}
        self._unknown: set[str] = set()
        self._declared: dict[str, Mapping[str, Wire]] = {}
        #: Subject → fields in its batch that are no columns.
        self._left_out: dict[str, names.LeftOut] = {}
        self._registered: RegisteredRecords | None = None
        if self.config.registry:
            parsing = JsonParsing(self.config.options())
            self._registered = RegisteredRecords(parsing, self._registry_text, id_kind=self.config.id_kind)

    def schema(self, spark: SparkSession, frame: DataFrame, column: str, subject: str, log: SchemaLog) -> StructType:
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructType

        if self._registered:
            columns.none_declared(log, subject)
            return self._registered.schema(frame, column, subject, log)
        texts = frame.where(F.col(column).isNotNull()).select(F.col(column).cast("string").alias(_BODY))
        if log.writers(subject):
            if subject in self._unknown:
                self._learn(texts, subject, log)
            return self._planned(column, subject, log)
        first: list[str] = []
        if log.get(subject) is None:
            first = [row[0] for row in texts.where(~F.col(_BODY).rlike(_NOTHING)).head(20)]
            if not first:
                return StructType([])
            if _has_schema(first, subject):
                self._learn(texts, subject, log)
                return self._planned(column, subject, log)
        return self._inferred(spark, texts, first, names.of_key if column == "key" else names.nameable, subject, log)

    def decode(self, frame: DataFrame, column: str, schema: StructType, error: str) -> DataFrame:
        if self._registered:
            return self._registered.decode(frame, column, schema, error)
        subject = next((field.metadata[_SUBJECT] for field in schema if _SUBJECT in field.metadata), None)
        if subject is None or subject in self._declared:
            return self._decoded(frame, column, schema, error, subject or "")
        return self._decoded_by_writers(frame, column, schema, error, subject)

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        if self.config.registry:
            yield f"registry {self.config.registry}", f"answers, {self._registry.size()}"

    def explain(self, error: BaseException) -> HeadraceError | None:
        if self._registered:
            return self._registered.explain(full_text(error))
        found = [subject for subject, _ in find_unknown_schemas(full_text(error)) if subject in self._writers]
        if not found:
            return None
        self._unknown.update(found)
        return UnknownSchemaError(
            "records have a schema that no record had before",
            where=f"topic {_topic(found[0])}",
            fix="start again: the batch is planned anew with it",
        )

    def _registry_text(self, id: str) -> str:  # noqa: A002 - the registries' word
        return self._registry.json(id)

    @cached_property
    def _registry(self) -> Registry:
        client: Registry = self.config.client()
        return client

    # Without a schema.

    def _inferred(
        self, spark: SparkSession, texts: DataFrame, first: list[str], named: Naming, subject: str, log: SchemaLog
    ) -> StructType:
        """The columns of a batch, and those of the batches before; ``first`` are a few of a topic's first records."""
        from pyspark.sql.types import StructField, StructType

        found = self._types(spark, texts)
        torn = [name for name in _objects(first) if name in found.names and found[name].dataType.typeName() == "string"]
        if torn:  # one record that has a text there has made a text of all: it is the one that does not fit
            found = self._types(spark, texts.where(_has_objects(torn)))
        if {"schema", "payload"} <= set(found.names) and "type" in getattr(found["schema"].dataType, "names", ()):
            raise DataError(
                "some of its records carry a schema, and the first ones did not",
                where=f"topic {_topic(subject)}",
                fix="set `schemas.enable` as it was, or read the records from where it changed with a new checkpoint",
            )
        known = log.get(subject)
        if known is None and not found.fields:
            if texts.isEmpty():
                return found
            fix = "check `format:`, and that a line is one event"
            raise DataError("none of its records is a JSON object", where=f"topic {_topic(subject)}", fix=fix)
        found, left_out = named(found, known, lambda name: sum(f'"{name}"' in text for text in first))
        self._left_out[subject] = left_out
        schema = found if known is None else add_missing_fields(known, found)
        assert isinstance(schema, StructType)
        if schema != known or subject not in self._declared:  # what they are does not change without a new column
            declared = columns.leaves(log.declared(subject), _topic(subject))
            self._declared[subject] = {**columns.of_table(schema, log.stored(subject)), **declared}
        leaves = self._declared[subject]
        schema = columns.in_table(schema, leaves) if leaves else schema
        log.remember(subject, schema)
        if not leaves and not left_out:
            return schema
        return StructType([StructField(f.name, f.dataType, metadata={_SUBJECT: subject}) for f in schema])

    def _types(self, spark: SparkSession, texts: DataFrame) -> StructType:
        """As Spark infers them."""
        from pyspark.sql.types import StructType

        encoders: Any = spark._jvm.org.apache.spark.sql.Encoders  # type: ignore[union-attr]  # noqa: SLF001
        dataset = getattr(texts._jdf, "as")(encoders.STRING())  # noqa: SLF001
        # A column that is null everywhere has no type yet: it joins when its first value comes.
        options = {**self._options(), "dropFieldIfAllNull": "true"}
        reader: Any = spark.read.options(**options)._jreader  # noqa: SLF001
        with names.told_apart(spark):
            inferred = StructType.fromJson(json.loads(reader.json(dataset).schema().json()))
        return StructType([field for field in inferred if field.name != _CORRUPT])

    def _decoded(self, frame: DataFrame, column: str, schema: StructType, error: str, subject: str) -> DataFrame:
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructField, StructType

        tree = columns.on_the_wire(schema, self._declared.get(subject, {}))
        parsed = StructType([*connect.wire_type(tree), StructField(_CORRUPT, StringType())])  # type: ignore[misc]
        text = F.col(column).cast("string")
        others = [F.col(quote_name(c)) for c in frame.columns if c != column]
        there = F.col(_BODY).isNotNull()
        bad = F.col(_PARSED).isNull() | F.col(f"{_PARSED}.{_CORRUPT}").isNotNull() | self._several(F.col(_BODY))
        bad |= names.having(F.col(_BODY), self._left_out.get(subject, names.LeftOut()))
        fields = F.struct(*[F.col(_PARSED).getField(name).alias(name) for name in schema.names])
        struct = F.from_json(text, parsed, self._options())
        frame = frame.select(*others, text.alias(_BODY), struct.alias(_PARSED))
        if connect.wire_type(tree) != connect.table_type(tree):
            frame = frame.select("*", connect.once(connect.converted(fields, tree, schema)).alias(_TABLE))
            lost = connect.lost(fields, F.col(_TABLE), tree)
            fields, bad = F.col(_TABLE), bad if lost is None else bad | lost
        return frame.select(
            *others,
            F.when(there & ~bad, fields).alias(column),
            F.when(there & bad, F.lit(RejectReason.UNDECODABLE)).alias(error),
        )

    def _several(self, text: Column) -> Column:
        """Whether a text holds more than one document: Spark would read the first and say nothing of the others."""
        from pyspark.sql import functions as F

        if any(key.startswith("allow") and value == "true" for key, value in self.config.options().items()):
            return F.lit(False)  # what is counted below is JSON as it is written by the book
        # What follows a brace makes it likely; only then is counting worth a second parse.
        likely = text.rlike(r"\}\s*([^\s,}\]]|,\s*\{)")
        return likely & ~F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))).eqNullSafe(F.lit(1))

    def _options(self) -> dict[str, str]:
        return {**self.config.options(), "columnNameOfCorruptRecord": _CORRUPT, "mode": "PERMISSIVE"}

    # With a schema.

    def _learn(self, texts: DataFrame, subject: str, log: SchemaLog) -> None:
        """One pass over the records for the schemas that are not known yet, in the order in which they came."""
        from pyspark.sql import functions as F

        known = list(log.writers(subject))
        heads = texts.select(_head(F.col(_BODY)).alias(_HEAD), F.monotonically_increasing_id().alias("row"))
        fresh = heads.where(F.col(_HEAD).isNotNull()).withColumn(_ID, _id(F.col(_HEAD)))
        if known:
            fresh = fresh.where(~F.col(_ID).isin(known))
        # By the text, which is a key of a hash table; as a value it would have to be sorted.
        found = fresh.groupBy(_ID, _HEAD).agg(F.min("row").alias("row")).collect()
        for row in sorted(found, key=lambda row: row["row"]):
            log.add_writer(subject, row[_ID], row[_HEAD])
        self._unknown.discard(subject)

    def _planned(self, column: str, subject: str, log: SchemaLog) -> StructType:
        """The type of all writer schemas together, and the plan of how each is read."""
        from pyspark.sql.types import StructField, StructType

        columns.none_declared(log, subject)
        trees, broken, why = _trees(log.writers(subject))
        rows = {id_: tree for id_, tree in trees.items() if isinstance(connect.table_type(tree), StructType)}
        if trees and not rows:
            self._writers[subject] = _Writers((), tuple(log.writers(subject)))
            if column == "key":  # a value without a name is no column: the rule names those of the key
                return StructType([])
            why = DataError(
                "its records are no rows: a single value each", fix="leave the topic out, or wrap it with HoistField"
            )
        if not rows:
            assert why is not None, "a subject has writer schemas"
            why.where = f"topic {_topic(subject)}"
            raise why
        kinds: dict[str, Any] = {id_: connect.table_type(tree) for id_, tree in rows.items()}
        may = RejectReason.SCHEMA_INCOMPATIBLE in log.ruled
        whole, contradicting = union_schemas(kinds, f"topic {_topic(subject)}", aside=may)
        fitting = {id_: tree for id_, tree in rows.items() if id_ not in contradicting}
        no_rows = (id_ for id_ in trees if id_ not in rows)
        self._writers[subject] = _Writers(_groups(fitting), (*broken, *no_rows), tuple(contradicting))
        return StructType([StructField(f.name, f.dataType, metadata={_SUBJECT: subject}) for f in whole])

    def _decoded_by_writers(
        self, frame: DataFrame, column: str, schema: StructType, error: str, subject: str
    ) -> DataFrame:
        from pyspark.sql import functions as F

        writers = self._writers[subject]
        others = [F.col(quote_name(c)) for c in frame.columns if c != column]
        text, head, payload = F.col(_BODY), F.col(_HEAD), F.col(_PAYLOAD)
        frame = frame.select(*others, F.col(column).cast("string").alias(_BODY))
        frame = frame.select(*others, text, _head(text).alias(_HEAD))
        frame = frame.select(*others, text, _payload(text, head).alias(_PAYLOAD), _id(head).alias(_ID))
        values, fitting = [], []
        for i, (ids, tree) in enumerate(writers.readable):
            mine = F.col(_ID).isin(list(ids))
            part = connect.restricted(tree, schema)
            frame, value, fits = self._parsed(frame, part, schema, f"{i}", mine)
            numbers = connect.numeric(part)
            if numbers is not None:  # decimals are written in one of two ways, and no schema says which
                again = mine & ~fits
                frame, value_again, fits_again = self._parsed(frame, numbers, schema, f"{i}n", again)
                value, fits = F.coalesce(F.when(fits, value), value_again), fits | fits_again
            values.append(F.when(fits, value))
            fitting.append(fits)
        unreadable = F.col(_ID).isNull() | F.col(_ID).isin(list(writers.broken))
        wrong = (
            F.when(unreadable, F.lit(RejectReason.UNDECODABLE))
            .when(F.col(_ID).isin(list(writers.contradicting)), F.lit(RejectReason.SCHEMA_INCOMPATIBLE))
            .when(~F.col(_ID).isin(writers.ids), fail_on_unknown_schema(subject, F.col(_ID)).cast("string"))
            .when(~reduce(lambda a, b: a | b, fitting) | self._several(payload), F.lit(RejectReason.UNDECODABLE))
        )
        frame = frame.select(
            *others,
            F.coalesce(*values).alias(column),
            connect.once(F.when(text.isNotNull() & ~text.rlike(_NOTHING), wrong)).alias(error),
        )
        return frame.select(*others, F.when(F.col(error).isNull(), F.col(column)).alias(column), error)

    def _parsed(
        self, frame: DataFrame, tree: Wire, schema: StructType, name: str, when: Column
    ) -> tuple[DataFrame, Column, Column]:
        """The frame with the payloads parsed by a tree; the value, and whether it is all there."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructField, StructType

        kind = StructType([StructField("payload", connect.wire_type(tree)), StructField(_CORRUPT, StringType())])
        parsed, table = _PARSED + name, _TABLE + name
        struct = F.from_json(F.col(_PAYLOAD), kind, self._options())
        frame = frame.select("*", connect.once(F.when(when, struct)).alias(parsed))
        wire = F.col(parsed).getField("payload")
        frame = frame.select("*", connect.once(connect.converted(wire, tree, schema)).alias(table))
        fits = F.col(parsed).isNotNull() & F.col(parsed).getField(_CORRUPT).isNull()
        lost = connect.lost(wire, F.col(table), tree)
        return frame, F.col(table), fits if lost is None else fits & ~lost


def _topic(subject: str) -> str:
    return subject.rsplit("-", 1)[0]


def _has_schema(texts: list[str], subject: str) -> bool:
    """Whether the first record that is JSON at all is a schema and a payload."""
    found = next((body for body in map(_object, texts) if body), {})
    if set(found) != {"schema", "payload"}:
        return False
    if found["schema"] is None:
        raise DataError(
            'its records say `"schema": null`, so their types cannot be known',
            where=f"topic {_topic(subject)}",
            fix="set `schemas.enable=false` in the converter: headrace takes the types from the data then",
        )
    return isinstance(found["schema"], dict) and "type" in found["schema"]


def _objects(texts: list[str]) -> list[str]:
    """The fields that are objects in most records that have them."""
    seen: dict[str, list[bool]] = {}
    for record in map(_object, texts):
        for name, value in record.items():
            if value is not None:
                seen.setdefault(name, []).append(isinstance(value, dict))
    return [name for name, found in seen.items() if 2 * sum(found) > len(found) and "'" not in name]


def _has_objects(fields: list[str]) -> Column:
    """Whether each of the fields is an object in a record, where it is there."""
    from pyspark.sql import functions as F

    values = [F.get_json_object(_BODY, f"$['{name}']") for name in fields]
    return reduce(lambda a, b: a & b, [value.isNull() | value.startswith("{") for value in values])


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _head(text: Column) -> Column:
    """A record up to the end of its schema; null when it has none."""
    from pyspark.sql import functions as F

    # As the converter writes it, finding it costs no parse. Anybody else's JSON may have spaces, or the payload first.
    cut = F.substring_index(text, _BETWEEN, 1)
    likely = text.rlike(r'^\s*\{\s*"(schema|payload)"\s*:')
    is_schema = F.get_json_object(text, "$.schema.type").isNotNull()
    parsed = F.when(is_schema, F.concat(F.lit('{"schema":'), F.get_json_object(text, "$.schema")))
    return F.when(_usual(text), cut).when(likely, parsed)


def _usual(text: Column) -> Column:
    return text.startswith(_BEGIN) & text.contains(_BETWEEN)


def _payload(text: Column, head: Column) -> Column:
    """A record without its schema, which is often ten times the rest."""
    from pyspark.sql import functions as F

    body = text.cast("binary")  # where counting is free
    rest = body.substr(F.octet_length(head) + 2, F.length(body)).cast("string")
    return F.when(_usual(text), F.concat(F.lit("{"), rest)).otherwise(text)


def _id(head: Column) -> Column:
    from pyspark.sql import functions as F

    return F.when(head.isNotNull(), F.xxhash64(head).cast("string"))


def _trees(writers: Mapping[str, str]) -> tuple[dict[str, Wire], list[str], DataError | None]:
    """The trees of writer schemas by id; the ids of those that are none, and why."""
    trees, broken, why = {}, [], None
    for id_, head in writers.items():
        try:
            trees[id_] = connect.of_connect(json.loads(head + "}")["schema"])
        except (ValueError, DataError) as error:
            broken.append(id_)
            why = error if isinstance(error, DataError) else DataError(f"the schema in its records is no JSON: {error}")
    return trees, broken, why


def _groups(trees: Mapping[str, Wire]) -> tuple[tuple[tuple[str, ...], Wire], ...]:
    """As few parses as can be: a column that came or went needs none of its own."""
    groups: list[tuple[tuple[str, ...], Wire]] = []
    for id_, tree in trees.items():
        for i, (ids, other) in enumerate(groups):
            if (both := connect.united(other, tree)) is not None:
                groups[i] = ((*ids, id_), both)
                break
        else:
            groups.append(((id_,), tree))
    return tuple(groups)
