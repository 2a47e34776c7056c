"""Why a record cannot become a row."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """What dialects and the engine put into ERROR."""

    UNDECODABLE = "undecodable"
    SCHEMA_UNKNOWN = "schema-unknown"
    SCHEMA_INCOMPATIBLE = "schema-incompatible"
    OP_MISSING = "op-missing"
    OP_UNKNOWN = "op-unknown"
    OP_NOT_A_ROW = "op-not-a-row"
    TRUNCATED = "truncated"
    AFTER_MISSING = "after-missing"
    KEY_MISSING = "key-missing"

    @property
    def meaning(self) -> str:
        """A sentence for people."""
        return _MEANINGS[self]


_MEANINGS = {
    Reason.UNDECODABLE: "not of the format, or a value does not fit its column",
    Reason.SCHEMA_UNKNOWN: "it names a schema that the registry does not have, or that is none",
    Reason.SCHEMA_INCOMPATIBLE: "its schema has another type for a column, and none holds the values of both",
    Reason.OP_MISSING: "the envelope's `op` is null",
    Reason.OP_UNKNOWN: "the envelope's `op` is none that is known",
    Reason.OP_NOT_A_ROW: "a logical message (`m`) among rows: real, and no row",
    Reason.TRUNCATED: "a truncate (`t`), where deleted rows are kept or rows are appended; else it empties the table",
    Reason.AFTER_MISSING: "an insert or update without `after`",
    Reason.KEY_MISSING: "a key column is null",
}
#: Those of records that nobody could read: there is no event, only bytes.
UNREAD = (Reason.UNDECODABLE, Reason.SCHEMA_UNKNOWN, Reason.SCHEMA_INCOMPATIBLE)
