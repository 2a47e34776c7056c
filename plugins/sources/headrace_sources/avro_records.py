"""Single Avro records that name their writer's schema by an id that a registry knows."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from headrace.contracts.changes import UNDECODABLE, quoted
from headrace.contracts.format import UnknownSchemaError, unknown_schema, unknown_schemas
from headrace.engine.schemas import merged
from headrace.errors import DataError
from headrace_sources import connect, framing
from headrace_sources.connect import Wire

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    from headrace.engine.schemas import SchemaLog

_BODY, _FRAME, _PARSED = "_headrace_body", "_headrace_frame", "_headrace_parsed"
#: Where the fields of a schema say whose it is: a dialect restricts the schema, and hands its fields on.
_SUBJECT = "headrace.subject"
#: Records of a topic that is new which are looked at for schemas. What comes behind them is met when it is read.
HEAD = 100


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

    def schema(self, frame: DataFrame, column: str, subject: str, log: SchemaLog) -> StructType:
        """The columns of all writer schemas that the subject's records were met with."""
        from pyspark.sql.types import StructField, StructType

        wanted = self._wanted.pop(subject, set())
        if self._only:
            wanted = {framing.BARE}
        elif wanted:  # where there is one there may be more, and each would end the batch once
            wanted |= self._found(frame, column, subject)
        elif not log.writers(subject):
            wanted = self._found(frame, column, subject, HEAD) or self._found(frame, column, subject)
        for id_ in sorted(wanted - set(log.writers(subject))):
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
        others = [F.col(quoted(c)) for c in frame.columns if c != column]
        if subject is None:
            empty = F.lit(None).cast(schema)
            return frame.select(*others, empty.alias(column), F.lit(None).cast("string").alias(error))
        body, found = F.col(_BODY), F.col(_FRAME)
        frame = frame.select(
            *others, F.col(column).alias(_BODY), connect.once(self._frame(frame, column, subject)).alias(_FRAME)
        )
        writers = [w for w in self._writers[subject] if isinstance(connect.table_type(w.tree), StructType)]
        values, readable = [], []
        for i, writer in enumerate(writers):
            mine = self._is_one_of(found, [writer.id])
            record = framing.behind(frame, body, found, writer.id)
            struct = from_avro(record, writer.reader, {"mode": "PERMISSIVE"})
            frame = frame.select("*", connect.once(F.when(mine, struct)).alias(f"{_PARSED}{i}"))
            wire = F.col(f"{_PARSED}{i}").getField("v")
            table = connect.once(connect.converted(wire, writer.tree, schema))
            frame = frame.select("*", table.alias(f"{_PARSED}{i}t"))
            whole = wire.isNotNull()
            lost = connect.lost(wire, F.col(f"{_PARSED}{i}t"), connect.restricted(writer.tree, schema))
            readable.append(mine & (whole if lost is None else whole & ~lost))
            values.append(F.when(readable[-1], F.col(f"{_PARSED}{i}t")))
        known = self._is_one_of(found, [writer.id for writer in self._writers[subject]])
        broken = F.lit(UNDECODABLE)
        wrong = (
            F.when(known, F.when(~reduce(lambda a, b: a | b, readable), broken))
            .when(framing.is_frame(found), unknown_schema(subject, F.hex(found)).cast("string"))
            .otherwise(broken)
        )
        said = connect.once(F.when(found.isNotNull(), wrong))
        return frame.select(*others, F.coalesce(*values).alias(column), said.alias(error))

    def explain(self, error_text: str) -> UnknownSchemaError | None:
        """Notes the ids that tasks failed for; None when there are none."""
        found = [
            (subject, framing.id_of(bytes.fromhex(frame), self._id_kind))
            for subject, frame in unknown_schemas(error_text)
            if subject in self._writers
        ]
        if not found:
            return None
        for subject, id_ in found:
            self._wanted.setdefault(subject, set()).add(id_)
        what = f"records have schema {found[0][1]}, which no record had before"
        return UnknownSchemaError(what, where=f"topic {_topic(found[0][0])}", fix="start again: it is looked up then")

    def _found(self, frame: DataFrame, column: str, subject: str, head: int | None = None) -> set[str]:
        """The ids in all records, or in the first so many."""
        from pyspark.sql import functions as F

        records = frame.where(F.col(column).isNotNull())
        records = records if head is None else records.limit(head)
        seen = records.select(self._frame(records, column, subject).alias(_FRAME)).distinct()
        rows = seen.select(_FRAME, framing.is_frame(F.col(_FRAME))).collect()
        found = {framing.id_of(bytes(text), self._id_kind) for text, is_frame in rows if is_frame}
        if rows and not found and head is None:
            raise DataError(
                "none of its records begins with a schema's id, and none has one in its headers",
                where=f"topic {_topic(subject)}",
                fix="name the format that they are written in, or bring their schema with `schema.file`",
            )
        return found

    def _frame(self, frame: DataFrame, column: str, subject: str) -> Column:
        from pyspark.sql import functions as F

        if self._only:
            return F.when(F.col(column).isNotNull(), F.lit(b""))
        return framing.frame_of(frame, column, subject.rsplit("-", 1)[1])

    def _is_one_of(self, found: Column, ids: list[str]) -> Column:
        from pyspark.sql import functions as F

        return found.isin(*map(F.lit, framing.frames(ids, self._id_kind)))


def _writer(subject: str, id_: str, text: str) -> _Writer:
    try:
        tree = connect.of_avro(text)
        reader = json.loads(connect.avro_reader(text))
    except DataError as error:
        error.where = f"topic {_topic(subject)}, schema {id_}"
        raise
    around = {"type": "record", "name": "headrace_record", "fields": [{"name": "v", "type": reader}]}
    return _Writer(id_, json.dumps(around, ensure_ascii=False), tree)


def _topic(subject: str) -> str:
    return subject.rsplit("-", 1)[0]
