"""Decoder of single records with the id of their writer schema, in any encoding."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.sdk import DataError, NoSchemaError, RecordReader, RejectReason, SchemaLog, Subject, UnknownSchemaError
from headrace.sdk.schemas import find_unknown_schemas, union_schemas
from headrace_sources.kafka_connect.connect_schema import UnusableSchemaError, find_schema_name, is_metadata_key
from headrace_sources.limits import MISSING_SCHEMAS, WRITER_SCHEMAS
from headrace_sources.registries import framing
from headrace_sources.registries.payload import PayloadParser
from headrace_sources.registries.registry_reader import KEY_FIX, EmptyReader, KnownFrames, RegistryReader, WriterSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_FRAME, _HEADERS = "_headrace_frame", "_headrace_headers"
#: First records of a new topic that are searched for schemas. Later schemas are found when records are read.
NEW_TOPIC_RECORDS = 100
#: Batches of a topic that use the header path after a record that needs it: with its id in a header, or damaged.
HEADER_PATH_BATCHES = 1000


@dataclass
class _HeaderPath:
    """Number of further batches of a subject that search headers for ids."""

    batches: int = 0


class RegistryDecoder:
    """Decoder of records by their writer schemas; ``fetch`` returns the schema of an id.

    ``id_kind``: kind of the ids that precede records (``RegistryConfig.id_kind``). ``single_schema``: all records have one
    schema, which ``fetch`` returns, and no id.
    """

    def __init__(
        self, parser: PayloadParser, fetch: Callable[[str], str], *, id_kind: str, single_schema: bool = False
    ) -> None:
        self._parser, self._fetch, self._id_kind, self._single_schema = parser, fetch, id_kind, single_schema
        self._name = f"registry/{id_kind}"

    def open(self, frame: DataFrame, column: str, subject: Subject, log: SchemaLog) -> RecordReader:
        """Return the reader of all writer schemas of the subject's records."""
        header_path = log.state(subject, _HeaderPath)
        header_path.batches = max(header_path.batches - 1, 0)
        ids = self._find_ids(frame, column, subject, log)
        if ids is None:
            return self._open_without_ids(frame, column, subject)
        rejected = self._fetch_schemas(subject, ids, log)
        ignored = _find_metadata_keys(log.writers(subject)) if subject.part == "key" else []
        writers = [writer for writer in self._parse_schemas(subject, log, rejected) if writer.id not in ignored]
        schema, contradicting = _union_schemas(writers, subject, log)
        if schema is None:  # a key that is a single value, or only tombstones: no columns
            return EmptyReader()
        rejected |= {writer.id: RejectReason.FIELD_NAME for writer in writers if writer.is_partial}
        rejected |= dict.fromkeys(contradicting, RejectReason.SCHEMA_INCOMPATIBLE)
        in_headers = header_path.batches > 0
        ids_to_know = dict.fromkeys([*(writer.id for writer in writers), *rejected, *ignored])
        known = KnownFrames({id_: self._make_frames(id_, in_headers=in_headers) for id_ in ids_to_know})
        full = self._is_full(subject, log)
        types = _find_types({writer.id: log.writers(subject)[writer.id] for writer in writers}, subject)
        return RegistryReader(
            schema, subject, self._parser, tuple(writers), rejected, ignored, known, in_headers, self._name, full, types
        )

    def explain(self, error_text: str) -> UnknownSchemaError | None:
        """Return the error for schemas that tasks do not know; None if there are none."""
        unknown = [
            # The fast path does not read the id.
            (subject, framing.parse_id(bytes.fromhex(frame), self._id_kind) if frame else "")
            for subject, frame in find_unknown_schemas(self._name, error_text)
        ]
        if not unknown:
            return None
        subject, id_ = unknown[0]
        return UnknownSchemaError(
            f"records have {f'schema {id_}' if id_ else 'a schema'}, which no record had before",
            where=f"topic {subject.topic}",
            fix="run it again: the schema is then looked up",
            schemas=unknown,
        )

    # Ids of schemas.

    def _find_ids(self, frame: DataFrame, column: str, subject: Subject, log: SchemaLog) -> Collection[str] | None:
        """Return the possibly new ids, the most frequent first; None if no record has or had an id."""
        unknown = log.take_unknown(subject)
        if self._single_schema:
            return [framing.BARE]
        if unknown is not None:  # all new ids are found in one pass: each would fail the batch once
            return dict.fromkeys([*self._collect_ids(frame, column, subject, log), *sorted(unknown - {""})])
        if log.writers(subject):
            return []
        head = self._collect_ids(frame, column, subject, log, NEW_TOPIC_RECORDS)
        return head or self._collect_ids(frame, column, subject, log) or None

    def _collect_ids(
        self, frame: DataFrame, column: str, subject: Subject, log: SchemaLog, head: int | None = None
    ) -> Collection[str]:
        """Return the ids in all records, or in the first ``head`` records, the most frequent first."""
        from pyspark.sql import functions as F

        records = frame.where(F.col(column).isNotNull())
        records = records if head is None else records.limit(head)
        headers = framing.has_header_with_id(records, subject.part)
        frames = framing.frame_column(records, column, subject.part, texts=self._parser.texts)
        counts = records.select(frames.alias(_FRAME), headers.alias(_HEADERS)).groupBy(_FRAME, _HEADERS).count()
        most = counts.orderBy(F.desc("count"), _FRAME).limit(WRITER_SCHEMAS + MISSING_SCHEMAS)
        rows = most.select(_FRAME, framing.is_frame(F.col(_FRAME)), _HEADERS).collect()
        if any(has_headers or not is_frame for _, is_frame, has_headers in rows):
            log.state(subject, _HeaderPath).batches = HEADER_PATH_BATCHES
        return dict.fromkeys(framing.parse_id(bytes(text), self._id_kind) for text, is_frame, _ in rows if is_frame)

    def _make_frames(self, id_: str, *, in_headers: bool) -> list[bytes]:
        return framing.make_frames(id_, self._id_kind, in_headers=in_headers, texts=self._parser.texts)

    def _open_without_ids(self, frame: DataFrame, column: str, subject: Subject) -> EmptyReader:
        """Return the reader of tombstones; NoSchemaError for any other record."""
        from pyspark.sql import functions as F

        first = frame.where(F.col(column).isNotNull()).select(column).first()
        if first is None:
            return EmptyReader()
        names: Collection[str] | None = None
        with suppress(ValueError):  # metadata of the stream is JSON, whichever converter the rows have
            record = json.loads(first[0])
            names = tuple(record) if isinstance(record, dict) else ()
        raise NoSchemaError(
            f"none of the {subject.nouns} starts with a schema id, and none has one in its headers",
            where=f"topic {subject.topic}",
            fix=KEY_FIX if subject.part == "key" else self._parser.fix_without_ids,
            names=names,
        )

    # Schemas of ids.

    def _fetch_schemas(self, subject: Subject, ids: Collection[str], log: SchemaLog) -> dict[str, RejectReason]:
        """Log new schemas up to the limits. Return the ids of missing schemas, if the pipeline file has a rule for their records."""
        missing = log.missing.setdefault(subject, set())
        refusal: DataError | None = None
        for id_ in [id_ for id_ in ids if id_ not in missing and id_ not in log.writers(subject)]:
            if self._is_full(subject, log):
                break
            try:
                log.add_writer(subject, id_, self._fetch(id_))
            except DataError as error:
                error.at(f"topic {subject.topic}, schema {id_}")
                _raise_unless_ruled(error, subject, log)
                refusal = error
                missing.add(id_)
        if refusal and not log.writers(subject):  # without any schema the table has no columns
            raise refusal
        return dict.fromkeys(sorted(missing), RejectReason.SCHEMA_UNKNOWN)

    @staticmethod
    def _is_full(subject: Subject, log: SchemaLog) -> bool:
        """Return whether no further schemas are requested: records of unknown ids are dead letters."""
        return len(log.missing.get(subject, ())) >= MISSING_SCHEMAS or len(log.writers(subject)) >= WRITER_SCHEMAS

    def _parse_schemas(
        self, subject: Subject, log: SchemaLog, rejected: dict[str, RejectReason]
    ) -> Sequence[WriterSchema]:
        """Return the writer schemas of a subject. Invalid schemas are ``rejected``, like missing ones."""
        writers: list[WriterSchema] = []
        refusal: DataError | None = None
        for id_, text in log.writers(subject).items():
            try:
                readers = tuple(reader.drop_bad_names() for reader in self._parser.parse_schema(text))
                writers.append(WriterSchema(id_, readers))
            except DataError as error:
                error.where = f"topic {subject.topic}, schema {id_}"
                _raise_unless_ruled(error, subject, log)
                refusal = error
                rejected[id_] = RejectReason.SCHEMA_UNKNOWN
        if refusal and not writers:
            raise refusal
        return writers


def _find_metadata_keys(schemas: Mapping[str, str]) -> list[str]:
    """Return the ids of schemas that describe keys of metadata."""
    ids = []
    for id_, text in schemas.items():
        with suppress(ValueError, RecursionError):
            if is_metadata_key(json.loads(text)):
                ids.append(id_)
    return ids


def _find_types(schemas: Mapping[str, str], subject: Subject) -> Mapping[str, Sequence[str]]:
    """Return name of a value's schema → its ids."""
    types: dict[str, list[str]] = {}
    for id_, text in schemas.items():
        name = find_schema_name(json.loads(text)) if subject.part == "value" else None
        if name:
            types.setdefault(name, []).append(id_)
    return types


def _union_schemas(
    writers: Sequence[WriterSchema], subject: Subject, log: SchemaLog
) -> tuple[StructType | None, list[str]]:
    """Return the columns of all writer schemas, None if none has rows, and the ids of conflicting ones.

    A key consists of plain values. One damaged id may name the schema of an envelope: its columns would be key columns of the table.
    """
    from pyspark.sql.types import StructType

    rows: Mapping[str, StructType] = {
        writer.id: writer.table_type for writer in writers if isinstance(writer.table_type, StructType)
    }
    if not rows:
        return None, []
    plain = {id_: row for id_, row in rows.items() if subject.part == "value" or not _is_nested(row)} or rows
    schema, contradicting = union_schemas(plain, f"topic {subject.topic}", aside=log.allows_conflicts(subject))
    return schema, [*contradicting, *(rows.keys() - plain.keys())]


def _is_nested(row: StructType) -> bool:
    return any(field.dataType.typeName() in ("struct", "map") for field in row)


def _raise_unless_ruled(error: DataError, subject: Subject, log: SchemaLog) -> None:
    """Raise the error, unless the pipeline file has a rule for records without a schema or the schema is unusable."""
    if isinstance(error, UnusableSchemaError):
        return
    if RejectReason.SCHEMA_UNKNOWN not in log.ruled(subject.topic):
        raise error
