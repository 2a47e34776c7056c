"""Ten thousand messages that nobody should have written: each is a row or a dead letter, and the others are right."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.sources.test_kafka import change, job, prefix

from headrace.testing.stack.kafka import Kafka, Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace_progress.progress import TableProgress

pytestmark = [pytest.mark.slow, pytest.mark.dist, pytest.mark.spark, pytest.mark.one_spark]

__all__ = ["prefix"]
#: Ids of messages that stay as they are: no damage makes a small one so large.
GOOD = range(5_000_000_000, 5_000_000_100)
BAD = 10_000
_DEPTH = 3_000


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka() as server:
        yield server


def _flipped(body: bytes, dice: random.Random) -> bytes:
    damaged = bytearray(body)
    for _ in range(dice.randint(1, 4)):
        damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
    return bytes(damaged)


def _cut(body: bytes, dice: random.Random) -> bytes:
    return body[: dice.randrange(len(body))]


def _joined(body: bytes, dice: random.Random) -> bytes:
    return body + dice.choice([body, b"}", b"\0", b" {}", b"[1"])


def _not_utf8(body: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(body))
    return body[:at] + dice.choice([b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"]) + body[at:]


def _other(body: bytes, dice: random.Random) -> bytes:
    """Another value where one is expected."""
    said: dict[str, Any] = json.loads(body)
    value: Any = dice.choice(
        [float("nan"), float("-inf"), 10**400, -1, 2**63, 1e308, "", "\ud800", [], {}, [[]], True, None, "0" * 10_000]
    )
    place = dice.choice([said, said["source"], said["after"]])
    place[dice.choice([*place, "new", "op", "_headrace_error", "a`b\n", ""])] = value
    return json.dumps(said).encode()


def _deep(body: bytes, dice: random.Random) -> bytes:
    opened, closed = dice.choice([(b"[", b"]"), (b'{"a":', b"}")])
    return body[:-1] + b',"deep":' + opened * _DEPTH + b"1" + closed * _DEPTH + b"}"


def _nothing(_: bytes, dice: random.Random) -> bytes:
    return dice.choice(
        [b"", b" ", b"null", b"0", b'"text"', b"[]", b"{}", b'{"op":"c"}', b"\0" * 50, b"\xef\xbb\xbf{}"]
    )


_DAMAGES: list[tuple[Callable[[bytes, random.Random], bytes], int]] = [
    (_flipped, 40),
    (_cut, 15),
    (_joined, 8),
    (_not_utf8, 12),
    (_other, 20),
    (_deep, 1),
    (_nothing, 4),
]


def test_each_is_a_row_or_a_dead_letter(kafka: Kafka, prefix: str, tmp_path: Path, spark: SparkSession) -> None:
    dice = random.Random(4711)
    topic = f"{prefix}.orders"
    damages, weights = zip(*_DAMAGES, strict=True)
    bad = []
    for number in range(BAD):
        record = change("c", number % 1000, "a", lsn=number + 1)
        damage = dice.choices(damages, weights)[0]
        # Half of the keys are damaged, too.
        key = damage(b'{"id": %d}' % number, dice) if damage in (_flipped, _cut) and dice.random() < 0.5 else record.key
        bad.append(Record(damage(record.value or b"", dice), key=key))
    good = [change("c", number, f"good {number}", lsn=number) for number in GOOD]
    first, *others = good
    mixed = [*bad, *others]
    dice.shuffle(mixed)
    rule = {"source": topic, "columns": {"id": "bigint", "name": "string"}}
    pipeline = job(kafka, tmp_path, {"subscribe": topic, "maxOffsetsPerTrigger": 3000}, tables=[rule])
    found: list[TableProgress] = []
    # Without schemas, the first batch says what the columns are.
    kafka.produce(topic, first)
    pipeline.run(spark, on_progress=lambda progress: found.extend(progress.tables))
    kafka.produce(topic, *mixed)
    pipeline.run(spark, on_progress=lambda progress: found.extend(progress.tables))
    names = ("rows_in", "applied", "superseded", "late")
    said = {name: sum(int(getattr(table, name)) for table in found) for name in names}
    letters = pipeline.read("dead_letters", spark=spark)
    assert said["rows_in"] == BAD + len(good)
    assert said["applied"] + said["superseded"] + said["late"] + letters.count() == said["rows_in"]
    # Each with its place, once.
    assert letters.select("partition", "offset").distinct().count() == letters.count()
    assert letters.count() > BAD / 2
    table = pipeline.read(topic, spark=spark)
    right = {row["id"]: row["name"] for row in table.where(table["id"] >= GOOD[0]).select("id", "name").collect()}
    assert {number: right.get(number) for number in GOOD} == {number: f"good {number}" for number in GOOD}
