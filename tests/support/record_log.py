"""Source of broker records from a file, with all columns of Kafka and a limit per batch."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.sdk import Config, Offset, RangedSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LINE = (
    "line bigint, topic string, partition int, offset bigint, time bigint, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)


@dataclass(frozen=True)
class LogRecord:
    """Record of a broker. ``key`` and ``value`` are bytes, or objects to write as JSON."""

    topic: str
    offset: int
    key: Any
    value: Any
    partition: int = 0
    time: int = 0
    headers: Mapping[str, bytes] | None = None


class RecordLogConfig(Config):
    """Location of a file of records."""

    path: str
    limit: int | None = None
    """Maximum number of records per batch."""


class RecordLog(RangedSource):
    """Source of the records of a growing file."""

    name = "record_log"
    api_version = 1
    Config = RecordLogConfig
    config: RecordLogConfig
    _end: int | None = None

    def initial(self) -> Offset:
        return {"line": 0}

    def latest(self, start: Offset, limit: int | None) -> Offset:
        end = self._length() if self._end is None else self._end
        return {"line": min(end, start["line"] + limit) if limit else end}

    def read(self, spark: SparkSession, start: Offset, end: Offset) -> DataFrame:
        from pyspark.sql import functions as F

        lines = spark.read.schema(_LINE).json(self.config.path)
        names = ("key", "value", "headers", "topic", "partition", "offset")
        times = F.timestamp_millis("time").alias("timestamp")
        return lines.where(F.col("line").between(start["line"] + 1, end["line"])).select(*names, times)

    def prepare_for_trigger_available_now(self) -> None:
        self._end = self._length()

    def _length(self) -> int:
        path = Path(self.config.path)
        return path.read_bytes().count(b"\n") if path.exists() else 0


def append(path: Path, records: Iterable[LogRecord]) -> None:
    """Append records to a file."""
    last = path.read_bytes().count(b"\n") if path.exists() else 0
    with path.open("a", encoding="utf-8") as file:
        for line, record in enumerate(records, last + 1):
            headers = [{"key": name, "value": _encode(value)} for name, value in (record.headers or {}).items()]
            row = {
                **{name: getattr(record, name) for name in ("topic", "partition", "offset", "time")},
                "line": line,
                "key": _encode(record.key),
                "value": _encode(record.value),
                "headers": headers or None,
            }
            print(json.dumps(row), file=file)


def _encode(body: Any) -> str | None:
    if body is None:
        return None
    return b64encode(body if isinstance(body, bytes) else json.dumps(body).encode()).decode()
