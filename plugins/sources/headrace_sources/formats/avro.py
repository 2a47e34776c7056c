"""Avro: container files, read by Spark's own Avro source by the schema in each file's head; and single records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, model_validator

from headrace.sdk import ConfigError, DataError, Format, HeadraceError, Scan, first_line, full_text
from headrace_sources.formats.json.declared_columns import none_declared
from headrace_sources.registries.avro_payload import AvroParsing
from headrace_sources.registries.client import Registry
from headrace_sources.registries.config import RegistryConfig
from headrace_sources.registries.decoder import RegisteredRecords
from headrace_sources.registries.glue import GlueRegistry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.sdk import SchemaLog


#: A damaged record may say that a text of it has 2 GB, and Avro's reader makes room for it before it reads: the process would
#: be out of memory.
_LIMITS = " ".join(
    f"-Dorg.apache.avro.limits.{what}.maxLength={most}"
    for what, most in {"string": 100 << 20, "bytes": 100 << 20, "collectionItems": 10_000_000}.items()
)


class AvroConfig(RegistryConfig):
    """Options of Spark's Avro reader, and for single records: whose schema they are written with."""

    passthrough: ClassVar[tuple[str, ...]] = ("positionalFieldMatching", "datetimeRebaseMode")

    #: AWS Glue: its region, where boto3 does not know it, and another address, as of a VPC endpoint.
    region: str | None = None
    endpoint: str | None = None
    #: A file with the schema of all records, where they are bare Avro.
    schema_file: str | None = Field(default=None, alias="schema.file")

    @model_validator(mode="after")
    def _one_place(self) -> AvroConfig:
        if self.registry and self.schema_file:
            raise ValueError("has both `registry` and `schema.file`: schemas come from one place")
        return self


class AvroFormat(Format):
    """``format: avro``; for records ``value: {avro: {registry: "http://registry:8081"}}``."""

    name = "avro"
    api_version = 1
    Config = AvroConfig
    container = True
    # Databases hold dates before 1582; Spark 3 refuses to read them unless it is told that no Spark 2 wrote them.
    sql_conf: ClassVar[Mapping[str, str]] = {"spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED"}
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "3.5": ("org.apache.spark:spark-avro_2.12:3.5.7",),
        "4.0": ("org.apache.spark:spark-avro_2.13:4.0.0",),
    }
    jvm_class = "org.apache.spark.sql.avro.AvroFileFormat"

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self._records = RegisteredRecords(
            AvroParsing(),
            self._schema_text,
            only=self.config.schema_file is not None,
            id_kind=self.config.id_kind,
        )

    def session_conf(self) -> dict[str, str]:
        return {"spark.driver.extraJavaOptions": _LIMITS, "spark.executor.extraJavaOptions": _LIMITS}

    def schema(self, spark: SparkSession, frame: DataFrame, column: str, subject: str, log: SchemaLog) -> StructType:
        if not self.config.registry and not self.config.schema_file:
            raise ConfigError(
                "nothing says with which schema the records are written",
                where="format avro",
                fix='add `registry: "http://…"`, or `schema.file` for bare Avro',
            )
        none_declared(log, subject)
        return self._records.schema(frame, column, subject, log)

    def decode(self, frame: DataFrame, column: str, schema: StructType, error: str) -> DataFrame:
        return self._records.decode(frame, column, schema, error)

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        if self.config.registry:
            yield f"registry {self.config.registry}", f"answers, {self._registry.size()}"
        elif self.config.schema_file:
            self._schema_text("")
            yield f"schema {self.config.schema_file}", "can be read"

    def explain(self, error: BaseException) -> HeadraceError | None:
        return self._records.explain(full_text(error))

    def _schema_text(self, id: str) -> str:  # noqa: A002 - the registries' word
        config = self.config
        if config.schema_file:
            try:
                return Path(config.schema_file).read_text(encoding="utf-8")
            except OSError as error:
                fix = "correct `schema.file`"
                raise ConfigError(f"cannot be read: {error.strerror}", where=config.schema_file, fix=fix) from error
        return self._registry.avro(id)

    @cached_property
    def _registry(self) -> Registry | GlueRegistry:
        config = self.config
        return GlueRegistry(config.region, config.endpoint) if config.registry == "glue" else config.client()

    def scans(self, spark: SparkSession, files: Sequence[str], options: Mapping[str, str]) -> list[Scan]:
        conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        with ThreadPoolExecutor(max_workers=8) as pool:
            schemas = list(pool.map(lambda file: _writer_schema(spark, conf, file, options), files))
        groups: dict[str, tuple[Any, list[str]]] = {}
        for file, schema in zip(files, schemas, strict=True):
            if schema is not None:
                groups.setdefault(str(schema.toString()), (schema, []))[1].append(file)
        return [Scan(tuple(group), _struct(spark, schema)) for schema, group in groups.values()]

    def read(self, spark: SparkSession, scan: Scan, schema: StructType, options: Mapping[str, str]) -> DataFrame:
        return spark.read.format("avro").schema(schema).options(**options).load(list(scan.files))

    def damaged(self, spark: SparkSession, files: Sequence[str]) -> str | None:
        conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        return next((file for file in files if not _whole(spark, conf, file)), None)


def _struct(spark: SparkSession, avro: Any) -> StructType:
    """What Spark reads for an Avro schema; asking Spark's reader would list the file again."""
    from pyspark.sql.types import StructType

    jvm: Any = spark._jvm  # noqa: SLF001
    kind = jvm.org.apache.spark.sql.avro.SchemaConverters.toSqlType(avro).dataType()
    return StructType.fromJson(json.loads(kind.asNullable().json()))


def _writer_schema(spark: SparkSession, conf: Any, file: str, options: Mapping[str, str]) -> Any:
    """Avro's own schema object from a container file's head; None for a file that the options say to leave out."""
    jvm: Any = spark._jvm  # noqa: SLF001
    path = jvm.org.apache.hadoop.fs.Path(file)
    try:
        opened = jvm.org.apache.avro.mapred.FsInput(path, conf)
        try:
            reader = jvm.org.apache.avro.file.DataFileReader(opened, jvm.org.apache.avro.generic.GenericDatumReader())
            # A block that breaks off reads like the end of the file, and its records would be lost without a word.
            if len({_marker(jvm, conf, path, end) for end in (reader.previousSync(), opened.length())}) > 1:
                raise EOFError("the file is cut short or damaged: it does not end where a block ends")
            return reader.getSchema()
        finally:
            opened.close()
    except Exception as error:
        text = first_line(error)
        if "FileNotFound" in text:
            raise DataError(
                "a file that was found is gone",
                where=file,
                fix="put it back, or set `ignoreMissingFiles: true` beside `path:` to go on without it",
            ) from error
        if options.get("ignoreCorruptFiles") == "true":
            return None
        raise DataError(_complaint(path, conf, text), where=file, fix=_FIX) from error


def _whole(spark: SparkSession, conf: Any, file: str) -> bool:
    """Whether every block of a file can be read."""
    jvm: Any = spark._jvm  # noqa: SLF001
    opened = jvm.org.apache.avro.mapred.FsInput(jvm.org.apache.hadoop.fs.Path(file), conf)
    try:
        reader = jvm.org.apache.avro.file.DataFileReader(opened, jvm.org.apache.avro.generic.GenericDatumReader())
        while reader.hasNext():
            reader.nextBlock()
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it is the one
        return False
    finally:
        opened.close()
    return True


#: A batch keeps the list of files it was planned with: a file that was only moved away would be missed.
_FIX = "move it out of the folder and set `ignoreMissingFiles: true` beside `path:`; nothing of this batch was written"


def _complaint(path: Any, conf: Any, text: str) -> str:
    if path.getFileSystem(conf).getFileStatus(path).getLen() == 0:
        return "the file is empty: an Avro file has at least a head"
    if "Not an Avro data file" in text or "Not a data file" in text:
        return "this is not an Avro file: it does not begin with 'Obj' and 1"
    return text if "cut short" in text else f"the Avro file's head cannot be read: {text}"


def _marker(jvm: Any, conf: Any, path: Any, end: int) -> bytes:
    """The sixteen bytes before a position: a file's head and each of its blocks end with the same."""
    stream = path.getFileSystem(conf).open(path)
    try:
        stream.seek(max(0, end - 16))
        return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream, 16))
    finally:
        stream.close()
