"""Command line of Hudi Streamer: ``spark-submit`` with its arguments, in a text or shell file."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headrace.sdk import ConfigError
from headrace_import.hudi.shell_script import HereDocument, Word
from headrace_import.hudi.shell_words import parse_script
from headrace_import.import_report import Report, write_key

#: Argument that gives a property: ``--hoodie-conf name=value``.
_PROPERTY, _SPARK = "--hoodie-conf", "--conf"
#: Arguments without a value, of Hudi Streamer and of spark-submit.
_FLAGS = (
    "--allow-commit-on-no-checkpoint-change",
    "--commit-on-errors",
    "--continuous",
    "--disable-compaction",
    "--enable-hive-sync",
    "--enable-sync",
    "--filter-dupes",
    "--force-empty-sync",
    "--retry-last-pending-inline-clustering",
    "--retry-last-pending-inline-compaction",
    "--retry-on-source-failures",
    "--supervise",
    "--verbose",
    "-v",
)
_STREAMER = re.compile(r"Hoodie(MultiTable)?(Delta)?Streamer\b")


def is_command_line(text: str) -> bool:
    """Return whether a text calls Hudi Streamer."""
    return bool(_STREAMER.search(text)) and "--" in text


class CommandLine(NamedTuple):
    """Arguments of Hudi Streamer, and the here-documents of their script."""

    options: dict[str, str]
    documents: list[HereDocument]


def parse_command_line(text: str, where: str, report: Report) -> CommandLine:
    """Return arguments by their names, properties of ``--hoodie-conf``, and Spark's settings.

    Variables of the shell become references; the report gets those with a default. ConfigError for several commands of Hudi
    Streamer, and for arguments that the shell inserts.
    """
    try:
        script = parse_script(text)
    except (ValueError, RecursionError) as error:
        fix = "close the quotes, brackets and here-documents"
        raise ConfigError(f"not a command line: {error}", where=where, fix=fix) from None
    commands = [command for command in script.commands if any(_STREAMER.search(str(word)) for word in command)]
    if len(commands) != 1:
        what = f"the file has {len(commands) or 'no'} commands of Hudi Streamer"
        fix = "write each command to a file" if commands else "write the command to a file, outside of here-documents"
        raise ConfigError(what, where=where, fix=fix)
    _check_expansions(commands[0], where)
    report.lost_defaults.update(_list_defaults(commands[0]))
    return CommandLine(_parse_arguments([str(word) for word in commands[0]]), script.documents)


def read_document(document: HereDocument, where: str, report: Report) -> str:
    """Return the text of a here-document, with references in place of variables. ConfigError for other text that the shell inserts."""
    if shown := next((part.shown for part in document.body.expansions if not part.variable), ""):
        raise _insertion_error(shown, f"{where}, line {document.line}")
    report.lost_defaults.update(_list_defaults([document.body]))
    return str(document.body)


def _list_defaults(words: Sequence[Word]) -> Iterator[str]:
    return (part.variable for word in words for part in word.expansions if part.has_default)


def _insertion_error(shown: str, where: str) -> ConfigError:
    what = f"the shell replaces {shown} with text that is not in the command"
    return ConfigError(what, where=where, fix="write the text in its place")


def _check_expansions(words: Sequence[Word], where: str) -> None:
    """Raise ConfigError for arguments and texts that the shell inserts. The error shows no text of the value, which may be a secret."""
    for option, expansion in _list_inserted(words):
        raise _insertion_error(expansion, f"{where}, {write_key(option)}" if option else where)


def _list_inserted(words: Sequence[Word]) -> Iterator[tuple[str, str]]:
    """Yield the option and the form of each expansion whose text is not that of one variable, and of variables with arguments."""
    has_program = False  # The jar of Hudi may be a variable, and is not read.
    option, is_value = "", False
    for word in words:
        is_argument = word.start.startswith("-")
        name, equals, _ = word.start.partition("=")
        place = option if is_value else name if is_argument and equals else ""
        if place in (_PROPERTY, _SPARK) and is_value and equals:
            place = f"{place} {name}"
        yield from ((place, part.shown) for part in word.expansions if not part.variable)
        is_bare = not is_argument and not is_value
        if has_program and is_bare and word.is_variable:
            yield place, word.expansions[0].shown
        has_program |= is_bare and (str(word).endswith(".jar") or word.is_variable)
        is_value = is_argument and not equals and word.start not in _FLAGS
        option = name if is_value else ""


def _parse_arguments(words: Sequence[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    rest = deque(words)
    while rest:
        name, equals, value = rest.popleft().partition("=")
        if not name.startswith("-"):
            continue
        if not equals and name not in _FLAGS and rest and not rest[0].startswith("--"):
            value = rest.popleft()
        if name in (_PROPERTY, _SPARK):
            name, _, value = value.partition("=")
        options[name] = value or ("true" if name in _FLAGS else "")
    return options
