"""Old's tables: a folder of CSV files each, rewritten by every batch. For small tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.sdk import Batch, Capabilities, ConfigError, NoSuchTableError, DataError, Sink, SinkConfig, Table, WriteResult
from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.columns import quote_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField

HEAD = "_table.json"
#: Spark's defaults cut a time at milliseconds.
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


class OldCsvConfig(SinkConfig):
    """Where the tables are."""

    path: str
    """A folder that every executor can write."""


class OldCsv(Sink):
    """``old_csv: {path: /tables}``.

    Every write makes a new version of the table, ``<path>/<table>/<number>/``, and its ``_table.json`` makes that version
    the one that counts. Deleted rows stay, marked: a late change of such a row must find that it is late.
    """

    name = "old_csv"
    api_version = 1
    Config = OldCsvConfig
    config: OldCsvConfig
    capabilities = Capabilities(upsert=True, delete=True, schema_evolution=True, exactly_once=True)

    def check(self, spark: SparkSession | None = None) -> None:
        if "://" in self.config.path:
            raise ConfigError(
                "is not a folder", where=f"sink old_csv, path {self.config.path}", fix="name a local path"
            )

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        from pyspark.sql import functions as F

        versions = self._versions(table)
        applied = _head(versions[-1])["applied"] if versions else {}
        if batch.id <= applied.get(batch.pipeline, -1):
            return WriteResult(skipped=True)
        if batch.mode == "append":
            rows = rows.withColumn(DELETED, F.lit(False))
        if versions:
            rows = _join_rows(_read(rows.sparkSession, versions[-1]), rows)
        if batch.mode == "upsert":
            rows = _newest(rows, table.key)
        version = self._folder(table) / f"{int(versions[-1].name) + 1 if versions else 0:010d}"
        columns = [_text(field).alias(field.name) for field in rows.schema]
        rows.select(columns).write.mode("overwrite").options(**CSV).csv(str(version))
        head = {"schema": rows.schema.jsonValue(), "applied": {**applied, batch.pipeline: batch.id}}
        (version / ".head").write_text(json.dumps(head))
        (version / ".head").rename(version / HEAD)
        for old in versions[:-1]:  # the one before this may have readers
            shutil.rmtree(old)
        return WriteResult()

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        where = f"sink old_csv, path {self.config.path}"
        if as_of is not None:
            raise ConfigError("it keeps no older versions", where=where, fix="ask for the table as it is")
        versions = self._versions(table)
        if not versions:
            raise NoSuchTableError(f"there is no table {table.name!r}", where=where, fix="run the pipeline first")
        return _read(spark, versions[-1]).where(f"NOT {DELETED}")

    def _folder(self, table: Table) -> Path:
        return Path(self.config.path, *table.parts)

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
            raise DataError(f"no type holds {types}, of column {name!r}", fix="cast it where it is made") from error
    return stored.unionByName(rows, allowMissingColumns=True)


def _newest(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    from pyspark.sql import Window, functions as F

    newest_first = Window.partitionBy(*map(quote_name, key)).orderBy(F.col(POSITION).desc())
    return rows.withColumn("_rank", F.row_number().over(newest_first)).where("_rank = 1").drop("_rank")


def _kind(field: StructField) -> str:
    name = field.dataType.typeName()
    return "nested" if name in ("struct", "array", "map") else name


def _text(field: StructField) -> Column:
    """A column as a CSV can hold it."""
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
    """A column from the CSV as what it was."""
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
