"""Records in Avro after the id of their schema, as Confluent's serializer writes them: ``00``, id in 4 bytes, Avro."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from pydantic import Field, field_validator

from headrace.sdk import DataError, Plugin
from headrace.sdk.schemas import check_names
from headrace_kafka.registry_client import RegistryRefusalError
from headrace_kafka.registry_options import RegistryAddress, RegistryOptions
from headrace_sinks.avro_jars import AVRO_JARS
from headrace_sinks.kafka.connect_avro import convert_values, describe_record

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

_FIX_REFUSED = (
    "keep the types of the columns with `cast` under `transforms:`; or set a compatibility of the subject that allows the change, "
    "such as NONE, or write to another topic"
)
_FIX_ADDRESS = (
    "correct `registry:`: this address has no API of Confluent's registry; Apicurio serves it at `/apis/ccompat/v7`"
)
_FIX_MISSING = "register this version of the schema, or set `auto.register.schemas: true`"


class RegisteredAvroOptions(RegistryOptions):
    """Options of a registry in which the sink registers schemas."""

    registry: RegistryAddress | None = None
    """The schema registry for keys and values in Avro: ``https://host`` (Confluent), ``…/apis/ccompat/v7`` (Apicurio)."""

    auto_register_schemas: bool = Field(True, alias="auto.register.schemas")
    """Register new versions of a schema. ``false``: the registry must already have each version."""

    @field_validator("registry")
    @classmethod
    def _check_api(cls, value: str | None) -> str | None:
        if value == "glue" or "/apis/registry/" in (value or ""):
            raise ValueError("the sink uses the API of Confluent's registry, which Apicurio serves at /apis/ccompat/v7")
        return value


class RegisteredAvro(Plugin):
    """Part of the sink ``kafka``: the jars of Avro, and the schemas that the registry has accepted."""

    name = "kafka"
    api_version = 1
    connect_needs_spark = False
    Config = RegisteredAvroOptions
    config: RegisteredAvroOptions
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = AVRO_JARS
    jvm_class = "org.apache.spark.sql.avro.CatalystDataToAvro"

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        #: Subject and schema → the schema's id.
        self._ids: dict[tuple[str, str], int] = {}

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        client = self.config.make_client()
        subjects = client.get("subjects")
        if not isinstance(subjects, list):
            raise client.reject_response("it has no list of subjects")
        yield f"registry {client.url}", f"responds, {len(subjects)} subjects"

    def encode(self, struct: Column, data_type: StructType, topic: str, part: str) -> Column:
        """Encode a struct; null stays null. Registers its schema, before any record. ``part``: ``key`` or ``value``."""
        from pyspark.sql import functions as F
        from pyspark.sql.avro.functions import to_avro

        check_names(data_type, "Avro")
        schema = json.dumps(describe_record(data_type, f"{topic}.{part.capitalize()}"))
        id_ = self.register(f"{topic}-{part}", schema)
        return F.concat(F.lit(b"\0" + id_.to_bytes(4, "big")), to_avro(convert_values(struct, data_type), schema))

    def register(self, subject: str, schema: str) -> int:
        """Return the id of a subject's schema, which is registered once; DataError if the registry refuses it."""
        if (subject, schema) not in self._ids:
            client, path = self.config.make_client(), f"subjects/{quote(subject, safe='')}"
            try:
                answer = client.post(
                    f"{path}/versions" if self.config.auto_register_schemas else path, {"schema": schema}
                )
            except RegistryRefusalError as error:
                is_missing = error.status == 404 and not self.config.auto_register_schemas
                fix = (_FIX_MISSING if is_missing else _FIX_ADDRESS) if error.status == 404 else _FIX_REFUSED
                raise DataError(f"the schema of {subject} was refused: {error.what}, {client.url}", fix=fix) from error
            id_ = answer.get("id") if isinstance(answer, dict) else None
            if type(id_) is not int or not 0 <= id_ < 1 << 31:
                raise client.reject_response(f"it has no valid id of the schema of {subject}")
            self._ids[subject, schema] = id_
        return self._ids[subject, schema]
