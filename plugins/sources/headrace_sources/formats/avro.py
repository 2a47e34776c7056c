"""Avro: container files, with the schema in each file's header (``avro_scan``), and single records."""

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
from headrace_sources.formats.missing_files import make_missing_error
from headrace_sources.formats.oversized_data import ERRORS, is_oversized_avro
from headrace_sources.limits import AVRO_ITEMS, AVRO_VALUE_BYTES
from headrace_sources.registries.avro_payload import AvroPayloadParser
from headrace_sources.registries.decoder import RegistryDecoder
from headrace_sources.registries.glue_registry import GlueRegistry
from headrace_sources.registries.registry_config import RegistryConfig
from headrace_sources.registries.schema_registry import SchemaRegistry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


#: Limits of Avro's own reader.
_READER_LIMITS = " ".join(
    f"-Dorg.apache.avro.limits.{what}.maxLength={most}"
    for what, most in {"string": AVRO_VALUE_BYTES, "bytes": AVRO_VALUE_BYTES, "collectionItems": AVRO_ITEMS}.items()
)


class AvroConfig(RegistryConfig):
    """Options of Spark's Avro reader, and of the writer schemas of single records."""

    passthrough: ClassVar[tuple[str, ...]] = ("positionalFieldMatching", "datetimeRebaseMode")

    region: str | None = None
    """AWS Glue: the region, if neither AWS_REGION, AWS_DEFAULT_REGION nor the profile sets it."""

    endpoint: str | None = None
    """AWS Glue: another endpoint than the region's, such as a VPC endpoint."""

    schema_file: str | None = Field(default=None, alias="schema.file")
    """A file with the schema of all records, if they are Avro without schema ids."""

    @model_validator(mode="after")
    def _refuse_two_places(self) -> AvroConfig:
        if self.registry and self.schema_file:
            raise ValueError("has both `registry` and `schema.file`: set one of them")
        return self


class AvroFormat(Format):
    """``format: avro``; for records ``value: {avro: {registry: "http://registry:8081"}}``."""

    name = "avro"
    api_version = 1
    connect_needs_spark = False
    Config = AvroConfig
    container = True
    # Databases hold dates before 1582. Spark 3 reads them only if an option states that Spark 2 did not write them.
    sql_conf: ClassVar[Mapping[str, str]] = {"spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED"}
    #: Spark releases it with each patch. The patches that are missing here have the jars of the nearest one.
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **{patch: (f"org.apache.spark:spark-avro_2.12:{patch}",) for patch in ("3.5.5", "3.5.6", "3.5.7", "3.5.9")},
        **{patch: (f"org.apache.spark:spark-avro_2.13:{patch}",) for patch in ("4.0.0", "4.0.2", "4.1.1", "4.2.0")},
    }
    #: Spark 4 itself has the class of the file format.
    jvm_class = "org.apache.spark.sql.avro.AvroDataToCatalyst"

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
                "the records' writer schema is unknown",
                where="format avro",
                fix='add `registry: "http://…"`, or `schema.file` for Avro without schema ids',
            )
        refuse_declared_columns(log, subject)
        return self._decoder.open(frame, column, subject, log)

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        if self.config.registry:
            yield f"registry {self.config.registry}", f"responds, {self._registry.describe_size()}"
        elif self.config.schema_file:
            self._fetch_schema("")
            yield f"schema {self.config.schema_file}", "is readable"

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
        return self._registry.fetch_schema(id, "AVRO")

    @cached_property
    def _registry(self) -> SchemaRegistry:
        config = self.config
        if config.registry == "glue":
            return GlueRegistry(config.region, config.endpoint)
        registry: SchemaRegistry = config.open_registry()
        return registry

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
        assert isinstance(scan, AvroScan), "a scan of this format"
        return scan.keep_types(partial(log.table_types, subject))

    def read(self, spark: SparkSession, scan: Scan, schema: StructType, options: Mapping[str, str]) -> DataFrame:
        assert isinstance(scan, AvroScan), "a scan of this format"
        return scan.read(spark, schema, options)

    def find_damaged_file(self, spark: SparkSession, files: Sequence[str], error: BaseException) -> str | None:
        text, conf = full_text(error), spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        lacked_memory = any(name in text for name in ERRORS)
        if not lacked_memory and "org.apache.avro" not in text:
            return None
        for file in files:  # an oversized block must not be read in the driver
            if _is_oversized(spark, conf, file) or not (lacked_memory or _is_whole(spark, conf, file)):
                return file
        return None


def _open_scan(files: tuple[str, ...], schema: str) -> AvroScan:
    try:
        return AvroScan.of(files, schema)
    except DataError as error:
        error.where = files[0]
        raise


def _read_writer_schema(spark: SparkSession, conf: Any, file: str, options: Mapping[str, str]) -> str | None:
    """Return the schema in a container file's header; None for a file that the options skip."""
    jvm: Any = spark._jvm  # noqa: SLF001
    path = jvm.org.apache.hadoop.fs.Path(file)
    try:
        stream = jvm.org.apache.avro.mapred.FsInput(path, conf)
        try:
            reader = jvm.org.apache.avro.file.DataFileReader(stream, jvm.org.apache.avro.generic.GenericDatumReader())
            # A truncated block looks like the end of the file: its records would be lost silently.
            if len({_read_marker(jvm, conf, path, end) for end in (reader.previousSync(), stream.length())}) > 1:
                raise EOFError("the file is truncated or damaged: it does not end at the end of a block")
            return str(reader.getSchema().toString())
        finally:
            stream.close()
    except Exception as error:
        text = first_line(error)
        if "FileNotFound" in text:
            raise make_missing_error(file) from error
        if options.get("ignoreCorruptFiles") == "true":
            return None
        raise DataError(_describe_damage(path, conf, text), where=file, fix=_FIX) from error


def _is_oversized(spark: SparkSession, conf: Any, file: str) -> bool:
    try:
        return is_oversized_avro(spark._jvm, conf, file)  # noqa: SLF001
    except Exception:  # noqa: BLE001 - any other damage is found when its table is read
        return False


def _is_whole(spark: SparkSession, conf: Any, file: str) -> bool:
    """Return whether every block of a file can be read."""
    jvm: Any = spark._jvm  # noqa: SLF001
    stream = jvm.org.apache.avro.mapred.FsInput(jvm.org.apache.hadoop.fs.Path(file), conf)
    try:
        reader = jvm.org.apache.avro.file.DataFileReader(stream, jvm.org.apache.avro.generic.GenericDatumReader())
        while reader.hasNext():
            reader.nextBlock()
    except Exception:  # noqa: BLE001 - any error means that the file is damaged
        return False
    finally:
        stream.close()
    return True


#: A batch keeps its planned list of files, so that a moved file is an error without `ignoreMissingFiles`.
_FIX = "move it out of the folder and set `ignoreMissingFiles: true` next to `path:`; nothing of this batch was written"


def _describe_damage(path: Any, conf: Any, text: str) -> str:
    if path.getFileSystem(conf).getFileStatus(path).getLen() == 0:
        return "the file is empty: an Avro file has at least a header"
    if "Not an Avro data file" in text or "Not a data file" in text:
        return "not an Avro file: it does not start with 'Obj' and 1"
    return text if "truncated" in text else f"the Avro file's header cannot be read: {text}"


def _read_marker(jvm: Any, conf: Any, path: Any, end: int) -> bytes:
    """Return the sixteen bytes before a position: a file's header and each of its blocks end with the same ones."""
    stream = path.getFileSystem(conf).open(path)
    try:
        stream.seek(max(0, end - 16))
        return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream, 16))
    finally:
        stream.close()
