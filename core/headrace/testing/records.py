"""Source of given records, for tests of formats, dialects and transforms.

::

    pipeline = Pipeline(source=Records("shop.people", b"1,Arp", b"2,Klee"), value=AcmeFormat(), …)
    pipeline.run(headrace_spark)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk.source import Offset, RangedSource
from headrace.testing._internal.frames import make_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, topic string, partition int, "
    "offset bigint, timestamp timestamp"
)


class Records(RangedSource):
    """Source of values of one topic, in order and without keys. None is a tombstone."""

    name = "records"
    api_version = 1

    def __init__(self, topic: str, *values: bytes | None) -> None:
        super().__init__()
        self._topic, self._values = topic, values

    def initial(self) -> Offset:
        """Return the offset of the first record."""
        return {"records": 0}

    def latest(self, start: Offset, limit: int | None) -> Offset:
        """Return the offset after the last record."""
        return {"records": len(self._values)}

    def read(self, spark: SparkSession, start: Offset, end: Offset) -> DataFrame:
        """Return the records of a range."""
        numbers = range(start["records"], end["records"])
        rows = [{"value": self._values[n], "topic": self._topic, "partition": 0, "offset": n} for n in numbers]
        return make_frame(spark, _SCHEMA, rows)
