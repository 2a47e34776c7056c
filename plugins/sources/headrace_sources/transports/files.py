"""Files of change events in a folder of any Hadoop file system, as S3 sinks write them.

Spark's file stream finds new files: it lists the folder, or reads a log of the files that S3 event notifications name. A batch reads them per topic and schema. The topic comes from the file's name if it has the form
``<topic>+<partition>+<start offset>.avro`` (the Confluent S3 sink), otherwise from its folder. Files of keys and headers are skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

from pydantic import Field, field_validator, model_validator

from headrace.sdk import (
    Config,
    ConfigError,
    Dataset,
    Events,
    Format,
    HeadraceError,
    NativeSource,
    PluginError,
    SourceContext,
    get_plugin,
    list_plugins,
)
from headrace.sdk.error_text import first_line
from headrace.sdk.findings import Checkup, Finding, FindingKind, Severity
from headrace_sources.notifications.notification_queue import NotificationQueue
from headrace_sources.notifications.notifications_config import NotificationsConfig
from headrace_sources.notifications.notified_files import NotifiedFiles
from headrace_sources.notifications.object_selection import BUCKET_PATH, list_objects, open_selection
from headrace_sources.transports.container_files import open_container_files
from headrace_sources.transports.file_errors import explain_read_error, find_damaged_compression, make_damage_error
from headrace_sources.transports.file_listing import (
    count_files,
    find_folders,
    find_omitted_kind,
    find_topic,
    group_by_topic,
    has_no_folders,
    read_planned_files,
    write_glob,
)
from headrace_sources.transports.file_places import BLOCK_CONF
from headrace_sources.transports.forbidden_files import (
    drop_missing,
    find_forbidden,
    is_denied,
    make_forbidden_error,
    replace_forbidden,
)
from headrace_sources.transports.line_files import open_line_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOLDER_MISSING = FindingKind("source-folder-missing", Severity.ERROR, "The folder of the source does not exist.")
_LISTING = "path string, modificationTime timestamp_ltz, length bigint, content binary"
_STREAM_OPTIONS = (
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "latestFirst",
    "fileNameOnly",
    "maxFileAge",
    "cleanSource",
    "sourceArchiveDir",
)
#: Days that Spark can count in milliseconds, and the age of no file. One file with a time in the future makes all others old.
_ANY_AGE = "100000000000d"
_LISTING_OPTIONS = ("pathGlobFilter", "modifiedBefore", "modifiedAfter", "recursiveFileLookup")
_READER_OPTIONS = ("ignoreMissingFiles", "ignoreCorruptFiles")
#: Options that Spark's stream rejects without a listing, or that compare less than the path.
_LISTING_ONLY = ("cleanSource", "sourceArchiveDir", "fileNameOnly")
#: With this setting, the stream would list the folder of the log.
_IGNORES_LOG = "spark.sql.streaming.fileStreamSink.ignoreMetadata"

#: Options that Spark reads as numbers.
_NUMBERS = ("maxFilesPerTrigger", "maxBytesPerTrigger")


class FilesConfig(Config):
    """Files of change events. Options of Spark's file stream and of its reader of the format go next to ``path``."""

    passthrough: ClassVar[tuple[str, ...]] = _STREAM_OPTIONS + _LISTING_OPTIONS + _READER_OPTIONS

    path: str = Field(min_length=1)
    """A folder, or a glob of folders, on any file system that Hadoop supports."""

    format: str
    """Format of the files: ``avro``, ``csv``, ``json`` (one event per line) or ``parquet``."""

    notifications: NotificationsConfig | None = None
    """S3 event notifications that name new objects. Default: each batch lists ``path``."""

    @classmethod
    def explain_key(cls, key: str, value: Any) -> tuple[str, str] | None:
        if key in _NUMBERS and not (str(value).isascii() and str(value).isdigit() and int(value)):
            return f"`{key}` is not a whole number above 0", "write digits only"
        return super().explain_key(key, value)

    @classmethod
    def passthrough_patterns(cls, data: Mapping[str, Any]) -> Collection[str]:
        try:
            formats = [get_plugin("format", str(data.get("format")))]
        except PluginError:  # the field's validator reports it
            formats = [format_class for _, format_class in list_plugins("format")]
        return (*cls.passthrough, *(option for plugin in formats for option in plugin.Config.passthrough))

    @field_validator("format")
    @classmethod
    def _check_format(cls, value: str) -> str:
        try:
            get_plugin("format", value)
        except PluginError as error:
            raise ValueError(f"{error.what}; {error.fix}") from None
        return value

    @model_validator(mode="after")
    def _check_notifications(self) -> FilesConfig:
        if self.notifications is None:
            return self
        if not BUCKET_PATH.fullmatch(self.path):
            raise ValueError("`notifications` needs a `path` in a bucket: write it like s3a://landing/topics/")
        if used := [option for option in _LISTING_ONLY if option in self.options()]:
            raise ValueError(f"`{used[0]}` cannot be used with `notifications`: remove one of the two")
        return self


class FilesSource(NativeSource):
    """``files: {path: bronze/, format: avro}``."""

    name = "files"
    api_version = 1
    Config = FilesConfig
    yields_records = False

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        format_class: type[Format] = get_plugin("format", self.config.format)
        configured = self.config.options()
        #: The files of the last planned batch, one of which may be damaged.
        self._last_batch: tuple[SparkSession, list[str]] | None = None
        self._notified: NotifiedFiles | None = None
        self._is_bounded = False
        self._format = format_class(
            {key: configured[key] for key in format_class.Config.passthrough if key in configured}
        )
        # The source has the requirements of its format.
        self.jars = self._format.jars  # type: ignore[misc]
        self.jvm_class = self._format.jvm_class  # type: ignore[misc]
        self.sql_conf = {**self._format.sql_conf, **BLOCK_CONF}  # type: ignore[misc]

    def session_conf(self) -> dict[str, str]:
        return self._format.session_conf()

    def locate(self, topic: str) -> Dataset | None:
        path = self.config.path.rstrip("/")
        return Dataset.of_folder(path, *(() if path.rpartition("/")[2] == topic else (topic,)))

    def extras(self) -> Collection[str]:
        return ("aws",) if self.config.notifications else ()

    def notes(self) -> Iterator[str]:
        if self.config.notifications:
            yield "`notifications`: messages are deleted when their files are stored in the checkpoint, also messages about other objects"

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        if self.config.notifications:
            yield "source files, queue", NotificationQueue(self.config.notifications).describe()
        if not find_folders(spark, self.config.path):
            yield "source files", f"no object in {self.config.path} yet; the pipeline waits for files"

    def diagnose(self, checkup: Checkup) -> Iterator[Finding]:
        path, folder = self.config.path, checkup.find_local(self.config.path)
        is_glob = any(letter in path for letter in "*?[{")
        if (
            folder and not is_glob and not folder.exists() and checkup.spark is None
        ):  # with a session, `check` reports it
            yield Finding(
                FOLDER_MISSING, "no such folder", f"source files, path {path}", "create it, or correct `path:`"
            )

    def check(self, spark: SparkSession | None = None) -> None:
        if spark is None:
            return
        where = f"source files, path {self.config.path}"
        try:
            has_folders = find_folders(spark, self.config.path)
        except Exception as error:
            raise ConfigError(
                first_line(error), where=where, fix="correct `path:`, or the file system's options under `spark:`"
            ) from error
        # A bucket has a folder from its first object on: the pipeline waits for it.
        if not has_folders and not has_no_folders(self.config.path):
            raise ConfigError("no such folder", where=where, fix="create it, or correct `path:`")

    def check_stream(self, context: SourceContext) -> None:
        self._notified, self._is_bounded = self._open_notified(context), False

    def prepare_for_trigger_available_now(self, spark: SparkSession) -> None:
        self._is_bounded = True

    def poll(self) -> None:
        if self._notified is not None:
            self._notified.poll()

    def repair_plan(self, context: SourceContext, error: BaseException) -> bool:
        return context.stream is not None and is_denied(error) and replace_forbidden(context.spark, context.stream)

    def stream(self, spark: SparkSession) -> DataFrame:
        if self._notified is not None:
            self._notified.drain() if self._is_bounded else self._notified.poll()
        options = self.config.options()
        reader = spark.readStream.format("binaryFile").schema(_LISTING)
        # By default Spark ignores a file that is a week older than the newest one: its records would be lost.
        reader = reader.option("maxFileAge", _ANY_AGE).option("recursiveFileLookup", "true")
        for key, value in options.items():
            if key in _STREAM_OPTIONS + _LISTING_OPTIONS:
                reader = reader.option(key, value)
        return reader.load(self._notified.path if self._notified else self._find_path(spark)).select("path")

    def _find_path(self, spark: SparkSession) -> str:
        """Return the path for Spark's stream, which rejects a folder that does not exist yet."""
        path: str = self.config.path
        return path if find_folders(spark, path) else write_glob(path)

    def _open_notified(self, context: SourceContext) -> NotifiedFiles | None:
        """Return the files of notifications that the stream has not planned; None if it lists the folder."""
        config, spark = self.config.notifications, context.spark
        if config is None:
            return None
        assert context.stream is not None
        if set(context.stream.path) & set("{}[]*?\\"):
            fix = "use a folder without the characters {}[]*?\\"
            raise ConfigError(
                "its path is a glob to Spark's stream", where=f"checkpoint {context.stream.path}", fix=fix
            )
        if spark.conf.get(_IGNORES_LOG, "false") == "true":
            raise ConfigError(
                "`notifications` requires the log of Spark's file sink", where=_IGNORES_LOG, fix="set it to false"
            )
        selection = open_selection(spark, self.config.path, self._listing_options())
        list_files = partial(list_objects, spark, self.config.path)
        return NotifiedFiles(NotificationQueue(config), context.stream, selection, list_files, config.backfillInterval)

    def replay_range(self, context: SourceContext, topics: Sequence[str]) -> Mapping[str, Any] | None:
        return None if self._removes_files else self.describe_batch(context, topics)

    def describe_batch(self, context: SourceContext, topics: Sequence[str]) -> Mapping[str, Any] | None:
        files = read_planned_files(context)
        if files is None:
            return None
        return {topic: [file for file in files if find_topic(file) == topic] for topic in topics}

    @property
    def _removes_files(self) -> bool:
        """Whether Spark's stream deletes or moves the files of a finished batch."""
        return bool(self.config.options().get("cleanSource", "off").lower() != "off")

    def replay_range_of(self, files: Sequence[str]) -> Any | None:
        return [unquote(file) for file in files]

    def events(self, context: SourceContext, frame: DataFrame) -> list[Events]:
        if context.replay is not None:
            ranges = [files for parts in context.replay.values() for files in parts]
            return self._open_files(context, [file for files in ranges for file in files])
        files = read_planned_files(context)
        if files is None:
            files = [row["path"] for row in frame.select("path").collect()]
        if self._notified is not None:
            self._notified.note_planned(files)
        return self._open_files(context, files)

    def known_schemas(self, context: SourceContext) -> list[Events]:
        """Return the events of one file per topic, the last by name; none with notifications, because every start calls it."""
        if self.config.notifications:
            return []
        topics = group_by_topic(self._list_files(context.spark, self._listing_options()))
        return self._open_files(context, [files[-1] for files in topics.values()])

    def omitted(self, context: SourceContext) -> Mapping[str, int]:
        """Count files without events, files that options exclude, and hidden files, which Spark does not list."""
        options = self._listing_options()
        visible = self._list_files(context.spark, {})
        listed = self._list_files(context.spark, options) if options else visible
        kinds = Counter(kind for file in listed if (kind := find_omitted_kind(file)))
        kinds[f"excluded by {', '.join(options)}"] = len(visible) - len(listed)
        kinds["hidden, with a name that starts with `_` or `.`"] = count_files(context.spark, self.config.path) - len(
            visible
        )
        return {kind: count for kind, count in sorted(kinds.items()) if count > 0}

    def _listing_options(self) -> dict[str, str]:
        return {key: value for key, value in self.config.options().items() if key in _LISTING_OPTIONS}

    def _list_files(self, spark: SparkSession, options: Mapping[str, str]) -> list[str]:
        if not find_folders(spark, self.config.path):
            return []
        reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true").options(**options)
        return [unquote(uri) for uri in reader.load(self.config.path).inputFiles()]

    def explain(self, error: BaseException) -> HeadraceError | None:
        explained = self._format.explain(error) or explain_read_error(error, self.config.path)
        return explained or self._explain_damage(error)

    def _explain_damage(self, error: BaseException) -> HeadraceError | None:
        if self._last_batch is None:
            return None
        spark, files = self._last_batch
        file = self._format.find_damaged_file(spark, files, error) or find_damaged_compression(spark, files, error)
        return make_damage_error(file, error) if file else None

    def _open_files(self, context: SourceContext, files: Iterable[str]) -> list[Events]:
        if self.config.options().get("ignoreMissingFiles") == "true":
            files = drop_missing(context.spark, files)
        topics = group_by_topic(files)
        self._last_batch = context.spark, [file for group in topics.values() for file in group]
        opened = [self._open_topic(context, topic, group) for topic, group in topics.items()]
        return [events for events in opened if events is not None]

    def _open_topic(self, context: SourceContext, topic: str, files: list[str]) -> Events | None:
        open_files = open_container_files if self._format.container else open_line_files
        try:
            with context.schemas.hold(topic):
                return open_files(self._format, context, topic, files, self._reader_options())
        except Exception as error:  # noqa: BLE001 - its table raises it, and the others continue
            forbidden = find_forbidden(context.spark, files) if is_denied(error) else []
            return Events.of_failure(topic, make_forbidden_error(forbidden[0]) if forbidden else error)

    def _reader_options(self) -> dict[str, str]:
        options = {k: v for k, v in self.config.options().items() if k not in _STREAM_OPTIONS + _LISTING_OPTIONS}
        # The paths come from a listing: a bracket in one is not a glob.
        return {"recursiveFileLookup": "true", "__globPaths__": "false", **options}
