"""Checks of local folders: permissions and free space."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.checkpoint.light_reader import find_local
from headrace.doctor import finding_kinds as kinds
from headrace.doctor.examination import Check, Passed, Result, Skipped
from headrace.doctor.machine import format_size, read_setting
from headrace.findings import Finding
from headrace.runtime.jars.resolution import cache_home

if TYPE_CHECKING:
    from headrace.engine.plan.pipeline_plan import Plan

#: Bytes of free space below which a run is likely to fail, and below which it may fail.
_FULL, _LOW = 1_000_000_000, 5_000_000_000
_LOCAL_FOLDER = "spark.local.dir"
#: Start of ``Sink.place`` of tables in a catalog.
_CATALOG = "catalog "


def list_folder_checks(plan: Plan) -> Iterator[Check]:
    """Yield the checks of the local folders to which a run writes, and of their disks."""
    folders, others = _list_folders(plan)
    for what, folder in folders.items():
        yield Check(what, partial(_check_permission, what, folder), kinds.FOLDER_UNWRITABLE)
    if others:
        why = f"only --spark tests {', '.join(others.values())}"
        yield Check("other folders", lambda: [Skipped(f"permissions of {', '.join(others)}", why)])
    yield Check("free disk space", lambda: _check_disks(folders), kinds.FOLDER_UNWRITABLE)


def _list_folders(plan: Plan) -> tuple[dict[str, Path], dict[str, str]]:
    """Return the local folders by their names for users, and the addresses that may be in another file system."""
    scratch = os.environ.get("SPARK_LOCAL_DIRS") or read_setting(plan, _LOCAL_FOLDER)
    folders = {"cache of jars": cache_home()}
    folders |= {f"scratch folder {name}": Path(name) for name in (scratch or tempfile.gettempdir()).split(",")}
    addresses = {"checkpoint": plan.checkpoint}
    addresses |= {f"sink {plan.name_of(sink)}": place for sink in plan.all_sinks if (place := sink.place())}
    others = {}
    for what, address in addresses.items():
        folder = None if address.startswith(_CATALOG) else find_local(address, plan.spark_conf)
        if folder is None:
            others[what] = address
        else:
            folders[what] = folder
    return {what: folder.absolute() for what, folder in folders.items()}, others


def _check_permission(what: str, folder: Path) -> Iterator[Result]:
    nearest = find_nearest(folder)
    fix = "give this user write permission, or use another path"
    if not nearest.is_dir():
        yield Finding(
            kinds.FOLDER_UNWRITABLE, f"{nearest} is not a folder", what, "remove the file, or use another path"
        )
    elif not os.access(nearest, os.W_OK | os.X_OK):
        yield Finding(kinds.FOLDER_UNWRITABLE, f"permission denied: {nearest} is not writable", what, fix)
    else:
        yield Passed(what, f"{folder} is writable")


def _check_disks(folders: Mapping[str, Path]) -> Iterator[Result]:
    """Yield the free space of each disk once, with the folders on it."""
    disks: dict[int, dict[str, Path]] = {}
    for what, folder in folders.items():
        nearest = find_nearest(folder)
        disks.setdefault(nearest.stat().st_dev, {})[what] = nearest
    for users in disks.values():
        yield _check_disk(", ".join(users), next(iter(users.values())))


def _check_disk(users: str, folder: Path) -> Result:
    state = os.statvfs(folder)
    free = state.f_bavail * state.f_frsize
    fix = "free some space, or move them to a larger disk"
    if not state.f_blocks:  # a file system of the kernel
        return Passed("free disk space", f"the disk of {folder} has no limit")
    if state.f_files and not state.f_favail:
        return Finding(kinds.DISK_FULL, f"the disk of {folder} has no free inodes", users, "remove files")
    if free < _LOW:
        kind = kinds.DISK_FULL if free < _FULL else kinds.DISK_LOW
        return Finding(kind, f"{format_size(free)} are free on the disk of {folder}", users, fix)
    return Passed("free disk space", f"{format_size(free)} on the disk of {folder}")


def find_nearest(folder: Path) -> Path:
    """Return the folder, or its nearest parent that exists."""
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    return folder
