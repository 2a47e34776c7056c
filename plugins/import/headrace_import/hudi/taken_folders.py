"""Folders of tables that headrace takes over from Hudi Streamer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headrace.sdk import ConfigError
from headrace_import.pipeline_draft import Block
from headrace_import.settings import Settings

_BASE = "--target-base-path"
_BUCKET = re.compile(r"\w+:(//[^/]*)?")
#: A folder and its parent. The slashes of a reference, such as one to a file, separate no folders.
_FOLDER = re.compile(r"(?:(?P<parent>(?:\$\{[^}]*\}|\$(?!\{)|[^$])*)/)?(?P<name>(?:\$\{[^}]*\}|\$(?!\{)|[^$/])*)")


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
    parents = {parent for parent, _ in folders}
    if len(parents) > 1:
        places = ", ".join(job.place for job in jobs)
        fix = "import each job into a pipeline file of its own"
        raise ConfigError("the tables have different parent folders", where=places, fix=fix)
    sink.add("path", parents.pop() or ".", "; ".join(job.cite(_BASE) for job in jobs))
    sink.add("take.over", True, "--take-over")
    for job, rule, (_, name) in zip(jobs, rules, folders, strict=True):
        if "." in name:
            fix = "rename the folder, or load the rows into a new table"
            raise ConfigError(f"the folder {name!r} cannot be the name of a table", where=job.place, fix=fix)
        rule.add("target", name, job.cite(_BASE))
        why = "the first batch takes the table over, and Hudi Streamer can no longer write it"
        fix = (
            "stop Hudi Streamer after a completed write; if `startingOffsets` is set, start where it stopped or earlier"
        )
        job.add_to_do((), why, fix)


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
