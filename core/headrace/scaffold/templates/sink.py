"""Sink for Parquet files, with a folder for each batch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from headrace.sdk import ConfigError, DataError, NoSuchTableError, hookimpl
from headrace.sdk.sink import Batch, Capabilities, Sink, SinkConfig, Table, WriteResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ExampleConfig(SinkConfig):
    """Location of the tables."""

    path: str
    """A folder to which driver and executors can write."""


class Example(Sink):
    """``sink: {example: {path: /lake}}``. Every change is a row: the sink does not claim upserts."""

    name = "example"
    api_version = 1
    Config = ExampleConfig
    config: ExampleConfig
    capabilities = Capabilities(exactly_once=True)
    sql_conf: ClassVar[Mapping[str, str]] = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        stored = self.read_or_none(rows.sparkSession, table)
        if stored is not None and (other := dict(rows.dtypes).items() - dict(stored.dtypes).items()):
            raise DataError(f"{table.name} does not have the columns {sorted(other)}", fix="write to another folder")
        files = self._folder(table).glob("batch=*/_SUCCESS")
        done = sorted(files, key=lambda file: file.stat().st_mtime_ns, reverse=True)
        if batch.is_applied(bytes.fromhex(file.parent.name[len("batch=") :]).decode() for file in done) is None:
            raise batch.unknown_error(f"sink example, table {table.name}", "use a new checkpoint and another folder")
        # A batch always has the same folder. Spark moves the files there after it has written all of them.
        rows.write.mode("overwrite").parquet(f"{self._folder(table)}/batch={batch.mark.encode().hex()}")
        return WriteResult()

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        where = f"sink example, table {table.name}"
        if as_of is not None:
            raise ConfigError("the sink keeps no older versions", where=where, fix="read the current version")
        batches = [str(path.parent) for path in self._folder(table).glob("batch=*/_SUCCESS")]
        if not batches:
            raise NoSuchTableError("there is no such table", where=where, fix="run the pipeline first")
        return spark.read.option("mergeSchema", "true").parquet(*batches)

    def _folder(self, table: Table) -> Path:
        return Path(self.config.path, *table.parts).absolute()


@hookimpl
def headrace_sinks() -> dict[str, type[Sink]]:
    """Return the sinks by the name used under ``sink:``."""
    return {"example": Example}
