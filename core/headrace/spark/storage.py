"""Small text files in a folder of any Hadoop filesystem, written whole or not at all."""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from headrace.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: A file that is there for a moment; readers of tables pass over names like this.
PROBE = "_headrace_check"
#: In a folder that Spark has written to its end; and Spark's own note of it, which a setting of the cluster's may leave out.
_WHOLE, _SUCCESS = "_headrace_whole", "_SUCCESS"
#: What Hadoop calls object stores by: there a file is seen when its stream is closed, and never if it is not.
_ABORTABLE = "fs.capability.outputstream.abortable"


def _path_alone(uri: str) -> str:
    """A path without its scheme and host or bucket, which errors and users leave out or spell differently."""
    return re.sub(r"^\w[\w+.-]*:(//[^/]*)?", "", uri)


def qualify_path(spark: SparkSession, path: str) -> str:
    """``path`` with its filesystem and from its root, as Hadoop understands it: ``lake/`` → ``file:/home/me/lake``."""
    return Folder(spark, path).path


def is_under(file: str, folder: str) -> bool:
    """Whether a file that an error names lies in a folder, or in one that a glob means, as a user wrote it."""
    fixed = re.split(r"[^/]*[*?{\[]", _path_alone(folder), maxsplit=1)[0].removeprefix("./").strip("/")
    path = _path_alone(unquote(file)).strip("/") + "/"
    is_relative = not folder.startswith("/") and ":" not in folder
    return f"/{fixed}/" in f"/{path}" if is_relative and fixed else path.startswith(f"{fixed}/" if fixed else "")


class Folder:
    """A folder of a local, HDFS or object-store path."""

    def __init__(self, spark: SparkSession, path: str, conf: Any = None) -> None:
        """``conf``: Hadoop's, where somebody has it already: each one made holds a thousand settings of its own."""
        self._spark = spark
        jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no public way to Hadoop's FileSystem
        self._jvm: Any = jvm
        self._conf: Any = conf or spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        java = jvm.org.apache.hadoop.fs.Path(path)
        self.path = str(java.getFileSystem(self._conf).makeQualified(java).toString())

    @property
    def is_in_store(self) -> bool:
        """Whether it is in an object store: there a file is seen when its stream is closed."""
        path = self._jvm.org.apache.hadoop.fs.Path(self.path)
        return bool(path.getFileSystem(self._conf).hasPathCapability(path, _ABORTABLE))

    def folder(self, name: str) -> Folder:
        return Folder(self._spark, f"{self.path}/{name}", self._conf)

    def read(self, name: str) -> str | None:
        """The text of a file, None when there is none."""
        path = self._path(name)
        files = path.getFileSystem(self._conf)
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Creates or replaces a file; a reader sees the old text or the new one."""
        self._put(name, text, replace=True)

    def create(self, name: str, text: str) -> bool:
        """Creates a file; False when there is one, also when another process made it at the same moment."""
        from py4j.protocol import Py4JJavaError

        if self.read(name) is not None:
            return False
        try:
            self._put(name, text, replace=False)
        except Py4JJavaError as error:
            if "FileAlreadyExistsException" in str(error.java_exception.getClass().getName()):
                return False
            raise
        return True

    def _put(self, name: str, text: str, *, replace: bool) -> None:
        path = self._path(name)
        files = path.getFileSystem(self._conf)
        if replace and str(files.getUri().getScheme()) == "file":
            _put_here(Path(str(path.toUri().getPath())), text)
            return
        is_store = self.is_in_store
        # To move a text to its place in a store would be to remove the old one first, and then to copy.
        out = files.create(path, replace) if is_store else self._create_beside(files, path, replace=replace)
        try:
            out.write(text.encode())
        except BaseException:
            (out.abort if is_store else out.cancel)()
            raise
        out.close()

    def _create_beside(self, files: Any, path: Any, *, replace: bool) -> Any:
        """A stream to a file that is moved to ``path`` when it is closed."""
        files.mkdirs(path.getParent())
        package = self._jvm.org.apache.spark.sql.execution.streaming
        stream = getattr(getattr(package, "CheckpointFileManager$"), "MODULE$").create(path.getParent(), self._conf)
        return stream.createAtomic(path, replace)

    def names(self, *, hidden: bool = False) -> list[str]:
        """The names of files and folders in it; empty when the folder is not there. ``hidden``: those too that readers pass over."""
        path = self._jvm.org.apache.hadoop.fs.Path(self.path)
        files = path.getFileSystem(self._conf)
        if not files.exists(path):
            return []
        names = [str(status.getPath().getName()) for status in files.listStatus(path)]
        return sorted(name for name in names if hidden or not name.startswith((".", "_")))

    def list_files(self) -> list[str]:
        """The paths from here of all files in it and below, those left out that are hidden; empty when the folder is not there."""
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
        path = self._jvm.org.apache.hadoop.fs.Path(self.path)
        return bool(path.getFileSystem(self._conf).exists(path))

    def size(self, name: str) -> int:
        """The bytes of a file, or of all files in a folder."""
        path = self._path(name)
        return int(path.getFileSystem(self._conf).getContentSummary(path).getLength())

    def mark_complete(self, name: str) -> None:
        """Notes that a folder in it was written to its end."""
        self.write(f"{name}/{_WHOLE}", "")

    def is_complete(self, name: str) -> bool:
        """Whether a folder in it was written to its end."""
        return any(self.read(f"{name}/{note}") is not None for note in (_WHOLE, _SUCCESS))

    def move(self, name: str, path: str) -> None:
        """Renames a file or folder in it to a whole path, which is not there."""
        old, new = self._path(name), self._jvm.org.apache.hadoop.fs.Path(path)
        files = old.getFileSystem(self._conf)
        files.mkdirs(new.getParent())
        if not files.rename(old, new):
            raise OSError(f"{old.toString()} could not be moved to {path}")

    def delete(self, name: str) -> None:
        path = self._path(name)
        path.getFileSystem(self._conf).delete(path, True)

    def probe(self) -> str:
        """Writes a file, lists and removes it, and the folders that were not there before; raises what the filesystem says.

        Returns that it went well, in words. ConfigError where the listing lacks the file.
        """
        path, missing = self._jvm.org.apache.hadoop.fs.Path(self.path), []
        files = path.getFileSystem(self._conf)
        while path is not None and not files.exists(path):
            missing.append(path)
            path = path.getParent()
        self.write(PROBE, "")
        is_listed = PROBE in self.names(hidden=True)
        self.delete(PROBE)
        for made in missing:
            files.delete(made, False)
        if not is_listed:
            raise ConfigError(
                "a file that was just written is not in the listing of its folder",
                where=self.path,
                fix="use a store that lists at once what was written, as S3 does since December 2020: tables that are found by "
                "listings lose rows in others, and a run does not find the newest batch of its checkpoint",
            )
        return f"{self.path}: may be written"

    def make_private(self) -> None:
        """On a local disk, makes it a folder that nobody else may enter, unless it is there."""
        uri = self._jvm.org.apache.hadoop.fs.Path(self.path).toUri()
        if str(uri.getScheme()) == "file" and not (path := Path(str(uri.getPath()))).exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)

    def make(self) -> None:
        """Creates the folder and its parents; raises what the filesystem says when that is not allowed."""
        path = self._jvm.org.apache.hadoop.fs.Path(self.path)
        path.getFileSystem(self._conf).mkdirs(path)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.path, name)


def _put_here(path: Path, text: str) -> None:
    """On a local disk, where Hadoop removes the old file before it moves the new one into its place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        made.write_bytes(text.encode())
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # of the old text
        os.replace(made, path)  # noqa: PTH105 - what it is called everywhere
    finally:
        made.unlink(missing_ok=True)
