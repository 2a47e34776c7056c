"""Import of files: each file by its contents, and the pipeline of all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.sdk import ConfigError
from headrace_import.connect.connect_import import import_connect
from headrace_import.hudi.streamer_import import import_streamer
from headrace_import.import_report import Report
from headrace_import.input_formats import InputFile, Inputs, add_file
from headrace_import.pipeline_draft import Block, Line, write_yaml
from headrace_import.settings import escape_place


@dataclass(frozen=True)
class ImportOptions:
    """Options of the command."""

    name: str | None = None
    bootstrap_servers: str | None = None
    keep_transforms: bool = False


@dataclass(frozen=True)
class ImportResult:
    """Text of the pipeline file, and the report."""

    pipeline: str
    report: Report


def import_paths(paths: Sequence[Path], options: ImportOptions) -> ImportResult:
    """Return the pipeline of the files. ConfigError names the file and the fix."""
    inputs = Inputs(Report())
    names = [path.name for path in paths]
    for path in paths:
        add_file(InputFile(path, path.name if names.count(path.name) == 1 else str(path)), inputs)
    body = _import_inputs(inputs, options)
    named = [settings.name for settings in (*inputs.connect.sinks, *inputs.connect.sources) if settings.name]
    name = options.name or _make_name([*named, paths[0].stem])
    checkpoint = body.entries["checkpoint"]
    assert isinstance(checkpoint, Line)
    checkpoint.value = f"{checkpoint.value}/{name}"
    draft = Block({"name": Line(name, "--name" if options.name else "")})
    draft.entries |= body.entries
    files = ", ".join(escape_place(path.name) for path in paths)
    return ImportResult(f"# Imported from {files}\n{write_yaml(draft)}", inputs.report)


def _import_inputs(inputs: Inputs, options: ImportOptions) -> Block:
    jobs, connect = inputs.streamer.list_jobs(inputs.report), inputs.connect
    if not jobs:
        return import_connect(
            connect, bootstrap_servers=options.bootstrap_servers, keep_transforms=options.keep_transforms
        )
    others = [*connect.sources, *connect.sinks, *connect.workers]
    if others:
        fix = "import the connectors and the jobs of Hudi Streamer into pipeline files of their own"
        raise ConfigError("these files do not make one pipeline", where=f"{others[0].place}, {jobs[0].place}", fix=fix)
    return import_streamer(jobs, inputs.report, options.bootstrap_servers)


def _make_name(candidates: Sequence[str]) -> str:
    """Return the first candidate that makes the name of a pipeline."""
    names = (re.sub(r"[^A-Za-z0-9_.-]+", "-", candidate).strip("-.") for candidate in candidates)
    return next((name for name in names if name), "imported")
