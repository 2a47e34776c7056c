"""Single records that name their writer's schema by an id that a registry knows, whatever they are written in."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.sdk import (
    DataError,
    RejectReason,
    UnknownSchemaError,
    fail_on_unknown_schema,
    find_unknown_schemas,
    quote_name,
    union_schemas,
)
from headrace_sources.connect import schema as connect
from headrace_sources.connect.schema import Wire
from headrace_sources.dialects.debezium import DebeziumDialect
from headrace_sources.registries import framing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    from headrace.sdk import SchemaLog

_BODY, _FRAME, _NUMBER, _HEADERS = "_headrace_body", "_headrace_frame", "_headrace_number", "_headrace_headers"
_WIRE, _PART, _TABLE = "_headrace_wire", "_headrace_part", "_headrace_table"
#: Where the fields of a schema say whose it is: a dialect restricts the schema, and hands its fields on.
_SUBJECT = "headrace.subject"
#: Records of a topic that is new which are looked at for schemas. What comes behind them is met when it is read.
HEAD = 100
#: Batches of a topic that are read by the long way after a record that needs it: with its id in a header, or broken.
LONG_WAY = 1000


@dataclass(frozen=True)
class Reading:
    """A way to read the records of one writer schema."""

    tree: Wire
    #: For the part of ``tree`` that is wanted: from a record's bytes to its struct on the wire, or null where it cannot be
    #: read. Each is a step of its own in the plan.
    steps: Callable[[Wire], Sequence[Callable[[Column], Column]]]


class Parsing(ABC):
    """What records and their schemas are written in."""

    #: Whether ids may be in a text around a record, too (``framing``).
    texts: ClassVar[bool] = False
    #: A body that says that there is no row, as a tombstone does.
    nothing: ClassVar[bytes | None] = None
    #: What to do with records that have no id at all.
    elsewhere: ClassVar[str]

    @abstractmethod
    def readings(self, text: str) -> tuple[Reading, ...]:
        """The ways to read records of a schema; the first that can read one counts. DataError for what is no schema."""


@dataclass(frozen=True)
class _Writer:
    """How records of one writer schema are read."""

    id: str
    readings: tuple[Reading, ...]

    @property
    def kind(self) -> DataType:
        """In a table."""
        return connect.table_type(self.readings[0].tree)


class RegisteredRecords:
    """Decodes records by their writers' schemas; ``fetch`` gives the schema of an id."""

    def __init__(self, parsing: Parsing, fetch: Callable[[str], str], *, id_kind: str, only: bool = False) -> None:
        self._parsing, self._fetch, self._only, self._id_kind = parsing, fetch, only, id_kind
        self._writers: dict[str, list[_Writer]] = {}
        self._wanted: dict[str, set[str]] = {}
        #: Subject → ids whose records are put aside, and why.
        self._aside: dict[str, dict[str, RejectReason]] = {}
        #: Subject → batches that the long way is yet to be taken for. Its code is many times that of the short one, and a
        #: plan's size is its speed: Java compiles what is small.
        self._long_way: dict[str, int] = {}

    def schema(self, frame: DataFrame, column: str, subject: str, log: SchemaLog) -> StructType:
        """The columns of all writer schemas that the subject's records were met with."""
        from pyspark.sql.types import StructField, StructType

        if (left := self._long_way.pop(subject, 0)) > 1:
            self._long_way[subject] = left - 1
        wanted = self._wanted.pop(subject, None)
        if self._only:
            wanted = {framing.BARE}
        elif wanted is not None:  # where there is one there may be more, and each would end the batch once
            wanted |= self._found(frame, column, subject)
        elif not log.writers(subject):
            wanted = self._found(frame, column, subject, HEAD) or self._found(frame, column, subject)
            if not wanted:
                return self._unframed(frame, column, subject)
        aside = self._fetched(subject, (wanted or set()) - set(log.writers(subject)), log)
        writers = self._read_schemas(subject, log, aside)
        rows: dict[str, StructType] = {w.id: w.kind for w in writers if isinstance(w.kind, StructType)}
        may = RejectReason.SCHEMA_INCOMPATIBLE in log.ruled
        whole, contradicting = union_schemas(rows, f"topic {_topic(subject)}", aside=may)
        aside |= dict.fromkeys(contradicting, RejectReason.SCHEMA_INCOMPATIBLE)
        self._aside[subject] = aside
        self._writers[subject] = [writer for writer in writers if writer.id not in aside]
        if not rows:  # a key that is a single value, or nothing but tombstones: no columns
            return StructType([])
        return StructType([StructField(f.name, f.dataType, metadata={_SUBJECT: subject}) for f in whole])

    def _fetched(self, subject: str, ids: Collection[str], log: SchemaLog) -> dict[str, RejectReason]:
        """Those that the registry does not have, where the file says what becomes of their records; the others are kept."""
        missing = log.missing.setdefault(subject, set())
        why: DataError | None = None
        for id_ in sorted(set(ids) - missing):
            try:
                log.add_writer(subject, id_, self._fetch(id_))
            except DataError as error:
                why = _ruled(error, log)
                missing.add(id_)
        if why and not log.writers(subject):  # of a table without any column, nothing could be said
            raise why
        return dict.fromkeys(sorted(missing), RejectReason.SCHEMA_UNKNOWN)

    def _read_schemas(self, subject: str, log: SchemaLog, aside: dict[str, RejectReason]) -> list[_Writer]:
        """How records of each are read. What is no schema goes ``aside``, as one does that the registry does not have."""
        writers: list[_Writer] = []
        why: DataError | None = None
        for id_, text in log.writers(subject).items():
            try:
                writers.append(_Writer(id_, self._parsing.readings(text)))
            except DataError as error:
                error.where = f"topic {_topic(subject)}, schema {id_}"
                why = _ruled(error, log)
                aside[id_] = RejectReason.SCHEMA_UNKNOWN
        if why and not writers:
            raise why
        return writers

    def decode(self, frame: DataFrame, column: str, schema: StructType, error: str) -> DataFrame:
        """The records in ``schema``; ``error`` says why one could not be read."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructType

        subject = next((field.metadata[_SUBJECT] for field in schema if _SUBJECT in field.metadata), None)
        # Not by `F.col`, which asks the JVM three times for each.
        others = [frame[quote_name(c)] for c in frame.columns if c != column]
        if subject is None:
            empty = F.lit(None).cast(schema)
            return frame.select(*others, empty.alias(column), F.lit(None).cast("string").alias(error))
        writers = [writer for writer in self._writers[subject] if isinstance(writer.kind, StructType)]
        long_way = subject in self._long_way
        own = {writer.id: self._frames(writer.id, in_headers=long_way) for writer in self._writers[subject]}
        readable = [found for frames in own.values() for found in frames]
        aside = self._aside[subject]
        reasons = {found: aside[id_] for id_ in aside for found in self._frames(id_, in_headers=long_way)}
        known = [*readable, *reasons]
        body, found, number, kept = F.col(_BODY), F.col(_FRAME), F.col(_NUMBER), others
        if long_way:
            frame = frame.select("*", connect.once(self._frame(frame, column, subject)).alias(_FRAME))
            kept = [*others, found]
            which, id_, is_id = framing.number_of(found, known), F.hex(found), framing.is_frame(found)
        else:
            which, id_, is_id = framing.front_number(frame, column, _part(subject), known), F.lit(""), F.lit(True)
        frame = frame.select(*kept, F.col(column).alias(_BODY), connect.once(which).alias(_NUMBER))
        values: dict[str, Column] = {}
        for turn in range(max(len(writer.readings) for writer in writers)):
            readings = {}
            for i, writer in enumerate(writers):
                if turn < len(writer.readings):
                    mine = [known.index(one) for one in own[writer.id]]
                    left = number.isin(mine) & values[f"{i}_{turn - 1}"].isNull() if turn else number.isin(mine)
                    record = F.when(left, framing.behind(frame, body, number, known, mine))
                    readings[f"{i}_{turn}"] = writer.readings[turn], record
            frame, found_now = _read(frame, schema, readings)
            values |= found_now
        value = F.coalesce(*values.values())
        wrong = F.when((number < 0) & is_id, fail_on_unknown_schema(subject, id_).cast("string"))
        if self._parsing.nothing is not None:
            said_null = framing.behind(frame, body, number, known, range(len(known))) == F.lit(self._parsing.nothing)
            wrong = wrong.when((number >= 0) & said_null, F.lit(None).cast("string"))
        for reason in sorted(set(reasons.values())):
            wrong = wrong.when(
                number.isin([known.index(one) for one in reasons if reasons[one] == reason]), F.lit(reason)
            )
        said = connect.once(
            F.when(number.isNotNull() & value.isNull(), wrong.otherwise(F.lit(RejectReason.UNDECODABLE)))
        )
        return frame.select(*others, value.alias(column), said.alias(error))

    def explain(self, error_text: str) -> UnknownSchemaError | None:
        """Notes the ids that tasks failed for; None when there are none."""
        found = [(subject, frame) for subject, frame in find_unknown_schemas(error_text) if subject in self._writers]
        if not found:
            return None
        ids = {}
        for subject, frame in found:
            self._wanted.setdefault(subject, set())
            if frame:  # by the short way it is not known
                ids[subject] = framing.id_of(bytes.fromhex(frame), self._id_kind)
                self._wanted[subject].add(ids[subject])
        subject = found[0][0]
        what = f"records have {f'schema {ids[subject]}' if subject in ids else 'a schema'}, which no record had before"
        return UnknownSchemaError(what, where=f"topic {_topic(subject)}", fix="start again: it is looked up then")

    def _found(self, frame: DataFrame, column: str, subject: str, head: int | None = None) -> set[str]:
        """The ids in all records, or in the first so many."""
        from pyspark.sql import functions as F

        records = frame.where(F.col(column).isNotNull())
        records = records if head is None else records.limit(head)
        headers = framing.named_in_headers(records, _part(subject))
        seen = records.select(self._frame(records, column, subject).alias(_FRAME), headers.alias(_HEADERS)).distinct()
        rows = seen.select(_FRAME, framing.is_frame(F.col(_FRAME)), _HEADERS).collect()
        found = {framing.id_of(bytes(text), self._id_kind) for text, is_frame, _ in rows if is_frame}
        if any(headers or not is_frame for _, is_frame, headers in rows):
            self._long_way[subject] = LONG_WAY
        return found

    def _frame(self, frame: DataFrame, column: str, subject: str) -> Column:
        return framing.frame_of(frame, column, _part(subject), texts=self._parsing.texts)

    def _frames(self, id_: str, *, in_headers: bool) -> list[bytes]:
        return framing.frames(id_, self._id_kind, in_headers=in_headers, texts=self._parsing.texts)

    def _unframed(self, frame: DataFrame, column: str, subject: str) -> StructType:
        """The columns of records none of which has an id: none of tombstones, and names alone of what holds no rows."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructField, StructType

        first = frame.where(F.col(column).isNotNull()).select(column).first()
        if first is None:
            return StructType([])
        # What is written as JSON whatever the converter may be none of a table's: the dialect knows by the names.
        with suppress(ValueError):
            record = json.loads(first[0])
            fields = record if isinstance(record, dict) else {}
            names = StructType([StructField(name, StringType()) for name in fields])
            if DebeziumDialect().metadata_topic(_topic(subject), names):
                return names
        raise DataError(
            "none of its records begins with a schema's id, and none has one in its headers",
            where=f"topic {_topic(subject)}",
            fix=self._parsing.elsewhere,
        )


def _read(
    frame: DataFrame, schema: StructType, readings: Mapping[str, tuple[Reading, Column]]
) -> tuple[DataFrame, dict[str, Column]]:
    """The frame with the steps of all readings; by the name of a reading, the rows that it makes of its records."""
    from pyspark.sql import functions as F

    trees = {name: connect.restricted(reading.tree, schema) for name, (reading, _) in readings.items()}
    wires = {name: record for name, (_, record) in readings.items()}
    for depth, steps in enumerate(zip(*[readings[name][0].steps(trees[name]) for name in trees], strict=True)):
        parsed = {f"{_WIRE}{name}_{depth}": step(wires[name]) for name, step in zip(trees, steps, strict=True)}
        frame = _with(frame, parsed)
        wires = {name: F.col(column) for name, column in zip(trees, parsed, strict=True)}
    # A column of each struct in it: to get at a value through all that is around it takes code for each value.
    parts: dict[str, dict[str, Column]] = {name: {} for name in trees}
    structs = {}
    for name, tree in trees.items():
        for i, (field, inner) in enumerate((tree.fields or {}).items()):
            if inner.fields is not None:
                structs[f"{_PART}{name}_{i}"] = wires[name].getField(field)
                parts[name][field] = F.col(f"{_PART}{name}_{i}")
    frame = _with(frame, structs) if structs else frame
    tables = {name: connect.converted(wires[name], tree, schema, parts=parts[name]) for name, tree in trees.items()}
    frame = _with(frame, {f"{_TABLE}{name}": table for name, table in tables.items()})
    values = {}
    for name, tree in trees.items():
        table = F.col(f"{_TABLE}{name}")
        lost = connect.lost(wires[name], table, tree, parts[name])
        values[name] = table if lost is None else F.when(~lost, table)
    return frame, values


def _with(frame: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
    """The frame and these columns, as a step of their own."""
    return frame.select("*", *[connect.once(column).alias(name) for name, column in columns.items()])


def _ruled(error: DataError, log: SchemaLog) -> DataError:
    """The error again; raised unless the file says what becomes of records without a schema."""
    if RejectReason.SCHEMA_UNKNOWN not in log.ruled:
        raise error
    return error


def _part(subject: str) -> str:
    """``key`` or ``value``."""
    return subject.rsplit("-", 1)[1]


def _topic(subject: str) -> str:
    return subject.rsplit("-", 1)[0]
