"""Known errors of the client of a Hive metastore."""

from __future__ import annotations

from headrace.sdk import ConfigError, HeadraceError, RetriableError
from headrace.sdk.error_text import KnownError, explain_known_error, first_line, full_text
from headrace_sinks.catalogs.metastore_catalog import LostRaceError

_WHERE = "Hive metastore"
#: Errors of a concurrent change.
_LOST_RACES = ("AlreadyExistsException", "NoSuchObjectException", "InvalidOperationException: partition values=")
_KNOWN_ERRORS = (
    KnownError(
        "GSS initiate failed|SaslException|TSaslTransportException",
        ConfigError,
        "authentication failed: {message}",
        "renew the Kerberos ticket of this process, or correct `hive.metastore.kerberos.principal` and `hive.metastore.sasl.enabled`",
    ),
    KnownError(
        r"AccessControlException|AuthorizationException|HiveAccessControlException|[Pp]ermission denied",
        ConfigError,
        "permission denied: {message}",
        "grant this user the permission in the metastore, and on the folder of the table to the metastore itself",
    ),
    KnownError(
        "types incompatible with the existing columns",
        ConfigError,
        "the metastore rejects the new type of a column: {message}",
        "set `hive.metastore.disallow.incompatible.col.type.changes: false` on the metastore; or drop the table in the metastore, "
        "and headrace creates it again",
    ),
    KnownError(
        "No FileSystem for scheme|ClassNotFoundException",
        ConfigError,
        "the metastore cannot access the table's files: {message}",
        "add the jars and settings of the file system to the metastore",
    ),
    KnownError(
        r"Could not connect to meta store|TTransportException|SocketException|SocketTimeoutException",
        RetriableError,
        "a required server is unreachable: {message}",
        "check that the metastore is running and that `hive.metastore.uris` is correct; nothing is lost, and headrace retries",
    ),
)


def translate(error: Exception, action: str) -> Exception:
    """Return the error to raise instead of an error of the client."""
    if isinstance(error, HeadraceError | LostRaceError):
        return error
    text = full_text(error)
    if any(name in text for name in _LOST_RACES):
        return LostRaceError(first_line(error))
    if known := explain_known_error(error, _KNOWN_ERRORS, where=_WHERE):
        return known
    return RetriableError(
        f"could not {action}: {first_line(error)}",
        where=_WHERE,
        fix="read the log of the metastore; the rows are in the table, and headrace retries",
    )
