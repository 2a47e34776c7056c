"""Reasons why a record cannot become a row."""

from __future__ import annotations

from enum import StrEnum


class RejectReason(StrEnum):
    """Value of ERROR, which dialects and the engine set."""

    UNDECODABLE = "undecodable"
    TOO_LARGE = "too-large"
    SCHEMA_UNKNOWN = "schema-unknown"
    SCHEMA_INCOMPATIBLE = "schema-incompatible"
    OP_MISSING = "op-missing"
    OP_UNKNOWN = "op-unknown"
    OP_NOT_A_ROW = "op-not-a-row"
    TRUNCATED = "truncated"
    AFTER_MISSING = "after-missing"
    KEY_MISSING = "key-missing"
    OTHER_TABLE = "other-table"

    @property
    def meaning(self) -> str:
        """Description for users."""
        return _MEANINGS[self]


_MEANINGS = {
    RejectReason.UNDECODABLE: "not of the format, or a value does not fit its column",
    RejectReason.TOO_LARGE: "it has more bytes than `max.message.bytes`: `key` and `value` are how it begins",
    RejectReason.SCHEMA_UNKNOWN: "it names a schema that the registry does not have, or that is none",
    RejectReason.SCHEMA_INCOMPATIBLE: "its schema has another type for a column, and none holds the values of both",
    RejectReason.OP_MISSING: "the envelope's `op` is null",
    RejectReason.OP_UNKNOWN: "the envelope's `op` is none that is known",
    RejectReason.OP_NOT_A_ROW: "a record that tells of something else, as a logical message (`m`) does: real, and no row",
    RejectReason.TRUNCATED: "a truncate (`t`), where deleted rows are kept or rows are appended; else it empties the table",
    RejectReason.AFTER_MISSING: "a change without its row (`after`)",
    RejectReason.KEY_MISSING: "a key column is null",
    RejectReason.OTHER_TABLE: "it belongs to another table than the topic's first record, and no rule declares a topic with several",
}
#: Reasons of records without a readable event.
UNREADABLE = (
    RejectReason.UNDECODABLE,
    RejectReason.TOO_LARGE,
    RejectReason.SCHEMA_UNKNOWN,
    RejectReason.SCHEMA_INCOMPATIBLE,
)
