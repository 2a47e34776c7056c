"""Known errors of Iceberg and of the AWS clients of its catalogs."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.sdk import ConfigError, HeadraceError, RetriableError
from headrace.sdk.error_text import KnownError, explain_known_error
from headrace_sinks.as_of import OTHER_VERSION
from headrace_sinks.iceberg.rest_errors import EXPIRED_STORAGE_CREDENTIALS, REST_ERRORS
from headrace_sinks.stored_files import MISSING_FILE_FIX

#: Property of a catalog that issues credentials for the files of its tables.
_DELEGATION = "header.x-iceberg-access-delegation"
_AWS_ERRORS = (
    KnownError(
        r"NoClassDefFoundError: software/amazon/awssdk|ClassNotFoundException: software\.amazon\.awssdk",
        ConfigError,
        "the AWS clients are not on the class path: {message}",
        "add `io-impl: org.apache.iceberg.aws.s3.S3FileIO` to `catalog.properties`, and headrace adds them; a session of "
        "your own requires the jar of org.apache.iceberg:iceberg-aws-bundle in the version of its Iceberg",
    ),
    KnownError(
        "Unable to load region from any",
        ConfigError,
        "no AWS region is configured",
        "set AWS_REGION, or `client.region` under `catalog.properties`",
    ),
    KnownError(
        "Unable to load credentials from any",
        ConfigError,
        "no AWS credentials were found",
        "give driver and executors a role, a profile (AWS_PROFILE) or keys (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)",
    ),
    KnownError(
        "The security token included in the request is expired|The provided token has expired",
        ConfigError,
        "the session token has expired",
        "log in again, or use a role, whose credentials are renewed",
    ),
    KnownError(
        "The security token included in the request is invalid|The request signature we calculated does not match"
        "|The AWS Access Key Id you provided does not exist",
        ConfigError,
        "AWS rejected the credentials: {message}",
        "check the access key, its secret and its session token: all three must belong together",
    ),
    KnownError(
        r"services\.glue\.model\.AccessDeniedException|services\.lakeformation\.model\.AccessDeniedException"
        r"|services\.s3\.model\.S3Exception: Access Denied|is not authorized to perform:",
        ConfigError,
        "access denied: {message}",
        "grant the permission to the role or user of this process; where Lake Formation controls the table, grant it there",
    ),
    KnownError(
        r"services\.s3\.model\.NoSuchBucketException",
        ConfigError,
        "no such bucket: {message}",
        "correct `warehouse` under `catalog.properties`, or the location of the database",
    ),
    KnownError(
        "Cannot derive default warehouse location",
        ConfigError,
        "new tables have no location: {message}",
        'add `warehouse: "s3://BUCKET/FOLDER"` to `catalog.properties`, or set a location for the database',
    ),
    KnownError(
        "to Glue database name|to Glue table name|Invalid table identifier",
        ConfigError,
        "the catalog does not allow this table name: {message}",
        "in Glue a table is `database.table`, of lower-case letters, digits and `_`: set `target` under `tables:`",
    ),
    KnownError(
        "Received an UnknownHostException",
        RetriableError,
        "the AWS service's host name cannot be resolved: {message}",
        "check the region, which AWS_REGION or `client.region` sets, and the network; nothing is lost",
    ),
    KnownError(
        "ThrottlingException|Rate exceeded|SlowDown",
        RetriableError,
        "AWS throttles the requests: {message}",
        "the batch is retried; nothing is lost",
    ),
)
_ICEBERG_ERRORS = (
    # Another writer committed between the read and the commit of a write.
    KnownError(
        "CommitFailedException|AlreadyExistsException|TableAlreadyExistsException"
        "|ValidationException: (?:Cannot commit, |Found (?:new )?conflicting |Found concurrently added DV"
        r"|Missing required files to delete|Cannot determine history between)|Snapshot \d+ is not an ancestor of",
        RetriableError,
        "another writer committed at the same time: {line}",
        "nothing is lost; start the pipeline again",
    ),
    # A write reads the version that it loaded at its start.
    KnownError(
        "Cannot find snapshot with ID",
        RetriableError,
        "another program expired the version that is in use: {message}",
        "nothing is lost, and the batch is retried; keep versions for longer than a batch takes",
    ),
    KnownError(
        r"org\.apache\.iceberg\.exceptions\.NotFoundException: (?!Unable to find warehouse)",
        RetriableError,
        "a file of the table is missing: {message}",
        MISSING_FILE_FIX,
    ),
    KnownError(
        r"Invalid snapshot timestamp|Invalid update timestamp|\[BUG\] Expected sorted snapshot log entries",
        RetriableError,
        "the clock of this machine is behind the table's last commit: {message}",
        "set the clock, or wait until it has passed that time; nothing is lost",
    ),
    # Copy-on-write writes row numbers, which Spark supplies only with Iceberg's SQL extensions.
    KnownError(
        "Structs do not match: StructType",
        ConfigError,
        "copy-on-write does not support tables of format version 3 on Spark 3.5",
        "use merge-on-read or format version 2 for new tables; set write.merge.mode to merge-on-read on an existing table",
        where="sink iceberg, format-version",
    ),
    KnownError(
        "Invalid source type",
        ConfigError,
        "the partition transform does not support the type of its column: {message}",
        "years, months and days require a date or timestamp, hours a timestamp; name another column",
        where="sink iceberg, partition.by",
    ),
    KnownError(
        "ParentNotDirectoryException",
        ConfigError,
        "cannot create the warehouse folder, as its path contains a file: {message}",
        "correct `warehouse`, or remove that file",
    ),
)
#: Errors of a read of a version that the user names.
_VERSION_ERRORS = (
    KnownError(
        "Cannot find snapshot|Cannot find a snapshot",
        ConfigError,
        "no such version: {line}",
        OTHER_VERSION,
    ),
)


def explain_version(error: BaseException) -> HeadraceError | None:
    """Explain the error of a read of a version that does not exist; None for any other error."""
    return explain_known_error(error, _VERSION_ERRORS)


def explain(error: BaseException, catalog: Mapping[str, str]) -> HeadraceError | None:
    """Explain a known error of Iceberg, its catalog or AWS; None for any other error. ``catalog``: the catalog's properties."""
    is_vended = _DELEGATION in map(str.lower, catalog)
    vended = (EXPIRED_STORAGE_CREDENTIALS,) if is_vended else ()
    # The AWS errors come first: Iceberg wraps them in errors of its own. REST_ERRORS come last: their text quotes conflicts.
    return explain_known_error(error, vended + _AWS_ERRORS + _ICEBERG_ERRORS + REST_ERRORS)
