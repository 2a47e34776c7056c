"""Sink ``kafka``: one record per change, at least once.

Spark's writer sends the records of a task in their order, and an idempotent producer keeps it. The sink therefore sorts the records of
each key into one task. A repeated batch repeats its records in the same order, so the last record of each key stays the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.sdk import (
    Batch,
    Capabilities,
    ConfigError,
    Dataset,
    HeadraceError,
    NoSuchTableError,
    Plugin,
    Sink,
    Source,
    Table,
    TableMode,
    WriteResult,
)
from headrace.sdk.options import did_you_mean
from headrace_kafka.kafka_client import KafkaClient
from headrace_sinks.change_records import list_columns, make_records
from headrace_sinks.file_formats import check_avro_columns
from headrace_sinks.kafka.kafka_records import choose_format
from headrace_sinks.kafka.kafka_sink_config import NO_TOPIC_NAME, KafkaSinkConfig, is_topic_name
from headrace_sinks.kafka.kafka_sink_errors import explain_write_error
from headrace_sinks.kafka.registered_avro import RegisteredAvro
from headrace_sinks.name_template import NAME
from headrace_sinks.placeholders import explain_placeholder_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class KafkaSink(KafkaClient, Sink):
    """``kafka: {bootstrap.servers: "replica:9092", topic: "masked.{name}"}``."""

    name = "kafka"
    api_version = 1
    Config = KafkaSinkConfig
    config: KafkaSinkConfig
    capabilities = Capabilities(delete=True, schema_evolution=True, concurrent_writers=True, readable=False)
    # Kafka's defaults since 3.0, which a configuration of the client must not change.
    client_defaults: ClassVar[Mapping[str, str]] = {"acks": "all", "enable.idempotence": "true"}

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        #: Topics that exist.
        self._topics: set[str] = set()
        self._avro = RegisteredAvro(self.config)

    def name_topic(self, table: str) -> str:
        """Return the topic of a table."""
        return self.config.topic.replace(NAME, table)

    def parts(self) -> Sequence[Plugin]:
        return [*super().parts(), *([self._avro] if self.config.has_avro else [])]

    def record_columns(self) -> Collection[str]:
        return list_columns(has_raw_keys=self.config.keys_format == "bytes", has_headers=self.config.includeHeaders)

    def notes(self) -> Iterable[str]:
        yield (
            "sink kafka: each change is written at least once. After a crash, the records of the last batch are repeated in the same order "
            "per key; a compacted topic keeps the last record of each key"
        )
        if NAME not in self.config.topic:
            yield (
                f"sink kafka: all tables have the topic {self.config.topic}. Its records do not name their table, and a compacted topic keeps "
                "one of two rows with equal keys in different tables"
            )

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        yield "sink kafka", self.describe_cluster(spark)

    def locate(self, table: Table) -> Dataset | None:
        return self.locate_topic(self.name_topic(table.name))

    def check_source(self, source: Source, tables: Iterable[str], spark: SparkSession | None = None) -> None:
        if not isinstance(source, KafkaClient):
            return
        for topic in map(self.name_topic, tables):
            if source.reads_topic(topic, spark) and self._shares_cluster(source, spark):
                raise ConfigError(
                    f"the source reads the topic {topic}, to which the sink writes: each record would return without an end",
                    where="sink kafka",
                    fix=f"set `topic:`, such as `replica.{NAME}`, to a name that the source does not read; or write to another cluster",
                )

    def check_table(self, table: Table, mode: TableMode) -> None:
        topic = self.name_topic(table.name)
        if not is_topic_name(topic):
            raise ConfigError(
                f"{topic!r} {NO_TOPIC_NAME}",
                where=f"sink kafka, table {table.name}",
                fix="set `topic:`, or `target:` in `tables:`",
            )

    def check_columns(self, spark: SparkSession, table: Table, columns: Collection[str]) -> None:
        if self.config.has_avro:
            check_avro_columns(columns, "Avro")

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        topic = self.name_topic(table.name)
        self._check_topic(rows.sparkSession, topic)
        options = {f"kafka.{name}": value for name, value in self.client_options().items()}
        records = make_records(rows, table, choose_format(topic, self.config, self._avro))
        records.write.format("kafka").options(**options).option("topic", topic).mode("append").save()
        return WriteResult()

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        raise NoSuchTableError(
            "the kafka sink does not read its topics", where="sink kafka", fix="show a table of another sink"
        )

    def explain(self, error: BaseException) -> HeadraceError | None:
        auth = self.config.auth
        explained = auth.explain(error) if auth else None
        return explained or explain_placeholder_error(error) or explain_write_error(error)

    def _check_topic(self, spark: SparkSession, topic: str) -> None:
        """Raise ConfigError for a topic that does not exist and that the broker does not create: a producer waits for it for a minute."""
        admin = self.admin(spark)
        if topic in self._topics or admin.ids([topic]) or admin.create_by_broker(topic):
            self._topics.add(topic)
            return
        raise ConfigError(
            f"no such topic: {topic!r}, and the cluster does not create topics",
            fix=f"create the topic, with `cleanup.policy=compact` to keep the last record of each key; or correct `topic:`; "
            f"{did_you_mean(topic, admin.topics())}",
        )

    def _shares_cluster(self, source: KafkaClient, spark: SparkSession | None) -> bool:
        try:
            return self.is_on_cluster_of(source, spark)
        except Exception as error:
            if explained := self.explain(error):
                raise explained.at("sink kafka") from error
            raise
