"""Registry of the kinds of files that can be imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from headrace.sdk import ConfigError
from headrace_import.connect.class_aliases import expand_aliases
from headrace_import.connect.connect_import import ConnectInputs
from headrace_import.connect.connector_files import read_connectors
from headrace_import.connect.debezium_server import is_debezium_server, read_server
from headrace_import.connect.workers import check_worker
from headrace_import.flink.cdc_import import CdcPipeline, is_cdc_pipeline, read_pipeline
from headrace_import.hudi.command_line import is_command_line, parse_command_line
from headrace_import.hudi.streamer_files import StreamerFiles
from headrace_import.hudi.streamer_properties import is_streamer, read_properties
from headrace_import.import_report import Report
from headrace_import.input_files import flatten_mapping, parse_json, parse_properties, parse_yaml, read_text
from headrace_import.references import read_providers
from headrace_import.settings import Settings

_YAML = (".yaml", ".yml")


@dataclass
class Inputs:
    """Inputs of one import, by the tool that they configure."""

    report: Report
    connect: ConnectInputs = field(init=False)
    streamer: StreamerFiles = field(default_factory=StreamerFiles)
    pipelines: list[CdcPipeline] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.connect = ConnectInputs(self.report)


class InputFile:
    """Text of a file. ``place``: its name in comments and in the report."""

    def __init__(self, path: Path, place: str) -> None:
        self.path, self.place, self.text = path, place, read_text(path)

    @property
    def suffix(self) -> str:
        return self.path.suffix.lower()

    @cached_property
    def properties(self) -> dict[str, str]:
        """Options of a properties file, or of a YAML file of Quarkus; none of other files."""
        if self.suffix in _YAML:
            return (
                flatten_mapping(self.document)
                if isinstance(self.document, dict) and "debezium" in self.document
                else {}
            )
        return parse_properties(self.text, str(self.path)) if self.suffix == ".properties" else {}

    @cached_property
    def document(self) -> Any:
        """Document of a JSON or YAML file; None for other files."""
        if self.suffix in _YAML:
            return parse_yaml(self.text, str(self.path))
        is_json = self.suffix == ".json" or self.text.lstrip()[0] in "[{"
        return parse_json(self.text, str(self.path)) if is_json else None


class InputFormat(NamedTuple):
    """Kind of files: whether a file is one, and the function that adds it to the inputs."""

    matches: Callable[[InputFile], bool]
    add: Callable[[InputFile, Inputs], None]


def add_file(file: InputFile, inputs: Inputs) -> None:
    """Add a file by the first format that matches. ConfigError if none does."""
    found = next((known for known in INPUT_FORMATS if known.matches(file)), None)
    if found is None:
        fix = "name a connector in JSON, properties, or a pipeline of Flink CDC in YAML"
        raise ConfigError("the file is neither JSON nor properties", where=str(file.path), fix=fix)
    found.add(file, inputs)


def _add_streamer(file: InputFile, inputs: Inputs) -> None:
    inputs.streamer.properties[file.path] = read_properties(file.path)


def _add_command_line(file: InputFile, inputs: Inputs) -> None:
    inputs.streamer.add_command(file.path, parse_command_line(file.text, str(file.path), inputs.report))


def _add_server(file: InputFile, inputs: Inputs) -> None:
    inputs.connect.add_server(read_server(file.properties, file.place, inputs.report))


def _add_cdc_pipeline(file: InputFile, inputs: Inputs) -> None:
    inputs.pipelines.append(read_pipeline(file.document, file.place, inputs.report))


def _add_connector(file: InputFile, inputs: Inputs) -> None:
    document = file.properties or file.document
    for settings in read_connectors(document, file.place, inputs.report):
        inputs.connect.add_connector(settings)


def _add_worker(file: InputFile, inputs: Inputs) -> None:
    settings = Settings(file.place, expand_aliases(file.properties), inputs.report)
    check_worker(settings)
    inputs.report.providers |= read_providers(file.properties)
    inputs.connect.workers.append(settings)


#: The first format that matches a file reads it.
INPUT_FORMATS = (
    InputFormat(lambda file: file.suffix == ".properties" and is_streamer(file.text), _add_streamer),
    InputFormat(lambda file: is_debezium_server(file.properties), _add_server),
    InputFormat(lambda file: "connector.class" in file.properties, _add_connector),
    InputFormat(lambda file: file.suffix == ".properties", _add_worker),
    InputFormat(lambda file: file.suffix in _YAML and is_cdc_pipeline(file.document), _add_cdc_pipeline),
    InputFormat(lambda file: file.suffix != ".json" and is_command_line(file.text), _add_command_line),
    InputFormat(lambda file: file.suffix not in _YAML and file.document is not None, _add_connector),
)
