"""Options of one input. Each of them ends in a comment of the pipeline file or in the report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from headrace.sdk.options import did_you_mean
from headrace_import.import_report import Kind, Report, write_key
from headrace_import.references import find_clear_secret, translate_references

#: Environment variable of a new folder, if that of the table names no parent.
NEW_FOLDER = "HEADRACE_PATH"
_VARIABLE = re.compile(r"\$\{env:(\w+)\}")
_REFERENCE = re.compile(r"\$\{[^}]*\}")
#: A slash that is no part of a reference.
_SLASH = re.compile(r"/(?![^{}]*\})")


class Settings:
    """Options of a connector, a worker or a properties file, without those whose value is null.

    ``place``: the file, and in a file of several connectors the connector, for comments and the report. ``spelling``: option →
    its name in the file, for files that have the options of a connector under other names.
    """

    def __init__(
        self,
        place: str,
        options: Mapping[str, str],
        report: Report,
        *,
        name: str = "",
        spelling: Mapping[str, str] | None = None,
    ) -> None:
        self.place, self.name, self.report = place, name, report
        self._spelling = spelling or {}
        self._options = dict(options)
        self._accounted: set[str] = set()
        self._cited: list[str] = []

    def get(self, key: str, default: str = "") -> str:
        """Return the value of an option, without marking it as imported. A foreign reference becomes one to a variable."""
        value = self.get_written(key, default)
        return f"${{env:{self._name_variable(key, value)}}}" if "${" in value and self._list_foreign(value) else value

    def get_written(self, key: str, default: str = "") -> str:
        """Return the value of an option as it is in the file."""
        return self._options.get(key, default).strip()

    def has(self, key: str) -> bool:
        return key in self._options

    def find(self, *keys: str) -> str | None:
        """Return the first of these keys that has a value: an option and its older names."""
        return next((key for key in keys if self.get(key)), None)

    def list_keys(self, prefix: str = "") -> list[str]:
        """Return the options that start with ``prefix``."""
        return [key for key in self._options if key.startswith(prefix)]

    def cite(self, *keys: str) -> str:
        """Return the comment for a value that these options give; they count as imported."""
        present = [key for key in keys if key in self._options]
        names = set(map(self.spell, present))  # One option of the file may be several options of the connector.
        self._accounted.update(key for key in self._options if self.spell(key) in names)
        self._cited += present
        for key in present:
            if foreign := self._list_foreign(self.get_written(key)):
                self._report_foreign(key, foreign, self._name_variable(key, self.get_written(key)))
        return (
            f"{escape_place(self.place)}: {', '.join(write_key(self.spell(key)) for key in present)}" if present else ""
        )

    def read(self, key: str, note: str = "", *, of: str = "", variable: str = "") -> str:
        """Return a value for the pipeline file: secrets in clear text and foreign references become ``${env:…}``.

        ``note``: what the report adds about the value of the variable; ``of``: another name of the value; ``variable``: the name
        that the variable gets in place of the option's.
        """
        value = self.get_written(key)
        if find_clear_secret(key, value) or find_clear_secret(of, value):
            name = self.report.name_variable(variable or self.spell(key), value)
            why = "the secret in clear text is not copied"
            self.add_to_do([key], why, f"set the environment variable {name}{note}, or use `${{file:…}}`")
            return f"${{env:{name}}}"
        text, foreign = translate_references(value, self.report.providers)
        if foreign:
            name = self.report.name_variable(variable or self.spell(key), value)
            self._report_foreign(key, foreign, name, note)
            return f"${{env:{name}}}"
        return text

    def _name_variable(self, key: str, value: str) -> str:
        return self.report.name_variable(self.spell(key), value)

    def _report_foreign(self, key: str, foreign: Iterable[str], variable: str, note: str = "") -> None:
        """Report the config providers of an option once."""
        why = f"headrace has no config provider {', '.join(foreign)}"
        if not any(
            (finding.place, finding.why) == (self.place, why) and self.spell(key) in finding.keys
            for finding in self.report.findings
        ):
            self.add_to_do([key], why, f"set the environment variable {variable}{note}")

    def report_references(self, keys: Iterable[str], why: str) -> None:
        """Report lists that are references, whose names are not known."""
        fix = "write the names in the file, or give the variable one name"
        for key in keys:
            if "${" in self.get_written(key):
                self.add_to_do([key], why, fix)

    def read_new_folder(self, key: str) -> tuple[str, str]:
        """Return a folder next to that of an option, and its comment. The report has the variable of a folder without a known parent."""
        path = name_new_folder(self.get(key))
        if path != f"${{env:{NEW_FOLDER}}}":
            return name_new_folder(self.read(key)), f"{self.cite(key)}; a new folder"
        why, fix = "the folder is one variable, whose parent is not known", "set the environment variable"
        self.reject([key], why, f"{fix} {NEW_FOLDER} to a new folder that no other writer uses", Kind.TO_DO)
        return path, "a new folder"

    def reject(self, keys: Iterable[str], why: str, fix: str | None = None, kind: Kind = Kind.NOT_IMPORTED) -> None:
        """Report options that are not imported."""
        present = [key for key in keys if key in self._options]
        self._accounted.update(present)
        if present:
            self.report.add(kind, self.place, map(self.spell, present), why, fix)

    def add_to_do(self, keys: Iterable[str], why: str, fix: str | None = None) -> None:
        """Report options to check before a run. They do not count as imported."""
        self.report.add(Kind.TO_DO, self.place, map(self.spell, keys), why, fix)

    def spell(self, key: str) -> str:
        """Return the name of an option in the file."""
        return self._spelling.get(key, key)

    def ignore(self, keys: Iterable[str], why: str) -> None:
        """Report options that have no meaning for a pipeline."""
        self.reject([key for key in keys if key not in self._accounted], why, kind=Kind.NO_MEANING)

    def ignore_matches(self, patterns: Iterable[str], why: str) -> None:
        """Report the remaining options that match a glob as options without meaning."""
        known = tuple(patterns)
        self.ignore([key for key in self.list_remaining() if any(fnmatchcase(key, glob) for glob in known)], why)

    def report_replaced(self, comments: Iterable[str]) -> None:
        """Report the options that were imported and then replaced: none of the comments names them."""
        place = f"{escape_place(self.place)}: "
        parts = [part.removeprefix(place) for text in comments for part in text.split("; ") if part.startswith(place)]
        named = {name for part in parts for name in (part, *part.split(", "))}
        reported = {key for finding in self.report.findings if finding.place == self.place for key in finding.keys}
        cited = {key: self.spell(key) for key in self._cited}
        lost = [key for key, name in cited.items() if write_key(name) not in named and name not in reported]
        self.reject(lost, "another option here replaces it")

    def list_remaining(self) -> list[str]:
        """Return the options that are neither imported nor reported."""
        return [key for key in self._options if key not in self._accounted]

    def snapshot(self) -> frozenset[str]:
        """Return the options that are imported or reported by now, for ``restore``."""
        return frozenset(self._accounted)

    def restore(self, accounted: frozenset[str]) -> None:
        """Forget which options were imported since the snapshot."""
        self._accounted = set(accounted)

    def report_variables(self, why: str) -> None:
        """Report the environment variables of imported options."""
        keys = [key for key in dict.fromkeys(self._cited) if _VARIABLE.search(self.get(key))]
        names = dict.fromkeys(name for key in keys for name in _VARIABLE.findall(self.get(key)))
        if names:
            lost = [name for name in names if name in self.report.lost_defaults]
            more = f"; headrace has no default for {', '.join(lost)}" if lost else ""
            self.add_to_do(keys, why, f"set the environment variable{'s' * (len(names) > 1)} {', '.join(names)}{more}")

    def report_unknown(self, known: Iterable[str], prefix: str = "") -> None:
        """Report the remaining options that start with ``prefix`` as unknown, with the nearest known name."""
        names = [name for name in known if "*" not in name]
        remaining = [key for key in self.list_remaining() if key.startswith(prefix)]
        self.ignore([key for key in remaining if key in names and not self.get(key)], "it has no value")
        self.ignore([key for key in remaining if key in names], "the other options here do without it")
        for key in (key for key in remaining if key not in names):
            near = did_you_mean(key, names)
            name = next((name for name in names if near == f"did you mean '{name}'?"), "")
            fix = f"did you mean '{self._spell_like(key, name)}'?" if name else None
            self.reject([key], "headrace does not know this option", fix, Kind.UNKNOWN)

    def _list_foreign(self, value: str) -> list[str]:
        """Return the config providers in a value that headrace does not have."""
        return translate_references(value, self.report.providers)[1]

    def _spell_like(self, key: str, name: str) -> str:
        """Return a name with the start that an option with another spelling in the file has."""
        start, spelled = key, self.spell(key)
        while start and spelled and start[-1] == spelled[-1]:
            start, spelled = start[:-1], spelled[:-1]
        return spelled + name.removeprefix(start) if name.startswith(start) else name


def name_new_folder(path: str) -> str:
    """Return a folder for headrace next to that of a table; in the bucket, if the table has all of it.

    A folder that is one reference, whose parent is not known, gives a reference to ``NEW_FOLDER``.
    """
    start, slashes, rest = path.rstrip("/").rpartition("://") if "://" in _REFERENCE.sub("", path) else ("", "", path)
    *parents, name = _SLASH.split(rest.rstrip("/"))
    if parents or not _REFERENCE.search(name):
        parent = name if slashes and not parents else "/".join(parents) or ("/" if parents else ".")
        return f"{start}{slashes}{parent.rstrip('/')}/headrace"
    return f"${{env:{NEW_FOLDER}}}"


def escape_place(place: str) -> str:
    """Return the name of a file or connector for a comment."""
    return write_key(place)
