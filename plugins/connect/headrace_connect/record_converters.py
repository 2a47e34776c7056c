"""Converters of Kafka Connect that write the formats which the pipeline reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from headrace.sdk.options import option_text

#: With schemas, values keep the exact types of the database. Without the last option, a column's default replaces null.
_JSON = {
    "": "org.apache.kafka.connect.json.JsonConverter",
    ".schemas.enable": "true",
    ".replace.null.with.default": "false",
}
_CONFLUENT = {
    "avro": "io.confluent.connect.avro.AvroConverter",
    "json": "io.confluent.connect.json.JsonSchemaConverter",
}
_APICURIO = {
    "avro": "io.apicurio.registry.utils.converter.AvroConverter",
    "json": "io.apicurio.registry.utils.converter.ExtJsonConverter",
}
_GLUE = "com.amazonaws.services.schemaregistry.kafkaconnect.AWSKafkaAvroConverter"


def list_converter_options(pipeline: Mapping[str, Any]) -> dict[str, str]:
    """Return the converters for the formats of the source; empty for formats whose converter is unknown."""
    source = pipeline.get("source")
    if not isinstance(source, dict) or "value" not in source:
        return {}
    value = source["value"]
    key = value if source.get("key") in (None, "none") else source["key"]
    return {
        f"{part}.converter{option}": text
        for part, block in (("key", key), ("value", value))
        for option, text in _convert(block).items()
    }


def _convert(block: Any) -> dict[str, str]:
    """Return the options of the converter for one format: their names follow ``key.converter``."""
    name, options = (block, {}) if isinstance(block, str) else next(iter(block.items())) if block else ("", {})
    options = options or {}
    registry = str(options.get("registry") or "").rstrip("/")
    if name == "json" and not registry:
        return dict(_JSON)
    if name not in _CONFLUENT or not registry:
        return {}
    if registry == "glue":
        region = {".region": option_text(options["region"])} if "region" in options else {}
        return {"": _GLUE, ".schemaAutoRegistrationEnabled": "true", ".avroRecordType": "GENERIC_RECORD", **region}
    if re.search(r"/apis/registry/v\d+$", registry):
        return _convert_apicurio(name, registry, options)
    login = options.get("basic.auth.user.info")
    credentials = {".basic.auth.credentials.source": "USER_INFO", ".basic.auth.user.info": str(login)} if login else {}
    return {"": _CONFLUENT[name], ".schema.registry.url": registry, **credentials}


def _convert_apicurio(name: str, registry: str, options: Mapping[str, Any]) -> dict[str, str]:
    start = ".apicurio.registry"
    default_id = "globalId" if registry.endswith("v2") else "contentId"
    return {
        "": _APICURIO[name],
        f"{start}.url": registry,
        f"{start}.auto-register": "true",
        f"{start}.find-latest": "true",
        # Otherwise the id is in a header, which Spark's decoders do not see.
        f"{start}.headers.enabled": "false",
        f"{start}.use-id": str(options.get("use-id") or default_id),
    }
