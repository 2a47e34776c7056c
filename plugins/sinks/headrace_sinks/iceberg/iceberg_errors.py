"""Errors of Iceberg's in headrace's words."""

from __future__ import annotations

from headrace.sdk import ConfigError, HeadraceError, RetriableError
from headrace_sinks.known_errors import KnownError, find_known

#: What AWS's clients say, below whatever Iceberg makes of it.
_KNOWN_OF_AWS = (
    KnownError(
        ("NoClassDefFoundError: software/amazon/awssdk", "ClassNotFoundException: software.amazon.awssdk"),
        ConfigError,
        "AWS's clients are not on the class path: {message}",
        "describe the catalog under `catalog.properties`, and they come; a session of your own needs the jar of "
        "org.apache.iceberg:iceberg-aws-bundle in the version of its Iceberg",
    ),
    KnownError(
        ("Unable to load region from any",),
        ConfigError,
        "AWS's clients know no region",
        "set AWS_REGION, or `client.region` under `catalog.properties`",
    ),
    KnownError(
        ("Unable to load credentials from any",),
        ConfigError,
        "AWS's clients find no credentials",
        "give driver and executors a role, a profile (AWS_PROFILE) or keys (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)",
    ),
    KnownError(
        ("The security token included in the request is expired", "The provided token has expired"),
        ConfigError,
        "the session token has expired",
        "log in again, or give it a role, whose credentials are renewed",
    ),
    KnownError(
        (
            "The security token included in the request is invalid",
            "The request signature we calculated does not match",
            "The AWS Access Key Id you provided does not exist",
        ),
        ConfigError,
        "AWS lets nobody in with these credentials: {message}",
        "look at the access key, its secret and its session token: they belong together",
    ),
    KnownError(
        (
            "services.glue.model.AccessDeniedException",
            "services.lakeformation.model.AccessDeniedException",
            "services.s3.model.S3Exception: Access Denied",
            "is not authorized to perform:",
        ),
        ConfigError,
        "access denied: {message}",
        "allow it to the role or user that runs this; where Lake Formation guards the table, grant it there",
    ),
    KnownError(
        ("services.s3.model.NoSuchBucketException",),
        ConfigError,
        "there is no such bucket: {message}",
        "correct `warehouse` under `catalog.properties`, or the location of the database",
    ),
    KnownError(
        ("Cannot derive default warehouse location",),
        ConfigError,
        "new tables have no place to be at: {message}",
        'add `warehouse: "s3://BUCKET/FOLDER"` to `catalog.properties`, or give the database a location',
    ),
    KnownError(
        ("to Glue database name", "to Glue table name", "Invalid table identifier"),
        ConfigError,
        "the catalog takes no such name: {message}",
        "in Glue a table is `database.table`, of lower-case letters, digits and `_`: say so by `target` under `tables:`",
    ),
    KnownError(
        ("Received an UnknownHostException",),
        RetriableError,
        "there is no such service of AWS, or no network: {message}",
        "look at the region, which AWS_REGION or `client.region` names, and at the network; nothing is lost",
    ),
    KnownError(
        ("ThrottlingException", "Rate exceeded", "SlowDown"),
        RetriableError,
        "AWS is busy: {message}",
        "it is tried again; nothing is lost",
    ),
)
_KNOWN = (
    *_KNOWN_OF_AWS,
    # Somebody else committed between the read and the commit of a write.
    KnownError(
        (
            "CommitFailedException",
            "CommitStateUnknownException",
            "AlreadyExistsException",
            "TableAlreadyExistsException",
            "ValidationException: Found conflicting files",
            "ValidationException: Found new conflicting delete files",
            "ValidationException: Found new delete for replaced data file",
            "ValidationException: Cannot commit, missing data files",
            "ValidationException: Missing required files to delete",
            "ValidationException: Found conflicting deleted files",
            "ValidationException: Cannot remove dangling deletes",
        ),
        RetriableError,
        "another writer committed at the same time: {line}",
        "nothing is lost; start the pipeline again",
    ),
    KnownError(
        ("Invalid snapshot timestamp", "Invalid update timestamp", "[BUG] Expected sorted snapshot log entries"),
        RetriableError,
        "the clock of this machine is behind the table's last commit: {message}",
        "set the clock, or wait until it has passed that time; nothing is lost",
    ),
    KnownError(
        ("Cannot find snapshot", "Cannot find a snapshot"),
        ConfigError,
        "there is no such version: {line}",
        "take a version from `headrace show`, or a later time",
    ),
    # It writes the numbers of rows, which only Iceberg's extensions of Spark would give it.
    KnownError(
        ("Structs do not match: StructType",),
        ConfigError,
        "on Spark 3.5 rows of a table of format version 3 cannot be replaced by copy-on-write",
        "let new tables be merge-on-read, or of format version 2; of a table that is there, set write.merge.mode to merge-on-read",
        where="sink iceberg, format-version",
    ),
    KnownError(
        ("Invalid source type",),
        ConfigError,
        "the table cannot be partitioned so: {message}",
        "years, months and days are of dates or timestamps, hours of timestamps; name another column",
        where="sink iceberg, partition.by",
    ),
    KnownError(
        ("ParentNotDirectoryException",),
        ConfigError,
        "the tables' folder cannot be made, a file stands in its way: {message}",
        "correct `warehouse`, or remove that file",
    ),
)


def translate(error: BaseException) -> HeadraceError | None:
    """The error for users; None when it is none that Iceberg is known to raise."""
    return find_known(error, _KNOWN)
