"""SMTs without a counterpart, with the nearest transform."""

from __future__ import annotations

from collections.abc import Mapping

from headrace_import.connect.smt import NotImportableError
from headrace_import.import_report import Kind

#: SMTs without a counterpart → why, and what to do.
NEAREST: Mapping[str, tuple[str, str]] = {
    "HoistField": ("the columns of the rows are not in this file", '`compute: {columns: {all: "struct(a, b)"}}`'),
    "TimestampRouter": ("a row would move to another table with every update", "partition the table by a date"),
    "ExtractNewDocumentState": ("it needs the connector", "leave it in the connector: headrace reads its rows"),
    "ContentBasedRouter": ("its expression is Groovy or JavaScript", "`route.by.field` in `tables:`"),
    "TimescaleDb": ("it needs the connector", "leave it in the connector"),
    "SchemaChangeEventFilter": ("it needs the connector", "leave it in the connector"),
    "DecodeLogicalDecodingMessageContent": ("it needs the connector", "leave it in the connector"),
    "VectorToJsonConverter": (
        "the columns are not in this file",
        "`compute: {columns: {v: \"to_json(named_struct('values', v))\"}}`",
    ),
    "SwapGeometryCoordinates": ("it needs the connector", "leave it in the connector"),
    "ExtractSchemaToNewRecord": ("it needs the connector", "leave it in the connector"),
    "MongoEventRouter": ("it needs the connector", "leave it in the connector"),
    "CollectionNameTransformation": ("it names tables by a style", "`target:` in `tables:`"),
    "ConvertCloudEventToSaveableForm": ("headrace reads no CloudEvents", "write Debezium's own records"),
    "FieldNameTransformation": ("the columns are not in this file", "`rename`"),
    "Drop": ("a null key or value has no meaning for a row", "remove it"),
    "ExtractTopic": (
        "a column of the row cannot name its table",
        "`route.by.field` in `tables:`, with a field of the event",
    ),
    "FromXML": ("it is not supported", "leave it in the connector that writes the topics"),
    "GzipDecompress": ("it is not supported", "leave it in the connector that writes the topics"),
    "MessageTimestampRouter": ("a row would move to another table with every update", "partition the table by a date"),
    "TopicRegexRouter": ("it is not supported", "`source: /regular expression/` and `target` in `tables:`"),
    "CopyValue": ("it is not supported", '`compute: {columns: {copy: "column"}}`'),
    "JsonToMapTransform": ("it is not supported", "`compute` with `from_json`"),
    "KafkaMetadataTransform": (
        "its struct of metadata has no counterpart",
        "`insert` adds topic, partition, offset and timestamp",
    ),
}
#: SMTs whose result no table shows → why.
WITHOUT_MEANING: Mapping[str, str] = {
    "DropHeaders": "a table has no headers",
    "InsertHeader": "a table has no headers",
    "SetSchemaMetadata": "a table has no schema name and no schema version",
    "ExtractChangedRecordState": "its headers are for consumers of the topic",
    "PartitionRouting": "partitions of a topic have no meaning for a table",
    "ReadToInsertEvent": "a row of a snapshot and an insert make the same row",
    "ActivateTracingSpan": "headrace has no tracing",
    "TombstoneHandler": "headrace handles tombstones itself",
}
_EXPRESSION = ("its condition is Groovy or JavaScript", "`filter: {condition: …}` with SQL")
_JSON_PATH = ("its condition is a JSON path", "`filter: {condition: …}` with SQL")
CUSTOM = ("a class of your own has no counterpart", "use `compute` or `filter` with SQL, or write a transform plugin")
_UNKNOWN = ("headrace has no counterpart", "use `compute` or `filter` with SQL, or write a transform plugin")


def find_nearest(kind: str, name: str) -> NotImportableError:
    """Return why an SMT of a known package is not imported, and what to do. ``kind``: its class, ``name``: without its package."""
    if name == "Filter":
        return NotImportableError(*(_EXPRESSION if kind.startswith("io.debezium.") else _JSON_PATH))
    if why := WITHOUT_MEANING.get(name):
        return NotImportableError(why, kind=Kind.NO_MEANING)
    return NotImportableError(*NEAREST.get(name, _UNKNOWN))
