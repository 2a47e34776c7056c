"""Apache Kafka: one node that is broker and controller."""

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

# Its type information does not say that it exports them; its documentation does.
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

#: Seconds that a request of the helpers may take.
_TIMEOUT = 30.0


@dataclass(frozen=True)
class Record:
    """A record to produce, or one that was read: then partition, offset and timestamp (ms) are the broker's.

    A value of None is a tombstone. Without a partition, the key decides; without a timestamp, it is now.
    """

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp: int | None = None
    offset: int | None = None


@dataclass(frozen=True)
class Sasl:
    """The SASL_SSL listener. OAUTHBEARER takes unsecured tokens of any principal; ``ca`` is a PEM file."""

    bootstrap_servers: str
    username: str
    password: str
    ca: Path


class Kafka(Server):
    """A broker with a PLAINTEXT listener at ``bootstrap_servers``; topics are made when they are first asked for.

    With ``sasl=True`` also SASL_SSL, with SCRAM-SHA-512, PLAIN and OAUTHBEARER: ``kafka.sasl``. The helpers raise
    ``confluent_kafka.KafkaException`` for what the broker refuses.
    """

    name = "kafka"
    ports = ("port", "_controller_port", "_sasl_port")
    _controller_port: int
    _sasl_port: int

    def __init__(self, *, sasl: bool = False, config: Mapping[str, str] | None = None) -> None:
        """``config``: further settings of the broker's."""
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
        """A new password for a user of SCRAM-SHA-512, or a new user. Connections that are open stay so; ``sasl`` stays as it was."""
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
        """Delete what partition 0 has before an offset, as a retention would."""
        admin, end = self._admin(), TopicPartition(topic, 0, before)
        admin.delete_records([end])[end].result(_TIMEOUT)

    def produce(self, topic: str, *records: Record) -> None:
        """Returns when the broker has all of them, in this order."""
        # One request at a time keeps the order, and starts a second sooner than an idempotent producer.
        # The broker says what is too large.
        settings = {"linger.ms": 0, "max.in.flight": 1, "message.max.bytes": 1_000_000_000}
        with closing(Producer({**self._client, **settings})) as producer:
            _send(producer, topic, records)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Commits at the end of the ``with`` block; aborts when it raises, and when ``abort`` was called."""
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
        """Partition → the offset that the next record gets."""
        with closing(self._consumer(read_uncommitted=True)) as consumer:
            return {
                partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), _TIMEOUT)[1]
                for partition in self._partitions(consumer, topic)
            }

    def read(
        self, topic: str, count: int = 0, *, timeout: float = _TIMEOUT, read_uncommitted: bool = False
    ) -> list[Record]:
        """All records from the beginning to the end, partition by partition; waits until there are ``count``.

        TimeoutError when there are fewer after ``timeout`` seconds.
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
        # What `kafka-storage format` writes, two seconds sooner.
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
        """The broker's jars."""
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
            # One node holds one copy, and one partition of each internal topic is made sooner than fifty.
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # By default a record that says it is a week old goes when the broker next looks: every five minutes.
            "log.retention.ms": "-1",
            # It looks for topics to compact every 15 s.
            "log.cleaner.backoff.ms": "500",
            # A broker that comes back waits until its last session has ended: 3 s instead of 13.
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
        # librdkafka's own log says on stderr what is raised too, and goes on about a broker that was stopped.
        return {"bootstrap.servers": self.bootstrap_servers, "log_level": 0}

    def _admin(self) -> AdminClient:
        """To be held until its answer is there: it fails what is under way when it is collected."""
        return AdminClient(self._client)

    def _consumer(self, *, read_uncommitted: bool) -> Consumer:
        return Consumer(
            {
                **self._client,
                # Never joined: partitions are assigned by hand.
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
    """An open transaction: its records are seen by ``read_committed`` consumers when it has ended."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.aborted = False

    def produce(self, topic: str, *records: Record) -> None:
        """Returns when the broker has all of them, in this order."""
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
            # 100,000 records wait; it goes on when some have gone.
            producer.flush(_TIMEOUT)
            produce()
    if left := producer.flush(_TIMEOUT):
        raise TimeoutError(f"{left} records for {topic} are not at the broker after {_TIMEOUT:.0f} s")
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
    """A random id, as Kafka writes ids."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
