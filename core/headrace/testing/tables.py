"""A table under test, written in batches and read back as plain values."""

from __future__ import annotations

import math
import pickle
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any
from zlib import crc32

from headrace.errors import HeadraceError
from headrace.sdk.changes import DELETED, OFFSET, PARTITION, POSITION, TOMBSTONE, TOPIC
from headrace.sdk.sink import Batch, Mode, Sink, Table, WriteResult
from headrace.spark.columns import quote_name
from headrace.testing._internal.frames import make_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[Any, ...]


def put(at: int, *values: Any) -> Row:
    """Return a row that the database inserted or updated at position ``at``."""
    return (*values, f"{at:010d}", False)


def remove(at: int, *values: Any) -> Row:
    """Return a row that the database deleted at position ``at``."""
    return (*values, f"{at:010d}", True)


@dataclass
class Target:
    """A table of the sink under test, written in batches."""

    sink: Sink
    session: SparkSession
    key: tuple[str, ...] = ("id",)
    name: str = field(default_factory=lambda: f"kit.t{uuid.uuid4().hex[:8]}")
    pipeline: str = field(default_factory=lambda: uuid.uuid4().hex)
    batch: int = -1
    #: Digest of the offsets that the batches read.
    digest: str = "1"

    @property
    def table(self) -> Table:
        """The table as the sink receives it."""
        return Table(self.name, self.key)

    @property
    def mode(self) -> Mode:
        """The write mode that the engine would use."""
        return "upsert" if self.sink.capabilities.upsert else "append"

    def frame(self, schema: str, *rows: Row) -> DataFrame:
        """Return the rows of the next batch as a DataFrame."""
        return self._frame(schema, rows, self.batch + 1)

    def _frame(self, schema: str, rows: Sequence[Row], batch: int) -> DataFrame:
        """Return rows with the record columns that the sink requests. They are the same each time a batch is written."""
        partition = crc32(self.pipeline.encode()) % 1000
        values: dict[str, tuple[str, Callable[[int], Any]]] = {
            TOPIC: ("string", lambda _: self.name),
            PARTITION: ("int", lambda _: partition),
            OFFSET: ("bigint", lambda number: batch * 10_000 + number),
            TOMBSTONE: ("boolean", lambda _: False),
        }
        wanted = {name: values[name] for name in values if name in self.sink.record_columns()}
        columns = [
            f"{schema}, {POSITION} string, {DELETED} boolean",
            *(f"{name} {kind}" for name, (kind, _) in wanted.items()),
        ]
        data = [(*row, *(value(number) for _, value in wanted.values())) for number, row in enumerate(rows)]
        if any(not isinstance(value, str | int | None) for row in data for value in row):
            return self.session.createDataFrame(data, ", ".join(columns))
        names = _list_names(", ".join(columns))
        return make_frame(self.session, ", ".join(columns), [dict(zip(names, row, strict=True)) for row in data])

    def write(self, schema: str, *rows: Row, mode: Mode | None = None) -> WriteResult:
        """Write the next batch."""
        return self.apply(self.frame(schema, *rows), mode=mode)

    def apply(self, frame: DataFrame, mode: Mode | None = None) -> WriteResult:
        """Write the next batch. A failed batch is repeated with its number."""
        batch = Batch(self.pipeline, self.batch + 1, mode or self.mode, digest=self.digest)
        result = self.sink.write(self.table, frame, batch)
        self.batch += 1
        return result

    def write_again(self, schema: str, *rows: Row, mode: Mode | None = None) -> WriteResult:
        """Write the last batch again, like a new process after a crash."""
        sink = pickle.loads(pickle.dumps(self.sink))  # noqa: S301 - our own data
        batch = Batch(self.pipeline, self.batch, mode or self.mode, digest=self.digest)
        result = sink.write(self.table, self._frame(schema, rows, self.batch), batch)
        assert isinstance(result, WriteResult)
        return result

    def read(self, as_of: str | None = None) -> DataFrame:
        """Return the table without internal columns."""
        frame = self.sink.read_back(self.session, self.table, as_of)
        return frame.select(*[quote_name(c) for c in frame.columns if not c.startswith(self.sink.hidden_prefixes)])

    def rows(self, as_of: str | None = None) -> list[dict[str, Any]]:
        """Return the table's rows as plain values, ordered by key."""
        rows = [{name: plain(value) for name, value in row.asDict().items()} for row in self.read(as_of).collect()]
        return sorted(rows, key=lambda row: repr([[row.get(k) for k in self.key], row]))

    def refusal(self, work: Callable[[], object]) -> HeadraceError | None:
        """Return the error of ``work`` as the sink's ``explain`` translates it; None if it succeeds."""
        try:
            work()
        except HeadraceError as error:
            return error
        except Exception as error:
            explanation = self.sink.explain(error)
            if explanation is None:
                raise
            return explanation
        return None


@cache
def _list_names(schema: str) -> list[str]:
    from pyspark.sql.types import _parse_datatype_string

    parsed: Any = _parse_datatype_string(schema)
    return list(parsed.names)


def plain(value: Any) -> Any:
    """Return a value without PySpark types, comparable with ``==``."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


#: Column → type, and the values in three rows; the second row has nulls.
VALUES: dict[str, tuple[str, Any, Any, Any]] = {
    "id": ("int", 1, 2, 3),
    "text": ("string", "žlutý kůň 🐎\n\t\"quoted\" 'and' \\N \\", None, ""),
    "null_text": ("string", "null", None, "None"),
    "small": ("smallint", -7, None, 32767),
    "big": ("bigint", 2**63 - 1, None, -(2**63)),
    "exact": ("decimal(38,9)", Decimal("12345678901234567890.123456789"), None, Decimal("-0.000000001")),
    "price": ("decimal(10,2)", Decimal("1.10"), None, Decimal("-99999999.99")),
    "ratio": ("double", 0.1, None, float("nan")),
    "single": ("float", 1.5, None, -0.25),
    "flag": ("boolean", True, None, False),
    "day": ("date", date(2024, 2, 29), None, date(1, 1, 1)),
    "moment": (
        "timestamp",
        datetime(2024, 2, 29, 23, 59, 59, 123456),  # noqa: DTZ001 - PySpark's timestamps are naive
        None,
        datetime(1500, 3, 4, 5, 6, 7, 8),  # noqa: DTZ001 - PySpark's timestamps are naive
    ),
    "bytes": ("binary", b"\x00\xff", None, b""),
    "numbers": ("array<int>", [1, None, 3], None, []),
    "texts": ("array<string>", ["", "x"], None, [None]),
    "address": ("struct<street: string, no: int>", {"street": "", "no": None}, None, {"street": None, "no": 1}),
    "tags": ("map<string, string>", {"k": "v", "": ""}, None, {"null": None}),
    "deep": (
        "array<struct<m: map<string, array<double>>, at: timestamp>>",
        [{"m": {"a": [1.5, None]}, "at": datetime(2020, 1, 1, 0, 0, 0, 5)}],  # noqa: DTZ001 - PySpark's timestamps are naive
        None,
        [{"m": None, "at": None}, None],
    ),
}
