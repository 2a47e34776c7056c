"""Import of files: each file by its contents, and the pipeline of all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.sdk import ConfigError
from headrace_import.connect.connect_import import ConnectInputs, import_connect
from headrace_import.connect.connector_files import read_connectors
from headrace_import.connect.workers import check_worker
from headrace_import.hudi.command_line import is_command_line, parse_command_line
from headrace_import.hudi.streamer_files import StreamerFiles, is_streamer, read_properties
from headrace_import.hudi.streamer_import import import_streamer
from headrace_import.import_report import Report
from headrace_import.input_files import parse_json, parse_properties, read_text
from headrace_import.pipeline_draft import Block, Line, write_yaml
from headrace_import.settings import Settings, escape_place


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
    report = Report()
    inputs, streamer = ConnectInputs(report), StreamerFiles()
    names = [path.name for path in paths]
    for path in paths:
        _read_input(path, path.name if names.count(path.name) == 1 else str(path), inputs, streamer)
    body = _import_inputs(inputs, streamer, options)
    named = [settings.name for settings in (*inputs.sinks, *inputs.sources) if settings.name]
    name = options.name or _make_name([*named, paths[0].stem])
    checkpoint = body.entries["checkpoint"]
    assert isinstance(checkpoint, Line)
    checkpoint.value = f"{checkpoint.value}/{name}"
    draft = Block({"name": Line(name, "--name" if options.name else "")})
    draft.entries |= body.entries
    files = ", ".join(escape_place(path.name) for path in paths)
    return ImportResult(f"# Imported from {files}\n{write_yaml(draft)}", report)


def _import_inputs(inputs: ConnectInputs, streamer: StreamerFiles, options: ImportOptions) -> Block:
    jobs = streamer.list_jobs(inputs.report)
    if not jobs:
        return import_connect(
            inputs, bootstrap_servers=options.bootstrap_servers, keep_transforms=options.keep_transforms
        )
    others = [*inputs.sources, *inputs.sinks, *inputs.workers]
    if others:
        fix = "import the connectors and the jobs of Hudi Streamer into pipeline files of their own"
        raise ConfigError("these files do not make one pipeline", where=f"{others[0].place}, {jobs[0].place}", fix=fix)
    return import_streamer(jobs, inputs.report, options.bootstrap_servers)


def _read_input(path: Path, place: str, inputs: ConnectInputs, streamer: StreamerFiles) -> None:
    """Add the connectors, the worker or the job of a file. ``place``: the file in comments and in the report."""
    text = read_text(path)
    if path.suffix == ".properties" and is_streamer(read_properties(path)):
        streamer.properties[path] = read_properties(path)
        return
    if path.suffix not in (".json", ".properties") and is_command_line(text):
        streamer.commands[path] = parse_command_line(text, str(path))
        return
    if path.suffix == ".properties":
        settings = Settings(place, parse_properties(text, str(path)), inputs.report)
        check_worker(settings)
        inputs.workers.append(settings)
        return
    if path.suffix != ".json" and text.lstrip()[0] not in "[{":
        fix = "name the JSON file of a connector, or a file with the suffix .properties"
        raise ConfigError("the file is neither JSON nor properties", where=str(path), fix=fix)
    for settings in read_connectors(parse_json(text, str(path)), place, inputs.report):
        inputs.add_connector(settings)


def _make_name(candidates: Sequence[str]) -> str:
    """Return the first candidate that makes the name of a pipeline."""
    names = (re.sub(r"[^A-Za-z0-9_.-]+", "-", candidate).strip("-.") for candidate in candidates)
    return next((name for name in names if name), "imported")
