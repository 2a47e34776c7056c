"""Records with the id of their writer schema, read in one plan for all schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.sdk import RecordReader, RejectReason, Subject, events as E
from headrace.sdk.columns import barrier, quote_name
from headrace.sdk.schemas import convert_fitting, fail_on_unknown_schema
from headrace_sources.kafka_connect.connect_types import convert_column, table_type
from headrace_sources.kafka_connect.json_values import HALF_PAIR, has_half_pair
from headrace_sources.kafka_connect.misfits import JsonMisfits, first_misfit, take_newest
from headrace_sources.registries import framing
from headrace_sources.registries.payload import PayloadParser, PayloadReader

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

_PAYLOAD, _FRAME, _NUMBER = "_headrace_body", "_headrace_frame", "_headrace_number"
_WIRE, _PART, _TABLE = "_headrace_wire", "_headrace_part", "_headrace_table"


#: Fix for unreadable keys.
KEY_FIX = (
    "name key columns of the value, `tables: - {source: …, key: [id]}`; or write next to `value:` how the keys are written, "
    "or `key: none`"
)


class EmptyReader(RecordReader):
    """Reader of records without columns: tombstones, or keys that are a single value."""

    def __init__(self) -> None:
        from pyspark.sql.types import StructType

        self.schema = StructType([])

    def decode(self, frame: DataFrame, column: str, schema: StructType, error: str) -> DataFrame:
        from pyspark.sql import functions as F

        others = [frame[quote_name(name)] for name in frame.columns if name != column]
        return frame.select(*others, F.lit(None).cast(schema).alias(column), F.lit(None).cast("string").alias(error))


@dataclass(frozen=True)
class WriterSchema:
    """Writer schema with its id, and the readers of its payloads."""

    id: str
    readers: tuple[PayloadReader, ...]

    @property
    def table_type(self) -> DataType:
        """Spark type of its records in a table."""
        return table_type(self.readers[0].tree)

    @property
    def is_partial(self) -> bool:
        """Whether its records have fields whose names cannot be columns."""
        return self.readers[0].is_partial


class KnownFrames:
    """Frames of the schemas in a plan. A record's frame number is the index of its frame."""

    def __init__(self, frames: Mapping[str, Sequence[bytes]]) -> None:
        """Assign numbers to frames. ``frames``: id → its possible frames."""
        self.frames = [frame for frames_of_id in frames.values() for frame in frames_of_id]
        self._numbers = {id_: [self.frames.index(frame) for frame in frames[id_]] for id_ in frames}

    def numbers(self, *ids: str) -> list[int]:
        """Return the frame numbers of ids."""
        return [number for id_ in ids for number in self._numbers[id_]]


@dataclass(frozen=True)
class RegistryReader(RecordReader):
    """Reader of records by the ids of their writer schemas."""

    schema: StructType
    subject: Subject
    parser: PayloadParser
    #: Parsed writer schemas. Records of schemas that are also ``rejected`` are read in part.
    writers: tuple[WriterSchema, ...]
    #: Id → reason why records of that schema are dead letters.
    rejected: Mapping[str, RejectReason]
    #: Ids of schemas whose records are null, without an error.
    ignored: Sequence[str]
    known: KnownFrames
    #: Whether headers are also searched for ids. That path generates many times the code of the fast path, which reads only the
    #: bytes before the payload. Java compiles only small methods, so that a larger plan is slower.
    header_path: bool
    #: Name in the errors of tasks that read an unknown schema.
    decoder: str
    #: Whether records of unknown schemas are dead letters, because no further schemas are requested.
    is_full: bool
    #: Name of a schema → its ids.
    type_ids: Mapping[str, Sequence[str]]

    @property
    def types(self) -> Sequence[str]:
        return tuple(self.type_ids)

    def decode(self, frame: DataFrame, column: str, schema: StructType, error: str) -> DataFrame:
        from pyspark.sql import functions as F

        # `F.col` would take three calls to the JVM for each.
        others = [frame[quote_name(name)] for name in frame.columns if name != column]
        frame = self._number_frames(frame, column, others)
        frame, value, parts = self._read_payloads(frame, schema)
        reason = F.when(F.col(_NUMBER).isNotNull() & value.isNull(), self._reject_reason(frame))
        types = [self._type().alias(E.TYPE)] if len(self.types) > 1 else []
        return frame.select(*others, F.coalesce(value, *parts).alias(column), barrier(reason).alias(error), *types)

    def locate_errors(self, frame: DataFrame, column: str, schema: StructType) -> DataFrame:
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructType

        others = [frame[quote_name(name)] for name in frame.columns if name != column]
        frame = self._number_frames(frame, column, others)
        rows = [w for w in self.writers if isinstance(w.table_type, StructType) and w.id not in self.rejected]
        plans = [
            _MisfitPlan(f"{i}", writer, schema, self.parser, is_key=self.subject.part == "key")
            for i, writer in enumerate(take_newest(rows, lambda writer: writer.readers[0].tree))
        ]
        frame = frame.select("*", *[plan.take(self._payload(frame, plan.writer.id, None)) for plan in plans])
        frame = frame.select("*", *[plan.read() for plan in plans])
        frame = frame.select("*", *[column for plan in plans for column in plan.parse()])
        noun = "record key" if self.subject.part == "key" else "record"
        unframed = F.when(F.col(_NUMBER) < 0, F.lit(f"the {noun} does not start with a schema id"))
        return frame.select(*others, F.coalesce(unframed, *[plan.describe() for plan in plans]).alias(column))

    def _type(self) -> Column:
        """Return the name of a record's schema."""
        from pyspark.sql import functions as F

        name = F.lit(None).cast("string")
        for known, ids in self.type_ids.items():
            name = F.when(F.col(_NUMBER).isin(self.known.numbers(*ids)), F.lit(known)).otherwise(name)
        return name

    def _number_frames(self, frame: DataFrame, column: str, others: Sequence[Column]) -> DataFrame:
        """Add the frame number: null for a null record, -1 for an unknown frame."""
        from pyspark.sql import functions as F

        payload, part, known = F.col(column).alias(_PAYLOAD), self.subject.part, self.known.frames
        if not self.header_path:
            number = framing.front_number(frame, column, part, known)
            return frame.select(*others, payload, barrier(number).alias(_NUMBER))
        frame_column = framing.frame_column(frame, column, part, texts=self.parser.texts)
        frame = frame.select("*", barrier(frame_column).alias(_FRAME))
        number = framing.frame_number(F.col(_FRAME), known)
        return frame.select(*others, F.col(_FRAME), payload, barrier(number).alias(_NUMBER))

    def _read_payloads(self, frame: DataFrame, schema: StructType) -> tuple[DataFrame, Column, list[Column]]:
        """Add the steps of all payload readers.

        Return the frame, each record's struct by the first reader that succeeds, and the readable values of the readers
        that may fail for a value and of rejected schemas.
        """
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructType

        writers = [writer for writer in self.writers if isinstance(writer.table_type, StructType)]
        values: dict[tuple[int, int], Column] = {}
        parts: list[Column] = []
        rejected: dict[int, Any] = {i: w.table_type for i, w in enumerate(writers) if w.id in self.rejected}
        for turn in range(max(len(writer.readers) for writer in writers)):
            plans = {
                (i, turn): _PayloadPlan(
                    f"{i}_{turn}",
                    writer.readers[turn],
                    rejected.get(i, schema),
                    self._payload(frame, writer.id, values.get((i, turn - 1))),
                )
                for i, writer in enumerate(writers)
                if turn < len(writer.readers)
            }
            frame = _read_side_by_side(frame, list(plans.values()))
            values |= {place: plan.value for place, plan in plans.items()}
            parts += [plan.table for (i, _), plan in plans.items() if plan.may_fail and i not in rejected]
            parts += [
                convert_fitting(plan.table, rejected[i], schema) for (i, _), plan in plans.items() if i in rejected
            ]
        whole = [value for (i, _), value in values.items() if i not in rejected]
        # Without a whole schema, no record has a struct, and each is a dead letter with the reason of its schema.
        return frame, F.coalesce(*whole, F.lit(None).cast(schema)), parts

    def _payload(self, frame: DataFrame, id_: str, before: Column | None) -> Column:
        """Return the payload of a writer schema's records; null if the reader ``before`` could read it."""
        from pyspark.sql import functions as F

        numbers = self.known.numbers(id_)
        is_left = F.col(_NUMBER).isin(numbers)
        if before is not None:
            is_left &= before.isNull()
        return F.when(is_left, framing.payload(frame, F.col(_PAYLOAD), F.col(_NUMBER), self.known.frames, numbers))

    def _reject_reason(self, frame: DataFrame) -> Column:
        """Return why a record without a struct is a dead letter. The task fails if its schema was not looked up yet."""
        from pyspark.sql import functions as F

        number, known = F.col(_NUMBER), self.known.frames
        if self.header_path:
            id_, may_have_id = F.hex(F.col(_FRAME)), framing.is_frame(F.col(_FRAME))
        else:
            id_, may_have_id = F.lit(""), F.lit(True)
        fail = fail_on_unknown_schema(self.decoder, self.subject, id_).cast("string")
        if self.is_full:
            fail = F.lit(RejectReason.SCHEMA_UNKNOWN)
        reason = F.when((number < 0) & may_have_id, fail)
        if self.parser.null_payload is not None:
            payload = framing.payload(frame, F.col(_PAYLOAD), number, known, range(len(known)))
            is_null = payload == F.lit(self.parser.null_payload)
            reason = reason.when((number >= 0) & is_null, F.lit(None).cast("string"))
        reason = reason.when(number.isin(self.known.numbers(*self.ignored)), F.lit(None).cast("string"))
        for name in sorted(set(self.rejected.values())):
            ids = [id_ for id_ in self.rejected if self.rejected[id_] == name]
            reason = reason.when(number.isin(self.known.numbers(*ids)), F.lit(name))
        return reason.otherwise(F.lit(RejectReason.UNDECODABLE))


class _MisfitPlan:
    """Steps that describe the undecodable records of a writer schema. ``name`` is the suffix of their columns."""

    def __init__(
        self, name: str, writer: WriterSchema, schema: StructType, parser: PayloadParser, *, is_key: bool
    ) -> None:
        self.writer, self._schema, self._parser, self._is_key = writer, schema, parser, is_key
        self._payload, self._wire = f"{_PAYLOAD}{name}", f"{_WIRE}{name}"
        self._trees = tuple(reader.tree.project(schema) for reader in writer.readers)
        self._json = None
        if parser.json_options is not None:
            self._json = JsonMisfits(self._wire, self._trees, schema, parser.json_options, is_key)

    def take(self, payload: Column) -> Column:
        """Return the payload; null if it is a tombstone."""
        from pyspark.sql import functions as F

        null = self._parser.null_payload
        return barrier(payload if null is None else F.when(payload != F.lit(null), payload)).alias(self._payload)

    def read(self) -> Column:
        """Return the JSON string, or the struct of other encodings."""
        from pyspark.sql import functions as F

        step = self.writer.readers[0].steps(self._trees[0])[0]
        return barrier(step(F.col(self._payload))).alias(self._wire)

    def parse(self) -> list[Column]:
        """Return the columns of parsed JSON."""
        return self._json.parse() if self._json else []

    def describe(self) -> Column:
        """Return the description of a record, or null."""
        from pyspark.sql import functions as F

        noun = "record key" if self._is_key else "record"
        if self._json:
            is_half = has_half_pair(F.col(self._payload).cast("string"))
            unread = F.when(is_half, f"the {noun} {HALF_PAIR}").otherwise(f"the {noun} is not UTF-8")
            misfit = self._json.describe()
        else:
            unread = F.lit(f"the {noun} does not match its schema {self.writer.id}")
            misfit = first_misfit((self._wire,), self._trees, self._schema, None, self._is_key)
        is_unread = F.col(self._payload).isNotNull() & F.col(self._wire).isNull()
        return F.when(is_unread, unread).otherwise(misfit)


class _PayloadPlan:
    """Columns of one payload reader, step by step from payload to table. ``name`` is the suffix of their names."""

    def __init__(self, name: str, reader: PayloadReader, schema: StructType, payload: Column) -> None:
        self._name, self._schema = name, schema
        self._tree = reader.tree.project(schema)
        self._steps = reader.steps(self._tree)
        self._parsed_tree = reader.tree if reader.is_complete else self._tree
        self._wire, self._wire_name = payload, ""
        #: Field → the column with its struct.
        self._structs: dict[str, str] = {}

    @property
    def depth(self) -> int:
        """Number of steps to parse a payload."""
        return len(self._steps)

    def parse(self, step: int) -> Column:
        """Return the next step from payload to struct."""
        return self._add(f"{_WIRE}{self._name}_{step}", self._steps[step](self._wire))

    def split(self) -> list[Column]:
        """Return a column for each nested struct, which saves the generated code of its path for every value."""
        columns = []
        for i, (field, inner) in enumerate((self._tree.fields or {}).items()):
            if inner.fields is not None:
                name = f"{_PART}{self._name}_{i}"
                columns.append(barrier(self._wire.getField(field)).alias(name))
                self._structs[field] = name
        return columns

    def convert(self) -> Column:
        """Return the struct in the table's types."""
        column, _ = self._conversion
        return barrier(column).alias(self._table_name)

    @property
    def value(self) -> Column:
        """Struct in the table's types; null if these cannot hold it."""
        from pyspark.sql import functions as F

        failed = self._has_failed
        return self.table if failed is None else F.when(~failed, self.table)

    @property
    def table(self) -> Column:
        """Struct in the table's types, with null for each value that they cannot hold."""
        from pyspark.sql import functions as F

        return F.col(self._table_name)

    @property
    def may_fail(self) -> bool:
        """Whether the table's types may be unable to hold a value."""
        return self._has_failed is not None

    @property
    def _has_failed(self) -> Column | None:
        _, failed = self._conversion
        return failed

    @property
    def _conversion(self) -> tuple[Column, Column | None]:
        parts = tuple(self._structs.items())
        return convert_column(self._wire_name, self._table_name, self._parsed_tree, self._schema, parts)

    @property
    def _table_name(self) -> str:
        return f"{_TABLE}{self._name}"

    def _add(self, name: str, column: Column) -> Column:
        from pyspark.sql import functions as F

        self._wire, self._wire_name = F.col(name), name
        return barrier(column).alias(name)


def _read_side_by_side(frame: DataFrame, plans: Sequence[_PayloadPlan]) -> DataFrame:
    """Add the columns of all plans; steps of equal depth are one projection."""
    (depth,) = {plan.depth for plan in plans}
    for step in range(depth):
        frame = frame.select("*", *[plan.parse(step) for plan in plans])
    structs = [column for plan in plans for column in plan.split()]
    if structs:
        frame = frame.select("*", *structs)
    return frame.select("*", *[plan.convert() for plan in plans])
