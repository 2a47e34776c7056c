"""Folders of tables that headrace takes over from Hudi Streamer."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from headrace.sdk import ConfigError
from headrace_import.pipeline_draft import Block
from headrace_import.settings import Settings

_BASE = "--target-base-path"
_BUCKET = re.compile(r"\w+:(//[^/]*)?")


def add_folders(jobs: Sequence[Settings], rules: Sequence[Block], sink: Block) -> None:
    """Set the path of the sink, and the target of each rule, to the folders of the tables. ConfigError if they have no common parent."""
    for job in jobs:
        if not job.get(_BASE):
            fix = f"give the command line with {_BASE} as well"
            raise ConfigError("the folder of the table is not known", where=job.place, fix=fix)
        if _BUCKET.fullmatch(job.get(_BASE).rstrip("/")):
            fix = "import without --take-over, which loads the rows into a new table in a folder of the bucket"
            raise ConfigError("the table has a whole bucket, not a folder in it", where=job.place, fix=fix)
    folders = [job.read(_BASE).rstrip("/") for job in jobs]
    parents = {posixpath.dirname(folder) for folder in folders}
    if len(parents) > 1:
        places = ", ".join(job.place for job in jobs)
        fix = "import each job into a pipeline file of its own"
        raise ConfigError("the tables have different parent folders", where=places, fix=fix)
    sink.add("path", parents.pop() or ".", "; ".join(job.cite(_BASE) for job in jobs))
    sink.add("take.over", True, "--take-over")
    for job, rule, folder in zip(jobs, rules, folders, strict=True):
        name = posixpath.basename(folder)
        if "." in name:
            fix = "rename the folder, or load the rows into a new table"
            raise ConfigError(f"the folder {name!r} cannot be the name of a table", where=job.place, fix=fix)
        rule.add("target", name, job.cite(_BASE))
        why = "the first batch takes the table over, and Hudi Streamer can no longer write it"
        fix = (
            "stop Hudi Streamer after a completed write; if `startingOffsets` is set, start where it stopped or earlier"
        )
        job.add_to_do((), why, fix)
