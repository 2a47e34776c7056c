"""Command line of Hudi Streamer: ``spark-submit`` with its arguments, in a text or shell file."""

from __future__ import annotations

import re
import shlex
from collections import deque
from collections.abc import Sequence

from headrace.sdk import ConfigError

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
#: Line feeds and operators of the shell end a command.
_ENDS = "\n;&|"
_COMMENT = re.compile(r"^[ \t]*#.*\n?", re.MULTILINE)
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|([A-Za-z_]\w*|\d))", re.ASCII)
#: All arguments, all elements of a list, and the output of a command.
_LIST = re.compile(r"\$[@*]|\$\{\w+\[[@*]\]\}|\$\(|`")
_STREAMER = re.compile(r"Hoodie(MultiTable)?(Delta)?Streamer\b")


def is_command_line(text: str) -> bool:
    """Return whether a text calls Hudi Streamer."""
    return bool(_STREAMER.search(text)) and "--" in text


def parse_command_line(text: str, where: str) -> dict[str, str]:
    """Return arguments by their names, properties of ``--hoodie-conf``, and Spark's settings.

    Variables of the shell become references. ConfigError for several commands of Hudi Streamer, and for arguments that
    the shell inserts.
    """
    try:
        commands = [command for command in _split_commands(text) if any(map(_STREAMER.search, command))]
    except ValueError as error:
        raise ConfigError(f"not a command line: {error}", where=where, fix="close the quotes") from None
    if len(commands) > 1:
        raise ConfigError(
            f"the file has {len(commands)} commands of Hudi Streamer", where=where, fix="write each command to a file"
        )
    for command in commands:
        if unknown := _find_expansion(command):
            raise ConfigError(
                f"the shell replaces {unknown} with text that is not in the command",
                where=where,
                fix="write the arguments in its place",
            )
    return _parse_arguments([_VARIABLE.sub(_name_variable, word) for command in commands for word in command])


def _name_variable(variable: re.Match[str]) -> str:
    """Return the reference for a variable of the shell, or for an argument of the script."""
    name = variable[1] or variable[2]
    return f"${{env:{f'ARGUMENT_{name}' if name.isdigit() else name}}}"


def _split_commands(text: str) -> list[list[str]]:
    """Return the words of each command. A line that begins with an argument continues the previous line."""
    lexer = shlex.shlex(_COMMENT.sub("", text.replace("\\\n", " ")), posix=True, punctuation_chars=_ENDS)
    lexer.whitespace, lexer.whitespace_split = " \t\r", True
    commands: list[list[str]] = [[]]
    is_new_line = False
    for word in lexer:
        if set(word) <= set(_ENDS):
            is_new_line = set(word) == {"\n"}
            commands += [] if is_new_line else [[]]
            continue
        if is_new_line and not word.startswith("-"):
            commands.append([])
        is_new_line = False
        commands[-1].append(word)
    return commands


def _find_expansion(words: Sequence[str]) -> str | None:
    """Return a word that the shell replaces with arguments, or with the output of a command; None without one."""
    has_program = False  # The jar of Hudi may be a variable, and is not read.
    is_value = False
    for word in words:
        is_list = bool(_LIST.search(word))
        is_argument = word.startswith("-")
        if is_list or (has_program and not is_argument and not is_value and _VARIABLE.fullmatch(word)):
            return word
        has_program |= not is_argument and not is_value and (word.endswith(".jar") or bool(_VARIABLE.fullmatch(word)))
        is_value = is_argument and "=" not in word and word not in _FLAGS
    return None


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
