"""Formats: bytes → a struct, inside the JVM."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote, unquote

from headrace.errors import DataError, RetriableError
from headrace.schema.promotion import union_equal
from headrace.sdk.plugin import Plugin
from headrace.sdk.schema_log import Subject

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.sdk.catalog import Storage
    from headrace.sdk.schema_log import SchemaLog


_MARK = re.compile(r"<headrace-writer-schema decoder=(.*?) subject=(.*?) id=(.*?)>")


class UnknownSchemaError(RetriableError):
    """Some record's writer schema is not among those that a batch was planned with: the batch is planned again.

    Looking for new schemas before each batch would cost a pass over its records. ``schemas``: subject and id of each, or an
    empty id where the task that met it could not tell.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        fix: str | None = None,
        schemas: Collection[tuple[Subject, str]] = (),
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.schemas = tuple(schemas)


class NoSchemaError(DataError):
    """None of a topic's records has a schema.

    ``names``: the fields of the first record, where it can be read without one: by these a dialect may know the topic as one
    without rows (``Dialect.metadata_topic``). None where it cannot.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        fix: str | None = None,
        names: Collection[str] | None = None,
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.names = names


def fail_on_unknown_schema(decoder: str, subject: Subject, id: Column) -> Column:  # noqa: A002 - the registries' word
    """A value that nobody gets: it fails the task that meets a record whose writer schema the plan does not know.

    ``decoder`` is a name by which a format knows its own again.
    """
    from pyspark.sql import functions as F

    mark = f"<headrace-writer-schema decoder={quote(decoder)} subject={quote(str(subject))} id="
    return F.raise_error(F.concat(F.lit(mark), id, F.lit(">")))


def find_unknown_schemas(decoder: str, error_text: str) -> list[tuple[Subject, str]]:
    """The subjects and ids by which tasks of a decoder failed for an unknown schema, from all that an error says."""
    marks = [mark for mark in _MARK.findall(error_text) if unquote(mark[0]) == decoder]
    ids = dict.fromkeys((subject, writer) for _, subject, writer in marks)
    return [(Subject.parse(unquote(subject)), writer) for subject, writer in ids]


@dataclass(frozen=True)
class Scan:
    """Files of one schema. ``read`` takes the fields of a struct from them, as columns of a plain file scan."""

    files: tuple[str, ...]
    schema: StructType

    def merge(self, other: Scan) -> Scan | None:
        """Both in one, where the columns that both have are of the same types; else None."""
        schema = union_equal(self.schema, other.schema)
        return None if schema is None else Scan(self.files + other.files, schema)


class RecordReader(ABC):
    """How one batch reads the keys or the values of one topic: decided once, from the schemas they are written with."""

    #: What the records hold; no fields where there is nothing to read.
    schema: StructType

    @abstractmethod
    def decode(self, frame: DataFrame, column: str, schema: StructType, error: str) -> DataFrame:
        """The frame with ``column`` (binary) as a struct of ``schema``, the part of the reader's own that is wanted.

        Where a record cannot be read, or a part of it, the new column ``error`` (string) says why. Then the struct has what
        could be read, or is null: without it a dead letter keeps the record's bytes, also what a mask would hide.
        """


class Format(Plugin):
    """How bytes become a struct. A format of files brings ``scans`` and ``read``; one of single records ``open``.

    It keeps nothing from one batch to the next: what a run has learnt of a topic is in its SchemaLog.
    """

    #: True for files that carry their schema and are read whole; False for one record a line.
    container: ClassVar[bool] = False

    def scans(self, spark: SparkSession, files: Sequence[str], options: Mapping[str, str]) -> list[Scan]:
        """The files grouped by schema. DataError names a file that is not of this format."""
        raise NotImplementedError(f"{type(self).__name__} does not read container files")

    def keep_table_types(self, scan: Scan, subject: Subject, log: SchemaLog) -> Scan:
        """The scan with the types that columns have in their table (``log.table_types``), where it can read them so.

        For a format that read its files in other types before: a table that was written then goes on.
        """
        return scan

    def read(self, spark: SparkSession, scan: Scan, schema: StructType, options: Mapping[str, str]) -> DataFrame:
        """The scan's files with the columns of ``schema``, ``_metadata`` still there.

        Where values of a record may not fit these, there are two more: ``changes.ERROR``, why it is a dead letter, or null; and
        ``changes.RAW``, the record as it was stored, as JSON (binary).
        """
        raise NotImplementedError(f"{type(self).__name__} does not read container files")

    def find_damaged_file(self, spark: SparkSession, files: Sequence[str], error: BaseException) -> str | None:
        """The first of these files that cannot be read to its end, where ``error`` is one of the format's reader."""
        return None

    def describe_storage(self, spark: SparkSession, schema: StructType, options: Mapping[str, str]) -> Storage:
        """By which classes engines read files of the format that have these columns. ``options``: those of Spark's writer."""
        raise NotImplementedError(f"{type(self).__name__} does not say how engines read its files")

    def open(
        self, spark: SparkSession, frame: DataFrame, column: str, subject: Subject, log: SchemaLog
    ) -> RecordReader:
        """What reads the bytes in ``column`` of a batch's frame. Its schema is remembered in ``log``, so that types never flip.

        Asked for several subjects at the same time, in threads. NoSchemaError where records have none, and need one.

        A format whose records name or carry a writer schema keeps those in ``log.writers`` and plans with all that it
        knows; a record of another one fails its task (``fail_on_unknown_schema``). ``explain`` makes of that an
        UnknownSchemaError, whose schemas the engine notes in ``log``, and the batch comes here again.
        """
        raise NotImplementedError(f"{type(self).__name__} does not decode single records")
