"""Archives of loaded and verified classes, which make the next start of a JVM faster (Java's class data sharing, CDS).

A JVM writes an archive (``.half``) when it exits; its header is written last. The next start checks that the archive is complete and
renames it (``.jsa``). So no process waits for an exiting JVM, and the file of a killed JVM is never used. Java itself ignores an
archive of another Java or of other jars, but it crashes on a truncated archive. Therefore the file name contains the size.
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

#: Which starts of a class path without an archive create one. Creating costs as much as four starts save, and a killed JVM leaves none.
_CREATING_STARTS = (4, 16, 64)
#: How many of the most recently used files of each kind are kept. An archive of Spark has 160 MB.
_KEPT = {"jsa": 10, "half": 3, "starts": 100}
#: Free disk space below which no archive is created.
_MIN_FREE_BYTES = 1 << 30
_HEADER = 0xF00BABA8
#: Options that configure archives or name a file of options; and agents, which change classes or wait for a debugger.
_USER_CDS_FLAGS = re.compile(
    r"-Xshare|SharedArchiveFile|ArchiveClassesAtExit|-Xlog:[^\s:]*cds|-agent|-javaagent|(^|[\s\"'])@"
)
#: Environment variables from which Java reads options.
_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_CREATE, _USE = "-XX:ArchiveClassesAtExit=", "-XX:SharedArchiveFile="
#: Java warns about classes that it leaves out of an archive and about archives that it ignores.
_QUIET = "-Xlog:cds*=off"


def archive_options(home: Path, classpath: Sequence[Path], options: Sequence[str], folder: Path) -> list[str]:
    """Return the Java options that use an archive or create one; an empty list if neither applies.

    ``home`` is the Java, ``options`` are its other options, ``folder`` holds the archives. The list is also empty if the folder is not
    writable, the disk is full, or this Java has no archive of its own classes, which every other archive extends. An archive contains
    the classes of the jars in front of the first folder of a class path.
    """
    configured = " ".join([*options, *(os.environ.get(name, "") for name in _VARIABLES)])
    if _USER_CDS_FLAGS.search(configured):
        return []
    try:
        jars = list(takewhile(lambda path: not path.is_dir(), classpath))
        if not jars:
            return []
        key = _cache_key(home, jars)
        if archive := _find(folder, key) or _complete(folder, key):
            return [f"{_USE}{archive}", _QUIET]
        if len(jars) < len(classpath):
            return []
        folder.mkdir(parents=True, exist_ok=True)
        _remove_oldest(folder)
        if _count_starts(folder / f"{key}.starts") in _CREATING_STARTS and _can_create(home, options, folder):
            return [f"{_CREATE}{folder / key}.{os.getpid()}.half", _QUIET]
    except (OSError, subprocess.TimeoutExpired):
        pass
    return []


def makes_archive(command: Sequence[str]) -> bool:
    """Return whether a JVM with this command line creates an archive when it exits normally."""
    return any(option.startswith(_CREATE) for option in command)


def _cache_key(home: Path, jars: Sequence[Path]) -> str:
    """Return the key of a JVM and its class path. OSError for a Java without an archive of its own classes."""
    files = [home / "lib" / "server" / "classes.jsa", *jars]
    lines = [f"{file} {stat.st_size} {stat.st_mtime_ns}" for file in files for stat in (file.stat(),)]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _find(folder: Path, key: str) -> Path | None:
    """Return the archive and mark it as used."""
    for archive in folder.glob(f"{key}-*.jsa"):
        if archive.name == f"{key}-{archive.stat().st_size}.jsa":
            with suppress(OSError):  # the folder may be another user's
                os.utime(archive)
            return archive
    return None


def _complete(folder: Path, key: str) -> Path | None:
    """Rename the archive of a JVM that has exited since. Of two archives, the last one replaces the other."""
    archive = None
    for half in folder.glob(f"{key}.*.half"):
        with half.open("rb") as file:
            if file.read(4) != _HEADER.to_bytes(4, sys.byteorder):
                continue
            os.fsync(file.fileno())
            archive = half.replace(folder / f"{key}-{os.fstat(file.fileno()).st_size}.jsa")
    return archive


def _count_starts(file: Path) -> int:
    """Count the starts of a class path without an archive, including this one."""
    with file.open("ab") as starts:
        starts.write(b"x")
        return starts.tell()


def _can_create(home: Path, options: Sequence[str], folder: Path) -> bool:
    """Return whether a Java with these options has an archive of its own classes. Without one it fails when it has to create another."""
    if shutil.disk_usage(folder).free < _MIN_FREE_BYTES:
        return False
    probe = [str(home / "bin" / "java"), "-Xshare:on", *options, "-version"]
    return subprocess.run(probe, capture_output=True, check=False, timeout=30).returncode == 0


def _remove_oldest(folder: Path) -> None:
    for kind, kept in _KEPT.items():
        for file in sorted(folder.glob(f"*.{kind}"), key=lambda file: file.stat().st_mtime)[:-kept]:
            file.unlink(missing_ok=True)
