"""Pipelines: from a file, from a mapping, or from objects; checked, run, started, read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.checkpoint.epochs import Epoch
from headrace.checkpoint.layout import Checkpoint
from headrace.config.dead_letters import Policy
from headrace.config.loader import built
from headrace.config.model import TableRule
from headrace.config.yaml_document import Document, load
from headrace.dead_letters import rows as letters
from headrace.dead_letters.policy import Rules
from headrace.dead_letters.table_store import letters_table
from headrace.engine import preflight, query
from headrace.engine.error_translation import translate
from headrace.engine.plan import Plan
from headrace.engine.preflight import CheckItem
from headrace.engine.query import Query
from headrace.engine.routing import Routes
from headrace.errors import ConfigError
from headrace.progress.model import BatchProgress
from headrace.progress.summary import Summary
from headrace.runtime import session as sessions
from headrace.sdk.config import option_text
from headrace.sdk.dialect import Dialect
from headrace.sdk.format import Format
from headrace.sdk.interval import seconds_of
from headrace.sdk.plugins import Registry, registry
from headrace.sdk.reject_reason import RejectReason
from headrace.sdk.sink import Sink, Table
from headrace.sdk.source import Source
from headrace.sdk.transform import Transform
from headrace.spark.sessions import Sessions
from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Say = Callable[[str], None]


@dataclass
class Pipeline:
    """A pipeline built from objects; ``from_file`` and ``from_dict`` build the same from YAML and from a mapping.

    ``value`` and ``key`` are the formats of a source that gives bytes; a key without one is written like the value.
    """

    name: str
    source: Source
    sinks: Sequence[Sink]
    checkpoint: str
    tables: Sequence[TableRule | Mapping[str, Any]] = ()
    transforms: Sequence[Transform] = ()
    #: Those with options; the others that are installed are there all the same.
    dialects: Sequence[Dialect] = ()
    value: Format | None = None
    key: Format | None = None
    spark: Mapping[str, Any] = field(default_factory=dict)
    trigger: str | None = None
    min_sync_interval: str | None = None
    delete_retention: str = "7 days"
    table_timeout: str = "30 minutes"
    dead_letters: Mapping[RejectReason, Policy] = field(default_factory=dict)
    max_dead_letters: int | str | None = None
    dead_letters_table: str | None = None
    redact: Callable[[str], str] = field(default=str, repr=False)

    def __post_init__(self) -> None:
        if not self.sinks:
            raise ConfigError("the pipeline has no sink", fix="give it at least one")
        if self.source.yields_records and self.value is None:
            raise ConfigError(
                f"the source {self.source.name!r} gives bytes and no format says how to read them",
                fix="add `value: {json: {}}` beside it",
            )
        for interval in (self.trigger, self.min_sync_interval):
            if interval is not None:
                seconds_of(interval)
        self.plan = Plan(
            name=self.name,
            source=self.source,
            sinks=tuple(self.sinks),
            checkpoint=self.checkpoint,
            routes=Routes(
                [rule if isinstance(rule, TableRule) else TableRule.model_validate(rule) for rule in self.tables]
            ),
            dialects=_dialects(registry(), self.dialects),
            transforms=tuple(self.transforms),
            value_format=self.value,
            key_format=self.key or (self.value if self.source.yields_records else None),
            spark_conf={key: option_text(value) for key, value in self.spark.items()},
            trigger=self.trigger,
            min_sync_interval=self.min_sync_interval,
            delete_retention=seconds_of(self.delete_retention),
            table_timeout=seconds_of(self.table_timeout),
            rules=Rules(self.dead_letters, self.max_dead_letters),
            letters=letters_table(self.dead_letters_table, self.sinks, self.name),
            redact=self.redact,
        )

    @classmethod
    def from_file(cls, path: str | Path) -> Pipeline:
        """The pipeline of a YAML file. ConfigError and PluginError name the line."""
        return built(load(path), cls)

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> Pipeline:
        """The pipeline of a mapping with the keys of the file."""
        return built(Document(dict(config), "config"), cls)

    def check(self, spark: SparkSession | None = None, *, connect: bool = False) -> list[CheckItem]:
        """Everything that can be known before a stream starts; raises for the first thing that is wrong. Writes nothing.

        ``connect``: also tries whatever the pipeline talks to; what fails there is an item with its ``error``. A sink's
        folder gets a file for a moment.
        """
        self.plan.check_static()
        items = [preflight.plugins(self.plan)]
        spark = self._session(spark)
        items.append(CheckItem("session", f"Spark {spark.version}, {spark.sparkContext.master}"))
        session = self._checked(spark)
        items += preflight.connections(self.plan, session) if connect else ()
        return items + preflight.columns(self.plan, session)

    def run(
        self, spark: SparkSession | None = None, *, on_progress: Callable[[BatchProgress], None] | None = None
    ) -> Summary:
        """Applies all that is there now and returns what it did. Raises when it failed."""
        batches: list[BatchProgress] = []

        def record(progress: BatchProgress) -> None:
            batches.append(progress)
            if on_progress:
                on_progress(progress)

        self._start(spark, None, record).await_termination()
        return Summary.of(self.name, batches)

    def start(
        self,
        spark: SparkSession | None = None,
        trigger: str | None = None,
        *,
        on_progress: Callable[[BatchProgress], None] | None = None,
    ) -> Query:
        """Starts it in continuous mode. ``trigger``: ``"10 seconds"``; default: the pipeline's own, else half a second."""
        return self._start(spark, trigger or self.trigger or query.DEFAULT_TRIGGER, on_progress)

    def start_available_now(
        self, spark: SparkSession | None = None, *, on_progress: Callable[[BatchProgress], None] | None = None
    ) -> Query:
        """Like ``run``, but returns the handle at once."""
        return self._start(spark, None, on_progress)

    def session(self, say: Say = lambda text: None) -> SparkSession:
        """A SparkSession that fits; ``say`` gets a line for each jar that has to be fetched."""
        return sessions.build(self.plan.plugins, self.plan.spark_conf, say)

    def read(
        self,
        table: str,
        *,
        as_of: str | None = None,
        sink: str | None = None,
        own_columns: bool = False,
        spark: SparkSession | None = None,
    ) -> DataFrame:
        """A table as a reader sees it. ``own_columns``: headrace's and the table format's too."""
        spark = self._session(spark)
        if table == letters.TABLE:
            found = self.read_dead_letters(spark)
            if found is None:
                raise ConfigError("there are no dead letters", where=f"checkpoint {self.checkpoint}")
            return found
        chosen = next((s for s in self.sinks if sink is None or s.name == sink), None)
        if chosen is None:
            raise ConfigError(
                f"the pipeline has no sink {sink!r}", fix=f"its sinks: {', '.join(s.name for s in self.sinks)}"
            )
        if as_of is not None and not chosen.capabilities.time_travel:
            raise ConfigError("it keeps no older versions", where=f"sink {chosen.name}", fix="leave out --as-of")
        try:
            frame = chosen.read_back(spark, Table(table), as_of)
            columns = [c for c in frame.columns if own_columns or not c.startswith(chosen.hidden_prefixes)]
            return frame.select(*["`" + c.replace("`", "``") + "`" for c in columns])
        except Exception as error:
            raise translate(error, self.plan, chosen) from error

    def read_dead_letters(self, spark: SparkSession | None = None) -> DataFrame | None:
        """The records that could not become a row; None when there are none."""
        spark = self._session(spark)
        return letters.read(spark, Folder(spark, self.checkpoint).folder("dead_letters"), self.plan.letters)

    def raise_epoch(self, reason: str = "", spark: SparkSession | None = None) -> Epoch:
        """From the next batch on every change is newer than all before: for a database that was restored or replaced.

        Stop the pipeline before. ConfigError when it has never run.
        """
        spark = self._session(spark)
        if not Folder(spark, self.checkpoint).exists():
            raise ConfigError(
                "nothing was read yet, so no change is older than another",
                where=f"checkpoint {self.checkpoint}",
                fix="run the pipeline",
            )
        checkpoint = Checkpoint(spark, self.checkpoint, self.name)
        return checkpoint.epochs.add(checkpoint.next_batch, reason)

    def _start(
        self, spark: SparkSession | None, trigger: str | None, on_progress: Callable[[BatchProgress], None] | None
    ) -> Query:
        self.plan.check_static()
        spark = self._session(spark)
        session = self._checked(spark)
        known = preflight.names_found(self.plan, session)
        return query.start(self.plan, spark, trigger, on_progress, names_checked=known)

    def _session(self, spark: SparkSession | None) -> SparkSession:
        sessions.spark_version()
        from pyspark.sql import SparkSession

        spark = spark or SparkSession.getActiveSession()
        if spark is None:
            return self.session()
        sessions.fits(spark, self.plan.plugins)
        return spark

    def _checked(self, spark: SparkSession) -> SparkSession:
        """A session of headrace's own, in which every plugin found what it needs."""
        session = Sessions(spark, self.plan.sql_conf).of("check")
        for plugin in self.plan.plugins:
            plugin.check(session)
        return session


def _dialects(plugins: Registry, given: Sequence[Dialect]) -> tuple[Dialect, ...]:
    found: dict[str, Dialect] = {name: plugin() for name, plugin in plugins.all("dialect")}
    found |= {dialect.name: dialect for dialect in given}
    return tuple(sorted(found.values(), key=lambda dialect: dialect.priority))
