"""Files that Spark's file stream has not planned yet, as a log in the format of Spark's file sink.

A file stream reads the log ``_spark_metadata`` of a folder instead of listing the folder. It records the files that it plans in its
own log, and ignores those that it has recorded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from headrace_sources.notifications.object_selection import ObjectFile

if TYPE_CHECKING:
    from headrace.sdk.storage import Folder

_COMPACT = ".compact"
#: Characters of a path that Java's URI encodes: all of ASCII that are not allowed, spaces and controls.
_ENCODED = re.compile(
    r"[^A-Za-z0-9_\-!.~'()*,;:$&+=@/\u00a1-\U0010ffff]|[\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)


class PendingLog:
    """Log of pending files in a folder of the checkpoint. Each of its files is complete, so that the stream reads the newest."""

    def __init__(self, folder: Folder) -> None:
        #: Path for Spark's file stream.
        self.path = folder.path
        self._folder = folder.folder("_spark_metadata")
        self._numbers = sorted(
            int(name.removesuffix(_COMPACT)) for name in self._folder.names() if name.endswith(_COMPACT)
        )

    def read(self) -> dict[str, ObjectFile]:
        """Return path → pending file."""
        if not self._numbers:
            return {}
        files = self._folder.load(f"{self._numbers[-1]}{_COMPACT}", parse_log) or []
        return {file.path: file for file in files}

    def write(self, files: Mapping[str, ObjectFile]) -> None:
        """Replace the pending files. The stream may read the previous file of the log meanwhile."""
        number = self._numbers[-1] + 1 if self._numbers else 0
        self._folder.write(f"{number}{_COMPACT}", format_log(files.values()))
        self._numbers.append(number)
        for old in self._numbers[:-2]:
            self._folder.delete(f"{old}{_COMPACT}")
        del self._numbers[:-2]


def format_log(files: Iterable[ObjectFile]) -> str:
    """Return files as the text of a log of Spark's file sink."""
    return "\n".join(["v1", *map(_format_file, files)])


def _format_file(file: ObjectFile) -> str:
    entry = {"path": encode_path(file.path), "size": file.size, "isDir": False, "modificationTime": file.time}
    return json.dumps({**entry, "blockReplication": 1, "blockSize": 1, "action": "add"})


def parse_log(text: str) -> list[ObjectFile]:
    """Return the files in the text of a log."""
    entries = map(json.loads, text.splitlines()[1:])
    return [ObjectFile(unquote(one["path"]), one["size"], one["modificationTime"]) for one in entries]


def encode_path(path: str) -> str:
    """Return a path as Spark records it: like the text of Java's URI."""
    return _ENCODED.sub(lambda match: quote(match[0], safe=""), path)


def read_seen_files(stream: Folder) -> set[str]:
    """Return the files in the log of Spark's file stream: those of its newest compact entry, and of the later ones."""
    log = stream.folder("sources").folder("0")
    names = {int(name.removesuffix(_COMPACT)): name for name in log.names() if name.removesuffix(_COMPACT).isdigit()}
    first = max((number for number, name in names.items() if name.endswith(_COMPACT)), default=0)
    texts = (log.read(name) or "" for number, name in sorted(names.items()) if number >= first)
    return {unquote(json.loads(line)["path"]) for text in texts for line in text.splitlines()[1:]}
