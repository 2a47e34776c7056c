"""The classes of a class path as a Java has read and checked them, kept for the next start: Java's class data sharing.

A Java that ends writes an archive (``.half``), its header last; who starts the next one finds that it is whole and gives it its name
(``.jsa``). So nobody waits for a Java that ends, and of one that is killed nothing is used. Java looks at the archive itself: one of
another Java or of other jars it leaves alone. It crashes with one that was cut, so the name has the size.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

#: Of a class path's starts without an archive, those that make one. It costs what four starts with it gain, and who is killed makes none.
_MAKING_STARTS = (4, 16, 64)
#: Of each kind of file, how many of those that were used last stay. An archive of Spark's has 160 MB.
_KEPT = {"jsa": 10, "half": 3, "starts": 100}
#: What the disk has to have left.
_ROOM_BYTES = 1 << 30
_HEADER = 0xF00BABA8
#: What somebody says of archives themselves, or in a file; and agents, which change classes or wait for a debugger.
_SAID = re.compile(r"-Xshare|SharedArchiveFile|ArchiveClassesAtExit|-Xlog:[^\s:]*cds|-agent|-javaagent|(^|[\s\"'])@")
#: Java's variables with options.
_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_MAKE, _USE = "-XX:ArchiveClassesAtExit=", "-XX:SharedArchiveFile="
#: Java warns of classes that it leaves out, and of archives that it does not take.
_QUIET = "-Xlog:cds*=off"


def archive_options(home: Path, classpath: Sequence[Path], options: Sequence[str], folder: Path) -> list[str]:
    """The options for one more start of the Java in ``home``, which has ``options`` too: that use the archive, make it, or none.

    None also where the folder cannot be written, the disk is full, or this Java has no archive of its own classes, which
    others add to. An archive has the classes of those jars that are before the first folder of a class path.
    """
    said = " ".join([*options, *(os.environ.get(name, "") for name in _VARIABLES)])
    if _SAID.search(said):
        return []
    try:
        jars = list(takewhile(lambda path: not path.is_dir(), classpath))
        if not jars:
            return []
        key = _digest(home, jars)
        if archive := _find(folder, key) or _complete(folder, key):
            return [f"{_USE}{archive}", _QUIET]
        if len(jars) < len(classpath):
            return []
        folder.mkdir(parents=True, exist_ok=True)
        _remove_oldest(folder)
        if _count_starts(folder / f"{key}.starts") in _MAKING_STARTS and _can_make(home, options, folder):
            return [f"{_MAKE}{folder / key}.{os.getpid()}.half", _QUIET]
    except (OSError, subprocess.TimeoutExpired):
        pass
    return []


def makes_archive(command: Sequence[str]) -> bool:
    """Whether a Java that is started so makes an archive, if it may end by itself."""
    return any(option.startswith(_MAKE) for option in command)


def _digest(home: Path, jars: Sequence[Path]) -> str:
    """What is another for another Java, another order, and a jar that was changed. OSError for a Java without an archive of its own."""
    files = [home / "lib" / "server" / "classes.jsa", *jars]
    lines = [f"{file} {stat.st_size} {stat.st_mtime_ns}" for file in files for stat in (file.stat(),)]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _find(folder: Path, key: str) -> Path | None:
    """The archive; it is now the one that was used last."""
    for archive in folder.glob(f"{key}-*.jsa"):
        if archive.name == f"{key}-{archive.stat().st_size}.jsa":
            with suppress(OSError):  # the folder may be another user's
                os.utime(archive)
            return archive
    return None


def _complete(folder: Path, key: str) -> Path | None:
    """The archive of a Java that has ended since; of two that made one, the other's goes."""
    archive = None
    for half in folder.glob(f"{key}.*.half"):
        with half.open("rb") as file:
            if file.read(4) != _HEADER.to_bytes(4, sys.byteorder):
                continue
            os.fsync(file.fileno())
            archive = half.replace(folder / f"{key}-{os.fstat(file.fileno()).st_size}.jsa")
    return archive


def _count_starts(file: Path) -> int:
    """How often this was asked of a class path without an archive, this time included."""
    with file.open("ab") as starts:
        starts.write(b"x")
        return starts.tell()


def _can_make(home: Path, options: Sequence[str], folder: Path) -> bool:
    """Whether a Java with these options has an archive of its own classes: told to make one, others do not start."""
    if shutil.disk_usage(folder).free < _ROOM_BYTES:
        return False
    probe = [str(home / "bin" / "java"), "-Xshare:on", *options, "-version"]
    return subprocess.run(probe, capture_output=True, check=False, timeout=30).returncode == 0


def _remove_oldest(folder: Path) -> None:
    for kind, kept in _KEPT.items():
        for file in sorted(folder.glob(f"*.{kind}"), key=lambda file: file.stat().st_mtime)[:-kept]:
            file.unlink(missing_ok=True)
