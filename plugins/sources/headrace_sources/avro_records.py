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
from headrace_sources import connect
from headrace_sources.connect import Wire
from headrace_sources.framing import parts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    from headrace.engine.schemas import SchemaLog

_BODY, _ID, _PARSED = "_headrace_body", "_headrace_id", "_headrace_parsed"
#: Where the fields of a schema say whose it is: a dialect restricts the schema, and hands its fields on.
_SUBJECT = "headrace.subject"
#: The id of the one schema there is where a file brings it.
ONLY = "file"


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
        if not log.writers(subject):
            wanted |= {ONLY} if self._only else self._found(frame, column, subject)
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
        body, id_ = self._parts(frame, column, subject)
        there = F.col(column).isNotNull()
        frame = frame.select(
            *others, F.when(there, body).alias(_BODY), F.when(there, id_).alias(_ID), there.alias("there")
        )
        writers = [w for w in self._writers[subject] if isinstance(connect.table_type(w.tree), StructType)]
        values, readable = [], []
        for i, writer in enumerate(writers):
            mine = F.col(_ID) == writer.id
            struct = from_avro(F.col(_BODY), writer.reader, {"mode": "PERMISSIVE"})
            frame = frame.select("*", connect.once(F.when(mine, struct)).alias(f"{_PARSED}{i}"))
            wire = F.col(f"{_PARSED}{i}").getField("v")
            table = connect.once(connect.converted(wire, writer.tree, schema))
            frame = frame.select("*", table.alias(f"{_PARSED}{i}t"))
            whole = wire.isNotNull()
            lost = connect.lost(wire, F.col(f"{_PARSED}{i}t"), connect.restricted(writer.tree, schema))
            readable.append(mine & (whole if lost is None else whole & ~lost))
            values.append(F.when(readable[-1], F.col(f"{_PARSED}{i}t")))
        known = [writer.id for writer in self._writers[subject]]
        wrong = (
            F.when(F.col(_ID).isNull(), F.lit(UNDECODABLE))
            .when(~F.col(_ID).isin(known), unknown_schema(subject, F.col(_ID)).cast("string"))
            .when(~reduce(lambda a, b: a | b, readable), F.lit(UNDECODABLE))
        )
        said = connect.once(F.when(F.col("there"), wrong))
        return frame.select(*others, F.coalesce(*values).alias(column), said.alias(error))

    def explain(self, error_text: str) -> UnknownSchemaError | None:
        """Notes the ids that tasks failed for; None when there are none."""
        found = [(subject, id_) for subject, id_ in unknown_schemas(error_text) if subject in self._writers]
        if not found:
            return None
        for subject, id_ in found:
            self._wanted.setdefault(subject, set()).add(id_)
        what = f"records have schema {found[0][1]}, which no record had before"
        return UnknownSchemaError(what, where=f"topic {_topic(found[0][0])}", fix="start again: it is looked up then")

    def _found(self, frame: DataFrame, column: str, subject: str) -> set[str]:
        from pyspark.sql import functions as F

        _, id_ = self._parts(frame, column, subject)
        rows = frame.where(F.col(column).isNotNull()).select(id_.alias(_ID)).distinct().collect()
        found = {row[_ID] for row in rows if row[_ID] is not None}
        if rows and not found:
            raise DataError(
                "none of its records begins with a schema's id, and none has one in its headers",
                where=f"topic {_topic(subject)}",
                fix="name the format that they are written in, or bring their schema with `schema.file`",
            )
        return found

    def _parts(self, frame: DataFrame, column: str, subject: str) -> tuple[Column, Column]:
        """The Avro in a record, and the id of its schema; the id is null for a record that has none."""
        from pyspark.sql import functions as F

        if self._only:
            return F.col(column), F.lit(ONLY)
        return parts(frame, column, subject.rsplit("-", 1)[1], self._id_kind)


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
