"""Formats: bytes → a struct, inside the JVM."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote, unquote

from headrace.errors import RetriableError
from headrace.sdk.plugin import Plugin

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.sdk.schema_log import SchemaLog


_MARK = re.compile(r"<headrace-writer-schema subject=(.*?) id=(.*?)>")


class UnknownSchemaError(RetriableError):
    """Some record's writer schema is not among those that a batch was planned with: the batch is planned again.

    Looking for new schemas before each batch would cost a pass over its records.
    """


def fail_on_unknown_schema(subject: str, id: Column) -> Column:  # noqa: A002 - the registries' word
    """A value that nobody gets: it fails the task that meets a record whose writer schema the plan does not know."""
    from pyspark.sql import functions as F

    return F.raise_error(F.concat(F.lit(f"<headrace-writer-schema subject={quote(subject)} id="), id, F.lit(">")))


def find_unknown_schemas(error_text: str) -> list[tuple[str, str]]:
    """The subjects and ids by which tasks failed for ``unknown_schema``, from all that an error says."""
    return [(unquote(subject), writer) for subject, writer in dict.fromkeys(_MARK.findall(error_text))]


@dataclass(frozen=True)
class Scan:
    """Files of one schema. ``read`` takes the fields of a struct from them, as columns of a plain file scan."""

    files: tuple[str, ...]
    schema: StructType


class Format(Plugin):
    """How bytes become a struct. A format of files brings ``scans`` and ``read``; one of single records ``decode``."""

    #: True for files that carry their schema and are read whole; False for one record a line.
    container: ClassVar[bool] = False

    def scans(self, spark: SparkSession, files: Sequence[str], options: Mapping[str, str]) -> list[Scan]:
        """The files grouped by schema. DataError names a file that is not of this format."""
        raise NotImplementedError(f"{type(self).__name__} does not read container files")

    def read(self, spark: SparkSession, scan: Scan, schema: StructType, options: Mapping[str, str]) -> DataFrame:
        """The scan's files with the columns of ``schema``, ``_metadata`` still there."""
        raise NotImplementedError(f"{type(self).__name__} does not read container files")

    def damaged(self, spark: SparkSession, files: Sequence[str]) -> str | None:
        """The first of these files that cannot be read to its end; asked after a read failed that names no file."""
        return None

    def schema(self, spark: SparkSession, frame: DataFrame, column: str, subject: str, log: SchemaLog) -> StructType:
        """The struct that the bytes of ``column`` hold; remembered under ``subject`` so that types never flip.

        Asked for several subjects at the same time, in threads.

        A format whose records name or carry a writer schema keeps those in ``log.writers`` and plans with all that it
        knows; on ``unknown_schemas`` its ``explain`` notes what is missing and returns UnknownSchemaError, whereupon the
        batch comes here again.
        """
        raise NotImplementedError(f"{type(self).__name__} does not decode single records")

    def decode(self, frame: DataFrame, column: str, schema: StructType, error: str) -> DataFrame:
        """``column`` (binary) decoded to ``schema``; where that fails it is null and column ``error`` says why."""
        raise NotImplementedError(f"{type(self).__name__} does not decode single records")
