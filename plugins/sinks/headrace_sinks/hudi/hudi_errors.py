"""Known errors of Hudi."""

from __future__ import annotations

import re

from headrace.sdk import ConfigError, DataError, HeadraceError, RetriableError
from headrace.sdk.error_text import KnownError, explain_known_error, full_text
from headrace_sinks.hudi.hudi_index import NO_BUCKETS_FIX
from headrace_sinks.hudi.partition_paths import REJECTION
from headrace_sinks.stored_files import explain_missing_file

_KNOWN_ERRORS = (
    KnownError(
        "HoodieWriteConflictException|HoodieLockException",
        RetriableError,
        "another writer committed to the table at the same time",
        "nothing is lost; start the pipeline again",
    ),
    KnownError(
        "HoodieClusteringUpdateException",
        RetriableError,
        "another process planned a clustering of the table, and Hudi rejects updates of those files until it completes",
        "nothing is lost: run the planned clustering (`CALL run_clustering` in Spark SQL), and the batch is retried",
    ),
    KnownError(
        "Unsupported table version code",
        ConfigError,
        "Hudi 1.2 does not read the version of the table, which a newer Hudi wrote",
        "downgrade the table with that Hudi (`CALL downgrade_table`), or load the rows into a new table in another `path`",
    ),
    KnownError(
        "HoodieKeyException",
        DataError,
        "Hudi does not support rows with an empty key",
        "name more key columns under `tables:`, or use another sink",
    ),
    KnownError(
        REJECTION,
        DataError,
        "a row has a partition value that cannot be the name of a folder of the table ({message})",
        "partition by another column, or rewrite the table in another `path`: new tables encode partition values",
        where="sink hudi, hoodie.datasource.write.partitionpath.field",
    ),
    # Hudi parses the beginning of a file name as a bucket number.
    KnownError(
        r"BucketIdentifier\.bucketIdFromFileId",
        ConfigError,
        "the table has files that are not buckets, and the index BUCKET does not find their rows: the table was clustered, or "
        "written with another index",
        NO_BUCKETS_FIX,
    ),
    KnownError(
        r"HoodieHiveSyncException|HoodieMetaSyncException|Could not sync using the meta sync class"
        "|Got runtime exception when hive syncing",
        RetriableError,
        "the rows are in the table, but its synchronization with the catalog failed: {message}",
        "check that the metastore responds and accepts this user, and correct the options `hoodie.datasource.hive_sync.*` and "
        "`hoodie.datasource.meta.sync.*`, or remove them; the batch is repeated",
        where="sink hudi, hoodie.datasource.hive_sync",
    ),
    KnownError(
        "Compaction is not supported on a CopyOnWrite table",
        ConfigError,
        "a COPY_ON_WRITE table has no log files to compact",
        "remove `hoodie.compact.inline`",
        where="sink hudi, hoodie.compact.inline",
    ),
    KnownError(
        r"Unable to instantiate class org\.apache\.hudi\.keygen",
        ConfigError,
        "Hudi cannot create the key generator with these options: {message}",
        "remove `hoodie.datasource.write.keygenerator.class`, or add the options that it requires, such as "
        "`hoodie.datasource.write.partitionpath.field`",
        where="sink hudi, hoodie.datasource.write.keygenerator.class",
    ),
)
_SCHEMA_ERRORS = (
    KnownError(
        "HoodieSchemaException|SchemaParseException|HoodieNullSchemaTypeException|SchemaCompatibilityException"
        "|IncompatibleSchemaException",
        DataError,
        "Hudi does not support the schema of a column: {line}",
        "change the column's type in the source, or drop the column",
    ),
)
#: Hudi's message about options that conflict with the table, one per line: name, new value, value of the table.
_CONFLICTS = re.compile(
    r"Config conflict\(key\tcurrent value\texisting value\):\n((?:\S[^\t\n]*\t[^\t\n]*\t[^\t\n]*(?:\n|$))+)"
)


def explain(error: BaseException, path: str) -> HeadraceError | None:
    """Return headrace's error for a known error of Hudi, otherwise None. ``path``: folder of the sink's tables."""
    return (
        explain_known_error(error, _KNOWN_ERRORS)
        or _explain_conflicts(error)
        or explain_missing_file(error, path)
        or explain_known_error(error, _SCHEMA_ERRORS)
    )


def _explain_conflicts(error: BaseException) -> HeadraceError | None:
    conflicts = _CONFLICTS.search(full_text(error))
    if conflicts is None:
        return None
    options = [line.split("\t") for line in conflicts[1].splitlines()]
    changes = "; ".join(f"{name} was {old!r} and is now {new!r}" for name, new, old in options)
    return ConfigError(
        f"the table was created with other options: {changes}",
        where="sink hudi",
        fix="restore the previous values, or rewrite the table in another `path`",
    )
