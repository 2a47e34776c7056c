"""Import of files: each file by its contents, and the pipeline of all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.sdk import ConfigError
from headrace_import.connect.connect_import import import_connect
from headrace_import.flink.cdc_import import import_pipeline
from headrace_import.hidden_rules import remove_hidden_rules
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
    take_over: bool = False


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
    remove_hidden_rules(body, inputs.report)
    names = [settings.name for settings in (*inputs.connect.sinks, *inputs.connect.sources)]
    names += [pipeline.name for pipeline in inputs.pipelines]
    name = options.name or _make_name([*names, paths[0].stem])
    checkpoint = body.entries["checkpoint"]
    assert isinstance(checkpoint, Line)
    checkpoint.value = f"{checkpoint.value}/{name}"
    draft = Block({"name": Line(name, "--name" if options.name else "")})
    draft.entries |= body.entries
    files = ", ".join(escape_place(path.name) for path in paths)
    return ImportResult(f"# Imported from {files}\n{write_yaml(draft)}", inputs.report)


def _import_inputs(inputs: Inputs, options: ImportOptions) -> Block:
    """Return the pipeline of one tool's files. ConfigError for files of several tools."""
    jobs, pipelines, connect = inputs.streamer.list_jobs(inputs.report), inputs.pipelines, inputs.connect
    connectors = [*connect.sources, *connect.sinks, *connect.workers]
    tools = [
        [job.place for job in jobs],
        *([pipeline.place] for pipeline in pipelines),
        [settings.place for settings in connectors],
    ]
    places = [places[0] for places in tools if places]
    if len(places) > 1:
        fix = "import connectors, the jobs of Hudi Streamer, and each pipeline of Flink CDC into pipeline files of their own"
        raise ConfigError("these files do not make one pipeline", where=", ".join(places), fix=fix)
    if options.take_over and not jobs:
        raise ConfigError(
            "only tables of Hudi Streamer can be taken over",
            where="--take-over",
            fix="remove the option, or give a job",
        )
    if pipelines:
        return import_pipeline(pipelines[0], inputs.report, options.bootstrap_servers)
    if jobs:
        return import_streamer(jobs, inputs.report, options.bootstrap_servers, take_over=options.take_over)
    return import_connect(connect, bootstrap_servers=options.bootstrap_servers, keep_transforms=options.keep_transforms)


def _make_name(candidates: Sequence[str]) -> str:
    """Return the first candidate that makes the name of a pipeline."""
    names = (re.sub(r"[^A-Za-z0-9_.-]+", "-", candidate).strip("-.") for candidate in candidates)
    return next((name for name in names if name), "imported")
