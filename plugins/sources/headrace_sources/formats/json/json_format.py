"""JSON, one event per record: with an embedded schema, with one in a registry, or without a schema.

Without a schema, types are inferred from the data (``schemaless``). With an embedded schema, as JsonConverter writes it
(``{"schema": …, "payload": …}``), types are those of the schema (``embedded_schema``). ``registries`` reads schemas in a
registry. Only the record that does not fit is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import model_validator

from headrace.sdk import Format, HeadraceError, RecordReader, SchemaLog, Storage, Subject
from headrace.sdk.error_text import full_text
from headrace_sources.formats.json.declared_columns import refuse_declared_columns
from headrace_sources.formats.json.embedded_schema import (
    explain_unknown_schemas,
    has_null_payload,
    is_schema_with_payload,
    learn_schemas,
    open_by_writers,
)
from headrace_sources.formats.json.inference import has_null_schema, parse_object
from headrace_sources.formats.json.parsing import BODY
from headrace_sources.formats.json.schemaless import open_by_data
from headrace_sources.formats.oversized_data import ERRORS, has_long_line
from headrace_sources.registries.decoder import RegistryDecoder
from headrace_sources.registries.json_payload import JsonPayloadParser
from headrace_sources.registries.registry_config import RegistryConfig
from headrace_sources.registries.registry_reader import EmptyReader
from headrace_sources.registries.schema_registry import SchemaRegistry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: First records of a new topic, which show whether records have a schema.
_FIRST_RECORDS = 20


class JsonConfig(RegistryConfig):
    """Options of Spark's JSON reader, and of the registry with the records' schemas, if there is one."""

    passthrough: ClassVar[tuple[str, ...]] = (
        "allowBackslashEscapingAnyCharacter",
        "allowComments",
        "allowNonNumericNumbers",
        "allowNumericLeadingZeros",
        "allowSingleQuotes",
        "allowUnquotedControlChars",
        "allowUnquotedFieldNames",
        "dateFormat",
        "lineSep",
        "locale",
        "prefersDecimal",
        "primitivesAsString",
        "timestampFormat",
        "timestampNTZFormat",
    )

    @model_validator(mode="after")
    def _refuse_glue(self) -> JsonConfig:
        if self.registry == "glue":
            raise ValueError("`registry: glue` supports only Avro, not JSON")
        return self


class JsonFormat(Format):
    """``format: json``, ``value: {json: {}}``."""

    name = "json"
    api_version = 1
    connect_needs_spark = False
    Config = JsonConfig

    def describe_storage(self, spark: SparkSession, schema: StructType, options: Mapping[str, str]) -> Storage:
        # Spark accepts all of these as options. Hive uses Joda-Time patterns, Spark uses Java's patterns.
        pattern = options.get("timestampFormat")
        own = {"timestamp.formats": pattern.replace("XXX", "ZZ")} if pattern else {}
        return Storage(
            "json",
            "org.apache.hadoop.mapred.TextInputFormat",
            "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
            "org.apache.hive.hcatalog.data.JsonSerDe",
            {**options, **own},
        )

    def open(
        self, spark: SparkSession, frame: DataFrame, column: str, subject: Subject, log: SchemaLog
    ) -> RecordReader:
        if self._registry_decoder:
            refuse_declared_columns(log, subject)
            return self._registry_decoder.open(frame, column, subject, log)
        options = self.config.options()
        if log.writers(subject):
            if (met := log.take_unknown(subject)) is not None:
                learn_schemas(_texts(frame, column), subject, log, met)
            return open_by_writers(subject, log, options)
        texts = _texts(frame, column)
        first: list[str] = []
        if log.get(subject) is None:
            first = [row[0] for row in texts.where(~has_null_payload(texts[BODY])).head(_FIRST_RECORDS)]
            if not first:
                return EmptyReader()
            # The first record that is JSON. One with a null schema only counts if all have one.
            records = sorted(filter(None, map(parse_object, first)), key=has_null_schema)
            if records and is_schema_with_payload(records[0]):
                learn_schemas(texts, subject, log)
                return open_by_writers(subject, log, options)
        return open_by_data(spark, texts, first, subject, log, options)

    def find_damaged_file(self, spark: SparkSession, files: Sequence[str], error: BaseException) -> str | None:
        if not any(name in full_text(error) for name in ERRORS):
            return None
        conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        return next((file for file in files if _has_long_line(spark, conf, file)), None)

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        if self.config.registry:
            yield f"registry {self.config.registry}", f"responds, {self._registry.describe_size()}"

    def explain(self, error: BaseException) -> HeadraceError | None:
        if self._registry_decoder:
            return self._registry_decoder.explain(full_text(error))
        return explain_unknown_schemas(full_text(error))

    @cached_property
    def _registry_decoder(self) -> RegistryDecoder | None:
        config = self.config
        if not config.registry:
            return None
        parser = JsonPayloadParser(config.options())
        return RegistryDecoder(parser, self._fetch_schema, id_kind=config.id_kind)

    def _fetch_schema(self, id: str) -> str:  # noqa: A002 - the registries' word
        return self._registry.fetch_schema(id, "JSON")

    @cached_property
    def _registry(self) -> SchemaRegistry:
        registry: SchemaRegistry = self.config.open_registry()
        return registry


def _has_long_line(spark: SparkSession, conf: Any, file: str) -> bool:
    try:
        return has_long_line(spark._jvm, conf, file)  # noqa: SLF001
    except Exception:  # noqa: BLE001 - any other damage is found when its table is read
        return False


def _texts(frame: DataFrame, column: str) -> DataFrame:
    """Return the non-null records as strings: BODY."""
    from pyspark.sql import functions as F

    return frame.where(F.col(column).isNotNull()).select(F.col(column).cast("string").alias(BODY))
