"""Files with settings for a child process, which no other user can read."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

#: The option of ``spark-submit`` for a file with settings. Spark then does not read ``spark-defaults.conf``.
FILE_OPTION = "--properties-file"


class PrivateFiles:
    """Temporary files for a child process, readable only by this user and removed at the end.

    If the system supports anonymous files, they exist only in memory; the child process inherits them and opens them by descriptor.
    """

    def __init__(self) -> None:
        self.descriptors: list[int] = []
        self._paths: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)
        for path in self._paths:
            path.unlink()

    def add(self, content: bytes) -> str:
        """Create a file and return the path for the child process."""
        if hasattr(os, "memfd_create") and Path("/proc/self/fd").exists():
            descriptor = os.memfd_create("headrace")
            path = f"/proc/self/fd/{descriptor}"
        else:
            descriptor, path = tempfile.mkstemp(prefix="headrace-")
            self._paths.append(Path(path))
        self.descriptors.append(descriptor)
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        return path


def to_properties(conf: Mapping[str, str], base: Path | None = None) -> bytes:
    """Return settings as a Java properties file. They override those of the file ``base``."""
    defaults = base.read_bytes() if base and base.is_file() else b""
    lines = [f"{_escape(key)}={_escape(value)}\n" for key, value in conf.items()]
    return defaults + b"\n\n" + "".join(lines).encode("utf-8", "surrogateescape")


def _escape(text: str) -> str:
    """Escape a key or a value for Java's Properties."""
    codes = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\f": r"\f"}
    return re.sub(r"[\\\s=:#!]", lambda match: codes.get(match[0], "\\" + match[0]), text)
