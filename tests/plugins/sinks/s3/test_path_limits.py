"""Names of objects of topics with long names, without Spark."""

from __future__ import annotations

import hashlib

import pytest

from headrace_sinks.s3.path_limits import name_object

REST = "+0+0000000000.snappy.parquet"


@pytest.mark.parametrize("letter", ["t", "č"])
def test_name_of_a_long_topic_is_shortened_on_disks_only(letter: str) -> None:
    """A topic of Kafka has up to 249 characters, and a file with its checksum file 250 bytes."""
    names: dict[str, str] = {}
    for length in (1, *range(200 // len(letter.encode()), 250)):
        topic = letter * length
        name = name_object(topic, REST, is_in_store=False)
        assert len(f".{name}.crc".encode()) <= 255
        assert name.endswith(REST)
        is_short = len((topic + REST).encode()) <= 250
        assert (name == topic + REST) is is_short
        if not is_short:
            assert hashlib.sha256(topic.encode()).hexdigest()[:16] in name
            assert topic.startswith(name.partition("~")[0])
        assert name_object(topic, REST, is_in_store=True) == topic + REST
        assert names.setdefault(name, topic) == topic
