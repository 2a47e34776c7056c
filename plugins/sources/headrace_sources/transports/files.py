"""Files of change events in a folder of any Hadoop filesystem, as S3 sinks write them.

Spark's own file stream finds new files; what is in them is read per topic and schema inside the batch. The topic comes
from the file's name (``<topic>+<partition>+<start offset>.avro``, the Confluent S3 sink), else from its folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

from pydantic import Field, field_validator

from headrace.sdk import (
    Config,
    ConfigError,
    DataError,
    Events,
    Folder,
    Format,
    HeadraceError,
    NativeSource,
    PluginError,
    RejectReason,
    Scan,
    SourceContext,
    events as E,
    first_line,
    full_text,
    quote_name,
    registry,
    sortable,
    union_schemas,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

_S3_SINK_NAME = re.compile(r"(?P<topic>.+)\+(?P<partition>\d+)\+(?P<offset>\d+)\.[^/]+")
_LISTING = "path string, modificationTime timestamp, length bigint, content binary"
_STREAM_OPTIONS = (
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "latestFirst",
    "fileNameOnly",
    "maxFileAge",
    "cleanSource",
    "sourceArchiveDir",
)
_LISTING_OPTIONS = ("pathGlobFilter", "modifiedBefore", "modifiedAfter", "recursiveFileLookup")
_READER_OPTIONS = ("ignoreMissingFiles", "ignoreCorruptFiles")


class FilesConfig(Config):
    """Files of change events. Options of Spark's file stream, and of its reader of that format, stand beside ``path``."""

    passthrough: ClassVar[tuple[str, ...]] = _STREAM_OPTIONS + _LISTING_OPTIONS + _READER_OPTIONS

    #: A folder, or a glob of folders, on any filesystem that Hadoop knows.
    path: str = Field(min_length=1)
    #: How the files are written: ``avro``, ``json`` (one event a line) or ``parquet``.
    format: str

    @classmethod
    def passed(cls, data: Mapping[str, Any]) -> Collection[str]:
        try:
            formats = [registry().get("format", str(data.get("format")))]
        except PluginError:  # the field's own validator says it
            formats = [found for _, found in registry().all("format")]
        return (*cls.passthrough, *(option for found in formats for option in found.Config.passthrough))

    @field_validator("format")
    @classmethod
    def _known(cls, value: str) -> str:
        try:
            registry().get("format", value)
        except PluginError as error:
            raise ValueError(f"{error.what}; {error.fix}") from None
        return value


class FilesSource(NativeSource):
    """``files: {path: bronze/, format: avro}``."""

    name = "files"
    api_version = 1
    Config = FilesConfig
    yields_records = False

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        kind: type[Format] = registry().get("format", self.config.format)
        extra = self.config.options()
        self._batch: tuple[SparkSession, list[str]] | None = None
        self._format = kind({key: extra[key] for key in kind.Config.passthrough if key in extra})
        # What the source needs is what its format needs.
        self.jars = self._format.jars  # type: ignore[misc]
        self.jvm_class = self._format.jvm_class  # type: ignore[misc]
        self.sql_conf = self._format.sql_conf  # type: ignore[misc]

    def session_conf(self) -> dict[str, str]:
        return self._format.session_conf()

    def check(self, spark: SparkSession | None = None) -> None:
        if spark is None:
            return
        path = spark._jvm.org.apache.hadoop.fs.Path(self.config.path)  # type: ignore[union-attr]  # noqa: SLF001
        where = f"source files, path {self.config.path}"
        try:
            files = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001
            found = files.globStatus(path)
        except Exception as error:
            raise ConfigError(
                first_line(error), where=where, fix="correct `path:`, or what `spark:` says of it"
            ) from error
        if not found:
            raise ConfigError("there is no such folder", where=where, fix="make it, or correct `path:`")

    def stream(self, spark: SparkSession) -> DataFrame:
        options = self.config.options()
        reader = spark.readStream.format("binaryFile").schema(_LISTING)
        # Spark's default ignores a file that is a week older than the newest one it saw: such a file would be lost.
        reader = reader.option("maxFileAge", "36500d").option("recursiveFileLookup", "true")
        for key, value in options.items():
            if key in _STREAM_OPTIONS + _LISTING_OPTIONS:
                reader = reader.option(key, value)
        return reader.load(self.config.path).select("path")

    def replay_range(self, context: SourceContext, topics: Sequence[str]) -> Mapping[str, Any] | None:
        files = _planned(context)
        return None if files is None else {topic: [f for f in files if _topic(f) == topic] for topic in topics}

    def replay_range_of(self, files: Sequence[str]) -> Any | None:
        return [unquote(file) for file in files]

    def events(self, context: SourceContext, frame: DataFrame) -> list[Events]:
        if context.replay is not None:
            return self._events(context, [file for parts in context.replay.values() for part in parts for file in part])
        files = _planned(context)
        if files is None:
            files = [row["path"] for row in frame.select("path").collect()]
        return self._events(context, files)

    def peek(self, context: SourceContext) -> list[Events]:
        """One file of each topic, the last by name: enough for names and columns."""
        reader = context.spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        for key, value in self.config.options().items():
            if key in _LISTING_OPTIONS:
                reader = reader.option(key, value)
        files = sorted(unquote(uri) for uri in reader.load(self.config.path).inputFiles())
        return self._events(context, {_topic(file): file for file in files}.values())

    def explain(self, error: BaseException) -> HeadraceError | None:
        found = unreadable(error)
        if found is None and self._batch is not None and "org.apache.avro" in full_text(error):
            damaged = self._format.damaged(*self._batch)
            found = _damaged(damaged) if damaged else None
        return found or self._format.explain(error)

    def _events(self, context: SourceContext, files: Iterable[str]) -> list[Events]:
        topics: dict[str, list[str]] = {}
        there = sorted(self._there(context, files))
        self._batch = context.spark, there
        for file in there:
            topics.setdefault(_topic(file), []).append(file)
        found = [self._read(context, topic, topics[topic]) for topic in sorted(topics)]
        return [events for events in found if events is not None]

    def _read(self, context: SourceContext, topic: str, files: list[str]) -> Events | None:
        read = self._container if self._format.container else self._lines
        try:
            return read(context, topic, files)
        except Exception as error:  # noqa: BLE001 - its table raises it, and the others go on
            return Events.failed(topic, error)

    def _there(self, context: SourceContext, files: Iterable[str]) -> Iterable[str]:
        """The files without those that are gone, where the options say to go on without them."""
        if self.config.options().get("ignoreMissingFiles") != "true":
            return files
        conf = context.spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        paths = [(file, context.spark._jvm.org.apache.hadoop.fs.Path(file)) for file in files]  # type: ignore[union-attr]  # noqa: SLF001
        return [file for file, path in paths if path.getFileSystem(conf).exists(path)]

    def _reader_options(self) -> dict[str, str]:
        options = {k: v for k, v in self.config.options().items() if k not in _STREAM_OPTIONS + _LISTING_OPTIONS}
        # The paths come from a listing: a bracket in one is a bracket, not a glob.
        return {"recursiveFileLookup": "true", "__globPaths__": "false", **options}

    def _container(self, context: SourceContext, topic: str, files: list[str]) -> Events | None:
        options = self._reader_options()
        scans = [
            (scan, numbered)
            for numbered, group in _by_numbering(files)
            for scan in _joined(self._format.scans(context.spark, group, options))
        ]
        if not scans:
            return None
        may = RejectReason.SCHEMA_INCOMPATIBLE in context.schemas.ruled
        kinds = {str(number): scan.schema for number, (scan, _) in enumerate(scans)}
        schema, aside = union_schemas(kinds, f"topic {topic}", aside=may)
        load = partial(self._load_container, scans=scans, aside={int(number) for number in aside}, options=options)
        return Events(topic, schema, load)

    def _load_container(
        self,
        session: SparkSession,
        schema: StructType,
        *,
        scans: list[tuple[Scan, bool]],
        aside: Collection[int],
        options: Mapping[str, str],
    ) -> DataFrame:
        """``aside``: the scans whose types contradict those of the others."""
        from pyspark.sql import functions as F

        frames = []
        for number, (scan, numbered) in enumerate(scans):
            wrong = RejectReason.SCHEMA_INCOMPATIBLE if number in aside else None
            own = scan.schema if wrong else _restricted(scan.schema, schema)
            whole = F.struct(*[F.col(quote_name(name)) for name in own.names])
            value = F.lit(None).cast(schema) if wrong else _fitted(whole, own, schema)
            columns = [value.alias(E.VALUE), F.lit(wrong).cast("string").alias(E.ERROR), *_place(numbered=numbered)]
            frame = self._format.read(session, scan, own, options)
            # A record of a container file has no bytes of its own: JSON says the same, and is made for dead letters alone.
            if wrong:
                frames.append(frame.select(*columns, _json(whole)))
            else:
                frames.append(frame.select(*columns).select("*", _json(F.col(E.VALUE))))
        return reduce(lambda a, b: a.unionByName(b), frames)

    def _lines(self, context: SourceContext, topic: str, files: list[str]) -> Events | None:
        options = self._reader_options()

        def lines(session: SparkSession) -> DataFrame:
            from pyspark.sql import functions as F

            frames = []
            for numbered, group in _by_numbering(files):
                frame = session.read.format("text").options(**options).load(group)
                body = F.col("value").cast("binary")
                frame = frame.select(body.alias(E.VALUE), *_place(numbered=numbered), body.alias(E.RAW))
                frames.append(frame.where(F.col(E.VALUE).cast("string").rlike(r"\S")))
            return reduce(lambda a, b: a.unionByName(b), frames)

        schema = self._format.schema(context.spark, lines(context.spark), E.VALUE, f"{topic}-value", context.schemas)

        def load(session: SparkSession, wanted: StructType) -> DataFrame:
            return self._format.decode(lines(session), E.VALUE, wanted, E.ERROR)

        return Events(topic, schema, load) if schema.fields else None


def _planned(context: SourceContext) -> list[str] | None:
    """The batch's files from the stream's own log, which costs no Spark job; None when it does not tell them.

    A batch may hold several entries of the log, for a crash can come between an entry and the batch that takes it.
    """
    if context.stream is None or context.batch is None:
        return None
    offsets, log = context.stream.folder("offsets"), context.stream.folder("sources").folder("0")
    end, start = (_log_offset(offsets, batch) for batch in (context.batch, context.batch - 1))
    if end is None or (start is None and context.batch > 0):
        return None
    files = []
    for entry in range(0 if start is None else start + 1, end + 1):
        text = log.read(f"{entry}") or log.read(f"{entry}.compact")  # every tenth holds all entries before it
        if text is None:
            return None
        found = map(json.loads, text.splitlines()[1:])
        files += [unquote(file["path"]) for file in found if file["batchId"] == entry]
    return files


def _log_offset(offsets: Folder, batch: int) -> int | None:
    """How far in its log the file stream was at the end of a batch."""
    text = offsets.read(f"{batch}") if batch >= 0 else None
    return None if text is None else int(json.loads(text.splitlines()[-1])["logOffset"])


def _topic(file: str) -> str:
    *folders, name = file.split("/")
    if match := _S3_SINK_NAME.fullmatch(name):
        return match["topic"]
    # Firehose and many others sort files into folders by date, as 2026/01/31/ or day=2026-01-31/.
    return next(part for part in reversed(folders) if part and "=" not in part and not part.isdigit())


def _by_numbering(files: Iterable[str]) -> list[tuple[bool, list[str]]]:
    """The files whose names tell the offset of their first record, and the others; empty groups left out."""
    groups: dict[bool, list[str]] = {True: [], False: []}
    for file in files:
        groups[_S3_SINK_NAME.fullmatch(file.rsplit("/", 1)[-1]) is not None].append(file)
    return [(numbered, group) for numbered, group in groups.items() if group]


_GONE = re.compile(
    r"Path does not exist: (\w+:.+?)\.?(?: SQLSTATE: \w+)?$|File does not exist: (\S+)|File (\w+:.+?) does not exist",
    re.MULTILINE,
)
_DAMAGED = re.compile(
    r"Encountered error while reading file (\w+:\S+?)\.?(?:\s|$)|\[FAILED_READ_FILE\S*\].* (\w+:/\S+?)\.?(?:\s|$)"
)


def unreadable(error: BaseException) -> HeadraceError | None:
    """What Spark says when a file is gone or damaged, with the file's name."""
    text = full_text(error)
    if match := _GONE.search(text):
        return DataError(
            "a file that was found is gone",
            where=match[1] or match[2] or match[3],
            fix="put it back, or set `ignoreMissingFiles: true` beside `path:` to go on without it",
        )
    if match := _DAMAGED.search(text):
        return _damaged(re.sub("^file:/+", "file:/", unquote(match[1] or match[2])))
    return None


def _damaged(file: str) -> DataError:
    move = "move it out of the folder and set `ignoreMissingFiles: true` beside `path:`"
    fix = f"replace it by a whole one, or {move}; nothing of this batch was written"
    return DataError("the file is cut short or damaged", where=file, fix=fix)


def _place(*, numbered: bool) -> list[Column]:
    """Where a record lies: its file's first offset, or the file's time and name; then the block and the row in it.

    How two files lie to each other does not depend on what else is in the batch.
    """
    from pyspark.sql import functions as F

    file = F.col("_metadata.file_path")
    if numbered:
        # Unlike a column of _metadata, it costs no copy of the row.
        name = F.input_file_name()
        partition = F.substring_index(F.substring_index(name, "+", -2), "+", 1).cast("int")
        offset = F.substring_index(F.substring_index(name, "+", -1), ".", 1).cast("bigint")
        first = [sortable(offset)]
    else:
        partition, offset = F.lit(None).cast("int"), F.lit(None).cast("bigint")
        # Object stores keep whole seconds: files of one second are taken in the order of their names.
        written = sortable(F.unix_millis("_metadata.file_modification_time"))
        first = [written, F.col("_metadata.file_name"), F.lit("/"), sortable(F.crc32(file))]
    # Row ids rise inside a task's part of a file; their upper bits are the task, which says nothing about the file.
    row = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << 33) - 1))
    place = F.concat(*first, sortable(F.expr("input_file_block_start()")), sortable(row))
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


def _json(value: Column) -> Column:
    from pyspark.sql import functions as F

    return F.to_json(value).cast("binary").alias(E.RAW)


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


def _fitted(value: Column, own: DataType, wanted: DataType) -> Column:
    """A value in a wider type: fields that it lacks are null, narrower ones are widened."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, StructType

    if own == wanted:
        return value
    if isinstance(own, StructType) and isinstance(wanted, StructType):
        fields = []
        for field in wanted:
            if field.name in own.names:
                column = _fitted(value.getField(field.name), own[field.name].dataType, field.dataType)
            else:
                column = F.lit(None).cast(field.dataType)
            fields.append(column.alias(field.name))
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(own, ArrayType) and isinstance(wanted, ArrayType):
        return F.transform(value, lambda item: _fitted(item, own.elementType, wanted.elementType))
    return value.cast(wanted)
