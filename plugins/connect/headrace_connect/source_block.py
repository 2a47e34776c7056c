"""The block ``source:`` of the pipeline file, as it is written: brokers, topics and formats of a source of Kafka's records."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.sdk.options import option_text


def find_brokers(pipeline: Mapping[str, Any]) -> str | None:
    """Return the brokers of the source; None if it is not Kafka, or its authentication finds them."""
    brokers = _read_kafka(pipeline).get("bootstrap.servers")
    return option_text(brokers) if brokers else None


def find_unread_topics(pipeline: Mapping[str, Any], topics: Sequence[str]) -> list[str]:
    """Return those of ``topics`` that the source does not read. Empty if that cannot be decided.

    Debezium matches the names of tables in any case, and topics have the case of the tables.
    """
    kafka = _read_kafka(pipeline)
    if subscribed := kafka.get("subscribe"):
        names = {name.strip().lower() for name in option_text(subscribed).split(",")}
        return [] if any("${" in name for name in names) else [topic for topic in topics if topic.lower() not in names]
    pattern = str(kafka.get("subscribePattern") or "")
    try:
        return (
            [topic for topic in topics if not re.fullmatch(pattern, topic, re.IGNORECASE)]
            if pattern and "${" not in pattern
            else []
        )
    except re.error:  # Java's syntax
        return []


def _read_kafka(pipeline: Mapping[str, Any]) -> Mapping[str, Any]:
    source = pipeline.get("source")
    kafka = source.get("kafka") if isinstance(source, dict) else None
    return kafka if isinstance(kafka, dict) else {}
