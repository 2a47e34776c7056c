"""Short names of classes, which Kafka Connect accepts in place of whole names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from headrace.sdk import ConfigError
from headrace_import.connect import converters, debezium_source, iceberg_sink, jdbc_source, lenses_sink, s3_sink
from headrace_import.settings import Settings

_CONNECT, _DEBEZIUM = "org.apache.kafka.connect.transforms.", "io.debezium.transforms."
_TRANSFORMS = (
    *(
        f"{_CONNECT}{name}"
        for name in (
            "Cast",
            "DropHeaders",
            "ExtractField",
            "Filter",
            "Flatten",
            "HeaderFrom",
            "HoistField",
            "InsertField",
            "InsertHeader",
            "MaskField",
            "RegexRouter",
            "ReplaceField",
            "SetSchemaMetadata",
            "TimestampConverter",
            "TimestampRouter",
            "ValueToKey",
        )
    ),
    *(
        f"{_DEBEZIUM}{name}"
        for name in (
            "ByLogicalTableRouter",
            "ExtractChangedRecordState",
            "ExtractNewRecordState",
            "ExtractSchemaToNewRecord",
            "Filter",
            "HeaderToValue",
            "SchemaChangeEventFilter",
            "TimezoneConverter",
            "outbox.EventRouter",
            "partitions.PartitionRouting",
        )
    ),
)
_FILTER = "io.confluent.connect.transforms.Filter"
_PREDICATES = tuple(
    f"{_CONNECT}predicates.{name}" for name in ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")
)
#: Option of a class → the known classes, and the suffix that a short name may lack.
_KINDS: Mapping[str, tuple[tuple[str, ...], str]] = {
    r"connector\.class": (
        (
            *debezium_source.CLASSES,
            *jdbc_source.CLASSES,
            *lenses_sink.CLASSES,
            s3_sink.CLASS,
            *iceberg_sink.CLASSES,
        ),
        "Connector",
    ),
    r"(?:key|value)\.converter": (converters.CLASSES, "Converter"),
    r"transforms\.[^.]+\.type": ((*_TRANSFORMS, _FILTER), "Transformation"),
    r"predicates\.[^.]+\.type": (_PREDICATES, "Predicate"),
}
#: Class → an option that it has, of classes with one short name.
_OWN_OPTIONS = {
    **dict.fromkeys(lenses_sink.CLASSES[:1], "connect.s3.kcql"),
    s3_sink.CLASS: "s3.bucket.name",
    iceberg_sink.TABULAR: "iceberg.tables.upsert-mode-enabled|iceberg.tables.cdc-field",
    "io.confluent.connect.avro.AvroConverter": "schema.registry.url",
    "io.apicurio.registry.utils.converter.AvroConverter": "apicurio.registry.url",
    jdbc_source.CLASSES[0]: "connection.url",  # Both connectors are imported in the same way.
    f"{_CONNECT}Filter": "predicate",
    f"{_DEBEZIUM}Filter": "condition",
    _FILTER: "filter.condition",
}


def expand_aliases(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options with whole names of classes in place of short names. Unknown and ambiguous names stay."""
    expanded = dict(options)
    for pattern, (classes, suffix) in _KINDS.items():
        for key in (key for key in options if re.fullmatch(pattern, key)):
            alias, dollar, part = options[key].strip().partition("$")
            found = [name for name in classes if "." not in alias and alias in _list_names(name, suffix)]
            chosen = found if len(found) == 1 else [name for name in found if _has_option(name, key, options)]
            if len(chosen) == 1:
                expanded[key] = chosen[0] + dollar + part
    return expanded


def make_class_error(settings: Settings) -> ConfigError:
    """Return the error for a connector whose class is not known, or whose short name several classes have."""
    classes, suffix = _KINDS[r"connector\.class"]
    where = f"{settings.place}, {settings.spell('connector.class')}"
    candidates = [name for name in classes if settings.get("connector.class") in _list_names(name, suffix)]
    if candidates:
        fix = f"write the whole name: {' or '.join(candidates)}"
        return ConfigError("several classes have this short name", where=where, fix=fix)
    names = ", ".join(dict.fromkeys(name.rpartition(".")[2] for name in classes))
    return ConfigError("headrace imports no connector of this class", where=where, fix=f"known classes: {names}")


def _list_names(name: str, suffix: str) -> Iterable[str]:
    """Return the short names of a class: its name without the package, also without the suffix of its kind."""
    simple = name.rpartition(".")[2]
    return simple, simple.removesuffix(suffix) or simple


def _has_option(name: str, key: str, options: Mapping[str, str]) -> bool:
    prefix = key.removesuffix("type") if key.endswith(".type") else f"{key}."
    own = _OWN_OPTIONS.get(name, "").split("|")
    return any(option in options or f"{prefix}{option}" in options for option in own if option)
