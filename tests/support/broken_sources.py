"""Sources that each break one requirement, and the kit test that must detect it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tests.support.kit_run import Broken, fails

from headrace.errors import FatalError
from headrace.sdk.config import Config
from headrace.sdk.source import Offset, RangedSource
from headrace.testing._internal.frames import make_frame
from headrace.testing.sources import SourceConformance

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BROKEN: Broken = {}
SCHEMA = "key binary, value binary, topic string, partition int, offset bigint"


class LogConfig(Config):
    """Location of the log."""

    path: str
    """A file of lines."""


class Log(RangedSource):
    """Correct source of the lines of a growing file; the others derive from it."""

    name = "log"
    api_version = 1
    Config = LogConfig
    config: LogConfig
    schema: ClassVar[str] = SCHEMA

    def lines(self) -> list[bytes]:
        return [b""] * self.oldest + Path(self.config.path).read_bytes().splitlines()

    @property
    def oldest(self) -> int:
        """Number of lines removed from the start. The remaining lines keep their numbers."""
        file = Path(f"{self.config.path}.gone")
        return int(file.read_text()) if file.exists() else 0

    def initial(self) -> Offset:
        return {"line": 0}

    def latest(self, start: Offset, limit: int | None) -> Offset:
        end = len(self.lines())
        return {"line": min(end, start["line"] + limit) if limit else end}

    def read(self, spark: SparkSession, start: Offset, end: Offset) -> DataFrame:
        self.miss(start["line"])
        names = ("key", "value", "topic", "partition", "offset")
        rows = self.rows(start["line"], end["line"])
        return make_frame(spark, self.schema, [dict(zip(names, row, strict=True)) for row in rows])

    def miss(self, start: int) -> None:
        if 0 <= start < self.oldest:
            raise FatalError("lines are gone that were not read", fix="`headrace resync` reads the tables anew")

    def rows(self, start: int, end: int) -> list[tuple[Any, ...]]:
        return [(None, line, "log", 0, number) for number, line in enumerate(self.lines())][start:end]


class LogKit(SourceConformance):
    plugin_class = Log

    def config(self, folder: Path) -> Mapping[str, Any]:
        (folder / "log").touch()
        return {"path": str(folder / "log")}

    def add(self, folder: Path, texts: Sequence[str]) -> None:
        with (folder / "log").open("a", encoding="utf-8") as log:
            log.writelines(f"{text}\n" for text in texts)

    def cut(self, folder: Path, count: int) -> None:
        log = folder / "log"
        log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[count:]))
        (folder / "log.gone").write_text(str(count))


ONCE, RESTART = "test_every_record_is_read_once_in_order", "test_restarted_stream_reads_only_new_records"
RESUME = "test_reading_resumes_from_every_offset"
SAME, BACKWARDS = "test_range_always_returns_the_same_records", "test_latest_offset_never_decreases"
INTERRUPTED, EXPIRED = "test_interrupted_range_is_read_again", "test_expired_records_are_detected"
COLUMNS = "test_records_have_the_required_columns"


@fails(BROKEN, COLUMNS)
class ReturnsOffsetsAsStrings(Log):
    schema = SCHEMA.replace("offset bigint", "offset string")

    def rows(self, start: int, end: int) -> list[tuple[Any, ...]]:
        return [(*row[:-1], str(row[-1])) for row in super().rows(start, end)]


@fails(BROKEN, COLUMNS)
class AddsColumnToEmptyBatches(Log):
    def read(self, spark: SparkSession, start: Offset, end: Offset) -> DataFrame:
        frame = super().read(spark, start, end)
        return frame.withColumn("note", frame.topic) if start == end else frame


@fails(BROKEN, "test_empty_source_returns_no_records", ONCE, RESTART, SAME, INTERRUPTED)
class ReturnsAHeader(Log):
    def lines(self) -> list[bytes]:
        return [b"log of the shop", *super().lines()]


@fails(BROKEN, ONCE, RESTART, INTERRUPTED)
class LosesTheFirstRecord(Log):
    def initial(self) -> Offset:
        return {"line": min(1, len(self.lines()))}


@fails(BROKEN, ONCE, RESTART, RESUME, INTERRUPTED)
class LosesTheLastRecordOfARange(Log):
    def rows(self, start: int, end: int) -> list[tuple[Any, ...]]:
        return super().rows(start, end)[:-1]


@fails(BROKEN, ONCE, RESTART, INTERRUPTED)
class ReversesTheOffsets(Log):
    def rows(self, start: int, end: int) -> list[tuple[Any, ...]]:
        return [(*row[:-1], -row[-1]) for row in super().rows(start, end)]


@fails(BROKEN, ONCE)
class DropsNonAsciiCharacters(Log):
    def rows(self, start: int, end: int) -> list[tuple[Any, ...]]:
        return [
            (key, value.decode().encode("ascii", "ignore"), *place) for key, value, *place in super().rows(start, end)
        ]


@fails(BROKEN, RESTART, BACKWARDS)
class StartsOverInEachProcess(Log):
    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self.done: int | None = None

    def rows(self, start: int, end: int) -> list[tuple[Any, ...]]:
        start, self.done = (0 if self.done is None and end - start < len(self.lines()) - 1 else start), end
        return super().rows(start, end)


@fails(BROKEN, "test_available_now_run_terminates", BACKWARDS, RESTART, EXPIRED)
class AlwaysHasMore(Log):
    def latest(self, start: Offset, limit: int | None) -> Offset:
        end: Offset = super().latest(start, limit)
        return {"line": max(end["line"], start["line"] + 1)} if self.lines() else end


@fails(BROKEN, INTERRUPTED)
class StartsAtLastReadOffset(Log):
    def initial(self) -> Offset:
        file = Path(f"{self.config.path}.read")
        return {"line": int(file.read_text()) if file.exists() else 0}

    def rows(self, start: int, end: int) -> list[tuple[Any, ...]]:
        Path(f"{self.config.path}.read").write_text(str(end))
        return super().rows(start, end)


@fails(BROKEN, EXPIRED)
class SkipsExpiredRecords(Log):
    def rows(self, start: int, end: int) -> list[tuple[Any, ...]]:
        return super().rows(max(start, self.oldest), end)

    def miss(self, start: int) -> None:
        """Report no lost records."""


@fails(BROKEN, EXPIRED)
class RaisesIndexErrorForExpiredRecords(Log):
    def miss(self, start: int) -> None:
        if start < self.oldest:
            raise IndexError(start)


@fails(BROKEN, RESUME, RESTART)
class RepeatsLastRecordOnResume(Log):
    def rows(self, start: int, end: int) -> list[tuple[Any, ...]]:
        return super().rows(start - (0 < start < end), end)


@fails(BROKEN, RESUME, RESTART, BACKWARDS)
class StartsAtPageBoundary(Log):
    def rows(self, start: int, end: int) -> list[tuple[Any, ...]]:
        return super().rows(start - start % 2, end)


@fails(BROKEN, SAME, RESUME)
class IgnoresEndOfRange(Log):
    def rows(self, start: int, end: int) -> list[tuple[Any, ...]]:
        return super().rows(start, end if end < 3 else len(self.lines()))


@fails(BROKEN, SAME, RESUME)
class ChangesBytesOnEachRead(Log):
    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self.reads = 0

    def rows(self, start: int, end: int) -> list[tuple[Any, ...]]:
        self.reads += 1
        return [(key, value + b" " * self.reads, *place) for key, value, *place in super().rows(start, end)]


@fails(BROKEN, "test_limit_bounds_a_batch")
class IgnoresItsLimit(Log):
    def latest(self, start: Offset, limit: int | None) -> Offset:
        return super().latest(start, None)


@fails(BROKEN, BACKWARDS, RESTART, RESUME, ONCE, "test_available_now_run_terminates", INTERRUPTED)
class DecreasesLatestOffset(Log):
    def latest(self, start: Offset, limit: int | None) -> Offset:
        return super().latest(start, limit) if start["line"] < len(self.lines()) else {"line": start["line"] - 1}


@fails(BROKEN, BACKWARDS)
class CachesItsFirstRead(Log):
    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self.seen: list[bytes] | None = None

    def lines(self) -> list[bytes]:
        self.seen = self.seen or super().lines()
        return self.seen


@fails(BROKEN, "test_offsets_survive_json")
class UsesTuplesInOffsets(Log):
    def latest(self, start: Offset, limit: int | None) -> Any:
        return {**super().latest(start, limit), "file": ("log", 0)}


@fails(BROKEN, "test_commit_is_idempotent")
class RemovesRecordsOnEachCommit(Log):
    def commit(self, end: Offset) -> None:
        path = Path(self.config.path)
        path.write_bytes(b"".join(line + b"\n" for line in path.read_bytes().splitlines()[end["line"] :]))
