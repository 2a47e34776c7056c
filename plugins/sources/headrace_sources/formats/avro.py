"""Avro: container files, by the schema in each file's head (``avro_scan``), and single records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, model_validator

from headrace.sdk import ConfigError, DataError, Format, HeadraceError, RecordReader, Scan, SchemaLog, Storage, Subject
from headrace.sdk.error_text import first_line, full_text
from headrace_sources.formats.avro_scan import AvroScan
from headrace_sources.formats.avro_storage import describe_avro
from headrace_sources.formats.json.declared_columns import refuse_declared_columns
from headrace_sources.registries.avro_payload import AvroPayloadParser
from headrace_sources.registries.decoder import RegistryDecoder
from headrace_sources.registries.glue_registry import GlueRegistry
from headrace_sources.registries.registry_client import SchemaRegistryClient
from headrace_sources.registries.registry_config import RegistryConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


#: A damaged record may say that a text of it has 2 GB, and Avro's reader makes room for it before it reads: the process would
#: be out of memory.
_READER_LIMITS = " ".join(
    f"-Dorg.apache.avro.limits.{what}.maxLength={most}"
    for what, most in {"string": 100 << 20, "bytes": 100 << 20, "collectionItems": 10_000_000}.items()
)


class AvroConfig(RegistryConfig):
    """Options of Spark's Avro reader, and for single records: whose schema they are written with."""

    passthrough: ClassVar[tuple[str, ...]] = ("positionalFieldMatching", "datetimeRebaseMode")

    region: str | None = None
    """AWS Glue: its region, where neither AWS_REGION, AWS_DEFAULT_REGION nor the profile says it."""

    endpoint: str | None = None
    """AWS Glue: another address than its region's own, as of a VPC endpoint."""

    schema_file: str | None = Field(default=None, alias="schema.file")
    """A file with the schema of all records, where they are bare Avro."""

    @model_validator(mode="after")
    def _refuse_two_places(self) -> AvroConfig:
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
        self._decoder = RegistryDecoder(
            AvroPayloadParser(),
            self._fetch_schema,
            id_kind=self.config.id_kind,
            single_schema=self.config.schema_file is not None,
        )

    def describe_storage(self, spark: SparkSession, schema: StructType, options: Mapping[str, str]) -> Storage:
        return describe_avro(spark, schema)

    def session_conf(self) -> dict[str, str]:
        return {"spark.driver.extraJavaOptions": _READER_LIMITS, "spark.executor.extraJavaOptions": _READER_LIMITS}

    def extras(self) -> Sequence[str]:
        return ("aws",) if self.config.registry == "glue" else ()

    def open(
        self, spark: SparkSession, frame: DataFrame, column: str, subject: Subject, log: SchemaLog
    ) -> RecordReader:
        if not self.config.registry and not self.config.schema_file:
            raise ConfigError(
                "nothing says with which schema the records are written",
                where="format avro",
                fix='add `registry: "http://…"`, or `schema.file` for bare Avro',
            )
        refuse_declared_columns(log, subject)
        return self._decoder.open(frame, column, subject, log)

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        if self.config.registry:
            yield f"registry {self.config.registry}", f"answers, {self._registry.size()}"
        elif self.config.schema_file:
            self._fetch_schema("")
            yield f"schema {self.config.schema_file}", "can be read"

    def explain(self, error: BaseException) -> HeadraceError | None:
        return self._decoder.explain(full_text(error))

    def _fetch_schema(self, id: str) -> str:  # noqa: A002 - the registries' word
        config = self.config
        if config.schema_file:
            try:
                return Path(config.schema_file).read_text(encoding="utf-8")
            except OSError as error:
                fix = "correct `schema.file`"
                raise ConfigError(f"cannot be read: {error.strerror}", where=config.schema_file, fix=fix) from error
        return self._registry.avro(id)

    @cached_property
    def _registry(self) -> SchemaRegistryClient | GlueRegistry:
        config = self.config
        return GlueRegistry(config.region, config.endpoint) if config.registry == "glue" else config.client()

    def scans(self, spark: SparkSession, files: Sequence[str], options: Mapping[str, str]) -> list[Scan]:
        conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        with ThreadPoolExecutor(max_workers=8) as pool:
            schemas = list(pool.map(lambda file: _read_writer_schema(spark, conf, file, options), files))
        groups: dict[str, list[str]] = {}
        for file, schema in zip(files, schemas, strict=True):
            if schema is not None:
                groups.setdefault(schema, []).append(file)
        return [_open_scan(tuple(group), schema) for schema, group in groups.items()]

    def keep_table_types(self, scan: Scan, subject: Subject, log: SchemaLog) -> Scan:
        assert isinstance(scan, AvroScan), "one of its own"
        return scan.keep_types(partial(log.table_types, subject))

    def read(self, spark: SparkSession, scan: Scan, schema: StructType, options: Mapping[str, str]) -> DataFrame:
        assert isinstance(scan, AvroScan), "one of its own"
        return scan.read(spark, schema, options)

    def find_damaged_file(self, spark: SparkSession, files: Sequence[str], error: BaseException) -> str | None:
        if "org.apache.avro" not in full_text(error):
            return None
        conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        return next((file for file in files if not _is_whole(spark, conf, file)), None)


def _open_scan(files: tuple[str, ...], schema: str) -> AvroScan:
    try:
        return AvroScan.of(files, schema)
    except DataError as error:
        error.where = files[0]
        raise


def _read_writer_schema(spark: SparkSession, conf: Any, file: str, options: Mapping[str, str]) -> str | None:
    """The schema in a container file's head; None for a file that the options say to leave out."""
    jvm: Any = spark._jvm  # noqa: SLF001
    path = jvm.org.apache.hadoop.fs.Path(file)
    try:
        stream = jvm.org.apache.avro.mapred.FsInput(path, conf)
        try:
            reader = jvm.org.apache.avro.file.DataFileReader(stream, jvm.org.apache.avro.generic.GenericDatumReader())
            # A block that breaks off reads like the end of the file, and its records would be lost without a word.
            if len({_read_marker(jvm, conf, path, end) for end in (reader.previousSync(), stream.length())}) > 1:
                raise EOFError("the file is cut short or damaged: it does not end where a block ends")
            return str(reader.getSchema().toString())
        finally:
            stream.close()
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
        raise DataError(_describe_damage(path, conf, text), where=file, fix=_FIX) from error


def _is_whole(spark: SparkSession, conf: Any, file: str) -> bool:
    """Whether every block of a file can be read."""
    jvm: Any = spark._jvm  # noqa: SLF001
    stream = jvm.org.apache.avro.mapred.FsInput(jvm.org.apache.hadoop.fs.Path(file), conf)
    try:
        reader = jvm.org.apache.avro.file.DataFileReader(stream, jvm.org.apache.avro.generic.GenericDatumReader())
        while reader.hasNext():
            reader.nextBlock()
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it is the one
        return False
    finally:
        stream.close()
    return True


#: A batch keeps the list of files it was planned with: a file that was only moved away would be missed.
_FIX = "move it out of the folder and set `ignoreMissingFiles: true` beside `path:`; nothing of this batch was written"


def _describe_damage(path: Any, conf: Any, text: str) -> str:
    if path.getFileSystem(conf).getFileStatus(path).getLen() == 0:
        return "the file is empty: an Avro file has at least a head"
    if "Not an Avro data file" in text or "Not a data file" in text:
        return "this is not an Avro file: it does not begin with 'Obj' and 1"
    return text if "cut short" in text else f"the Avro file's head cannot be read: {text}"


def _read_marker(jvm: Any, conf: Any, path: Any, end: int) -> bytes:
    """The sixteen bytes before a position: a file's head and each of its blocks end with the same."""
    stream = path.getFileSystem(conf).open(path)
    try:
        stream.seek(max(0, end - 16))
        return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream, 16))
    finally:
        stream.close()
