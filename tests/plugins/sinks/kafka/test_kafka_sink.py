"""Sink ``kafka`` with a real broker, in complete pipelines from topic to topic."""

from __future__ import annotations

import json
import os
import random
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from confluent_kafka import Producer
from tests.core.conftest import start
from tests.plugins.transforms.test_mask_kinds import MASKS, ROW
from tests.plugins.transforms.test_mask_tables import find_on_disk
from tests.support.waiting import until

from headrace import ConfigError, DataError, Pipeline
from headrace_stack.servers.kafka import Kafka, Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dist, pytest.mark.one_spark]

PLAIN = {"key.converter.schemas.enable": False, "value.converter.schemas.enable": False}
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture
def topic() -> str:
    """Return a topic that is unique to the test, because tests share the broker."""
    return f"shop{uuid.uuid4().hex[:8]}.customers"


def encode(value: Any) -> bytes:
    """Encode JSON as JsonConverter does."""
    return json.dumps(value, separators=(",", ":")).encode()


def change(op: str, id: int, name: str, lsn: int) -> Record:  # noqa: A002
    row = {"id": id, "name": name, "email": f"{name}@example.org"}
    images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    source = {"connector": "postgresql", "ts_ms": 1_700_000_000_000, "lsn": lsn, "sequence": f'["{lsn}","{lsn}"]'}
    return Record(encode({**images, "source": source, "op": op}), key=encode({"id": id}))


def produce(kafka: Kafka, topic: str, *records: Record) -> None:
    """Produce records as Java's producer would: its partitioner decides by the bytes of the key."""
    settings: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap_servers, "partitioner": "murmur2_random"}
    with closing(Producer({**settings, "max.in.flight": 1})) as producer:
        for record in records:
            producer.produce(topic, record.value, record.key, headers=list(record.headers))
        assert producer.flush(60) == 0


def config(kafka: Kafka, folder: Path, topic: str, sink: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {
        "name": "replica",
        "source": {"kafka": {"bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic}, "value": {"json": {}}},
        "transforms": [{"unwrap": {}}],
        "sink": {"kafka": {"bootstrap.servers": kafka.bootstrap_servers, "topic": "replica.{name}", **sink}},
        "checkpoint": str(folder / "checkpoint"),
        **changed,
    }


def read_keys(kafka: Kafka, topic: str) -> dict[bytes | None, list[bytes | None]]:
    """Return the values of each key, in order."""
    found: dict[bytes | None, list[bytes | None]] = {}
    for record in kafka.read(topic):
        found.setdefault(record.key, []).append(record.value)
    return found


def test_rows_are_replicated_masked_and_renamed_in_the_order_and_partition_of_their_key(
    kafka: Kafka, topic: str, tmp_path: Path, spark: SparkSession
) -> None:
    for name in topic, f"replica.{topic}":
        kafka.create_topic(name, partitions=3)
    updates = [change("u", id_, f"v{lsn}", lsn) for lsn in range(10, 60) for id_ in (3, 4, 5)]
    deletes = [change("d", 3, "v59", 70), Record(None, key=encode({"id": 3}))]
    produce(kafka, topic, change("c", 1, "arp", 1), change("c", 2, "klee", 2), *updates, *deletes)
    transforms = [
        {"unwrap": {}},
        {"mask": {"columns": {"email": {"truncate": 4}}}},
        {"rename": {"columns": {"name": "title"}}},
    ]
    pipeline = Pipeline.from_dict(config(kafka, tmp_path, topic, PLAIN, transforms=transforms))
    (summary,) = pipeline.run(spark).tables
    assert (summary.rows_in, summary.dead_letters) == (153, 0)  # tombstones are not counted
    found = read_keys(kafka, f"replica.{topic}")
    assert [json.loads(value or b"") for value in found[b'{"id":1}']] == [{"id": 1, "title": "arp", "email": "arp@"}]
    titles = [value and json.loads(value)["title"] for value in found[b'{"id":3}']]
    assert titles == [*(f"v{lsn}" for lsn in range(10, 60)), None, None]
    places = [{(r.key, r.partition) for r in kafka.read(name)} for name in (topic, f"replica.{topic}")]
    assert places[0] == places[1]
    assert len({partition for _, partition in places[0]}) > 1
    produce(kafka, topic, change("u", 1, "hans", 80))
    pipeline.run(spark)
    assert [json.loads(value or b"")["title"] for value in read_keys(kafka, f"replica.{topic}")[b'{"id":1}']] == [
        "arp",
        "hans",
    ]


@pytest.mark.nightly
def test_no_topic_has_a_value_under_any_mask(kafka: Kafka, topic: str, tmp_path: Path, spark: SparkSession) -> None:
    def write(op: str, row: dict[str, Any], lsn: int) -> Record:
        source = {"connector": "postgresql", "ts_ms": 1, "lsn": lsn, "sequence": f'["{lsn}","{lsn}"]'}
        images = {"before": row, "after": None} if op == "d" else {"before": row if op == "u" else None, "after": row}
        return Record(encode({**images, "source": source, "op": op}), key=encode({"ssn": row["ssn"]}))

    output = f"replica.{topic}"
    for name in topic, output:
        kafka.create_topic(name)
    gone = {**ROW, "ssn": "756471104712"}
    produce(kafka, topic, write("c", ROW, 1), write("c", gone, 2), write("u", ROW, 3), write("d", gone, 4))
    produce(kafka, topic, write("c", {**gone, "ip": "canary-4711"}, 5))
    transforms = [{"unwrap": {"add.fields": "before"}}, {"mask": {"columns": MASKS}}]
    Pipeline.from_dict(config(kafka, tmp_path, topic, {}, transforms=transforms)).run(spark)
    records = list(kafka.read(output))
    assert len(records) == 4
    for value in (*ROW.values(), gone["ssn"], "canary-4711"):
        assert not [r for r in records if value.encode() in (r.key or b"") + (r.value or b"")]
        assert not find_on_disk(value, tmp_path)


def test_loop_by_another_address_and_large_record_are_reported(
    kafka: Kafka, topic: str, tmp_path: Path, spark: SparkSession
) -> None:
    produce(kafka, topic, change("c", 1, "secret" * 1000, 1))
    pattern = {"bootstrap.servers": kafka.bootstrap_servers, "subscribePattern": f".*{topic}"}
    alias = kafka.bootstrap_servers.replace("127.0.0.1", "localhost")
    loop = config(
        kafka, tmp_path, topic, {"bootstrap.servers": alias}, source={"kafka": pattern, "value": {"json": {}}}
    )
    with pytest.raises(ConfigError, match=f"the source reads the topic replica.{topic}") as caught:
        Pipeline.from_dict(loop).run(spark)
    assert topic not in str(caught.value.fix)
    small = config(kafka, tmp_path / "small", topic, {"kafka.max.request.size": 2000})
    with pytest.raises(DataError, match=r"a record is too large: The message is \d+ bytes") as large:
        Pipeline.from_dict(small).run(spark)
    assert f"table {topic}, sink kafka" in str(large.value)
    assert "larger than 2000" in str(large.value)
    assert "`kafka.max.request.size`" in str(large.value.fix)
    assert "secret" not in str(large.value)


@pytest.fixture(scope="module")
def strict() -> Iterator[Kafka]:
    """Provide a broker that does not create topics, with SASL."""
    server = Kafka(sasl=True, config={"auto.create.topics.enable": "false", "message.max.bytes": "3000"})
    server.fetch()
    with server:
        yield server


@pytest.mark.nightly
class TestStrictBroker:
    def test_missing_topic_is_reported_with_its_name(
        self, kafka: Kafka, strict: Kafka, topic: str, tmp_path: Path, spark: SparkSession
    ) -> None:
        produce(kafka, topic, change("c", 1, "arp", 1))
        strict.create_topic(f"replica.{topic}s")
        pipeline = Pipeline.from_dict(
            config(kafka, tmp_path, topic, {"bootstrap.servers": strict.bootstrap_servers, **PLAIN})
        )
        with pytest.raises(ConfigError, match=f"no such topic: 'replica.{topic}'") as caught:
            pipeline.run(spark)
        assert f"did you mean 'replica.{topic}s'?" in str(caught.value.fix)
        strict.create_topic(f"replica.{topic}")
        pipeline.run(spark)
        assert len(strict.read(f"replica.{topic}")) == 1

    def test_record_that_the_broker_rejects_is_reported(
        self, kafka: Kafka, strict: Kafka, topic: str, tmp_path: Path, spark: SparkSession
    ) -> None:
        produce(kafka, topic, change("c", 1, "secret" * 1000, 1))
        strict.create_topic(f"replica.{topic}")
        sink = {"bootstrap.servers": strict.bootstrap_servers}
        with pytest.raises(DataError, match="a record is larger than") as caught:
            Pipeline.from_dict(config(kafka, tmp_path, topic, sink)).run(spark)
        assert "`max.message.bytes`" in str(caught.value.fix)
        assert "secret" not in str(caught.value)

    def test_compacted_topic_rejects_records_without_a_key(
        self, kafka: Kafka, strict: Kafka, topic: str, tmp_path: Path, spark: SparkSession
    ) -> None:
        produce(kafka, topic, Record(encode({"id": 1})))
        strict.create_topic(f"replica.{topic}", config={"cleanup.policy": "compact"})
        sink = {"bootstrap.servers": strict.bootstrap_servers}
        with pytest.raises(DataError, match="compacted topics reject records without a key") as caught:
            Pipeline.from_dict(config(kafka, tmp_path, topic, sink, transforms=[])).run(spark)
        assert "key: [id]" in str(caught.value.fix)

    def test_wrong_password_is_reported(
        self, kafka: Kafka, strict: Kafka, topic: str, tmp_path: Path, spark: SparkSession
    ) -> None:
        produce(kafka, topic, change("c", 1, "arp", 1))
        login = {
            "bootstrap.servers": strict.sasl.bootstrap_servers,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.sasl.jaas.config": f'{MODULE} required username="headrace" password="canary-7";',
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(strict.sasl.ca),
        }
        with pytest.raises(ConfigError, match="authentication failed") as caught:
            Pipeline.from_dict(config(kafka, tmp_path, topic, login)).run(spark)
        assert "sink kafka" in str(caught.value)
        assert "canary-7" not in str(caught.value)


@pytest.mark.nightly
def test_envelopes_keep_their_key_and_headers_and_deletes(
    kafka: Kafka, topic: str, tmp_path: Path, spark: SparkSession
) -> None:
    key = b'{ "id" : 1 }'
    created, deleted = (Record(change(op, 1, "arp", lsn).value, key=key) for lsn, op in enumerate("cd"))
    traced = Record(created.value, key=key, headers=[("trace", b"\x00\x01"), ("none", None)])
    produce(kafka, topic, traced, deleted, Record(None, key=key))
    sink = {**PLAIN, "keys.format": "bytes", "includeHeaders": True}
    Pipeline.from_dict(config(kafka, tmp_path, topic, sink, transforms=[])).run(spark)
    first, second, third = kafka.read(f"replica.{topic}")
    assert [record.key for record in (first, second, third)] == [key] * 3
    assert list(first.headers) == [("trace", b"\x00\x01"), ("none", None)]
    before, after = json.loads(first.value or b""), json.loads(second.value or b"")
    assert (before["op"], before["after"]["name"], after["op"], after["before"]["name"]) == ("c", "arp", "d", "arp")
    assert third.value is None


def run_and_kill(kafka: Kafka, file: Path, topic: str, seconds: float) -> None:
    """Run the program until it has written to a topic, and kill it some time later."""
    log, before = file.with_suffix(".log"), sum(kafka.end_offsets(topic).values())
    with log.open("a") as output:
        options = {"stdout": output, "stderr": output, "start_new_session": True}
        process = start(file.parent, "run", str(file), "--log-format", "text", **options)

        def has_written() -> bool:
            time.sleep(0.2)  # each look starts a consumer
            return sum(kafka.end_offsets(topic).values()) > before or process.poll() is not None

        try:
            until(has_written, "the first record of the run", seconds=180)
            assert process.poll() is None, log.read_text()[-3000:]
            time.sleep(seconds)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(5400)  # twenty starts of the program
def test_last_record_of_each_key_is_equal_after_kills(
    kafka: Kafka, topic: str, tmp_path: Path, spark: SparkSession
) -> None:
    seed = random.Random(43)
    for name in topic, f"replica.{topic}":
        kafka.create_topic(name, partitions=3)
    source = {"bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic, "maxOffsetsPerTrigger": 200}
    settings = {"spark.master": "local[2]", "spark.driver.memory": "1g"}
    file, block = tmp_path / "replica.yaml", {"kafka": source, "value": {"json": {}}}
    file.write_text(
        yaml.safe_dump(config(kafka, tmp_path, topic, PLAIN, source=block, spark=settings, trigger="100 ms"))
    )
    lsn = 0
    for _ in range(20):
        changes = []
        for _ in range(1000):
            lsn += 1
            changes.append(change(seed.choice("uuuud"), seed.randrange(50), f"v{lsn}", lsn))
        produce(kafka, topic, *changes)
        run_and_kill(kafka, file, f"replica.{topic}", seed.random())
    Pipeline.from_dict(config(kafka, tmp_path, topic, PLAIN, source=block)).run(spark)
    expected: dict[bytes | None, str | None] = {}
    for record in kafka.read(topic):
        row = json.loads(record.value or b"")["after"]
        expected[record.key] = row and row["name"]
    found = {key: values[-1] for key, values in read_keys(kafka, f"replica.{topic}").items()}
    assert {key: value and json.loads(value)["name"] for key, value in found.items()} == expected
    assert sum(kafka.end_offsets(f"replica.{topic}").values()) >= lsn
