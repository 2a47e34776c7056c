"""Jobs of Hudi Streamer from properties and command lines, and the tables of a HoodieMultiTableStreamer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace_import.hudi.command_line import CommandLine, read_document
from headrace_import.hudi.shell_script import HereDocument
from headrace_import.hudi.streamer_properties import INCLUDE, find_file, read_properties
from headrace_import.import_report import Kind, Report
from headrace_import.settings import Settings

#: Options of HoodieMultiTableStreamer: the tables, and the properties file of each.
_INGESTION = tuple(f"hoodie.{name}.ingestion." for name in ("streamer", "deltastreamer"))
_TABLES, _FILE, _FOLDER = "tablesToBeIngested", ".configFile", "targetBasePath"
#: Arguments of HoodieMultiTableStreamer, and those of HoodieStreamer, which its tables have from the properties.
_PREFIX, _CONFIG = "--base-path-prefix", "--config-folder"
_TARGET, _BASE = "--target-table", "--target-base-path"


@dataclass
class StreamerFiles:
    """Files of one import: properties and command lines, by path."""

    properties: dict[Path, dict[str, str]] = field(default_factory=dict)
    commands: dict[Path, dict[str, str]] = field(default_factory=dict)
    #: Here-documents of the command lines that no job has.
    _documents: dict[Path, list[HereDocument]] = field(default_factory=dict)

    def add_command(self, path: Path, command: CommandLine) -> None:
        """Add a command line, with the here-documents of its script."""
        self.commands[path], self._documents[path] = command

    def list_jobs(self, report: Report) -> list[Settings]:
        """Return one job for each properties file, joined with its command line, or for each table of several."""
        jobs: list[Settings] = []
        joined: set[Path] = set()
        for path, options in self.properties.items():
            command = self._find_command(path)
            joined |= {command} if command else set()
            jobs += _split_tables(
                [*([command] if command else []), path], {**options, **self.commands.get(command or path, {})}, report
            )
        for path, options in self.commands.items():
            if path not in joined:
                jobs += self._read_command(path, options, report)
        for path, documents in self._documents.items():
            for document in documents:
                why, fix = (
                    "the here-document is not imported",
                    "if the job reads its text, write the text to a file and import it",
                )
                report.add(Kind.TO_DO, f"{path.name}, line {document.line}", (), why, fix)
        return jobs

    def _find_command(self, path: Path) -> Path | None:
        """Return the command line that names a properties file, or the only one for the only file."""
        named = [file for file, options in self.commands.items() if Path(options.get("--props", "")).name == path.name]
        if not named and len(self.commands) == len(self.properties) == 1:
            named = list(self.commands)
        return named[0] if named else None

    def _read_command(self, path: Path, options: dict[str, str], report: Report) -> list[Settings]:
        """Return the jobs of a command line whose properties are in its script or next to it, or that has all of them itself."""
        props = find_file(path.parent, options.get("--props") or "none")
        text = self._read_document(path, props.name, report)
        if text is None and not props.is_file():
            jobs = list(_split_tables([path], options, report))
            if options.get("--props"):
                why, fix = "the properties file was not given", f"give {props.name} to `headrace import` as well"
                report.add(Kind.TO_DO, path.name, ["--props"], why, fix)
            return jobs
        return list(_split_tables([path, props], {**read_properties(props, text=text), **options}, report))

    def _read_document(self, path: Path, name: str, report: Report) -> str | None:
        """Return the text of a file that the script of a command line writes; None if it does not."""
        found = [document for document in self._documents[path] if Path(document.file).name == name]
        if not found or not all(document.is_appended for document in found[1:]):
            return None
        self._documents[path] = [document for document in self._documents[path] if document not in found]
        return "".join(read_document(document, str(path), report) for document in found)


def _split_tables(paths: Sequence[Path], options: dict[str, str], report: Report) -> Iterator[Settings]:
    """Yield the job, or those of the tables of a HoodieMultiTableStreamer."""
    place = " + ".join(path.name for path in paths)
    ingestion = {key: value for key, value in options.items() if key.startswith(_INGESTION)}
    tables = next((value for key, value in ingestion.items() if key.endswith(_TABLES)), "")
    if not tables:
        job = Settings(place, options, report)
        job.ignore([INCLUDE], "the options of the included files are part of the job")
        yield job
        return
    shared = {key: value for key, value in options.items() if key not in ingestion}
    main = {key: shared.pop(key) for key in (_PREFIX, _CONFIG, _TARGET, _BASE) if key in shared} | ingestion
    _report_main(Settings(place, main, report))
    for name in filter(None, map(str.strip, tables.split(","))):
        yield _read_table(name, paths, main, shared, report)


def _report_main(main: Settings) -> None:
    """Report the options of a HoodieMultiTableStreamer that are not those of a table."""
    main.ignore(
        [key for key in main.list_keys() if key.endswith((_TABLES, _FILE))], "each table is a rule of `tables:`"
    )
    main.ignore([_PREFIX], "the folder of each table has it")
    main.ignore([_CONFIG], "the files are read from the folder of the file that names them")
    main.ignore([_TARGET, _BASE], f"HoodieMultiTableStreamer takes names from {_TABLES}, and folders from {_PREFIX}")
    main.report_unknown([])


def _read_table(
    name: str, paths: Sequence[Path], main: dict[str, str], shared: dict[str, str], report: Report
) -> Settings:
    """Return the job of one table of a HoodieMultiTableStreamer, with the name and the folder that Hudi gives it."""
    database, _, table = name.rpartition(".")
    database = database or "default"
    keys = [f"{start}{full}{_FILE}" for full in (f"{database}.{table}", name) for start in _INGESTION]
    file = next((main[key] for key in keys if key in main), f"{database}_{table}_config.properties")
    path = find_file(paths[-1].parent, file)
    own = read_properties(path)
    folder = next((key for key in own if key.startswith(_INGESTION) and key.endswith(_FOLDER)), "")
    named = {_TARGET: f"{database}.{table}"}
    if folder:
        named[_BASE] = own.pop(folder)
    elif main.get(_PREFIX):
        named[_BASE] = f"{main[_PREFIX].rstrip('/')}/{database}/{table}"
    listed = next(key for key in main if key.endswith(_TABLES))
    spelling = {_TARGET: listed, _BASE: folder or _PREFIX}
    place = " + ".join(path.name for path in (*paths, path))
    job = Settings(place, {**shared, **own, **named}, report, spelling=spelling)
    job.ignore([INCLUDE], "the options of the included files are part of the job")
    return job
