"""Command line of Hudi Streamer: ``spark-submit`` with its arguments, in a text or shell file."""

from __future__ import annotations

import re
import shlex

from headrace.sdk import ConfigError

#: Argument that gives a property: ``--hoodie-conf name=value``.
_PROPERTY, _SPARK = "--hoodie-conf", "--conf"
_FLAGS = (
    "--continuous",
    "--enable-sync",
    "--enable-hive-sync",
    "--filter-dupes",
    "--disable-compaction",
    "--commit-on-errors",
    "--verbose",
    "-v",
)
_STREAMER = re.compile(r"Hoodie(MultiTable)?(Delta)?Streamer\b")


def is_command_line(text: str) -> bool:
    """Return whether a text calls Hudi Streamer."""
    return bool(_STREAMER.search(text)) and "--" in text


def parse_command_line(text: str, where: str) -> dict[str, str]:
    """Return arguments by their names, properties of ``--hoodie-conf``, and Spark's settings."""
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise ConfigError(f"not a command line: {error}", where=where, fix="close the quotes") from None
    options: dict[str, str] = {}
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if not name.startswith("-"):
            continue
        if not equals and name not in _FLAGS and words:
            value = words.pop(0)
        if name in (_PROPERTY, _SPARK):
            name, _, value = value.partition("=")
        options[name] = value or ("true" if name in _FLAGS else "")
    return options
