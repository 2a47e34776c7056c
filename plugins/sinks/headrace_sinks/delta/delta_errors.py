"""Known errors of Delta."""

from __future__ import annotations

from headrace.sdk import ConfigError, DataError, HeadraceError, RetriableError
from headrace.sdk.error_text import KnownError, explain_known_error
from headrace_sinks.as_of import OTHER_VERSION
from headrace_sinks.stored_files import explain_missing_file

_KNOWN_ERRORS = (
    # Another writer, or maintenance, committed between the read and the commit of a write.
    KnownError(
        r"Concurrent(?:Append|DeleteRead|DeleteDelete|Modification|Transaction|Write)Exception|MetadataChangedException"
        r"|ProtocolChangedException|\[DELTA_(?:CONCURRENT_\w+|METADATA_CHANGED|PATH_EXISTS|PROTOCOL_CHANGED|MERGE_UNRESOLVED_EXPRESSION)",
        RetriableError,
        "another writer committed at the same time: {line}",
        "nothing is lost; start the pipeline again",
    ),
    KnownError(
        r"\[DELTA_CANNOT_CREATE_LOG_PATH",
        ConfigError,
        "the folder of a table cannot be created: {line}",
        "check the address, and allow the pipeline to create folders and files there",
        where="sink delta, path",
    ),
    KnownError(
        r"\[DELTA_NOT_NULL_CONSTRAINT_VIOLATED|DELTA_VIOLATE_CONSTRAINT",
        DataError,
        "a row of the batch violates a NOT NULL or CHECK constraint of the table",
        "drop the constraint, or correct the row at the source",
    ),
    KnownError(
        r"\[DELTA_(?:UNKNOWN_CONFIGURATION|VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED)|requirement failed: delta\.",
        ConfigError,
        "Delta rejects a table property: {line}",
        "correct the option that begins with `delta.`",
        where="sink delta",
    ),
    KnownError(
        r"\[DELTA_UNSUPPORTED_FEATURES_FOR_(?:READ|WRITE)|\[DELTA_INVALID_PROTOCOL_VERSION|InvalidProtocolVersionException",
        ConfigError,
        "the table has features that this version of Delta does not support: {line}",
        "remove the features with `ALTER TABLE … DROP FEATURE`, or rewrite the table in another `path`",
    ),
    KnownError(
        r"\[DELTA_CANNOT_MODIFY_APPEND_ONLY",
        ConfigError,
        "the table only accepts new rows (`delta.appendOnly`)",
        "set `mode: append` or `mode: changelog`, or remove the property from the table",
        where="sink delta, mode",
    ),
    KnownError(
        r"\[DELTA_(?:INVALID_PARTITION_COLUMN_TYPE|CANNOT_USE_ALL_COLUMNS_FOR_PARTITION|INVALID_PARTITION_COLUMN\b)",
        ConfigError,
        "Delta cannot partition the table by these columns: {line}",
        "name other columns",
        where="sink delta, partition.by",
    ),
    KnownError(
        r"\[DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG",
        ConfigError,
        "the session lacks Delta's extension",
        'build the session with .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")',
    ),
)
#: Errors of a read of a version that the user names.
_VERSION_ERRORS = (
    KnownError(
        "Cannot time travel Delta table to version|is before the earliest version available"
        r"|\[DELTA_(?:NO_RECREATABLE_HISTORY_FOUND|NO_COMMITS_FOUND)",
        ConfigError,
        "no such version: {line}",
        OTHER_VERSION,
    ),
)
#: A read of the state after the last commit. Delta 3 reports no error class.
_AFTER_LAST_COMMIT = ("DELTA_TIMESTAMP_GREATER_THAN_COMMIT", "is after the latest commit timestamp")


def is_after_last_commit(error: BaseException) -> bool:
    """Return whether a read failed because its timestamp is after the table's last commit."""
    return any(text in str(error) for text in _AFTER_LAST_COMMIT)


def explain_version(error: BaseException) -> HeadraceError | None:
    """Explain the error of a read of a version that does not exist; None for any other error."""
    return explain_known_error(error, _VERSION_ERRORS)


def explain(error: BaseException, path: str) -> HeadraceError | None:
    """Explain a known error of Delta; None for any other error. ``path``: folder of the sink's tables."""
    return explain_known_error(error, _KNOWN_ERRORS) or explain_missing_file(error, path)
