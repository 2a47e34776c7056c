"""Reasons why a record cannot become a row."""

from __future__ import annotations

from enum import StrEnum


class RejectReason(StrEnum):
    """Reject reason of a record: the value of the column ERROR, which formats, dialects and the engine set."""

    UNDECODABLE = "undecodable"
    FIELD_NAME = "field-name"
    TOO_LARGE = "too-large"
    SCHEMA_UNKNOWN = "schema-unknown"
    SCHEMA_INCOMPATIBLE = "schema-incompatible"
    OP_MISSING = "op-missing"
    OP_UNKNOWN = "op-unknown"
    OP_NOT_A_ROW = "op-not-a-row"
    TRUNCATED = "truncated"
    TRUNCATED_SOURCE = "truncated-source"
    AFTER_MISSING = "after-missing"
    KEY_MISSING = "key-missing"
    OTHER_TABLE = "other-table"
    TABLE_NAME = "table-name"
    UNSUPPORTED_VALUE = "unsupported-value"
    UNTRANSFORMABLE = "untransformable"

    @property
    def meaning(self) -> str:
        """Description for users."""
        return _MEANINGS[self]


_MEANINGS = {
    RejectReason.UNDECODABLE: "the record does not match the format, or a value does not fit its column",
    RejectReason.FIELD_NAME: "a field cannot be a column: its name starts with `_headrace_`, is reserved or not supported by a sink, is blank or has more than 255 characters, differs from another name only by case or by letters that Spark equates, or it is one of more than 200 new names; or the key lacks this field in other records",
    RejectReason.TOO_LARGE: "the record exceeds `max.message.bytes`; `key` and `value` contain only their first bytes",
    RejectReason.SCHEMA_UNKNOWN: "the registry does not have the record's schema, or the schema is invalid",
    RejectReason.SCHEMA_INCOMPATIBLE: "the record's schema has another type for a column, and no type holds the values of both",
    RejectReason.OP_MISSING: "the envelope's `op` is null",
    RejectReason.OP_UNKNOWN: "the envelope's `op` is not a known operation",
    RejectReason.OP_NOT_A_ROW: "a valid record that is not a row change, such as a logical message (`m`)",
    RejectReason.TRUNCATED: "a truncate (`t`) of a table that keeps deleted rows or appends rows; other tables apply it",
    RejectReason.TRUNCATED_SOURCE: "a truncate (`t`) of one of several sources of the table, whose rows cannot be distinguished from those of the others",
    RejectReason.AFTER_MISSING: "a change without its row (`after`)",
    RejectReason.KEY_MISSING: "a key column is null",
    RejectReason.OTHER_TABLE: "the record belongs to a different table than the topic's first record, and no rule allows several tables in the topic: set `route.by.field` or `logical.table`",
    RejectReason.TABLE_NAME: "the values of `route.by.field` are not a valid table name (parts of letters, digits, `_` and `-`, joined by dots), or are too long; or a column of the row names a table whose transforms do not leave out deletes",
    RejectReason.UNSUPPORTED_VALUE: "the table cannot hold a value of the row, such as a partition value that cannot be the name of a folder",
    RejectReason.UNTRANSFORMABLE: "a transform cannot process a value, such as a text that `cast` cannot read as a number",
}
#: Reasons of records without a readable event.
UNREADABLE = (
    RejectReason.UNDECODABLE,
    RejectReason.FIELD_NAME,
    RejectReason.TOO_LARGE,
    RejectReason.SCHEMA_UNKNOWN,
    RejectReason.SCHEMA_INCOMPATIBLE,
)
