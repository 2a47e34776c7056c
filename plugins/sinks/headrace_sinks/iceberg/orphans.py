"""Orphans: files in a table's folders that no version names. A writer that was killed leaves some, and so does a delete that failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.sdk import ConfigError
from headrace.sdk.error_text import find_missing_file
from headrace.sdk.storage import is_under
from headrace_sinks.iceberg.iceberg_catalog import actions_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The table property that says when orphans were last looked for, in milliseconds since 1970. A table that has it is headrace's:
#: in a folder that somebody else made there may be what is of no concern to the table.
ORPHANS_PROPERTY = "headrace.orphans"
#: Of how many files at most is looked whether they are gone: where the right to delete is missing, none is.
_MOST_LOOKS = 100


def may_delete_files(java: Any) -> bool:
    """Whether a table's files are its own; else another table may have them, and Iceberg deletes none."""
    return (java.properties().get("gc.enabled") or "true").lower() == "true"


def find_last_look(java: Any) -> float | None:
    """When orphans were last looked for, in seconds since 1970; None where nobody is to look."""
    noted = java.properties().get(ORPHANS_PROPERTY) or ""
    return int(noted) / 1000 if noted.isdigit() else None


def list_own_folders(java: Any) -> Sequence[str]:
    """Where files are looked for: by Iceberg's defaults the table's own. Beside them, or where ``write.data.path`` points, may be others'."""
    location = str(java.location()).rstrip("/")
    return (f"{location}/data", f"{location}/metadata")


def remove_orphans(spark: SparkSession, name: str, java: Any, before: float, now: float) -> str:
    """Removes orphans that were written before a time; says how many. Both times are in seconds since 1970."""
    # Of any age, for a table that is written all the time has no old metadata.
    unnamed = _list_orphans(spark, java, now)
    stranger = _find_stranger(spark, java, unnamed)
    removed = _list_orphans(spark, java, before, remove=True) if unnamed and stranger is None else []
    refuse_files_that_stay(java, name, removed)
    java.updateProperties().set(ORPHANS_PROPERTY, str(round(now * 1000))).commit()
    return f"{len(removed)} files" if stranger is None else f"none, for {stranger} is no metadata of this table"


def _list_orphans(spark: SparkSession, java: Any, before: float, *, remove: bool = False) -> list[str]:
    """Those that were written before a time, in seconds since 1970."""
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark._jvm  # noqa: SLF001
    can_list, found = _has_prefixes(spark, java), []
    for folder in list_own_folders(java):
        action = actions_of(spark).deleteOrphanFiles(java).location(folder).olderThan(round(before * 1000))
        if not remove:
            action = action.deleteWith(jvm.java.util.stream.Stream.builder())  # takes files, and does nothing to them
        try:
            found += list(action.usePrefixListing(can_list).execute().orphanFileLocations())
        except Py4JJavaError as error:
            missing = find_missing_file(error)
            # Where `write.data.path` is elsewhere there is none; object stores have no folders in any case.
            if missing is None or not (is_under(missing, folder) and is_under(folder, missing)):
                raise
    return found


def _find_stranger(spark: SparkSession, java: Any, files: Sequence[str]) -> str | None:
    """Metadata among files that is another table's, or cannot be read; None where there is none.

    A table that was renamed keeps its folder, and the next of the old name is made in it. Or a table has the name ``data`` or
    ``metadata``, in a namespace with this table's name. All that such a table names would be taken for orphans.
    """
    uuid = str(java.operations().current().uuid())
    metadata = (file for file in files if ".metadata.json" in file.rsplit("/", 1)[-1])
    return next((file for file in metadata if _read_uuid(spark, java, file) != uuid), None)


def _read_uuid(spark: SparkSession, java: Any, file: str) -> str | None:
    """Of which table a file of metadata is; None where it cannot be read."""
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark._jvm  # noqa: SLF001
    try:
        return str(jvm.org.apache.iceberg.TableMetadataParser.read(java.io(), file).uuid())
    except Py4JJavaError:
        return None


def refuse_files_that_stay(java: Any, name: str, removed: Sequence[str]) -> None:
    """Iceberg only logs what it could not delete."""
    if stay := [file for file in removed[:_MOST_LOOKS] if java.io().newInputFile(file).exists()]:
        raise ConfigError(
            f"files that no version names cannot be deleted, as {stay[0]}",
            where=f"table {name}",
            fix=f"allow deletes in its folder to whoever runs this, or remove the table's property {ORPHANS_PROPERTY}",
        )


def _has_prefixes(spark: SparkSession, java: Any) -> bool:
    """Whether the table's own IO lists its files; else Hadoop's file systems do."""
    from py4j.java_gateway import is_instance_of

    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    return bool(is_instance_of(gateway, java.io(), "org.apache.iceberg.io.SupportsPrefixOperations"))
