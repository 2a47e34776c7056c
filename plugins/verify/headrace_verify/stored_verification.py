"""Verification of tables against those of another pipeline, or of another sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError
from headrace_verify.compared_table import choose_columns
from headrace_verify.source_table import SourceColumn, SourceTable
from headrace_verify.stored_comparison import StoredComparison
from headrace_verify.stored_texts import SparkSql, find_stored_form
from headrace_verify.table_verification import TableVerifier, Verified, VerifyOptions, limit_sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from headrace import Pipeline, TableOrigin
    from headrace_verify.value_texts import TextForm


@dataclass(frozen=True)
class OtherTables:
    """Tables of the other side: the pipeline of a file, and one of its sinks, the first without a name."""

    pipeline: Pipeline
    file: str
    sink: str | None = None

    def __str__(self) -> str:
        return f"{self.file}, sink {self.sink}" if self.sink else self.file


class StoredVerifier(TableVerifier):
    """Verifier against stored tables. It reads one version of each."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession, other: OtherTables, options: VerifyOptions) -> None:
        super().__init__(pipeline, spark, options)
        self._other = other

    def _compare(self, origin: TableOrigin, result: Verified) -> None:
        result.source = f"{self._other}: {origin.table}"
        if not origin.key:
            raise ConfigError("its rows have no key by which they can be matched", fix="such tables cannot be verified")
        stored = self._pipeline.read(origin.table, sink=self._options.sink, current=True, spark=self._spark)
        try:
            other = self._other.pipeline.read(origin.table, sink=self._other.sink, current=True, spark=self._spark)
        except ConfigError as error:
            raise ConfigError(
                f"the other table cannot be read: {error.what}", where=str(self._other), fix=error.fix
            ) from error
        types = {field.name: field.dataType for field in other.schema}

        def find_form(column: SourceColumn, kind: DataType) -> TextForm | None:
            return find_stored_form(types[column.name], kind)

        source = _describe(origin.table, other, origin.key)
        result.compared = table = choose_columns(SparkSql(), find_form, source, stored.schema, ())
        comparison = StoredComparison(other, stored, table, limit_sample(self._options.sample))
        result.comparison = comparison.compare(list_keys=self._options.keys)


def _describe(name: str, frame: DataFrame, key: tuple[str, ...]) -> SourceTable:
    """Return a stored table as one with a primary key; its names have the case of the stored columns."""
    spelled = {column.lower(): column for column in frame.columns}
    columns = tuple(SourceColumn(field.name, field.dataType.simpleString().upper()) for field in frame.schema)
    schema, _, table = name.rpartition(".")
    return SourceTable(schema, table, columns, tuple(spelled.get(column.lower(), column) for column in key))
