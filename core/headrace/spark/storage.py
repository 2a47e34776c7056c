"""Small text files in a folder of any Hadoop file system, written atomically."""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, unquote

from headrace.errors import ConfigError
from headrace.spark.sessions import name_checkpointing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Parsed = TypeVar("Parsed")

#: A temporary file. Readers of tables ignore names that start with an underscore.
PROBE = "_headrace_check"
#: Markers of a complete folder: headrace's, and Spark's own, which clusters may turn off.
_COMPLETE, _SUCCESS = "_headrace_whole", "_SUCCESS"
#: Hadoop's capability of object stores, where a file becomes visible only when its stream is closed.
_ABORTABLE = "fs.capability.outputstream.abortable"
#: Hadoop's capability of streams that write their data to the disks.
_HSYNC = "hsync"
#: Bytes that a file's name may have, with five for the name of its checksum file: `.NAME.crc`.
_LONGEST_NAME = 255 - 5


def _strip_scheme(uri: str) -> str:
    """Return a path without scheme, host and bucket, which errors and users omit or spell differently."""
    return re.sub(r"^\w[\w+.-]*:(//[^/]*)?", "", uri)


def qualify_path(spark: SparkSession, path: str) -> str:
    """Return ``path`` as Hadoop's absolute path with its file system: ``lake/`` → ``file:/home/me/lake``."""
    return Folder(spark, path).path


def name_file(text: str, ending: str) -> str:
    """Return the name of a file for a text: encoded, and with a digest in place of the rest if it is too long for a file system."""
    name, longest = quote(text, safe=""), _LONGEST_NAME - len(ending)
    if len(name) > longest:
        digest = f"~{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        name = name[: longest - len(digest)] + digest
    return name + ending


def is_under(file: str, folder: str) -> bool:
    """Return whether a file from an error is in a folder or a glob that the user configured."""
    fixed = re.split(r"[^/]*[*?{\[]", _strip_scheme(folder), maxsplit=1)[0].removeprefix("./").strip("/")
    path = _strip_scheme(unquote(file)).strip("/") + "/"
    is_relative = not folder.startswith("/") and ":" not in folder
    return f"/{fixed}/" in f"/{path}" if is_relative and fixed else path.startswith(f"{fixed}/" if fixed else "")


def parse_file(text: str, parse: Callable[[str], Parsed], where: str) -> Parsed:
    """Parse the text of a file that headrace wrote. ConfigError if ``parse`` rejects it."""
    try:
        return parse(text)
    except (ValueError, TypeError, LookupError, AttributeError):
        raise ConfigError("is damaged", where=where, fix="restore it, or use a new checkpoint folder") from None


class Folder:
    """A folder of a local, HDFS or object-store path."""

    def __init__(self, spark: SparkSession, path: str, conf: Any = None) -> None:
        """``conf``: an existing Hadoop configuration to share, because each new one copies a thousand settings."""
        self._spark = spark
        jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no public API for Hadoop's FileSystem
        self._jvm: Any = jvm
        self._conf: Any = conf or spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        java = jvm.org.apache.hadoop.fs.Path(path)
        self.path = str(java.getFileSystem(self._conf).makeQualified(java).toString())

    @property
    def is_in_store(self) -> bool:
        """Whether it is in an object store, where a file becomes visible when its stream is closed."""
        path = self._jvm.org.apache.hadoop.fs.Path(self.path)
        return bool(path.getFileSystem(self._conf).hasPathCapability(path, _ABORTABLE))

    def folder(self, name: str) -> Folder:
        """Return a folder in this folder."""
        return type(self)(self._spark, f"{self.path}/{name}", self._conf)

    def read(self, name: str) -> str | None:
        """Return the text of a file; None if it does not exist."""
        path = self._path(name)
        files = path.getFileSystem(self._conf)
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def load(self, name: str, parse: Callable[[str], Parsed]) -> Parsed | None:
        """Return the parsed content of a file; None if it does not exist. ConfigError if ``parse`` rejects it."""
        text = self.read(name)
        return None if text is None else parse_file(text, parse, f"{self.path}/{name}")

    def write(self, name: str, text: str) -> None:
        """Create or replace a file atomically: a reader sees the old text or the new one."""
        self._put(name, text, replace=True)

    def create(self, name: str, text: str) -> bool:
        """Create a file. Return False if it exists, also if another process creates it at the same time."""
        from py4j.protocol import Py4JJavaError

        if self.read(name) is not None:
            return False
        try:
            self._put(name, text, replace=False)
        except FileExistsError:
            return False
        except Py4JJavaError as error:
            if "FileAlreadyExistsException" in str(error.java_exception.getClass().getName()):
                return False
            raise
        return True

    def _put(self, name: str, text: str, *, replace: bool) -> None:
        path = self._path(name)
        files = path.getFileSystem(self._conf)
        if (local := self._local(path)) is not None:
            _put_local(local, text, replace=replace)
            return
        is_store = self.is_in_store
        # In an object store, a rename deletes the old file first and then copies.
        out = files.create(path, replace) if is_store else self._create_atomic(files, path, replace=replace)
        try:
            out.write(text.encode())
            if not is_store and out.hasCapability(_HSYNC):
                out.hsync()
        except BaseException:
            (out.abort if is_store else out.cancel)()
            raise
        out.close()

    def _create_atomic(self, files: Any, path: Any, *, replace: bool) -> Any:
        """Return a stream to a temporary file that is renamed to ``path`` when it is closed."""
        files.mkdirs(path.getParent())
        package = reduce(getattr, name_checkpointing().split("."), self._jvm)
        stream = getattr(getattr(package, "CheckpointFileManager$"), "MODULE$").create(path.getParent(), self._conf)
        return stream.createAtomic(path, replace)

    def names(self, *, hidden: bool = False) -> list[str]:
        """Return the names of its files and folders; empty if it does not exist. ``hidden`` includes names that readers ignore."""
        path = self._jvm.org.apache.hadoop.fs.Path(self.path)
        files = path.getFileSystem(self._conf)
        if not files.exists(path):
            return []
        names = [str(status.getPath().getName()) for status in files.listStatus(path)]
        return sorted(name for name in names if hidden or not name.startswith((".", "_")))

    def list_files(self) -> list[str]:
        """Return the relative paths of all visible files in it and below; empty if it does not exist."""
        path = self._jvm.org.apache.hadoop.fs.Path(self.path)
        files = path.getFileSystem(self._conf)
        if not files.exists(path):
            return []
        found, paths = files.listFiles(path, True), list[str]()
        while found.hasNext():
            file = str(found.next().getPath().toString())
            paths.append(file[len(self.path) + 1 :])
        return sorted(path for path in paths if not path.rpartition("/")[2].startswith((".", "_")))

    def exists(self) -> bool:
        """Return whether the folder exists."""
        path = self._jvm.org.apache.hadoop.fs.Path(self.path)
        return bool(path.getFileSystem(self._conf).exists(path))

    def size(self, name: str) -> int:
        """Return the size in bytes of a file, or of all files in a folder; 0 if it does not exist."""
        from py4j.protocol import Py4JJavaError

        path = self._path(name)
        try:
            return int(path.getFileSystem(self._conf).getContentSummary(path).getLength())
        except Py4JJavaError as error:
            if str(error.java_exception.getClass().getName()) == "java.io.FileNotFoundException":
                return 0
            raise

    def mark_complete(self, name: str) -> None:
        """Mark a folder in it as completely written, with the sizes of its files."""
        sizes = self._sizes(name)
        for file in sizes:
            if (local := self._local(self._path(f"{name}/{file}"))) is not None:
                _sync(local)
        self.write(f"{name}/{_COMPLETE}", json.dumps(sizes))

    def is_complete(self, name: str) -> bool:
        """Return whether a folder in it is completely written."""
        return any(self.read(f"{name}/{marker}") is not None for marker in (_COMPLETE, _SUCCESS))

    def check_complete(self, name: str) -> None:
        """Raise ConfigError if a file of a completely written folder is missing or truncated. Object stores have no such files.

        Spark skips empty files without an error.
        """
        if self.is_in_store or not self.is_complete(name):
            return
        found, marker = self._sizes(name), f"{name}/{_COMPLETE}"
        sizes = self.load(marker, lambda text: dict(json.loads(text)) if text else None)
        # The marker of an older version has no sizes.
        for file, size in (sizes or {file: max(size, 1) for file, size in found.items()}).items():
            if found.get(file) != size:
                problem = "is missing" if file not in found else f"has {found[file]} bytes instead of {size}"
                raise ConfigError(
                    f"is damaged: it {problem}" if sizes else "is damaged: it is empty",
                    where=f"{self.path}/{name}/{file}",
                    fix="restore it from a backup; or delete its folder, and lose the rows in it",
                )

    def move(self, name: str, path: str) -> None:
        """Rename a file or folder in it to an absolute path. FileExistsError if the path exists.

        On a local disk and on HDFS this also holds for a file that another process creates at the same time.
        """
        old, new = self._path(name), self._jvm.org.apache.hadoop.fs.Path(path)
        files = old.getFileSystem(self._conf)
        files.mkdirs(new.getParent())
        source, target = self._local(old), self._local(new)
        if source is not None and target is not None and source.is_file():
            _move_local(source, target)
        elif files.exists(new) or not files.rename(old, new):
            kind = FileExistsError if files.exists(new) else OSError
            raise kind(f"{old.toString()} could not be renamed to {path}")

    def has_content_of(self, name: str, path: str) -> bool:
        """Return whether a file in it has the same bytes as the file at an absolute path."""
        paths = [self._path(name), self._jvm.org.apache.hadoop.fs.Path(path)]
        files = paths[0].getFileSystem(self._conf)
        if len({files.getFileStatus(path).getLen() for path in paths}) > 1:
            return False
        streams: list[Any] = []
        try:
            streams.extend(files.open(path) for path in paths)
            return bool(self._jvm.org.apache.commons.io.IOUtils.contentEquals(*streams))
        finally:
            for stream in streams:
                stream.close()

    def delete(self, name: str) -> None:
        """Delete a file or folder in it."""
        path = self._path(name)
        path.getFileSystem(self._conf).delete(path, True)

    def probe(self) -> str:
        """Write, list and delete a file to test the folder; remove the folders it created. Errors of the file system are raised.

        Return the result as text. ConfigError if the listing lacks the file.
        """
        path, missing = self._jvm.org.apache.hadoop.fs.Path(self.path), []
        files = path.getFileSystem(self._conf)
        while path is not None and not files.exists(path):
            missing.append(path)
            path = path.getParent()
        self.write(PROBE, "")
        is_listed = PROBE in self.names(hidden=True)
        self.delete(PROBE)
        for created in missing:
            files.delete(created, False)
        if not is_listed:
            raise ConfigError(
                "the listing of the folder lacks a file that was just written",
                where=self.path,
                fix="use an object store with consistent listings, as S3 has since December 2020; otherwise tables lose rows and a "
                "run does not find the newest batch of its checkpoint",
            )
        return f"{self.path}: writable"

    def make_private(self) -> None:
        """Create the folder for this user only, if it is on a local disk and does not exist."""
        uri = self._jvm.org.apache.hadoop.fs.Path(self.path).toUri()
        if str(uri.getScheme()) == "file" and not (path := Path(str(uri.getPath()))).exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)

    def make(self) -> None:
        """Create the folder and its parents. Errors of the file system are raised."""
        path = self._jvm.org.apache.hadoop.fs.Path(self.path)
        path.getFileSystem(self._conf).mkdirs(path)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.path, name)

    def _local(self, path: Any) -> Path | None:
        """Return the path of a file on a local disk; None for a file elsewhere."""
        is_local = str(path.getFileSystem(self._conf).getUri().getScheme()) == "file"
        return Path(str(path.toUri().getPath())) if is_local else None

    def _sizes(self, name: str) -> dict[str, int]:
        """Return the visible files of a folder in it, with their sizes in bytes."""
        path = self._path(name)
        statuses = path.getFileSystem(self._conf).listStatus(path)
        sizes = {str(status.getPath().getName()): int(status.getLen()) for status in statuses if status.isFile()}
        return {file: sizes[file] for file in sorted(sizes) if not file.startswith((".", "_"))}


class UnchangedFolder(Folder):
    """Folder for a command that changes nothing: it drops what is written."""

    def write(self, name: str, text: str) -> None:
        pass


def _put_local(path: Path, text: str, *, replace: bool) -> None:
    """Write a file on a local disk, where Hadoop does not sync it, and deletes the old file before it renames the new one.

    After a power cut the file has the old text or the new one. FileExistsError without ``replace`` if it exists.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex}.tmp")
    try:
        temporary.write_bytes(text.encode())
        _sync(temporary)
        if replace:
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # checksum of the old text
            os.replace(temporary, path)  # noqa: PTH105 - Path.replace hides that it is atomic
        else:
            _create_local(temporary, path)
        _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _create_local(temporary: Path, path: Path) -> None:
    """Give a file a second name. A rename would replace the file of another process."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise
    except OSError:  # The file system has no links.
        with path.open("xb") as file:
            file.write(temporary.read_bytes())
        _sync(path)


def _move_local(source: Path, target: Path) -> None:
    """Rename a file with its checksum. FileExistsError if the target exists: a rename, also Hadoop's, would replace it."""
    try:
        target.hardlink_to(source)
    except FileExistsError:
        raise
    except OSError:  # The file system has no links.
        if target.exists():
            raise FileExistsError(f"{target} exists") from None
        source.rename(target)
    checksum, old_checksum = (path.with_name(f".{path.name}.crc") for path in (source, target))
    if checksum.exists():
        os.replace(checksum, old_checksum)  # noqa: PTH105 - Path.replace hides that it is atomic
    else:
        old_checksum.unlink(missing_ok=True)
    source.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Write a file or the names in a folder to the disk. Ignored where the file system does not support it."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
