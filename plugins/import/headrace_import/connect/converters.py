"""Converters of Kafka Connect as formats of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headrace.sdk import ConfigError
from headrace_import.connect.smt import split_list
from headrace_import.import_report import Kind, Report
from headrace_import.pipeline_draft import Block, Line
from headrace_import.settings import Settings


class _Registry(NamedTuple):
    """Converter with a schema registry: the format, and the option with the address of the registry."""

    format: str
    url: str


_WITH_REGISTRY: Mapping[str, _Registry] = {
    "io.confluent.connect.avro.AvroConverter": _Registry("avro", "schema.registry.url"),
    "io.confluent.connect.json.JsonSchemaConverter": _Registry("json", "schema.registry.url"),
    "io.apicurio.registry.utils.converter.AvroConverter": _Registry("avro", "apicurio.registry.url"),
    "io.apicurio.registry.utils.converter.ExtJsonConverter": _Registry("json", "apicurio.registry.url"),
}
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_GLUE = "com.amazonaws.services.schemaregistry.kafkaconnect.AWSKafkaAvroConverter"
#: Option of a converter → option of a format.
_LOGIN = {
    "basic.auth.user.info": "basic.auth.user.info",
    "schema.registry.basic.auth.user.info": "basic.auth.user.info",
    "bearer.auth.token": "bearer.auth.token",
    "apicurio.registry.use-id": "use-id",
}
#: Options for writers, and options whose value headrace reads from each record.
_WITHOUT_MEANING = (
    "schemas.enable",
    "schemas.cache.*",
    "decimal.format",
    "auto.register.schemas",
    "use.latest.version",
    "enhanced.avro.schema.support",
    "enhanced.schema.support",
    "connect.meta.data",
    "allow.optional.map.keys",
    "scrub.invalid.names",
    "generalized.sum.type.support",
    "flatten.unions",
    "flatten.singleton.unions",
    "*subject.name.strategy",
    "*compatibility.strict",
    "normalize.schemas",
    "replace.null.with.default",
    "basic.auth.credentials.source",
    "schema.registry.basic.auth.credentials.source",
    "bearer.auth.credentials.source",
    "apicurio.registry.auto-register*",
    "apicurio.registry.find-latest",
    "apicurio.registry.artifact*",
    "apicurio.registry.check-period-ms",
    "apicurio.registry.as-confluent",
    "apicurio.registry.id-handler",
    "apicurio.registry.headers.enabled",
    "schemaAutoRegistrationEnabled",
    "avroRecordType",
    "registry.name",
    "compression",
    "compatibility",
)
_TEXT = ("org.apache.kafka.connect.storage.StringConverter", "org.apache.kafka.connect.converters.ByteArrayConverter")

#: Classes of the converters that headrace replaces.
CLASSES = (*_WITH_REGISTRY, _JSON, _GLUE, *_TEXT)


def read_formats(inputs: Sequence[Settings], report: Report) -> Block:
    """Return ``value:`` and ``key:`` from the first input that names a converter: of sinks, then sources, then workers."""
    formats = Block()
    for part in ("value", "key"):
        owner = next((settings for settings in inputs if settings.get(f"{part}.converter")), None)
        if owner is not None:
            formats.entries[part] = _read_format(owner, part)
    if "value" not in formats.entries:
        formats.add("value", "json", "default: no input names a converter")
        why = "no input names the converter of the values; the file names json"
        report.add(Kind.TO_DO, "value.converter", (), why, "give the properties of the worker as well")
    if "key" not in formats.entries:
        why = "no input names the converter of the keys; headrace reads them in the format of the values"
        report.add(Kind.TO_DO, "key.converter", (), why, "give the properties of the worker as well, or set `key:`")
    for settings in inputs:
        ignore_converters(settings)
    return formats


def _read_format(settings: Settings, part: str) -> Line | Block:
    """Return the format of values or keys. ConfigError for a converter that headrace cannot replace."""
    key = f"{part}.converter"
    kind = settings.get(key)
    node: Line | Block
    if kind in _WITH_REGISTRY:
        node = _read_registry(settings, key, _WITH_REGISTRY[kind])
    elif kind == _JSON:
        node = Line("json", settings.cite(key))
    elif kind == _GLUE:
        node = _read_glue(settings, key)
    elif part == "key":
        node = _omit_keys(settings, key)
    elif kind in _TEXT:
        node = Line("json", settings.cite(key))
        why = "the converter does not name the format of the values; the file names json"
        settings.add_to_do([key], why, "check `value:`")
    else:
        raise _make_error(settings, key)
    _ignore_options(settings, key)
    return node


def ignore_converters(
    settings: Settings, why: str = "the converters of the sink, or of the first source, give the formats"
) -> None:
    """Report the converters of an input that do not give the formats of records."""
    settings.ignore([key for part in ("key", "value") for key in settings.list_keys(f"{part}.converter")], why)


def _read_registry(settings: Settings, key: str, registry: _Registry) -> Block:
    options, url = Block(comment=settings.cite(key)), f"{key}.{registry.url}"
    if not settings.get(url):
        where = f"{settings.place}, {settings.spell(key)}"
        raise ConfigError(
            "the converter has no address of a schema registry",
            where=where,
            fix=f"add `{settings.spell(key)}.{registry.url}`",
        )
    value = settings.read(url)
    first = value if value.startswith("${") else split_list(value)[0]
    options.add("registry", first, settings.cite(url))
    if first != value:
        settings.add_to_do([url], "headrace uses the first address of the registry")
    for option, name in _LOGIN.items():
        if settings.get(f"{key}.{option}"):
            options.add(name, settings.read(f"{key}.{option}"), settings.cite(f"{key}.{option}"))
    return Block({registry.format: options})


def _read_glue(settings: Settings, key: str) -> Block:
    options = Block(comment=settings.cite(key))
    options.add("registry", "glue", "AWS Glue")
    for option in ("region", "endpoint"):
        if settings.get(f"{key}.{option}"):
            options.add(option, settings.read(f"{key}.{option}"), settings.cite(f"{key}.{option}"))
    return Block({"avro": options})


def _omit_keys(settings: Settings, key: str) -> Line:
    why = "headrace reads no keys with this converter"
    settings.add_to_do([key], why, "name the key columns with `key:` in `tables:`")
    return Line("none", settings.cite(key))


def _ignore_options(settings: Settings, key: str) -> None:
    why = "headrace reads schemas by the ids in the records, or from the records"
    settings.ignore_matches([f"{key}.{pattern}" for pattern in _WITHOUT_MEANING], why)
    tls = [name for name in settings.list_remaining() if name.startswith(f"{key}.") and ".ssl." in name]
    fix = "`ssl.ca.location`, `ssl.certificate.location` and `ssl.key.location` name PEM files"
    settings.reject(tls, "headrace reads no Java key stores for a registry", fix)
    known = [f"{key}.{name}" for name in (*_LOGIN, *_WITHOUT_MEANING, "schema.registry.url", "apicurio.registry.url")]
    settings.report_unknown(known, prefix=f"{key}.")


def _make_error(settings: Settings, key: str) -> ConfigError:
    names = ", ".join(dict.fromkeys(name.rpartition(".")[2] for name in (_JSON, *_WITH_REGISTRY)))
    return ConfigError(
        "headrace has no format for the records of this converter",
        where=f"{settings.place}, {settings.spell(key)}",
        fix=f"use one of {names} and AWSKafkaAvroConverter in the connector that writes the topics",
    )
