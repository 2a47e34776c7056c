"""Orphan files: files in a table's folders that no snapshot names. A killed writer or a failed delete leaves them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from headrace.sdk import ConfigError
from headrace.sdk.error_text import find_missing_file
from headrace.sdk.storage import is_under
from headrace_sinks.iceberg.table_handle import TableHandle

#: The table property with the time of the last search for orphan files, in milliseconds since 1970. Only tables that headrace
#: created have it: the folder of any other table may have files that do not belong to the table.
ORPHANS_PROPERTY = "headrace.orphans"
#: Maximum number of files that are checked after a delete: without permission to delete, all of them still exist.
_MAX_CHECKS = 100


def may_delete_files(handle: TableHandle) -> bool:
    """Return whether the table owns its files (``gc.enabled``). Otherwise another table may use them, and Iceberg deletes none."""
    return (handle.properties.get("gc.enabled") or "true").lower() == "true"


def find_last_search(handle: TableHandle) -> float | None:
    """Find the time of the last search for orphans, in seconds since 1970; None when the table must not be searched."""
    noted = handle.properties.get(ORPHANS_PROPERTY) or ""
    return int(noted) / 1000 if noted.isdigit() else None


def remove_orphans(handle: TableHandle, before: float, now: float) -> str:
    """Remove orphan files that were written before a time, and return a summary. Times are in seconds since 1970."""
    # Of any age: a table with frequent commits has no old metadata.
    orphans, _ = split_linked(_location(handle), _list_orphans(handle, now))
    foreign = _find_foreign_metadata(handle, orphans)
    old = _list_orphans(handle, before) if orphans and foreign is None else []
    removed, linked = split_linked(_location(handle), old)
    _delete_files(handle, removed)
    _check_deleted(handle, removed)
    handle.java.updateProperties().set(ORPHANS_PROPERTY, str(round(now * 1000))).commit()
    if foreign is not None:
        return f"none: {foreign} is not metadata of this table"
    kept = f"; kept {len(linked)} behind symbolic links, such as {linked[0]}" if linked else ""
    return f"{len(removed)} files{kept}"


def split_linked(location: str, files: Iterable[str]) -> tuple[list[str], list[str]]:
    """Split files into those in the table's folder, and those that a symbolic link below it leads to, which may be anywhere.

    Only local folders have symbolic links. A file that is a link itself is in the folder: deleting it keeps the link's target.
    """
    top = _local_path(location)

    @cache
    def is_inside(folder: Path) -> bool:
        return top is not None and folder.is_relative_to(top) and folder.resolve() == root / folder.relative_to(top)

    if top is None:
        return list(files), []
    root = top.resolve()
    inside, linked = list[str](), list[str]()
    for file in files:
        path = _local_path(file)
        (inside if path is not None and is_inside(path.parent) else linked).append(file)
    return inside, linked


def _local_path(location: str) -> Path | None:
    """Return the path of a local file; None for a file of another file system."""
    local = re.fullmatch(r"(?:file:(?://[^/]*)?)?(/.*)", location, re.DOTALL)
    return Path(local[1]) if local else None


def _location(handle: TableHandle) -> str:
    return str(handle.java.location()).rstrip("/")


def _list_folders(handle: TableHandle) -> Sequence[str]:
    """List the folders to search: Iceberg's default folders of the table.

    Other folders next to them, and the one that ``write.data.path`` names, may have files of other tables.
    """
    location = _location(handle)
    return (f"{location}/data", f"{location}/metadata")


def _list_orphans(handle: TableHandle, before: float) -> list[str]:
    """List the orphans that were written before a time, in seconds since 1970."""
    from py4j.protocol import Py4JJavaError

    can_list, found = _can_list_prefixes(handle), []
    for folder in _list_folders(handle):
        action = handle.actions.deleteOrphanFiles(handle.java).location(folder).olderThan(round(before * 1000))
        # The action would also delete files behind symbolic links. This consumer accepts files and deletes none.
        action = action.deleteWith(handle.jvm.java.util.stream.Stream.builder())
        try:
            found += list(action.usePrefixListing(can_list).execute().orphanFileLocations())
        except Py4JJavaError as error:
            missing = find_missing_file(error)
            # The folder does not exist where `write.data.path` names another one. Object stores have no folders.
            if missing is None or not (is_under(missing, folder) and is_under(folder, missing)):
                raise
    return found


def _delete_files(handle: TableHandle, files: Sequence[str]) -> None:
    """Delete files, in bulk if the table's FileIO can."""
    paths = handle.jvm.java.util.ArrayList()
    for file in files:
        paths.add(file)
    handle.jvm.org.apache.iceberg.CatalogUtil.deleteFiles(handle.java.io(), paths, "orphan", True)


def _find_foreign_metadata(handle: TableHandle, files: Sequence[str]) -> str | None:
    """Find a metadata file of another table, or one that cannot be read; None when there is none.

    A renamed table keeps its folder, and the next table of the old name is created in the same folder. A table can also have the
    name ``data`` or ``metadata`` in a namespace of this table's name. Iceberg would take all files of such a table for orphans.
    """
    uuid = str(handle.java.operations().current().uuid())
    metadata = (file for file in files if ".metadata.json" in file.rsplit("/", 1)[-1])
    return next((file for file in metadata if _read_uuid(handle, file) != uuid), None)


def _read_uuid(handle: TableHandle, file: str) -> str | None:
    """Read the table's UUID from a metadata file; None when it cannot be read."""
    from py4j.protocol import Py4JJavaError

    try:
        return str(handle.jvm.org.apache.iceberg.TableMetadataParser.read(handle.java.io(), file).uuid())
    except Py4JJavaError:
        return None


def _check_deleted(handle: TableHandle, removed: Sequence[str]) -> None:
    """Raise ConfigError for a file that still exists: Iceberg only logs the deletes that fail."""
    if stay := [file for file in removed[:_MAX_CHECKS] if handle.java.io().newInputFile(file).exists()]:
        raise ConfigError(
            f"cannot delete orphan files, such as {stay[0]}: permission denied",
            where=f"table {handle.name}",
            fix=f"allow this user to delete files in the table's folder, or remove the table property {ORPHANS_PROPERTY}",
        )


def _can_list_prefixes(handle: TableHandle) -> bool:
    """Return whether the table's FileIO can list files; otherwise Hadoop's file systems list them."""
    from py4j.java_gateway import is_instance_of

    gateway: Any = handle.spark.sparkContext._gateway  # noqa: SLF001
    return bool(is_instance_of(gateway, handle.java.io(), "org.apache.iceberg.io.SupportsPrefixOperations"))
