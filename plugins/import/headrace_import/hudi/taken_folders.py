"""Folders of tables that headrace takes over from Hudi Streamer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headrace.sdk import ConfigError
from headrace_import.pipeline_draft import Block
from headrace_import.settings import Settings

_BASE, _DATABASE = "--target-base-path", "hoodie.datasource.hive_sync.database"
#: Names of a table: its database, and its own.
_LEVELS = 2
_BUCKET = re.compile(r"\w+:(//[^/]*)?")
#: A folder and its parent. The slashes of a reference, such as one to a file, separate no folders.
_FOLDER = re.compile(r"(?:(?P<parent>(?:\$\{[^}]*\}|\$(?!\{)|[^$])*)/)?(?P<name>(?:\$\{[^}]*\}|\$(?!\{)|[^$/])*)")
#: Bucket of a folder, or the root of a disk; empty for a folder without either.
_START = re.compile(r"\w+://[^/]*|/?")
#: A slash that is no part of a reference.
_SLASH = re.compile(r"/(?![^{}]*\})")
_APART = "the tables have different parent folders"
_FIX_APART = (
    "import the tables of each folder into a pipeline file of their own; for HoodieMultiTableStreamer, with copies of the "
    "properties whose `tablesToBeIngested` names these tables"
)


def add_folders(jobs: Sequence[Settings], rules: Sequence[Block], sink: Block) -> None:
    """Set the path of the sink, and the target of each rule, to the folders of the tables. ConfigError if they have no common parent."""
    for job in jobs:
        if not job.get(_BASE):
            fix = f"give the command line with {job.spell(_BASE)} as well"
            raise ConfigError("the folder of the table is not known", where=job.place, fix=fix)
        if _BUCKET.fullmatch(job.get(_BASE).rstrip("/")):
            fix = "import without --take-over, which loads the rows into a new table in a folder of the bucket"
            raise ConfigError("the table has a whole bucket, not a folder in it", where=job.place, fix=fix)
    folders = [_split_folder(job) for job in jobs]
    root = _find_root([parent for parent, _ in folders])
    if root is None:
        raise ConfigError(_APART, where=", ".join(job.place for job in jobs), fix=_FIX_APART)
    sink.add("path", root or ".", "; ".join(job.cite(_BASE) for job in jobs))
    sink.add("take.over", True, "--take-over")
    for job, rule, (parent, name) in zip(jobs, rules, folders, strict=True):
        _add_target(job, rule, [*filter(None, _SLASH.split(parent.removeprefix(root))), name])
        why = "the first batch takes the table over, and Hudi Streamer can no longer write it"
        fix = (
            "stop Hudi Streamer after a completed write; if `startingOffsets` is set, start where it stopped or earlier"
        )
        job.add_to_do((), why, fix)


def _add_target(job: Settings, rule: Block, names: Sequence[str]) -> None:
    """Add the target of a table in the folders ``names`` below the path of the sink. ConfigError if they name no table."""
    if len(names) > _LEVELS or "${" in "".join(names[:-1]):
        raise ConfigError(_APART, where=job.place, fix=_FIX_APART)
    if wrong := next((name for name in names if "." in name), None):
        fix = "rename the folder, or load the rows into a new table"
        raise ConfigError(f"the folder {wrong!r} cannot be the name of a table", where=job.place, fix=fix)
    rule.add("target", ".".join(names), job.cite(_BASE))
    if job.get(_DATABASE) and len(names) == _LEVELS and job.get(_DATABASE) != names[0]:
        why = "the tables are in several folders, and each folder is the database of its tables, also in a catalog"
        job.add_to_do([_DATABASE], why, "import the tables of each folder into a pipeline file of their own")


def _find_root(parents: Sequence[str]) -> str | None:
    """Return the folder that has all parent folders; None if they have different buckets, or only the root of a disk."""
    first, *others = (_SLASH.split(parent) for parent in parents)
    count = next((n for n, part in enumerate(first) if any(other[n : n + 1] != [part] for other in others)), len(first))
    root, start = "/".join(first[:count]), _START.match(parents[0])
    return root if start and root.startswith(start[0]) else None


def _split_folder(job: Settings) -> tuple[str, str]:
    """Return the parent of a table's folder, and its name. ConfigError if one reference has both."""
    folder = job.read(_BASE).rstrip("/")
    parts = _FOLDER.fullmatch(folder)
    if parts is None or (parts["parent"] is None and "${" in folder):
        fix = f"write the name of the folder behind the variable, as in `{job.spell(_BASE)} ${{LAKE}}/orders`"
        raise ConfigError(
            "the folder is one variable, and headrace needs the name of the table apart from its parent folder",
            where=f"{job.place}, {job.spell(_BASE)}",
            fix=fix,
        )
    return parts["parent"] or "", parts["name"]
