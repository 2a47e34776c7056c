"""Sink for small tables: a folder of CSV files per table, rewritten by every batch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.sdk import (
    Batch,
    Capabilities,
    ConfigError,
    DataError,
    NoSuchTableError,
    Sink,
    SinkConfig,
    Table,
    WriteResult,
)
from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.columns import quote_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField

HEAD = "_table.json"
#: Spark's defaults truncate timestamps to milliseconds.
TIMES = {
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
CSV = {
    **TIMES,
    "header": "true",
    "nullValue": r"\N",
    "escape": '"',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}


class AcmeCsvConfig(SinkConfig):
    """Location of the tables."""

    path: str
    """A folder to which every executor can write."""


class AcmeCsv(Sink):
    """``acme_csv: {path: /tables}``.

    Every write creates a new version of the table, ``<path>/<table>/<number>/``; the version is valid once its
    ``_table.json`` exists. Deleted rows stay in the table with a mark, so that late changes are recognized.
    """

    name = "acme_csv"
    api_version = 1
    Config = AcmeCsvConfig
    config: AcmeCsvConfig
    capabilities = Capabilities(upsert=True, delete=True, schema_evolution=True, exactly_once=True)

    def check(self, spark: SparkSession | None = None) -> None:
        if "://" in self.config.path:
            raise ConfigError(
                "is not a folder", where=f"sink acme_csv, path {self.config.path}", fix="name a local path"
            )

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        from pyspark.sql import functions as F

        versions = self._versions(table)
        applied = _head(versions[-1])["applied"] if versions else {}
        is_applied = batch.is_applied(applied.get(batch.pipeline, []))
        if is_applied:
            return WriteResult(skipped=True)
        if batch.mode == "append":
            if is_applied is None:
                raise batch.unknown_error(
                    f"sink acme_csv, table {table.name}", "use a new checkpoint and another `path`"
                )
            rows = rows.withColumn(DELETED, F.lit(False))
        if versions:
            rows = _join_rows(_read(rows.sparkSession, versions[-1]), rows)
        if batch.mode == "upsert":
            rows = _newest(rows, table.key)
        version = self._folder(table) / f"{int(versions[-1].name) + 1 if versions else 0:010d}"
        columns = [_text(field).alias(field.name) for field in rows.schema]
        rows.select(columns).write.mode("overwrite").options(**CSV).csv(str(version))
        head = {"schema": rows.schema.jsonValue(), "applied": {**applied, batch.pipeline: [batch.mark]}}
        (version / ".head").write_text(json.dumps(head))
        (version / ".head").rename(version / HEAD)
        for old in versions[:-1]:  # readers may still use the previous version
            shutil.rmtree(old)
        return WriteResult()

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        where = f"sink acme_csv, path {self.config.path}"
        if as_of is not None:
            raise ConfigError("the sink keeps no older versions", where=where, fix="read the current version")
        versions = self._versions(table)
        if not versions:
            raise NoSuchTableError(f"there is no table {table.name!r}", where=where, fix="run the pipeline first")
        return _read(spark, versions[-1]).where(f"NOT {DELETED}")

    def _folder(self, table: Table) -> Path:
        # The working directory of Java may differ from Python's current one.
        return Path(self.config.path, *table.parts).absolute()

    def _versions(self, table: Table) -> list[Path]:
        return sorted(head.parent for head in self._folder(table).glob(f"*/{HEAD}"))


def _head(version: Path) -> dict[str, Any]:
    head: dict[str, Any] = json.loads((version / HEAD).read_text())
    return head


def _read(spark: SparkSession, version: Path) -> DataFrame:
    from pyspark.sql.types import StructType

    schema = StructType.fromJson(_head(version)["schema"])
    kept = StructType()
    for field in schema:
        kept.add(field.name, "string" if _kind(field) in ("binary", "nested") else field.dataType)
    frame = spark.read.schema(kept).options(**CSV, multiLine="true").csv(str(version))
    return frame.select([_value(field).alias(field.name) for field in schema])


def _join_rows(stored: DataFrame, rows: DataFrame) -> DataFrame:
    from pyspark.errors import AnalysisException

    for name in set(stored.columns) & set(rows.columns):
        try:
            stored.select(quote_name(name)).unionByName(rows.select(quote_name(name)), allowMissingColumns=True)
        except AnalysisException as error:
            types = " and ".join(frame.schema[name].dataType.simpleString() for frame in (stored, rows))
            raise DataError(f"no type holds {types}, of column {name!r}", fix="cast it at the source") from error
    return stored.unionByName(rows, allowMissingColumns=True)


def _newest(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    from pyspark.sql import Window, functions as F

    newest_first = Window.partitionBy(*map(quote_name, key)).orderBy(F.col(POSITION).desc())
    return rows.withColumn("_rank", F.row_number().over(newest_first)).where("_rank = 1").drop("_rank")


def _kind(field: StructField) -> str:
    name = field.dataType.typeName()
    return "nested" if name in ("struct", "array", "map") else name


def _text(field: StructField) -> Column:
    """Return a column in a form that CSV can represent."""
    from pyspark.sql import functions as F

    column = F.col(quote_name(field.name))
    match _kind(field):
        case "binary":
            return F.base64(column)
        case "nested":
            return F.to_json(column, TIMES)
        case "string":  # \N stands for null
            return F.regexp_replace(column, r"^\\", r"\\\\")
    return column


def _value(field: StructField) -> Column:
    """Return a column of the CSV file with its original type."""
    from pyspark.sql import functions as F

    column = F.col(quote_name(field.name))
    match _kind(field):
        case "binary":
            return F.unbase64(column)
        case "nested":
            return F.from_json(column, field.dataType.json(), TIMES)
        case "string":
            return F.regexp_replace(column, r"^\\", "")
    return column
