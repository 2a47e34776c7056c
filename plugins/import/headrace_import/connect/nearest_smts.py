"""SMTs without a counterpart, with the nearest transform."""

from __future__ import annotations

from collections.abc import Mapping

#: SMTs without a counterpart → why, and what to do.
NEAREST: Mapping[str, tuple[str, str]] = {
    "DropHeaders": ("a table has no headers", "remove it"),
    "HeaderFrom": ("a table has no headers", "`add.headers` of `unwrap` adds fields of the event as columns"),
    "InsertHeader": ("a table has no headers", "`insert` adds a column"),
    "HoistField": ("the columns of the rows are not in this file", '`compute: {columns: {all: "struct(a, b)"}}`'),
    "SetSchemaMetadata": ("a table has no schema name", "remove it"),
    "TimestampRouter": ("a row would move to another table with every update", "partition the table by a date"),
    "ExtractNewDocumentState": ("it needs the connector", "leave it in the connector: headrace reads its rows"),
    "ExtractChangedRecordState": ("its headers are for consumers of the topic", "remove it"),
    "ContentBasedRouter": ("its expression is Groovy or JavaScript", "`route.by.field` in `tables:`"),
    "PartitionRouting": ("partitions of a topic have no meaning for a table", "remove it"),
    "HeaderToValue": ("transforms do not read headers as columns", "add the value in the connector"),
    "TimezoneConverter": (
        "the columns are not in this file",
        "`compute: {columns: {at: \"from_utc_timestamp(at, 'Europe/Zurich')\"}}`",
    ),
    "TimescaleDb": ("it needs the connector", "leave it in the connector"),
    "SchemaChangeEventFilter": ("it needs the connector", "leave it in the connector"),
    "DecodeLogicalDecodingMessageContent": ("it needs the connector", "leave it in the connector"),
    "EventRouter": ("the outbox pattern is not supported", "leave it in the connector"),
    "ActivateTracingSpan": ("tracing is not supported", "remove it"),
    "VectorToJsonConverter": ("it is not supported", "leave it in the connector"),
    "Drop": ("a null key or value has no meaning for a row", "remove it"),
    "ExtractTopic": (
        "a column of the row cannot name its table",
        "`route.by.field` in `tables:`, with a field of the event",
    ),
    "FromXML": ("it is not supported", "leave it in the connector that writes the topics"),
    "GzipDecompress": ("it is not supported", "leave it in the connector that writes the topics"),
    "MessageTimestampRouter": ("a row would move to another table with every update", "partition the table by a date"),
    "TombstoneHandler": ("headrace handles tombstones itself", "remove it"),
    "TopicRegexRouter": ("it is not supported", "`source: /regular expression/` and `target` in `tables:`"),
    "CopyValue": ("it is not supported", '`compute: {columns: {copy: "column"}}`'),
    "JsonToMapTransform": ("it is not supported", "`compute` with `from_json`"),
    "KafkaMetadataTransform": (
        "its struct of metadata has no counterpart",
        "`insert` adds topic, partition, offset and timestamp",
    ),
}
_EXPRESSION = ("its condition is Groovy or JavaScript", "`filter: {condition: …}` with SQL")
_JSON_PATH = ("its condition is a JSON path", "`filter: {condition: …}` with SQL")
CUSTOM = ("a class of your own has no counterpart", "use `compute` or `filter` with SQL, or write a transform plugin")
_UNKNOWN = ("headrace has no counterpart", "use `compute` or `filter` with SQL, or write a transform plugin")


def find_nearest(kind: str, name: str) -> tuple[str, str]:
    """Return why an SMT of a known package is not imported, and what to do. ``kind``: its class, ``name``: without its package."""
    if name == "Filter":
        return _EXPRESSION if kind.startswith("io.debezium.") else _JSON_PATH
    return NEAREST.get(name, _UNKNOWN)
