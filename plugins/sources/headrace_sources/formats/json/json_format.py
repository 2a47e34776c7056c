"""JSON, one event a record: with a schema of its own, with one in a registry, or without.

Without one, types are taken from the data (``schemaless``). With one, as JsonConverter writes it
(``{"schema": …, "payload": …}``), they are those of the schema, and nothing is guessed (``embedded_schema``). Schemas in a
registry are ``registries``'. A record that does not fit is an error of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from pydantic import model_validator

from headrace.sdk import Format, HeadraceError, RecordReader, SchemaLog, Storage, Subject
from headrace.sdk.error_text import full_text
from headrace_sources.formats.json.declared_columns import refuse_declared_columns
from headrace_sources.formats.json.embedded_schema import (
    explain_unknown_schemas,
    is_schema_with_payload,
    learn_schemas,
    open_by_writers,
)
from headrace_sources.formats.json.inference import parse_object
from headrace_sources.formats.json.parsing import BODY, NULL_WITH_SCHEMA
from headrace_sources.formats.json.schemaless import open_by_data
from headrace_sources.registries.decoder import RegistryDecoder
from headrace_sources.registries.json_payload import JsonPayloadParser
from headrace_sources.registries.registry_client import SchemaRegistryClient
from headrace_sources.registries.registry_config import RegistryConfig
from headrace_sources.registries.registry_reader import EmptyReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: Records of a topic that is new by which it is seen whether they bring a schema.
_FIRST_RECORDS = 20


class JsonConfig(RegistryConfig):
    """Options of Spark's JSON reader, and of the registry that has the records' schemas, where one has."""

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
            raise ValueError("`registry: glue` is for Avro: JSON whose schema is in AWS Glue is not read")
        return self


class JsonFormat(Format):
    """``format: json``, ``value: {json: {}}``."""

    name = "json"
    api_version = 1
    Config = JsonConfig

    def describe_storage(self, spark: SparkSession, schema: StructType, options: Mapping[str, str]) -> Storage:
        # Spark takes all of these for options. Hive's patterns are Joda's, and Spark's are Java's.
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
            first = [row[0] for row in texts.where(~texts[BODY].rlike(NULL_WITH_SCHEMA)).head(_FIRST_RECORDS)]
            if not first:
                return EmptyReader()
            # The first that is JSON at all.
            record = next(filter(None, map(parse_object, first)), {})
            if is_schema_with_payload(record, subject):
                learn_schemas(texts, subject, log)
                return open_by_writers(subject, log, options)
        return open_by_data(spark, texts, first, subject, log, options)

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        if self.config.registry:
            yield f"registry {self.config.registry}", f"answers, {self._registry.size()}"

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
        return self._registry.json(id)

    @cached_property
    def _registry(self) -> SchemaRegistryClient:
        client: SchemaRegistryClient = self.config.client()
        return client


def _texts(frame: DataFrame, column: str) -> DataFrame:
    """The records that are there, as texts: BODY."""
    from pyspark.sql import functions as F

    return frame.where(F.col(column).isNotNull()).select(F.col(column).cast("string").alias(BODY))
