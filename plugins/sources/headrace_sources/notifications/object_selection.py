"""Selection of the objects that a listing of ``path`` finds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: ``path`` of a bucket, with the file system of Hadoop or of EMR.
BUCKET_PATH = re.compile(r"(?P<root>s3[an]?://[^/]+)(?:/(?P<folder>.*))?")
#: Files that are converted from Java to Python at once.
_CHUNK = 10_000


@dataclass(frozen=True)
class ObjectFile:
    """Object as a file of Hadoop. ``time``: milliseconds since 1970."""

    path: str
    size: int
    time: int


@dataclass(frozen=True)
class ObjectSelection:
    """Objects that Spark finds in a folder: not hidden, and not excluded by options of the listing."""

    #: File system and bucket: ``s3a://landing``.
    root: str
    #: For each alternative of the glob, the expressions of its folders.
    folders: Sequence[Sequence[re.Pattern[str]]]
    #: Expression of file names, and the bounds of the modification time.
    name: re.Pattern[str] | None = None
    after: int | None = None
    before: int | None = None

    def selects(self, file: ObjectFile) -> bool:
        """Return whether a listing finds the file."""
        if not file.path.startswith(f"{self.root}/") or file.path.endswith("/"):
            return False
        parts = file.path.removeprefix(f"{self.root}/").split("/")
        is_recent = (self.after is None or file.time > self.after) and (self.before is None or file.time < self.before)
        is_named = self.name is None or self.name.fullmatch(parts[-1]) is not None
        return is_recent and is_named and any(_is_in(parts, folder) for folder in self.folders)


def name_file(bucket_root: str, bucket: str, key: str) -> str:
    """Return the path of an object in Hadoop's file system, which has no empty folder names."""
    scheme = bucket_root.partition(":")[0]
    return f"{scheme}://{bucket}/{re.sub('/+', '/', key)}"


def _is_in(parts: Sequence[str], folder: Sequence[re.Pattern[str]]) -> bool:
    """Return whether a file is in a folder and not hidden. A glob may also match the file itself."""
    if len(parts) < len(folder) or not all(map(re.Pattern.fullmatch, folder, parts)):
        return False
    return not any(map(_is_hidden, parts[len(folder) :] or parts[-1:]))


def _is_hidden(name: str) -> bool:
    """Return whether Spark's listings omit a name."""
    if name.startswith(("_common_metadata", "_metadata")):
        return False
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")


def open_selection(spark: SparkSession, path: str, options: Mapping[str, str]) -> ObjectSelection:
    """Return the selection of a path in a bucket. ``options``: options of Spark's listing."""
    match = BUCKET_PATH.fullmatch(path)
    assert match, "the config checks the path"
    fs: Any = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]  # noqa: SLF001

    def compile_glob(glob: str) -> re.Pattern[str]:
        return re.compile(str(fs.GlobPattern(glob).compiled().pattern()), re.DOTALL)

    folders = [
        [compile_glob(part) for part in glob.split("/") if part]
        for glob in map(str, fs.GlobExpander.expand(match["folder"] or ""))
    ]
    name = options.get("pathGlobFilter")
    after, before = (_read_time(spark, options.get(option)) for option in ("modifiedAfter", "modifiedBefore"))
    return ObjectSelection(match["root"], folders, compile_glob(name) if name else None, after, before)


def _read_time(spark: SparkSession, text: str | None) -> int | None:
    """Return a timestamp in the session's time zone, as Spark parses it, in milliseconds."""
    if text is None:
        return None
    row = spark.sql("SELECT unix_millis(CAST(:text AS TIMESTAMP))", args={"text": text}).head()
    return None if row is None else row[0]


def list_objects(spark: SparkSession, path: str) -> Iterator[ObjectFile]:
    """Yield all files in a folder or a glob of folders. In S3, a request lists a thousand objects of all subfolders."""
    jvm: Any = spark._jvm  # noqa: SLF001
    root = jvm.org.apache.hadoop.fs.Path(path)
    files = root.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001
    mapper = _make_mapper(jvm)
    for folder in files.globStatus(root) or ():
        found = jvm.org.apache.hadoop.util.functional.RemoteIterators.toList(files.listFiles(folder.getPath(), True))
        size = found.size()
        for first in range(0, size, _CHUNK):
            # Each call into the JVM takes as long as the conversion of a hundred files.
            text = mapper.writeValueAsString(found.subList(first, min(first + _CHUNK, size)))
            for status in json.loads(text):
                yield ObjectFile(unquote(status["path"]["uri"]), status["length"], status["modification_time"])


def _make_mapper(jvm: Any) -> Any:
    """Return Java's JSON mapper for the fields of a file, because its getters have side effects."""
    annotation = jvm.com.fasterxml.jackson.annotation
    accessor, visibility = annotation.PropertyAccessor, getattr(annotation, "JsonAutoDetect$Visibility")
    mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
    mapper.setVisibility(accessor.ALL, visibility.NONE)
    return mapper.setVisibility(accessor.FIELD, visibility.ANY)
