"""Verification of single tables."""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError, FatalError, HeadraceError
from headrace.sdk.error_text import first_line
from headrace.sdk.options import did_you_mean
from headrace_verify.applied_changes import AppliedChanges
from headrace_verify.compared_table import ComparedTable, choose_columns
from headrace_verify.comparison import Comparison, Settlement, count_digits, find_candidates
from headrace_verify.sides import LakeSide, SourceSide
from headrace_verify.source_table import SourceDatabase, SourceTable
from headrace_verify.value_texts import FindForm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace import Pipeline, TableOrigin

#: Rounds in which a key may change before it is left unsettled.
_ROUNDS = 5
#: Hexadecimal digits of buckets in a sample, and their number.
_SAMPLE_DIGITS = 4
_SAMPLE_BUCKETS = 16**_SAMPLE_DIGITS


@dataclass(frozen=True)
class VerifyOptions:
    """Options of the command. ``sample``: part of the keys, up to 1; ``timeout``: seconds to wait for the pipeline."""

    sample: float = 1.0
    timeout: float = 300.0
    sink: str | None = None
    #: The keys that differ are wanted.
    keys: bool = False


@dataclass
class Verified:
    """Result for a table: the comparison and its columns, or the error that prevented it. ``source``: the other table."""

    table: str
    seconds: float = 0.0
    source: str = ""
    compared: ComparedTable | None = None
    comparison: Comparison = field(default_factory=Comparison)
    error: HeadraceError | None = None
    #: Ids of the signals that were sent to repair it.
    signals: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sides: tuple[SourceSide, LakeSide] | None = None


class TableVerifier(ABC):
    """Verifier of the tables of a pipeline."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession, options: VerifyOptions) -> None:
        self._pipeline, self._spark, self._options = pipeline, spark, options

    def verify(self, names: Collection[str]) -> Iterator[Verified]:
        """Yield the result of each table, or of those named. ConfigError for an unknown name."""
        origins = {origin.table: origin for origin in self._pipeline.find_origins(self._spark)}
        for name in names:
            if name not in origins:
                raise ConfigError(f"the pipeline has not written a table {name}", fix=did_you_mean(name, list(origins)))
        if not origins:
            raise ConfigError(
                "the pipeline has not written a table yet", fix="run it until it has applied the snapshot"
            )
        for name in names or origins:
            yield self._verify(origins[name])

    def _verify(self, origin: TableOrigin) -> Verified:
        result, start = Verified(origin.table), time.monotonic()
        try:
            self._compare(origin, result)
        except HeadraceError as error:
            result.error = error
        except Exception as error:  # noqa: BLE001 - exit code 1 means that rows differ; the other tables are compared
            result.error = FatalError(first_line(error), fix="correct the cause, and run the command again")
        result.seconds = time.monotonic() - start
        return result

    @abstractmethod
    def _compare(self, origin: TableOrigin, result: Verified) -> None:
        """Complete the result of a table."""


class DatabaseVerifier(TableVerifier):
    """Verifier against the source database."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        database: SourceDatabase,
        find_form: FindForm,
        options: VerifyOptions,
        await_load: Callable[[], None] = lambda: None,
    ) -> None:
        """``await_load`` is called before each statement that reads rows of the database."""
        super().__init__(pipeline, spark, options)
        self._database, self._find_form, self._await_load = database, find_form, await_load
        self._applied = AppliedChanges(database, pipeline, spark, options.timeout)
        self._tables = {
            name_topic(database.options, schema, name): (schema, name) for schema, name in database.list_tables()
        }
        self._failures = {status.table: status.error for status in pipeline.status(spark).tables if status.error}

    def _compare(self, origin: TableOrigin, result: Verified) -> None:
        if failure := self._failures.get(origin.table):
            raise ConfigError(f"the table is set aside: {failure}", fix="correct what the error names")
        source = self._find_source(origin)
        result.source = str(source)
        frame = self._read(origin.table)
        changed = self._pipeline.find_changed_columns(origin.table, frame)
        result.compared = table = choose_columns(self._database, self._find_form, source, frame.schema, changed)
        limit = limit_sample(self._options.sample)
        digits = _SAMPLE_DIGITS if limit else count_digits(self._database.estimate_rows(source))
        ours = SourceSide(self._database, table, digits, limit, self._await_load)
        theirs = LakeSide(lambda: self._read(origin.table), table, digits, limit)
        result.sides = ours, theirs
        self._await_load()  # Both sides are read at one time, so that few rows differ.
        candidates = find_candidates(ours, theirs, result.comparison)
        names = [column.name for column in table.columns]
        Settlement(ours, theirs, names, self._applied.wait).settle(candidates, result.comparison, _ROUNDS)

    def _read(self, table: str) -> DataFrame:
        return self._pipeline.read(table, sink=self._options.sink, current=True, spark=self._spark)

    def _find_source(self, origin: TableOrigin) -> SourceTable:
        """Return the table of the database. ConfigError if it is not one, or if rows of it are left out."""
        if origin.row_transforms:
            what = f"the transform {origin.row_transforms[0]} leaves out rows, or makes several of one"
            raise ConfigError(what, fix="such tables cannot be verified: name the others")
        if len(origin.topics) > 1:
            what = f"it has the rows of several topics: {', '.join(origin.topics)}"
            raise ConfigError(what, fix="such tables cannot be verified: name the others")
        [topic] = origin.topics
        if topic not in self._tables:
            fix = "check `database.dbname` and `topic.prefix`; topics that a transform of the connector renames cannot be verified"
            raise ConfigError(f"no table of the database has the topic {topic}", fix=fix)
        return self._database.describe(*self._tables[topic])


def limit_sample(sample: float) -> str | None:
    """Return the bucket before which the keys of a sample are; None for all keys."""
    buckets = max(1, round(sample * _SAMPLE_BUCKETS))
    return None if buckets >= _SAMPLE_BUCKETS else f"{buckets:0{_SAMPLE_DIGITS}x}"


def name_topic(options: Mapping[str, str], schema: str, name: str) -> str:
    """Return the topic of a table, as Debezium names it."""
    prefix = options.get("topic.prefix", "")
    return re.sub(r"[^a-zA-Z0-9._-]", "_", f"{prefix}.{schema}.{name}")
