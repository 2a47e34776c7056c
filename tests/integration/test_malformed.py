"""Malformed records in JSON and Avro.

Each of 1,000 damaged records becomes exactly one row or one dead letter. Valid records between them reach the table.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.plugins.sources.formats.test_avro_records import FakeRegistry, encode, fake_registry
from tests.plugins.sources.transports.test_kafka_source import change, job, prefix
from tests.support import pipelines
from tests.support.tiers import nightly_after

from headrace_stack.servers.kafka import Kafka, Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace import Pipeline
    from headrace.progress.model import TableProgress

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.dist, pytest.mark.one_spark]

__all__ = ["fake_registry", "prefix"]
#: Ids of undamaged records. They are so large that no damage turns a small id into one of them.
GOOD = range(5_000_000_000, 5_000_000_100)
BAD = 1_000
_DEPTH = 3_000
SEEDS = (4711, 4712, 4713)

#: Function that returns a randomly damaged copy of a body.
Damage = Callable[[bytes, random.Random], bytes]


def _flip(body: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def _cut(body: bytes, rng: random.Random) -> bytes:
    return body[: rng.randrange(len(body))]


def _not_utf8(body: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(body))
    return body[:at] + rng.choice([b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"]) + body[at:]


def _replace(_: bytes, rng: random.Random) -> bytes:
    return rng.choice([b"", b" ", b"null", b"0", b'"text"', b"[]", b"{}", b'{"op":"c"}', b"\0" * 50, b"\xef\xbb\xbf{}"])


def _append(body: bytes, rng: random.Random) -> bytes:
    return body + rng.choice([body, b"}", b"\0", b" {}", b"[1"])


def _replace_value(body: bytes, rng: random.Random) -> bytes:
    event: dict[str, Any] = json.loads(body)
    value: Any = rng.choice(
        [float("nan"), float("-inf"), 10**400, -1, 2**63, 1e308, "", "\ud800", [], {}, [[]], True, None, "0" * 10_000]
    )
    part = rng.choice([event, event["source"], event["after"]])
    part[rng.choice([*part, "new", "op", "_headrace_error", "a`b\n", ""])] = value
    return json.dumps(event).encode()


def _nest(body: bytes, rng: random.Random) -> bytes:
    opened, closed = rng.choice([(b"[", b"]"), (b'{"a":', b"}")])
    return body[:-1] + b',"deep":' + opened * _DEPTH + b"1" + closed * _DEPTH + b"}"


#: Weight of each kind of damage.
JSON: dict[Damage, int] = {
    _flip: 40,
    _cut: 15,
    _append: 8,
    _not_utf8: 12,
    _replace_value: 20,
    _nest: 1,
    _replace: 4,
}


@pytest.mark.parametrize("seed", nightly_after(1, SEEDS))
def test_json(seed: int, kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    rng = random.Random(seed)
    topic = f"{prefix}.orders"
    bad = []
    for number in range(BAD):
        record = change("c", number % 1000, "a", lsn=number + 1)
        damage = _draw_damage(JSON, rng)
        # Half of the keys are damaged too.
        key = damage(b'{"id": %d}' % number, rng) if damage in (_flip, _cut) and rng.random() < 0.5 else record.key
        bad.append(Record(damage(record.value or b"", rng), key=key))
    good = [change("c", number, f"good {number}", lsn=number) for number in GOOD]
    rule = {"source": topic, "columns": {"id": "bigint", "name": "string"}}
    pipeline = job(kafka, tmp_path, {"subscribe": topic, "maxOffsetsPerTrigger": 600}, tables=[rule])
    # Records without schemas: the first batch determines the columns.
    kafka.produce(topic, good.pop(0))
    pipeline.run(spark)
    _assert_each_record_is_a_row_or_a_dead_letter(kafka, topic, [*bad, *good], rng, pipeline, spark)


_ROW = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "price", "type": "double"},
        {"name": "day", "type": {"type": "int", "connect.name": "io.debezium.time.Date"}},
        {"name": "made", "type": {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}},
        {"name": "photo", "type": "bytes"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
_SOURCE = {
    "type": "record",
    "name": "Source",
    "fields": [{"name": name, "type": "string"} for name in ("connector", "sequence")]
    + [{"name": name, "type": "long"} for name in ("ts_ms", "lsn")],
}
_ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "connect.name": "orders.Envelope",
    "fields": [
        {"name": "before", "type": ["null", _ROW]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": _SOURCE},
        {"name": "op", "type": "string"},
    ],
}
_KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
#: Ids in the schema registry: the value schema, the key schema, and an invalid schema.
_VALUES, _KEYS, _BROKEN = 7, 8, 9
_NAME = "n" * 40


def _avro(id_: int, schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    return b"\0" + id_.to_bytes(4, "big") + encode(schema, value)


def _avro_change(number: int, name: str, *, lsn: int) -> Record:
    row = {"id": number, "name": name, "price": 1.5, "day": 19_000, "made": 1, "photo": b"\0\1", "tags": ["a", "b"]}
    source = {"connector": "postgresql", "sequence": f'["{lsn}","{lsn}"]', "ts_ms": 1_700_000_000_000, "lsn": lsn}
    value = _avro(_VALUES, _ENVELOPE, {"before": None, "after": row, "source": source, "op": "c"})
    return Record(value, key=_avro(_KEYS, _KEY, {"id": number}))


def _set_huge_length(body: bytes, rng: random.Random) -> bytes:
    """Replace the length of a string, bytes or an array with a huge or negative number."""
    number = rng.choice(
        [99 << 20, 500 << 20, (1 << 31) - 9, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 62), -1, -(1 << 31)]
    )
    length, content = encode("long", number), rng.choice([_NAME.encode(), b"\0\1\4", b"\2a\2b\0"])
    return body.replace(bytes([len(content) * 2]) + content if content[0] != 0 else b"\4\0\1", length + content, 1)


def _replace_schema_id(body: bytes, rng: random.Random) -> bytes:
    return b"\0" + rng.choice([_KEYS, _BROKEN, 404, 0, 1 << 31]).to_bytes(4, "big") + body[5:]


def _append_noise(body: bytes, rng: random.Random) -> bytes:
    return body + rng.randbytes(rng.randint(1, 50))


def _replace_body(body: bytes, rng: random.Random) -> bytes:
    return body[:5] + rng.randbytes(rng.randint(0, 200))


AVRO: dict[Damage, int] = {
    _flip: 40,
    _cut: 15,
    _set_huge_length: 10,
    _replace_schema_id: 5,
    _not_utf8: 10,
    _append_noise: 5,
    _replace_body: 10,
    _replace: 5,
}


@pytest.mark.nightly
@pytest.mark.parametrize("seed", SEEDS)
def test_avro(
    seed: int, kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession, fake_registry: FakeRegistry
) -> None:
    rng = random.Random(seed)
    topic = f"{prefix}.orders"
    for id_, text in ((_VALUES, json.dumps(_ENVELOPE)), (_KEYS, json.dumps(_KEY)), (_BROKEN, '{"type": "nothing"}')):
        fake_registry.answers[f"/schemas/ids/{id_}"] = {"schema": text}
    bad = []
    for number in range(BAD):
        record = _avro_change(number % 1000, _NAME, lsn=number + 1)
        damage = _draw_damage(AVRO, rng)
        key = damage(record.key or b"", rng) if damage in (_flip, _cut) and rng.random() < 0.5 else record.key
        bad.append(Record(damage(record.value or b"", rng), key=key))
    good = [_avro_change(number, f"good {number}", lsn=number) for number in GOOD]
    wire = {"avro": {"registry": fake_registry.url}}
    source = {"bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic, "maxOffsetsPerTrigger": 600}
    policies: dict[str, Any] = {"dead.letters": {"schema-unknown": "dead-letter"}}
    config = {"source": {"kafka": source, "value": wire}, "tables": [], **policies}
    pipeline = pipelines.pipeline(tmp_path, "iceberg", **config)
    kafka.produce(topic, good.pop(0))
    pipeline.run(spark)
    _assert_each_record_is_a_row_or_a_dead_letter(kafka, topic, [*bad, *good], rng, pipeline, spark)


def _draw_damage(damages: dict[Damage, int], rng: random.Random) -> Damage:
    return rng.choices(list(damages), list(damages.values()))[0]


def _assert_each_record_is_a_row_or_a_dead_letter(
    kafka: Kafka, topic: str, records: list[Record], rng: random.Random, pipeline: Pipeline, spark: SparkSession
) -> None:
    rng.shuffle(records)
    kafka.produce(topic, *records)
    found: list[TableProgress] = []
    pipeline.run(spark, on_progress=lambda progress: found.extend(progress.tables))
    counts = {
        name: sum(int(getattr(table, name)) for table in found) for name in ("rows_in", "applied", "superseded", "late")
    }
    dead_letters = pipeline.read("dead_letters", spark=spark)
    assert counts["rows_in"] == len(records)
    assert counts["applied"] + counts["superseded"] + counts["late"] + dead_letters.count() == counts["rows_in"]
    # No offset occurs twice.
    assert dead_letters.select("partition", "offset").distinct().count() == dead_letters.count()
    assert dead_letters.count() > BAD / 2
    table = pipeline.read(topic, spark=spark)
    names = {row["id"]: row["name"] for row in table.where(table["id"] >= GOOD[0]).select("id", "name").collect()}
    assert {number: names.get(number) for number in GOOD} == {number: f"good {number}" for number in GOOD}
