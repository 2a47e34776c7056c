"""Files of change events in a folder of any Hadoop filesystem, as S3 sinks write them.

Spark's own file stream finds new files; what is in them is read per topic and schema inside the batch. The topic comes
from the file's name (``<topic>+<partition>+<start offset>.avro``, the Confluent S3 sink), else from its folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator

from headrace.config.base import Config
from headrace.contracts import events as E
from headrace.contracts.events import Events
from headrace.contracts.format import Format, Scan
from headrace.contracts.position import sortable
from headrace.contracts.source import NativeSource, SourceContext
from headrace.engine.schemas import merged
from headrace.errors import ConfigError, DataError, HeadraceError
from headrace.registry import registry

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_S3_SINK_NAME = re.compile(r"(?P<topic>.+)\+(?P<partition>\d+)\+(?P<offset>\d+)\.[^/]+")
_LISTING = "path string, modificationTime timestamp, length bigint, content binary"
#: Options of Spark's file stream; all other options go to the format's reader.
_STREAM_OPTIONS = ("maxFilesPerTrigger", "maxBytesPerTrigger", "latestFirst", "fileNameOnly", "maxFileAge", "cleanSource", "sourceArchiveDir")
_LISTING_OPTIONS = ("pathGlobFilter", "modifiedBefore", "modifiedAfter", "recursiveFileLookup")
_READER_OPTIONS = ("ignoreMissingFiles", "ignoreCorruptFiles", "encoding", "dateFormat", "timestampFormat", "timestampNTZFormat", "locale")
_READER_OPTIONS += ("allowComments", "allowUnquotedFieldNames", "allowSingleQuotes", "allowNonNumericNumbers", "primitivesAsString")
_READER_OPTIONS += ("prefersDecimal", "positionalFieldMatching", "datetimeRebaseMode", "lineSep", "compression")


class FilesConfig(Config):
    """Files of change events."""

    passthrough: ClassVar[tuple[str, ...]] = _STREAM_OPTIONS + _LISTING_OPTIONS + _READER_OPTIONS

    #: A folder, or a glob of folders, on any filesystem that Hadoop knows.
    path: str
    #: How the files are written: ``avro``, ``json`` (one event a line) or ``parquet``.
    format: str

    @field_validator("format")
    @classmethod
    def _known(cls, value: str) -> str:
        registry().get("format", value)
        return value


@dataclass(frozen=True)
class _File:
    path: str
    modified_ms: int

    @property
    def s3_sink_name(self) -> re.Match[str] | None:
        return _S3_SINK_NAME.fullmatch(self.path.rsplit("/", 1)[-1])

    @property
    def topic(self) -> str:
        if match := self.s3_sink_name:
            return match["topic"]
        folders = [part for part in self.path.split("/")[:-1] if part and "=" not in part]
        return folders[-1]


class FilesSource(NativeSource):
    """``files: {path: bronze/, format: avro}``."""

    name = "files"
    api_version = 1
    Config = FilesConfig
    gives_records = False

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self._format: Format = registry().get("format", self.config.format)()
        self.jars = self._format.jars
        self.jvm_class = self._format.jvm_class

    def check(self, spark: SparkSession | None = None) -> None:
        if spark is None:
            return
        path = spark._jvm.org.apache.hadoop.fs.Path(self.config.path)  # type: ignore[union-attr]  # noqa: SLF001
        files = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001
        if not files.globStatus(path):
            raise ConfigError("there is no such folder", where=f"source files, path {self.config.path}", fix="make it, or correct `path:`")

    def stream(self, spark: SparkSession) -> DataFrame:
        options = self.config.options()
        reader = spark.readStream.format("binaryFile").schema(_LISTING)
        # Spark's default ignores a file that is a week older than the newest one it saw: such a file would be lost.
        reader = reader.option("maxFileAge", "36500d").option("recursiveFileLookup", "true")
        for key, value in options.items():
            if key in _STREAM_OPTIONS + _LISTING_OPTIONS:
                reader = reader.option(key, value)
        return reader.load(self.config.path).select("path", "modificationTime")

    def events(self, context: SourceContext, frame: DataFrame) -> list[Events]:
        from pyspark.sql import functions as F

        listed = frame.select("path", F.unix_millis("modificationTime").alias("ms")).collect()
        return self._events(context, [_File(row["path"], row["ms"]) for row in listed])

    def peek(self, context: SourceContext) -> list[Events]:
        """The newest file of each topic: enough for names and columns."""
        from pyspark.sql import functions as F

        reader = context.spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        for key, value in self.config.options().items():
            if key in _LISTING_OPTIONS:
                reader = reader.option(key, value)
        listed = reader.load(self.config.path).select("path", F.unix_millis("modificationTime").alias("ms")).collect()
        newest: dict[str, _File] = {}
        for file in sorted((_File(row["path"], row["ms"]) for row in listed), key=lambda f: (f.modified_ms, f.path)):
            newest[file.topic] = file
        return self._events(context, newest.values())

    def explain(self, error: BaseException) -> HeadraceError | None:
        return unreadable(error)

    def _events(self, context: SourceContext, files: Iterable[_File]) -> list[Events]:
        topics: dict[str, list[_File]] = {}
        for file in sorted(files, key=lambda f: f.path):
            topics.setdefault(file.topic, []).append(file)
        read = self._container if self._format.container else self._lines
        return [read(context, topic, found) for topic, found in sorted(topics.items())]

    def _reader_options(self) -> dict[str, str]:
        options = {k: v for k, v in self.config.options().items() if k in _READER_OPTIONS}
        # The paths come from a listing: a bracket in one is a bracket, not a glob.
        return {"recursiveFileLookup": "true", "__globPaths__": "false", **options}

    def _container(self, context: SourceContext, topic: str, files: list[_File]) -> Events:
        options = self._reader_options()
        scans = self._format.scans(context.spark, [file.path for file in files], options)
        schema: StructType = reduce(lambda a, b: merged(a, b, f"topic {topic}: column"), [scan.schema for scan in scans])  # type: ignore[arg-type, return-value]
        return Events(topic, schema, partial(self._load_container, scans=_joined(scans), options=options, numbered=_numbered(files)))

    def _load_container(
        self, session: SparkSession, schema: StructType, *, scans: list[Scan], options: Mapping[str, str], numbered: bool
    ) -> DataFrame:
        from pyspark.sql import functions as F

        frames = []
        for scan in scans:
            wanted = _restricted(scan.schema, schema)
            frame = self._format.read(session, scan, wanted, options)
            value = F.struct(*[F.col("`" + name.replace("`", "``") + "`") for name in wanted.names])
            if wanted != schema:
                value = _aligned(value, wanted, schema)
            frames.append(
                frame.select(value.alias(E.VALUE), *_place(numbered), F.lit(None).cast("string").alias(E.ERROR), F.lit(None).cast("binary").alias(E.RAW))
            )
        return reduce(lambda a, b: a.unionByName(b), frames)

    def _lines(self, context: SourceContext, topic: str, files: list[_File]) -> Events:
        paths, options = [file.path for file in files], self._reader_options()

        def lines(session: SparkSession) -> DataFrame:
            from pyspark.sql import functions as F

            frame = session.read.format("text").options(**options).load(paths)
            frame = frame.select(F.col("value").cast("binary").alias(E.VALUE), *_place(_numbered(files)))
            return frame.where(F.length(E.VALUE) > 0).withColumn(E.RAW, F.col(E.VALUE))

        schema = self._format.schema(context.spark, lines(context.spark), E.VALUE, f"{topic}-value", context.schemas)

        def load(session: SparkSession, wanted: StructType) -> DataFrame:
            return self._format.decode(lines(session), E.VALUE, wanted, E.ERROR)

        return Events(topic, schema, load)


def unreadable(error: BaseException) -> HeadraceError | None:
    """What Spark says when a file is gone or damaged, with the file's name."""
    from headrace.engine.trouble import full_text

    text = full_text(error)
    if match := re.search(r"(?:File does not exist: |File |PATH_NOT_FOUND\] Path does not exist: )(file:\S+|\w+://\S+?)( does not exist|\.? |\n|$)", text):
        if "does not exist" in match[0] or "PATH_NOT_FOUND" in match[0]:
            return DataError(
                "a file that was found is gone",
                where=match[1].rstrip("."),
                fix="put it back, or set `ignoreMissingFiles: true` beside `path:` to go on without it",
            )
    if match := re.search(r"(?:Encountered error while reading file|FAILED_READ_FILE\S*\] ?\S* ?\w* ?\w* ?\w*) (\w+:\S+?)\.?(?:\s|$)", text):
        return DataError(
            "the file is cut short or damaged",
            where=match[1],
            fix="replace it by a whole one, or move it out of the folder and set `ignoreMissingFiles: true` beside `path:`; nothing of this batch was written",
        )
    return None


def _numbered(files: Iterable[_File]) -> bool:
    """Whether every name tells the first offset in the file, so that offsets order the records of all files."""
    return all(file.s3_sink_name for file in files)


def _place(numbered: bool) -> list[Column]:
    """Where a record lies: its file's first offset, or the file's time, then the block and the row in it."""
    from pyspark.sql import functions as F

    name = F.col("_metadata.file_name")
    offset = F.substring_index(F.substring_index(name, "+", -1), ".", 1).cast("bigint") if numbered else F.lit(None).cast("bigint")
    partition = F.substring_index(F.substring_index(name, "+", -2), "+", 1).cast("int") if numbered else F.lit(None).cast("int")
    file = F.col("_metadata.file_path")
    first = [sortable(offset)] if numbered else [sortable(F.unix_millis("_metadata.file_modification_time")), sortable(F.crc32(file))]
    # Row ids rise inside a task's part of a file; their upper bits are the task, which says nothing about the file.
    row = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << 33) - 1))
    place = F.concat(*first, sortable(F.col("_metadata.file_block_start")), sortable(row))
    return [partition.alias(E.PARTITION), offset.alias(E.OFFSET), file.alias(E.FILE), place.alias(E.PLACE)]


def _joined(scans: list[Scan]) -> list[Scan]:
    """Fewer, larger scans: files whose common columns have the same types are read in one go."""
    result: list[Scan] = []
    for scan in scans:
        for i, other in enumerate(result):
            if (both := _compatible(other.schema, scan.schema)) is not None:
                result[i] = Scan(other.files + scan.files, both)
                break
        else:
            result.append(scan)
    return result


def _compatible(first: StructType, second: StructType) -> StructType | None:
    from pyspark.sql.types import StructField, StructType

    theirs = {field.name: field for field in second}
    fields = []
    for field in first:
        other = theirs.pop(field.name, None)
        kind = field.dataType
        if other is not None and kind != other.dataType:
            if not isinstance(kind, StructType) or not isinstance(other.dataType, StructType):
                return None
            both = _compatible(kind, other.dataType)
            if both is None:
                return None
            kind = both
        fields.append(StructField(field.name, kind, nullable=True))
    return StructType([*fields, *(StructField(f.name, f.dataType, nullable=True) for f in theirs.values())])


def _restricted(own: StructType, wanted: StructType) -> StructType:
    """The part of ``own`` that ``wanted`` has too."""
    from pyspark.sql.types import StructField, StructType

    fields = []
    for field in own:
        if field.name in wanted.names:
            other = wanted[field.name].dataType
            kind = field.dataType
            if isinstance(kind, StructType) and isinstance(other, StructType):
                kind = _restricted(kind, other)
            fields.append(StructField(field.name, kind, nullable=True))
    return StructType(fields)


def _aligned(value: Column, own: StructType, wanted: StructType) -> Column:
    """A struct with all fields of ``wanted`` in its types: absent ones null, narrower ones widened."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    fields = []
    for field in wanted:
        if field.name not in own.names:
            column = F.lit(None).cast(field.dataType)
        else:
            inner, kind = value.getField(field.name), own[field.name].dataType
            if isinstance(kind, StructType) and isinstance(field.dataType, StructType):
                column = F.when(inner.isNotNull(), _aligned(inner, kind, field.dataType))
            else:
                column = inner.cast(field.dataType)
        fields.append(column.alias(field.name))
    return F.struct(*fields)
