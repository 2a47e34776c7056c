"""Apache Kafka: one node that is both broker and controller."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

# The type information lacks these exports; the documentation has them.
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewPartitions,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from headrace_stack.download import artifacts
from headrace_stack.servers import jvm_command, key_stores
from headrace_stack.servers.server import Server

#: Timeout of a request of the helpers in seconds.
_TIMEOUT = 30.0


@dataclass(frozen=True)
class Record:
    """Kafka record, to produce or as read. The broker sets partition, offset and timestamp (ms) of a read record.

    A value of None is a tombstone. Defaults: the key selects the partition, and the timestamp is the current time.
    """

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp: int | None = None
    offset: int | None = None


@dataclass(frozen=True)
class Sasl:
    """Listener with SASL_SSL. OAUTHBEARER accepts unsecured tokens of any principal; ``ca`` is a PEM file."""

    bootstrap_servers: str
    username: str
    password: str
    ca: Path


class Kafka(Server):
    """Broker with a PLAINTEXT listener at ``bootstrap_servers``; it creates topics on first use.

    ``sasl=True`` adds the listener ``kafka.sasl``: SASL_SSL with SCRAM-SHA-512, PLAIN and OAUTHBEARER. The helpers raise
    ``confluent_kafka.KafkaException`` for errors of the broker.
    """

    name = "kafka"
    ports = ("port", "_controller_port", "_sasl_port")
    _controller_port: int
    _sasl_port: int

    def __init__(self, *, sasl: bool = False, config: Mapping[str, str] | None = None) -> None:
        """Prepare a broker; ``config`` adds broker settings."""
        super().__init__()
        self._with_sasl, self._config = sasl, dict(config or {})
        self._scram_known = False

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def sasl(self) -> Sasl:
        assert self._with_sasl, "Kafka(sasl=True)"
        return Sasl(f"{self.host}:{self._sasl_port}", "headrace", "headrace-secret", self.folder / "kafka.pem")

    def change_password(self, user: str, password: str) -> None:
        """Set the SCRAM-SHA-512 password of a new or existing user. Open connections and ``sasl`` stay unchanged."""
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        admin = self._admin()
        changed = UserScramCredentialUpsertion(user, credential, password.encode())
        admin.alter_user_scram_credentials([changed])[user].result(_TIMEOUT)

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        admin = self._admin()
        admin.create_topics([topic])[name].result(_TIMEOUT)

    def add_partitions(self, topic: str, total: int) -> None:
        admin = self._admin()
        admin.create_partitions([NewPartitions(topic, total)])[topic].result(_TIMEOUT)

    def delete_topic(self, name: str) -> None:
        admin = self._admin()
        admin.delete_topics([name])[name].result(_TIMEOUT)

    def delete_records(self, topic: str, before: int) -> None:
        """Delete the records of partition 0 before an offset, as retention does."""
        admin, end = self._admin(), TopicPartition(topic, 0, before)
        admin.delete_records([end])[end].result(_TIMEOUT)

    def produce(self, topic: str, *records: Record) -> None:
        """Produce records in order and wait until the broker has them."""
        # One request at a time keeps the order, and starts one second faster than an idempotent producer.
        # Leave the size limit to the broker.
        settings = {"linger.ms": 0, "max.in.flight": 1, "message.max.bytes": 1_000_000_000}
        with closing(Producer({**self._client, **settings})) as producer:
            _send(producer, topic, records)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Commit at the end of the ``with`` block; abort if it raises or after ``abort``."""
        with closing(Producer({**self._client, "transactional.id": uuid.uuid4().hex})) as producer:
            producer.init_transactions(_TIMEOUT)
            producer.begin_transaction()
            transaction = Transaction(producer)
            try:
                yield transaction
            except BaseException:
                transaction.abort()
                raise
            if not transaction.aborted:
                producer.commit_transaction(_TIMEOUT)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Return partition → offset of the next record."""
        with closing(self._consumer(read_uncommitted=True)) as consumer:
            return {
                partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), _TIMEOUT)[1]
                for partition in self._partitions(consumer, topic)
            }

    def read(
        self, topic: str, count: int = 0, *, timeout: float = _TIMEOUT, read_uncommitted: bool = False
    ) -> list[Record]:
        """Read all records, partition by partition; wait until there are ``count``.

        TimeoutError if there are fewer after ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        records: list[Record] = []
        with closing(self._consumer(read_uncommitted=read_uncommitted)) as consumer:
            open_ends = {-1}
            while open_ends or len(records) < count:
                if open_ends == {-1} and (partitions := self._partitions(consumer, topic)):
                    open_ends = set(partitions)
                    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
                message = consumer.poll(0.1)
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic} has {len(records)} records after {timeout:.0f} s, not {count}")
                if message is None:
                    continue
                if (error := message.error()) is None:
                    records.append(_record(message))
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's name for it
                    open_ends.discard(message.partition() or 0)
                else:
                    raise KafkaException(error)
        return sorted(records, key=lambda record: (record.partition, record.offset))

    @property
    def address(self) -> str:
        return self.bootstrap_servers

    def fetch(self) -> None:
        artifacts.fetch("kafka")

    def prepare(self) -> None:
        data = self.folder / "data"
        data.mkdir()
        # The output of `kafka-storage format`, which takes two seconds.
        (data / "meta.properties").write_text(
            f"version=1\ncluster.id={_uuid()}\nnode.id=1\ndirectory.id={_uuid()}\n", encoding="utf-8"
        )
        if self._with_sasl:
            key_stores.make(self.folder, "kafka")

    def command(self) -> Sequence[str | Path]:
        properties = self.folder / "server.properties"
        settings = {**self._settings(), **(self._sasl_settings() if self._with_sasl else {}), **self._config}
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
        return jvm_command.command("kafka.Kafka", str(properties), classpath=self.classpath(), heap="512m")

    def classpath(self) -> Sequence[Path]:
        """Return the jars of the broker."""
        return artifacts.fetch("kafka")

    def ready(self) -> bool:
        if not self.log_says("Kafka Server started"):
            return False
        if self._with_sasl and not self._scram_known:
            self.change_password(self.sasl.username, self.sasl.password)
            self._scram_known = True
        return True

    def _settings(self) -> dict[str, str]:
        listeners = {"PLAINTEXT": self.port, "CONTROLLER": self._controller_port}
        if self._with_sasl:
            listeners["SASL_SSL"] = self._sasl_port
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{self.host}:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL",
            "listeners": ",".join(f"{name}://{self.host}:{port}" for name, port in listeners.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
            # One node holds one replica. One partition of each internal topic is created faster than fifty.
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # By default the broker deletes records with a timestamp older than a week every five minutes.
            "log.retention.ms": "-1",
            # By default the log cleaner checks for compaction every 15 s.
            "log.cleaner.backoff.ms": "500",
            # A restarted broker waits for the end of its last session: 3 s instead of 13 s.
            "broker.session.timeout.ms": "1500",
            "broker.heartbeat.interval.ms": "300",
        }

    def _sasl_settings(self) -> dict[str, str]:
        module, listener = "org.apache.kafka.common.security", "listener.name.sasl_ssl"
        user, password = self.sasl.username, self.sasl.password
        return {
            **self._key_store(),
            f"{listener}.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN,OAUTHBEARER",
            f"{listener}.scram-sha-512.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
            f"{listener}.plain.sasl.jaas.config": (
                f'{module}.plain.PlainLoginModule required user_{user}="{password}";'
            ),
            f"{listener}.oauthbearer.sasl.jaas.config": (
                f'{module}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
            ),
        }

    def _key_store(self) -> dict[str, str]:
        return {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.folder / "kafka.p12"),
            "ssl.keystore.password": key_stores.PASSWORD,
        }

    @property
    def _client(self) -> dict[str, Any]:
        # librdkafka logs raised errors a second time, and keeps logging about a stopped broker.
        return {"bootstrap.servers": self.bootstrap_servers, "log_level": 0}

    def _admin(self) -> AdminClient:
        """Return an admin client. Keep a reference until the result arrives: collection cancels pending requests."""
        return AdminClient(self._client)

    def _consumer(self, *, read_uncommitted: bool) -> Consumer:
        return Consumer(
            {
                **self._client,
                # The consumer never joins the group; partitions are assigned manually.
                "group.id": "headrace-testing",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_uncommitted" if read_uncommitted else "read_committed",
            }
        )

    @staticmethod
    def _partitions(consumer: Consumer, topic: str) -> list[int]:
        return sorted(consumer.list_topics(topic, _TIMEOUT).topics[topic].partitions)


class Transaction:
    """Open transaction. ``read_committed`` consumers read its records after the commit."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.aborted = False

    def produce(self, topic: str, *records: Record) -> None:
        """Produce records in order and wait until the broker has them."""
        _send(self._producer, topic, records)

    def abort(self) -> None:
        self._producer.abort_transaction(_TIMEOUT)
        self.aborted = True


def _send(producer: Producer, topic: str, records: Sequence[Record]) -> None:
    refused: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(error)

    for record in records:
        given: dict[str, Any] = {"partition": record.partition, "timestamp": record.timestamp}
        produce = partial(
            producer.produce,
            topic,
            record.value,
            record.key,
            headers=list(record.headers),
            on_delivery=on_delivery,
            **{name: value for name, value in given.items() if value is not None},
        )
        try:
            produce()
        except BufferError:
            # The queue has 100,000 records; poll until some are delivered.
            producer.flush(_TIMEOUT)
            produce()
    if left := producer.flush(_TIMEOUT):
        raise TimeoutError(f"{left} records for {topic} were not delivered after {_TIMEOUT:.0f} s")
    if refused:
        raise KafkaException(refused[0])


def _record(message: Message) -> Record:
    return Record(
        value=message.value(),
        key=message.key(),
        headers=cast("list[tuple[str, bytes | None]]", message.headers() or []),
        partition=message.partition(),
        timestamp=message.timestamp()[1],
        offset=message.offset(),
    )


def _uuid() -> str:
    """Return a random ID in Kafka's format."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
