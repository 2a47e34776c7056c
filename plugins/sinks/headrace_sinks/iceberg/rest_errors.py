"""Known errors of Iceberg's client of REST catalogs."""

from __future__ import annotations

from headrace.sdk import ConfigError, LoginError, RetriableError
from headrace.sdk.error_text import KnownError

_WHERE = "sink iceberg, catalog.properties"
_EXCEPTIONS = r"org\.apache\.iceberg\.exceptions\."

#: Signs of a rejected login: HTTP status 401, of the catalog or of its token endpoint, and 419 for a login that expired.
NOT_AUTHORIZED = _EXCEPTIONS + r"(?:NotAuthorizedException|RESTException: Unable to process \(code: 419\b[^)]*\))"
#: Sign of storage credentials of the catalog that expired before the batch was written.
EXPIRED_STORAGE_CREDENTIALS = KnownError(
    r"ExpiredToken|[Tt]oken (?:included in the request |has |is )+expired|credentials (?:have|has) expired",
    RetriableError,
    "the storage credentials that the catalog issued expired before the batch was written: {message}",
    "the batch is repeated with new credentials. If it happens again, limit the batch, for example by `maxOffsetsPerTrigger`, or "
    "let the catalog issue credentials with a longer life",
)
REST_ERRORS = (
    KnownError(
        NOT_AUTHORIZED,
        LoginError,
        "authentication failed: the catalog rejected the login: {message}",
        "correct `credential` or `token`, and check that `oauth2-server-uri` and `scope` are those of the catalog",
        where=_WHERE,
    ),
    KnownError(
        _EXCEPTIONS + "ForbiddenException",
        ConfigError,
        "permission denied by the catalog: {message}",
        "grant the principal of `credential` or `token` the privileges to create, read and write tables in the catalog",
        where=_WHERE,
    ),
    KnownError(
        _EXCEPTIONS + r"NoSuchWarehouseException|Unable to find warehouse",
        ConfigError,
        "no such warehouse: {message}",
        "correct `warehouse` under `catalog.properties`: most REST catalogs take the name of a catalog, not a folder",
        where=_WHERE,
    ),
    KnownError(
        _EXCEPTIONS + "BadRequestException",
        ConfigError,
        "the catalog rejects the request: {message}",
        "correct `scope`, `credential` and `warehouse` under `catalog.properties`",
        where=_WHERE,
    ),
    # An HTML page of a proxy or of a login form has a status of success.
    KnownError(
        r"(Received a success response code of \d+, but failed to parse response body.*)|(Invalid \(null\) response body.*)"
        r"|Error occurred while processing \w+ request[\s\S]*?\.(?:JsonParse|MismatchedInput)Exception: (.*)",
        ConfigError,
        "the server is not an Iceberg REST catalog: {detail}",
        "correct `uri` and `oauth2-server-uri` under `catalog.properties`: the path of the catalog may be missing, or a proxy answers",
        where=_WHERE,
    ),
    # Iceberg deletes no file of such a commit, as the catalog may have it.
    KnownError(
        "CommitStateUnknownException",
        RetriableError,
        "the answer to a commit was lost, so the catalog may have the commit: {message}",
        "the batch is repeated; it writes nothing if the table has its mark",
    ),
    KnownError(
        _EXCEPTIONS
        + r"(?:ServiceUnavailableException|ServiceFailureException)|code: (?:429|50[0234])\b|Too [Mm]any [Rr]equests",
        RetriableError,
        "the catalog is busy or not available: {message}",
        "nothing is lost, and the batch is retried; a catalog that limits requests needs fewer tables or longer pauses between batches",
    ),
    KnownError(
        _EXCEPTIONS + "NoSuchTableException|TABLE_OR_VIEW_NOT_FOUND",
        RetriableError,
        "the catalog no longer has the table: {message}",
        "find the program that dropped or renamed it. The batch is retried; if the table is still missing, it is created again, "
        "with the rows of this and later batches: load it again from a snapshot",
    ),
    KnownError(
        r"Error occurred while processing \w+ request",
        RetriableError,
        "the catalog did not answer: {message}",
        "check that it is running and that `uri` is correct; nothing is lost, and headrace retries",
    ),
)
