"""Errors of Hudi's in headrace's words."""

from __future__ import annotations

import re

from headrace.sdk import ConfigError, DataError, HeadraceError, RetriableError
from headrace.sdk.error_text import full_text
from headrace_sinks.hudi.hudi_index import NO_BUCKETS_FIX
from headrace_sinks.known_errors import KnownError, find_known
from headrace_sinks.stored_files import explain_missing_file

_KNOWN = (
    KnownError(
        ("HoodieWriteConflictException", "HoodieLockException"),
        RetriableError,
        "another writer committed to the table at the same time",
        "nothing is lost; start the pipeline again",
    ),
    KnownError(
        ("HoodieClusteringUpdateException",),
        RetriableError,
        "somebody planned to cluster the table, and Hudi takes no changes of those files until that is done",
        "nothing is lost: have the clustering done by whoever planned it (`CALL run_clustering` in Spark's SQL), and the batch "
        "comes again",
    ),
    KnownError(
        ("HoodieKeyException",),
        DataError,
        "Hudi cannot keep a row whose key is empty text",
        "name further key columns under `tables:`, or use another sink",
    ),
    # It takes the first characters of a file's name for the number of a bucket.
    KnownError(
        ("BucketIdentifier.bucketIdFromFileId",),
        ConfigError,
        "the table has files that are no buckets, in which the index BUCKET finds no rows: somebody clustered it, or it was "
        "written with another index",
        NO_BUCKETS_FIX,
    ),
    KnownError(
        ("Compaction is not supported on a CopyOnWrite table",),
        ConfigError,
        "a COPY_ON_WRITE table has no log files that could be compacted",
        "leave `hoodie.compact.inline` out",
        where="sink hudi, hoodie.compact.inline",
    ),
    KnownError(
        ("Unable to instantiate class org.apache.hudi.keygen",),
        ConfigError,
        "the key generator cannot be made with these options: {message}",
        "leave `hoodie.datasource.write.keygenerator.class` out, or add what it asks for, such as "
        "`hoodie.datasource.write.partitionpath.field`",
        where="sink hudi, hoodie.datasource.write.keygenerator.class",
    ),
)
_KNOWN_OF_SCHEMAS = (
    KnownError(
        (
            "HoodieSchemaException",
            "SchemaParseException",
            "HoodieNullSchemaTypeException",
            "SchemaCompatibilityException",
            "IncompatibleSchemaException",
        ),
        DataError,
        "Hudi cannot keep a column so: {line}",
        "give it another type where the events are made, or leave it out",
    ),
)
#: Options that contradict the table's, each on a line: its name, what it is and what it was.
_CONFLICTS = re.compile(
    r"Config conflict\(key\tcurrent value\texisting value\):\n((?:\S[^\t\n]*\t[^\t\n]*\t[^\t\n]*(?:\n|$))+)"
)


def explain(error: BaseException, path: str) -> HeadraceError | None:
    """What an error of Hudi's means, for a sink whose tables are in ``path``; None when that is not known."""
    return (
        find_known(error, _KNOWN)
        or _explain_conflicts(error)
        or explain_missing_file(error, path)
        or find_known(error, _KNOWN_OF_SCHEMAS)
    )


def _explain_conflicts(error: BaseException) -> HeadraceError | None:
    conflicts = _CONFLICTS.search(full_text(error))
    if conflicts is None:
        return None
    told = [line.split("\t") for line in conflicts[1].splitlines()]
    return ConfigError(
        f"the table was made with other options: {'; '.join(f'{name} {was!r}, and now {now!r}' for name, now, was in told)}",
        where="sink hudi",
        fix="write them as they were, or have the table written anew in another `path`",
    )
