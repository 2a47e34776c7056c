"""Formats: they decode bytes into structs, in the JVM."""

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
from headrace.spark.error_text import RAISED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.sdk.catalog import Storage
    from headrace.sdk.schema_log import SchemaLog


_MARK = re.compile(rf"(?:{RAISED})<headrace-writer-schema decoder=(.*?) subject=(.*?) id=(.*?)>")


class UnknownSchemaError(RetriableError):
    """A record's writer schema is not among those that a batch was planned with: the batch is planned again.

    Searching for new schemas before each batch would cost a pass over its records. ``schemas``: subject and id of each; the id is empty
    when the failed task could not determine it.
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

    ``names``: the fields of the first record, when it can be read without a schema: a dialect may recognize a topic without rows
    (``Dialect.metadata_topic``). None when it cannot be read.
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


def fail_on_unknown_schema(decoder: str, subject: Subject, id: Column) -> Column:  # noqa: A002 - the schema registries' word
    """Return a column without a value: it fails the task that reads a record with a writer schema that the plan does not have.

    ``decoder``: a name by which the format recognizes its own failures.
    """
    from pyspark.sql import functions as F

    mark = f"<headrace-writer-schema decoder={quote(decoder)} subject={quote(str(subject))} id="
    return F.raise_error(F.concat(F.lit(mark), id, F.lit(">")))


def find_unknown_schemas(decoder: str, error_text: str) -> list[tuple[Subject, str]]:
    """Return the subjects and ids for which a decoder's tasks failed, from the full text of an error."""
    marks = [mark for mark in _MARK.findall(error_text) if unquote(mark[0]) == decoder]
    ids = dict.fromkeys((subject, writer) for _, subject, writer in marks)
    return [(Subject.parse(unquote(subject)), writer) for subject, writer in ids]


@dataclass(frozen=True)
class Scan:
    """Files of one schema. ``read`` reads the fields of a struct from them, as columns of a plain file scan."""

    files: tuple[str, ...]
    schema: StructType

    @property
    def record_type(self) -> str | None:
        """Name of the records' schema, if it has one."""
        return None

    def merge(self, other: Scan) -> Scan | None:
        """Merge two scans whose common columns have the same types; otherwise return None."""
        schema = union_equal(self.schema, other.schema)
        return None if schema is None else Scan(self.files + other.files, schema)


class RecordReader(ABC):
    """Reader of the keys or the values of one topic in one batch, planned once from their writer schemas."""

    #: Schema of the decoded records; no fields when there is nothing to read.
    schema: StructType
    #: Whether the fields come from the records alone: no schema declares them, and one record may have any field.
    is_inferred: bool = False

    @property
    def types(self) -> Sequence[str]:
        """Names of the records' schemas. With several, ``decode`` adds the column ``events.TYPE``."""
        return ()

    @abstractmethod
    def decode(self, frame: DataFrame, column: str, schema: StructType, error: str) -> DataFrame:
        """Return the frame with ``column`` (binary) as a struct of ``schema``, the requested part of the reader's schema.

        Where a record, or a part of it, cannot be read, the new column ``error`` (string) has the reason. The struct then holds the readable
        part or is null: without a struct a dead letter keeps the record's bytes, including values that a mask would hide.
        """

    def locate_errors(self, frame: DataFrame, column: str, schema: StructType) -> DataFrame:
        """Return the frame with ``column`` (binary) as a string: which field does not fit in an undecodable record, and its type.

        Null where it is unknown. The string never contains a value of the record. It is computed for dead letters only.
        """
        from pyspark.sql import functions as F

        return frame.withColumn(column, F.lit(None).cast("string"))


class Format(Plugin):
    """Decoder of bytes. A file format implements ``scans`` and ``read``; a record format implements ``open``.

    It keeps no state between batches: the state of a topic is in the run's SchemaLog.
    """

    #: True for files that contain their schema and are read as a whole; False for one record per line.
    container: ClassVar[bool] = False

    def scans(self, spark: SparkSession, files: Sequence[str], options: Mapping[str, str]) -> list[Scan]:
        """Return the files grouped by schema. DataError names a file of another format."""
        raise NotImplementedError(f"{type(self).__name__} does not read container files")

    def keep_table_types(self, scan: Scan, subject: Subject, log: SchemaLog) -> Scan:
        """Return the scan with the types that columns have in their table (``log.table_types``), where the format can read them.

        For a format that used other types in an earlier version: existing tables keep their types.
        """
        return scan

    def read(self, spark: SparkSession, scan: Scan, schema: StructType, options: Mapping[str, str]) -> DataFrame:
        """Return the rows of the scan's files with the columns of ``schema``; ``_metadata`` stays available.

        Where values may not fit the schema there are two more columns: ``changes.ERROR``, the reason for a dead letter or null, and
        ``changes.RAW``, the stored record as JSON (binary). They may come with ``changes.DETAIL``: which field does
        not fit, and its type. It is only computed for dead letters. ``changes.UNREADABLE`` marks a record without any readable column, of
        which dead letters keep RAW even if the pipeline hides values.
        """
        raise NotImplementedError(f"{type(self).__name__} does not read container files")

    def find_damaged_file(self, spark: SparkSession, files: Sequence[str], error: BaseException) -> str | None:
        """Return the first of these files that cannot be read to its end, when ``error`` comes from the format's reader."""
        return None

    def describe_storage(self, spark: SparkSession, schema: StructType, options: Mapping[str, str]) -> Storage:
        """Return the classes with which query engines read files with these columns. ``options``: those of Spark's writer."""
        raise NotImplementedError(f"{type(self).__name__} does not describe how engines read its files")

    def open(
        self, spark: SparkSession, frame: DataFrame, column: str, subject: Subject, log: SchemaLog
    ) -> RecordReader:
        """Return the reader of the bytes in ``column`` of a batch's frame. Its schema is stored in ``log``, so that types do not alternate.

        Called for several subjects at the same time, in threads. NoSchemaError when records have no schema and need one.

        A format whose records name or carry a writer schema stores the schemas in ``log.writers`` and plans with all of them; a record with
        another schema fails its task (``fail_on_unknown_schema``). ``explain`` turns that failure into an UnknownSchemaError, whose
        schemas the engine notes in ``log``; then the batch is planned again.
        """
        raise NotImplementedError(f"{type(self).__name__} does not decode single records")
