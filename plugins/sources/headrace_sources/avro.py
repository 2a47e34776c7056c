"""Avro container files, read by Spark's own Avro source; the schema is the one in each file's head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from headrace.contracts.format import Format, Scan
from headrace.engine.checkpoint import first_line
from headrace.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class AvroFormat(Format):
    """``format: avro``."""

    name = "avro"
    api_version = 1
    container = True
    jars = {
        "3.5": ("org.apache.spark:spark-avro_2.12:3.5.7",),
        "4.0": ("org.apache.spark:spark-avro_2.13:4.0.0",),
    }
    jvm_class = "org.apache.spark.sql.avro.AvroFileFormat"

    def scans(self, spark: SparkSession, files: Sequence[str], options: Mapping[str, str]) -> list[Scan]:
        conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        with ThreadPoolExecutor(max_workers=8) as pool:
            texts = list(pool.map(lambda file: _writer_schema(spark, conf, file), files))
        groups: dict[str, list[str]] = {}
        for file, text in zip(files, texts, strict=True):
            groups.setdefault(text, []).append(file)
        return [Scan(tuple(group), self._struct(spark, group[0], options)) for group in groups.values()]

    def read(self, spark: SparkSession, scan: Scan, schema: StructType, options: Mapping[str, str]) -> DataFrame:
        return spark.read.format("avro").schema(schema).options(**options).load(list(scan.files))

    @staticmethod
    def _struct(spark: SparkSession, file: str, options: Mapping[str, str]) -> StructType:
        return spark.read.format("avro").options(**options).load(file).schema


def _writer_schema(spark: SparkSession, conf: Any, file: str) -> str:
    """The schema in a container file's head, as JSON text."""
    jvm: Any = spark._jvm  # noqa: SLF001
    try:
        path = jvm.org.apache.hadoop.fs.Path(file)
        reader = jvm.org.apache.avro.file.DataFileReader(
            jvm.org.apache.avro.mapred.FsInput(path, conf), jvm.org.apache.avro.generic.GenericDatumReader()
        )
    except Exception as error:
        text = first_line(error)
        if "FileNotFound" in text:
            raise DataError(
                "a file that was found is gone", where=file, fix="put it back, or set `ignoreMissingFiles: true` beside `path:` to go on without it"
            ) from error
        fix = "move it out of the folder, or name the files to read with `pathGlobFilter: '*.avro'` beside `path:`"
        length = path.getFileSystem(conf).getFileStatus(path).getLen()
        if length == 0:
            raise DataError("the file is empty: an Avro file has at least a head", where=file, fix=fix) from error
        if "magic" in text.lower() or "Not a data file" in text or "Not an Avro data file" in text:
            raise DataError("this is not an Avro file: it does not begin with 'Obj' and 1", where=file, fix=fix) from error
        raise DataError(f"the Avro file's head cannot be read: {text}", where=file, fix=fix) from error
    try:
        return str(reader.getSchema().toString())
    finally:
        reader.close()
