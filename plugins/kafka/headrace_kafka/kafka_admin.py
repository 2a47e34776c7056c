"""Metadata of a cluster's topics, and offsets of consumer groups, by Kafka's admin client in the JVM."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.sdk.error_text import full_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Topic → partition → offset.
Offsets = dict[str, dict[str, int]]
_KAFKA = "org.apache.kafka.common"
_Response = TypeVar("_Response")
#: Attempts of a request until the cluster has responded, each as long as the client's timeout. Connecting to a busy broker with TLS can
#: take longer than one.
_MAX_ATTEMPTS = 3


class KafkaAdmin:
    """Client of a cluster. ``options``: Kafka's, without the prefix ``kafka.``."""

    _has_responded = False

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no way of its own to Kafka's client
        self._jvm = jvm
        config = jvm.java.util.HashMap()
        for name, value in with_timeouts(options).items():
            if name not in _OTHER_CLIENTS:
                config.put(name, value)
        self._config = config
        self._client = jvm.org.apache.kafka.clients.admin.AdminClient.create(config)
        isolation = jvm.org.apache.kafka.common.IsolationLevel
        committed = options.get("isolation.level") == "read_committed"
        self._isolation = isolation.READ_COMMITTED if committed else isolation.READ_UNCOMMITTED
        weakref.finalize(self, _start_closing().put, self._client)

    def cluster(self) -> tuple[str, int]:
        """Return the cluster's id and its number of brokers."""

        def describe() -> tuple[str, int]:
            cluster = self._client.describeCluster()
            return str(cluster.clusterId().get()), int(cluster.nodes().get().size())

        return self._request(describe)

    def await_broker(self) -> None:
        """Raise if no broker responds. Spark's stream would take three minutes to fail."""
        self._has_responded = False
        self.cluster()

    def topics(self) -> list[str]:
        """Return all visible topics except Kafka's internal ones."""
        return sorted(str(name) for name in self._request(lambda: self._client.listTopics().names().get()))

    def partitions(self, topics: Iterable[str]) -> dict[str, list[str]]:
        """Return the partitions by topic; UnknownTopicOrPartitionException for a missing topic."""
        descriptions = self._describe(topics)
        return {str(t): [str(p.partition()) for p in descriptions.get(t).partitions()] for t in descriptions}

    def create_by_broker(self, topic: str) -> bool:
        """Return whether a topic exists after a request of a producer: a broker with ``auto.create.topics.enable`` creates it."""
        config, serializer = self._jvm.java.util.HashMap(self._config), f"{_KAFKA}.serialization.ByteArraySerializer"
        for name, value in (
            ("key.serializer", serializer),
            ("value.serializer", serializer),
            ("max.block.ms", str(_TIMEOUT)),
        ):
            config.put(name, value)
        producer = self._jvm.org.apache.kafka.clients.producer.KafkaProducer(config)
        try:
            return int(producer.partitionsFor(topic).size()) > 0
        except Exception as error:
            if "not present in metadata" not in full_text(error):
                raise
            return False
        finally:
            producer.close()

    def ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the ids of existing topics. A cluster without topic ids returns an id of zeros."""
        found, futures = {}, self._describe_each(topics)
        for topic in futures:
            try:
                found[str(topic)] = str(futures.get(topic).get().topicId())
            except Exception as error:
                if "UnknownTopicOrPartitionException" not in str(error):
                    raise
        return found

    def describe_origins(self, topics: Iterable[str]) -> dict[str, str]:
        """Return a string with the cluster, the topic's id and the number of partitions, by topic."""
        cluster, _ = self.cluster()
        descriptions = self._describe(topics)
        return {
            str(t): f"cluster {cluster}, topic id {descriptions.get(t).topicId()}, {n} partition{'s' * (n != 1)}"
            for t in descriptions
            for n in [descriptions.get(t).partitions().size()]
        }

    def earliest(self, partitions: Mapping[str, Iterable[str]]) -> Offsets:
        """Return the oldest available offset of each partition."""
        return self._offsets(partitions, self._jvm.org.apache.kafka.clients.admin.OffsetSpec.earliest())

    def latest(self, partitions: Mapping[str, Iterable[str]]) -> Offsets:
        """Return the offset after each partition's last readable record."""
        return self._offsets(partitions, self._jvm.org.apache.kafka.clients.admin.OffsetSpec.latest())

    def commit(self, group: str, offsets: Offsets) -> None:
        """Commit the offsets of a consumer group that has no members."""
        commits = self._jvm.java.util.HashMap()
        for topic, partitions in offsets.items():
            for number, offset in partitions.items():
                committed = self._jvm.org.apache.kafka.clients.consumer.OffsetAndMetadata(offset)
                commits.put(self._jvm.org.apache.kafka.common.TopicPartition(topic, int(number)), committed)
        self._client.alterConsumerGroupOffsets(group, commits).all().get()

    def _request(self, send: Callable[[], _Response]) -> _Response:
        """Return a response. Until the cluster has responded, a request that times out is repeated."""
        attempts = 1 if self._has_responded else _MAX_ATTEMPTS
        for left in reversed(range(attempts)):
            try:
                response = send()
            except Exception as error:
                if not left or "TimeoutException" not in full_text(error):
                    raise
            else:
                self._has_responded = True
                return response
        raise AssertionError("unreachable")

    def _describe(self, topics: Iterable[str]) -> Any:
        names = self._list(topics)
        return self._request(lambda: self._client.describeTopics(names).allTopicNames().get())

    def _describe_each(self, topics: Iterable[str]) -> Any:
        return self._client.describeTopics(self._list(topics)).topicNameValues()

    def _list(self, topics: Iterable[str]) -> Any:
        names = self._jvm.java.util.ArrayList()
        for topic in topics:
            names.add(topic)
        return names

    def _offsets(self, partitions: Mapping[str, Iterable[str]], which: Any) -> Offsets:
        specs = self._jvm.java.util.HashMap()
        for topic, numbers in partitions.items():
            for number in numbers:
                specs.put(self._jvm.org.apache.kafka.common.TopicPartition(topic, int(number)), which)
        options = self._jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(self._isolation)
        answer = self._client.listOffsets(specs, options).all().get()
        offsets: Offsets = {}
        for partition in answer:
            of_topic = offsets.setdefault(str(partition.topic()), {})
            of_topic[str(partition.partition())] = int(answer.get(partition).offset())
        return offsets


#: Milliseconds. With Kafka's default of a minute, an outage and a deleted topic are reported minutes later.
_TIMEOUT = 5000
_API_TIMEOUT, _REQUEST_TIMEOUT = "default.api.timeout.ms", "request.timeout.ms"
#: Options that only consumers or producers have. The admin client would log a warning for each.
_OTHER_CLIENTS = frozenset({"isolation.level", "acks", "enable.idempotence"})


def with_timeouts(options: Mapping[str, str]) -> dict[str, str]:
    """Return options of Kafka's client with both timeouts. The timeout of all attempts must not be below that of one request."""
    api, request = options.get(_API_TIMEOUT), options.get(_REQUEST_TIMEOUT)
    longest = api or max(_TIMEOUT, int(request or 0))
    return {**options, _API_TIMEOUT: str(longest), _REQUEST_TIMEOUT: str(request or min(_TIMEOUT, int(longest)))}


@functools.cache
def _start_closing() -> SimpleQueue[Any]:
    """Return the queue of unreferenced clients, which a dedicated thread closes.

    Python may collect a client while a thread reads a call from Java, line by line. If that thread then called Java to close
    the client, it would read the next line of the first call as the response.
    """
    forgotten: SimpleQueue[Any] = SimpleQueue()

    def close_all() -> None:
        while True:
            with suppress(Exception):  # the JVM may be gone before us
                forgotten.get().close()

    threading.Thread(target=close_all, name="headrace-kafka-admin-close", daemon=True).start()
    return forgotten
