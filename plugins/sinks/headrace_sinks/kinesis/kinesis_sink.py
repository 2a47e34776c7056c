"""Sink ``kinesis``: one record per change, at least once.

Spark has no writer for Kinesis. The tasks send the records with boto3, from batches in Arrow. The records of each key are in one
task, in order; ``stream_writer`` keeps the order.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.sdk import (
    Batch,
    Capabilities,
    ConfigError,
    Dataset,
    HeadraceError,
    NoSuchTableError,
    RetriableError,
    Sink,
    Source,
    Table,
    TableMode,
    WriteResult,
)
from headrace_sinks.change_records import Part, RecordFormat, list_columns, make_records
from headrace_sinks.connect_json import encode_json
from headrace_sinks.kinesis.kinesis_sink_config import KinesisSinkConfig
from headrace_sinks.kinesis.stream_writer import send_records
from headrace_sinks.kinesis.target_stream import TargetStream
from headrace_sinks.name_template import NAME
from headrace_sinks.placeholders import explain_placeholder_error

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_STREAM_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
#: KiB of the largest record of a stream whose summary has no limit.
_RECORD_KIB = 1024


class KinesisSink(Sink):
    """``kinesis: {stream: "masked.{name}", region: eu-west-1}``."""

    name = "kinesis"
    api_version = 1
    connect_needs_spark = False
    Config = KinesisSinkConfig
    config: KinesisSinkConfig
    capabilities = Capabilities(
        delete=True, schema_evolution=True, concurrent_writers=True, single_pass=True, readable=False
    )
    # Batches in Arrow have 10,000 rows by default, which can be gigabytes. A request has 500 records.
    sql_conf: ClassVar[dict[str, str]] = {"spark.sql.execution.arrow.maxRecordsPerBatch": "500"}

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        #: Stream → bytes of its largest record.
        self._record_bytes: dict[TargetStream, int] = {}

    def find_stream(self, table: str) -> TargetStream:
        """Return the stream of a table."""
        return TargetStream.of(self.config.stream.replace(NAME, table), self.config)

    def extras(self) -> Collection[str]:
        return ("aws",)

    def record_columns(self) -> Collection[str]:
        return list_columns()

    def notes(self) -> Iterable[str]:
        yield (
            "sink kinesis: each change is written at least once. After a crash, the records of the last batch are repeated in the same "
            "order per key"
        )

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        if NAME not in self.config.stream:  # otherwise the names of the tables are unknown
            stream = self.find_stream("")
            yield "sink kinesis", f"{stream.where}: {stream.read_summary()['StreamStatus']}"

    def locate(self, table: Table) -> Dataset | None:
        return self.find_stream(table.name).dataset

    def check_source(self, source: Source, tables: Iterable[str], spark: SparkSession | None = None) -> None:
        if source.name != self.name:
            return
        named, pattern = source.config.named_streams, source.config.subscribePattern
        for stream in map(self.find_stream, tables):
            is_matched = pattern is not None and re.fullmatch(pattern, stream.name) is not None
            read = [TargetStream.of(name, source.config) for name in [*named, *([stream.name] if is_matched else [])]]
            if any(_is_same(one, stream, spark) for one in read):
                raise ConfigError(
                    f"the source reads the stream {stream.name}, to which the sink writes: each record would return without an end",
                    where="sink kinesis",
                    fix=f"set `stream:`, such as `replica.{NAME}`, to a name that the source does not read; or write to another region",
                )

    def check_table(self, table: Table, mode: TableMode) -> None:
        stream = self.find_stream(table.name)
        if not _STREAM_NAME.fullmatch(stream.name):
            raise ConfigError(
                f"{stream.name!r} is not a valid name of a stream, which has up to 128 of the characters a-z, A-Z, 0-9, '.', '_' and '-'",
                where=f"sink kinesis, table {table.name}",
                fix="set `stream:`, or `target:` in `tables:`",
            )

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        from pyspark.sql import functions as F

        stream = self.find_stream(table.name)
        value = F.coalesce(F.col("value").cast("binary"), F.lit(b"")).alias("value")
        records = make_records(rows, table, self._choose_format(stream)).select("key", value)
        size, null_key = self._find_record_bytes(stream), self.config.null_key
        send = partial(send_records, stream=stream, record_bytes=size, null_key=null_key)
        found = [row["error"] for row in records.mapInArrow(send, "error binary").collect()]
        errors: list[HeadraceError] = [pickle.loads(error) for error in found if error]  # noqa: S301 - of our own tasks
        if errors:
            # The stream may allow larger records when the write is repeated.
            self._record_bytes.pop(stream, None)
            raise min(errors, key=lambda error: isinstance(error, RetriableError))
        return WriteResult()

    def explain(self, error: BaseException) -> HeadraceError | None:
        return explain_placeholder_error(error)

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        raise NoSuchTableError(
            "the kinesis sink does not read its streams", where="sink kinesis", fix="show a table of another sink"
        )

    def _choose_format(self, stream: TargetStream) -> RecordFormat:
        """Return the format of records: keys without a schema, because partition keys are short."""
        name = f"{stream.name}.Value" if self.config.value_schemas_enable else None

        def encode(part: Part, struct: Column, data_type: StructType) -> Column:
            return encode_json(struct, data_type, name if part == "value" else None)

        return RecordFormat(encode, self.config.placeholder, has_tombstones=self.config.null_values == "write")

    def _find_record_bytes(self, stream: TargetStream) -> int:
        """Return the bytes of the largest record of a stream. ConfigError for a stream that does not exist."""
        if stream not in self._record_bytes:
            self._record_bytes[stream] = int(stream.read_summary().get("MaxRecordSizeInKiB", _RECORD_KIB)) << 10
        return self._record_bytes[stream]


def _is_same(first: TargetStream, second: TargetStream, spark: SparkSession | None) -> bool:
    """Return whether two streams are one. Without a session, it compares options and sends no request."""
    if spark is not None and first.name == second.name:  # regions and accounts have defaults outside of the options
        return bool(first.read_summary()["StreamARN"] == second.read_summary()["StreamARN"])
    return replace(first, arn=None) == replace(second, arn=None)
