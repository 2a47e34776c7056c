"""Single Avro records that name their writer's schema by an id that a registry knows."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from headrace.contracts.changes import UNDECODABLE, quoted
from headrace.contracts.format import UnknownSchemaError, unknown_schema, unknown_schemas
from headrace.engine.schemas import merged
from headrace.errors import DataError
from headrace_sources import connect, framing
from headrace_sources.connect import Wire
from headrace_sources.debezium import HISTORY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    from headrace.engine.schemas import SchemaLog

_BODY, _FRAME, _NUMBER, _HEADERS = "_headrace_body", "_headrace_frame", "_headrace_number", "_headrace_headers"
_WIRE, _TABLE = "_headrace_wire", "_headrace_table"
#: Where the fields of a schema say whose it is: a dialect restricts the schema, and hands its fields on.
_SUBJECT = "headrace.subject"
#: Records of a topic that is new which are looked at for schemas. What comes behind them is met when it is read.
HEAD = 100
#: Batches of a topic that are read by the long way after a record that needs it: with its id in a header, or broken.
LONG_WAY = 1000


@dataclass(frozen=True)
class _Writer:
    """How records of one writer schema are read."""

    id: str
    #: For ``from_avro``: a record around the schema, of the same bytes. What cannot be read is a null in it.
    reader: str
    tree: Wire


class AvroRecords:
    """Decodes records by their writers' schemas; ``fetch`` gives the schema of an id."""

    def __init__(self, fetch: Callable[[str], str], *, only: bool, id_kind: str) -> None:
        self._fetch, self._only, self._id_kind = fetch, only, id_kind
        self._writers: dict[str, list[_Writer]] = {}
        self._wanted: dict[str, set[str]] = {}
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
                return _unframed(frame, column, subject)
        for id_ in sorted((wanted or set()) - set(log.writers(subject))):
            log.add_writer(subject, id_, self._fetch(id_))
        self._writers[subject] = [_writer(subject, id_, text) for id_, text in log.writers(subject).items()]
        types = [connect.table_type(writer.tree) for writer in self._writers[subject]]
        rows: list[DataType] = [kind for kind in types if isinstance(kind, StructType)]
        if not rows:  # a key that is a single value, or nothing but tombstones: no columns
            return StructType([])
        try:
            whole = reduce(merged, rows)
        except DataError as error:
            error.where = f"topic {_topic(subject)}"
            raise
        assert isinstance(whole, StructType)
        return StructType([StructField(f.name, f.dataType, metadata={_SUBJECT: subject}) for f in whole])

    def decode(self, frame: DataFrame, column: str, schema: StructType, error: str) -> DataFrame:
        """The records in ``schema``; ``error`` says why one could not be read."""
        from pyspark.sql import functions as F
        from pyspark.sql.avro.functions import from_avro
        from pyspark.sql.types import StructType

        subject = next((field.metadata[_SUBJECT] for field in schema if _SUBJECT in field.metadata), None)
        # Not by `F.col`, which asks the JVM three times for each.
        others = [frame[quoted(c)] for c in frame.columns if c != column]
        if subject is None:
            empty = F.lit(None).cast(schema)
            return frame.select(*others, empty.alias(column), F.lit(None).cast("string").alias(error))
        writers = [w for w in self._writers[subject] if isinstance(connect.table_type(w.tree), StructType)]
        long_way = subject in self._long_way
        own = {w.id: framing.frames(w.id, self._id_kind, in_headers=long_way) for w in self._writers[subject]}
        known = [found for frames in own.values() for found in frames]
        body, found, number, kept = F.col(_BODY), F.col(_FRAME), F.col(_NUMBER), others
        if long_way:
            frame = frame.select("*", connect.once(_frame(frame, column, subject)).alias(_FRAME))
            kept = [*others, found]
            which, id_, is_id = framing.number_of(found, known), F.hex(found), framing.is_frame(found)
        else:
            which, id_, is_id = framing.front_number(frame, column, known), F.lit(""), F.lit(True)
        frame = frame.select(*kept, F.col(column).alias(_BODY), connect.once(which).alias(_NUMBER))
        steps: list[list[Column]] = [[], [], []]
        values = []
        for i, writer in enumerate(writers):
            mine = [known.index(one) for one in own[writer.id]]
            record = framing.behind(frame, body, number, known, mine)
            struct = F.when(number.isin(mine), from_avro(record, writer.reader, {"mode": "PERMISSIVE"}))
            steps[0].append(connect.once(struct.getField("v")).alias(f"{_WIRE}{i}"))
            wire, table = F.col(f"{_WIRE}{i}"), F.col(f"{_TABLE}{i}")
            # A column of each struct in it: to get at a value through all that is around it takes code for each value.
            fields = (writer.tree.fields or {}).items()
            inner = [name for name, tree in fields if tree.fields is not None]
            parts = {name: F.col(f"{_WIRE}{i}_{j}") for j, name in enumerate(inner)}
            steps[1] += [connect.once(wire.getField(n)).alias(f"{_WIRE}{i}_{j}") for j, n in enumerate(inner)]
            steps[2].append(
                connect.once(connect.converted(wire, writer.tree, schema, parts=parts)).alias(f"{_TABLE}{i}")
            )
            lost = connect.lost(wire, table, connect.restricted(writer.tree, schema), parts)
            values.append(table if lost is None else F.when(~lost, table))
        for step in filter(None, steps):
            frame = frame.select("*", *step)
        value = F.coalesce(*values)
        missing = unknown_schema(subject, id_).cast("string")
        wrong = F.when((number < 0) & is_id, missing).otherwise(F.lit(UNDECODABLE))
        said = connect.once(F.when(number.isNotNull() & value.isNull(), wrong))
        return frame.select(*others, value.alias(column), said.alias(error))

    def explain(self, error_text: str) -> UnknownSchemaError | None:
        """Notes the ids that tasks failed for; None when there are none."""
        found = [(subject, frame) for subject, frame in unknown_schemas(error_text) if subject in self._writers]
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
        headers = F.col("headers").isNotNull() if "headers" in frame.columns else F.lit(False)
        seen = records.select(_frame(records, column, subject).alias(_FRAME), headers.alias(_HEADERS)).distinct()
        rows = seen.select(_FRAME, framing.is_frame(F.col(_FRAME)), _HEADERS).collect()
        found = {framing.id_of(bytes(text), self._id_kind) for text, is_frame, _ in rows if is_frame}
        if any(headers or not is_frame for _, is_frame, headers in rows):
            self._long_way[subject] = LONG_WAY
        return found


def _unframed(frame: DataFrame, column: str, subject: str) -> StructType:
    """The columns of records none of which has an id: none of tombstones, and those by which a history is known."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    first = frame.where(F.col(column).isNotNull()).select(column).first()
    if first is None:
        return StructType([])
    with suppress(ValueError):
        names = json.loads(first[0])
        if isinstance(names, dict) and names.keys() >= HISTORY:
            return StructType([StructField(name, StringType()) for name in sorted(HISTORY)])
    raise DataError(
        "none of its records begins with a schema's id, and none has one in its headers",
        where=f"topic {_topic(subject)}",
        fix="name the format that they are written in, or bring their schema with `schema.file`",
    )


def _writer(subject: str, id_: str, text: str) -> _Writer:
    try:
        tree = connect.of_avro(text)
        reader = json.loads(connect.avro_reader(text))
    except DataError as error:
        error.where = f"topic {_topic(subject)}, schema {id_}"
        raise
    around = {"type": "record", "name": "headrace_record", "fields": [{"name": "v", "type": reader}]}
    return _Writer(id_, json.dumps(around, ensure_ascii=False), tree)


def _frame(frame: DataFrame, column: str, subject: str) -> Column:
    return framing.frame_of(frame, column, subject.rsplit("-", 1)[1])


def _topic(subject: str) -> str:
    return subject.rsplit("-", 1)[0]
