"""Sink ``s3``: records as objects, exactly once.

A batch is applied in four steps. Its rows are staged. The rows of complete objects are written to files in a work folder. The state is
replaced in one step: it names the files to move and the pending rows. The files are moved to the topics. After a crash the next call
moves the remaining files first.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, unquote

from headrace.sdk import (
    Batch,
    Capabilities,
    ConfigError,
    DataError,
    Dataset,
    HeadraceError,
    NoSuchTableError,
    Plugin,
    RetriableError,
    Table,
    TableMode,
    WriteResult,
)
from headrace.sdk.error_text import full_text, text_after_raised
from headrace.sdk.storage import Folder
from headrace_sinks.avro_jars import AVRO_JARS
from headrace_sinks.file_formats import ANCIENT_DATES, check_avro_columns
from headrace_sinks.folder_sink import FolderSink
from headrace_sinks.s3.object_formats import QUICK_COMMIT
from headrace_sinks.s3.object_reader import load_schemas, read_objects, unite_schemas
from headrace_sinks.s3.object_state import Staged, State, TopicPartition
from headrace_sinks.s3.objects import OBJECTS, STAGED, check_targets, move_objects, write_objects
from headrace_sinks.s3.objects_table import ObjectsTable, find_columns
from headrace_sinks.s3.path_limits import find_unsupported
from headrace_sinks.s3.pending_records import REJECTION, describe_records, describe_schema, list_columns
from headrace_sinks.s3.rotation import Span, close, drop_processed, find_next_rotation, is_due, rotate, to_span
from headrace_sinks.s3.s3_config import S3SinkConfig
from headrace_sinks.stored_types import spell_as_stored

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: Hidden work folder next to the topics.
_WORK, _TABLE = "_headrace", "table-"
#: Parts of ``Batch.pipeline`` after the id of the checkpoint.
_REPLAY, _TOPIC = "/replay/", "/topic/"
#: Locks by work folder: a batch may arrive during a scheduled rotation of the same table.
_LOCKS: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


class S3Sink(FolderSink):
    """``s3: {path: "s3a://bucket", format: avro, flush.size: 1000}``."""

    name = "s3"
    api_version = 1
    Config = S3SinkConfig
    config: S3SinkConfig
    capabilities = Capabilities(schema_evolution=True, exactly_once=True, single_pass=True, concurrent_writers=True)
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = AVRO_JARS
    sql_conf = ANCIENT_DATES

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        #: Table → objects that are moved and not yet registered with the catalog.
        self._unregistered: dict[str, list[str]] = {}
        #: Tables that this process registered with all their objects.
        self._registered: set[str] = set()

    def parts(self) -> Sequence[Plugin]:
        return [self.config.sync] if self.config.sync else []

    def record_columns(self) -> Collection[str]:
        return list_columns(self.config)

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        yield "sink s3", Folder(spark, self.config.path).probe()

    def locate(self, table: Table) -> Dataset | None:
        return Dataset.of_folder(self.config.path, self.config.topics_prefix, table.name)

    def check_columns(self, spark: SparkSession, table: Table, columns: Collection[str]) -> None:
        if self.config.format == "avro":
            check_avro_columns(columns, "Avro")

    def find_unsupported(self, spark: SparkSession, table: Table, mode: TableMode, row: StructType) -> Column | None:
        is_by_field = self.config.partitioner == "field"
        return find_unsupported(row, self.config, Folder(spark, self.config.path)) if is_by_field else None

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        work = self._work(rows.sparkSession, batch.pipeline, table.name)
        with _LOCKS[work.path]:
            state = State.read(work)
            moved = self._finish(rows.sparkSession, work, state)
            is_applied = state.has(batch)
            if is_applied:
                self._register(rows.sparkSession, table.name, state, moved)
                return WriteResult(skipped=True)
            spans = self._stage(rows, batch, work, state, is_new=is_applied is False)
            if _REPLAY in batch.pipeline:  # No later record completes its objects.
                spans += self._close(state, lambda _: True)
            if self.config.sync:
                find_columns([*self._read_states(rows.sparkSession, table.name), state], self.config)
            state.note_batch(batch)
            moved += self._commit(rows.sparkSession, work, str(batch.id), spans, state)
            self._register(rows.sparkSession, table.name, state, moved)
        return WriteResult()

    def on_idle(self, spark: SparkSession, pipeline: str, writes: Callable[[str], bool]) -> float | None:
        now = self._now()
        root, errors = Folder(spark, f"{self.config.path.rstrip('/')}/{_WORK}"), []
        own = [name for name in root.names(hidden=True) if unquote(name).partition(_TOPIC)[0] == pipeline]
        for folder in map(root.folder, own):
            for name in filter(lambda name: writes(_read_folder_name(name)), folder.names()):
                try:
                    self._rotate(spark, folder.folder(name), _read_folder_name(name), now)
                except Exception as error:  # noqa: BLE001 - raised after the other tables
                    errors.append(error)
        if errors:
            raise min(errors, key=lambda error: isinstance(error, RetriableError))
        due = find_next_rotation(now, self.config)
        return None if due is None else max(0.05, (due - now) / 1000)

    def _rotate(self, spark: SparkSession, work: Folder, table: str, now: int) -> None:
        """Write the objects of a table that are due. RetriableError if a catalog rejects them: the next write tries again."""
        with _LOCKS[work.path]:
            state = State.read(work)
            moved = self._finish(spark, work, state)
            spans = self._close(state, lambda partition: is_due(partition, self.config, now))
            if spans:
                moved += self._commit(spark, work, f"clock-{now}", spans, state)
            if not moved and table in self._registered:
                return
            try:
                self._register(spark, table, state, moved)
            except HeadraceError as error:
                where = ", ".join(filter(None, (f"table {table}", error.where)))
                raise RetriableError(error.what, where=where, fix=error.fix) from error

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        where = f"sink s3, path {self.config.path}"
        if as_of is not None:
            raise ConfigError("the sink s3 keeps no older versions", where=where, fix="leave out --as-of")
        states = self._read_states(spark, table.name)
        if not states:
            raise NoSuchTableError(
                f"there is no table {table.name!r}", where=where, fix="run the pipeline, or correct the name"
            )
        return read_objects(spark, states, self.config)

    def explain(self, error: BaseException) -> HeadraceError | None:
        rest = text_after_raised(REJECTION[0], full_text(error))
        if rest is None:
            return None
        fix = "fix the record in the source, or change the option"
        return DataError(rest.partition(REJECTION[1])[0], where="sink s3", fix=fix)

    def _stage(self, rows: DataFrame, batch: Batch, work: Folder, state: State, *, is_new: bool) -> list[Span]:
        """Stage a batch's rows, add the pending records to the state, and return the complete spans.

        ``is_new``: no record of the batch was processed before; otherwise processed records are skipped.
        """
        config, now, name = self.config, self._now(), str(batch.id)
        if config.format != "bytes":
            rows = spell_as_stored(rows, unite_schemas(load_schemas((text for _, text in state.schemas), config)))
        records = describe_records(rows, config)
        if not is_new:
            records = drop_processed(records, state.partitions.values())
            name = f"{name}-{batch.digest}"  # The number may be that of a batch with pending records.
        path = f"{work.path}/{STAGED}/{name}"
        schema = state.number_schema(*describe_schema(records))
        if config.format != "bytes":
            unite_schemas(load_schemas((text for _, text in state.schemas), config))
        records.write.mode("overwrite").options(**QUICK_COMMIT).parquet(path)
        staged = rows.sparkSession.read.schema(records.schema).parquet(path)
        spans = self._close(state, lambda partition: is_due(partition, config, now))
        rotations = rotate(staged, state.partitions.values(), config, schema, now)
        for rotation in rotations:
            spans += rotation.spans
            state.partitions[rotation.after.topic, rotation.after.partition] = rotation.after
        if rotations:
            parts = [(r.after.topic, r.after.partition, r.first, r.after.last) for r in rotations]
            state.staged[name] = Staged(schema, parts)
        return spans

    @staticmethod
    def _close(state: State, is_complete: Callable[[TopicPartition], bool]) -> list[Span]:
        """Close the partitions whose pending records are complete, and return their spans."""
        spans = []
        for key, partition in state.partitions.items():
            if partition.count and is_complete(partition):
                spans.append(to_span(partition))
                state.partitions[key] = close(partition)
        return spans

    def _commit(self, spark: SparkSession, work: Folder, name: str, spans: list[Span], state: State) -> list[str]:
        """Write complete objects, replace the state, and move the objects; return their targets."""
        if spans:
            state.moves = write_objects(spark, work, name, spans, state, self.config)
            check_targets(work, Folder(spark, self.config.path), state.moves)
        state.forget_staged()
        state.write(work)
        return self._finish(spark, work, state)

    def _finish(self, spark: SparkSession, work: Folder, state: State) -> list[str]:
        """Move the files that the state names, also after a crash, and return their targets."""
        moved = [target for _, target in state.moves]
        if moved:
            move_objects(work, Folder(spark, self.config.path), state.moves)
            state.moves = []
            state.write(work)
            work.delete(OBJECTS)
        staged = work.folder(STAGED)
        for name in staged.names():
            if name not in state.staged:
                staged.delete(name)
        return moved

    def _register(self, spark: SparkSession, table: str, state: State, moved: Sequence[str]) -> None:
        """Register the table and new objects with a catalog, with the objects that it rejected before."""
        if self.config.sync and state.topics:
            new = self._unregistered.setdefault(table, [])
            new += moved
            self._registered.discard(table)
            objects = ObjectsTable(spark, state.topics[0], self.config, partial(self._read_states, spark, table))
            self.config.sync.register(table, objects.describe, objects.locate(new), objects.list_partitions)
            new.clear()
            self._registered.add(table)

    def _read_states(self, spark: SparkSession, table: str) -> list[State]:
        """Read the states of all pipelines and replays that wrote a table."""
        root = Folder(spark, f"{self.config.path.rstrip('/')}/{_WORK}")
        states = [State.read(root.folder(f"{pipeline}/{_folder_name(table)}")) for pipeline in root.names(hidden=True)]
        return [state for state in states if state.batches]

    def _work(self, spark: SparkSession, pipeline: str, table: str) -> Folder:
        names = [_WORK, quote(pipeline, safe=""), _folder_name(table)]
        return Folder(spark, "/".join([self.config.path.rstrip("/"), *names]))

    @staticmethod
    def _now() -> int:
        return round(time.time() * 1000)


def _folder_name(table: str) -> str:
    """Return the name of a table's work folder. `Folder.names` hides names with a leading underscore."""
    return _TABLE + quote(table, safe="")


def _read_folder_name(name: str) -> str:
    """Return the table of a work folder."""
    return unquote(name.removeprefix(_TABLE))
