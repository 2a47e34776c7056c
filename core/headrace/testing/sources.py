r"""Test kit for sources of records.

::

    class TestAcmeLog(SourceConformance):
        plugin_class = AcmeLog

        def config(self, folder):
            (folder / "log").touch()
            return {"path": str(folder / "log")}

        def add(self, folder, texts):
            with (folder / "log").open("a") as log:
                log.writelines(f"{text}\n" for text in texts)

The fixture ``headrace_spark``, a Spark session, comes from ``headrace.testing.spark`` or from your ``conftest.py``.
"""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from headrace.errors import HeadraceError
from headrace.sdk.source import NativeSource, Offset, RangedSource, Source
from headrace.testing._internal.claims import applies_if
from headrace.testing.plugins import PluginConformance

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: Required column → its valid types.
_COLUMNS = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int", "bigint"),
    "offset": ("int", "bigint"),
}
_OPTIONAL = {"headers": ("array<struct<key:string,value:binary>>",), "timestamp": ("timestamp",)}
#: More batches than any test creates. A stream with that many does not terminate.
_MAX_BATCHES = 20
_POLL_SECONDS = 5

_ranged = applies_if(lambda kit: issubclass(kit.plugin_class, RangedSource))


@dataclass(frozen=True, order=True)
class Record:
    """A record of a source, ordered by topic, partition and offset."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None

    @property
    def text(self) -> str:
        """The value as text."""
        return (self.value or b"").decode(errors="replace")


class SourceConformance(PluginConformance):
    """Tests of a ranged or native source. Subclass it, and pytest collects the tests that apply to ``plugin_class``."""

    plugin_class: ClassVar[type[Source]]

    @abstractmethod
    def add(self, folder: Path, texts: Sequence[str]) -> None:
        """Append a record for each text, in order, to the input that ``config(folder)`` names. It starts empty.

        The value of a record contains its text as UTF-8.
        """

    def cut(self, folder: Path, count: int) -> None:
        """Remove the ``count`` oldest records, like retention. Override it to test expired records."""
        raise NotImplementedError("without this method, the test of expired records is not collected")

    @pytest.fixture
    def harness(self, headrace_spark: SparkSession, tmp_path: Path) -> SourceHarness:
        """Return a harness with an input and a stream that reads it."""
        return SourceHarness(self, headrace_spark, tmp_path)

    def test_records_have_the_required_columns(self, harness: SourceHarness) -> None:
        harness.add("a", "b")
        for schema in harness.list_schemas():
            types = {field.name: field.dataType.simpleString() for field in schema}
            assert not _COLUMNS.keys() - types.keys(), "columns are missing"
            known = {**_COLUMNS, **_OPTIONAL}
            assert not {name: kind for name, kind in types.items() if kind not in known.get(name, (kind,))}

    def test_empty_source_returns_no_records(self, harness: SourceHarness) -> None:
        assert harness.read_available() == []

    def test_every_record_is_read_once_in_order(self, harness: SourceHarness) -> None:
        texts = ["first", "žlutý kůň", "third", "fourth", "last"]
        harness.add(*texts)
        _assert_texts(harness.read_available(), texts)

    def test_restarted_stream_reads_only_new_records(self, harness: SourceHarness) -> None:
        harness.add("a", "b", "c")
        first = harness.read_available()
        assert harness.read_available() == []
        harness.add("d", "e")
        rest = harness.read_available()
        assert not set(first) & set(rest), "records were read twice"
        _assert_texts([*first, *rest], list("abcde"))

    def test_available_now_run_terminates(self, harness: SourceHarness) -> None:
        harness.add("a", "b")
        harness.read_available()
        assert harness.has_ended

    def test_interrupted_range_is_read_again(self, harness: SourceHarness) -> None:
        harness.add(*"abcde")
        harness.interrupt()
        _assert_texts(harness.read_available(), list("abcde"))

    @applies_if(lambda kit: kit.cut is not SourceConformance.cut)
    def test_expired_records_are_detected(self, harness: SourceHarness) -> None:
        harness.add("a")
        harness.read_available()
        harness.add(*"bcde")
        self.cut(harness.folder, 3)
        error = harness.find_error(lambda: _assert_texts(harness.read_available(), list("bcde")))
        assert error is None or "fix:" in str(error), "the error has no fix"

    @_ranged
    def test_reading_resumes_from_every_offset(self, harness: SourceHarness) -> None:
        harness.add(*"abcde")
        offsets = harness.list_offsets()
        everything = harness.read(offsets[0], offsets[-1])
        before: list[Record] = []
        for start, end in pairwise(offsets):
            assert sorted([*before, *harness.read(start, offsets[-1])]) == everything
            before += harness.read(start, end)

    @_ranged
    def test_range_always_returns_the_same_records(self, harness: SourceHarness) -> None:
        harness.add("a", "b", "c")
        start, end = harness.source.initial(), harness.source.latest(harness.source.initial(), None)
        planned = harness.frame(start, end)
        harness.add("d", "e")
        records = _list_records(planned)
        assert len(records) <= 3, "the range contains later records"
        assert harness.read(start, end) == records
        assert harness.restart().read(start, end) == records

    @_ranged
    def test_limit_bounds_a_batch(self, harness: SourceHarness) -> None:
        harness.add(*"abcdefg")
        for limit in (1, 2, 100):
            start = harness.source.initial()
            records = harness.read(start, harness.source.latest(start, limit))
            assert len(records) <= limit

    @_ranged
    def test_latest_offset_never_decreases(self, harness: SourceHarness) -> None:
        start = harness.source.initial()
        harness.add("a", "b", "c")
        first = harness.source.latest(start, None)
        assert _same(harness.source.latest(first, None), first), "there are no new records"
        assert harness.read(first, first) == []
        harness.add("d")
        second = harness.await_end(first)
        assert not _same(first, second), "there are new records"
        assert not _same(harness.restart().source.latest(first, None), first), "the new record is still there"
        assert _same(harness.restart().source.latest(second, None), second), "there are no new records"

    @_ranged
    def test_offsets_survive_json(self, harness: SourceHarness) -> None:
        harness.add("a", "b")
        for offset in harness.list_offsets():
            assert json.loads(json.dumps(offset)) == offset

    @_ranged
    def test_commit_is_idempotent(self, harness: SourceHarness) -> None:
        harness.add("a", "b")
        start = harness.source.initial()
        middle, end = harness.source.latest(start, 1), harness.source.latest(start, None)
        rest = harness.read(middle, end)
        for source in (harness.source, harness.source, harness.restart().source):
            source.commit(middle)
        assert harness.read(middle, end) == rest


class SourceHarness:
    """Harness of a source: its input, and a stream whose runs continue like separate processes."""

    def __init__(self, kit: SourceConformance, spark: SparkSession, folder: Path) -> None:
        self._kit, self._spark, self.folder = kit, spark, folder / "source"
        self._checkpoint = folder / "checkpoint"
        self.folder.mkdir()
        self._config = kit.config(self.folder)
        self._offset: Offset | None = None
        #: Whether the last run with `--available-now` terminated.
        self.has_ended = True
        self.source: Any = None
        self.restart()

    def add(self, *texts: str) -> None:
        """Append records to the input."""
        self._kit.add(self.folder, [f"<{text}>" for text in texts])

    def restart(self) -> SourceHarness:
        """Create a new instance of the source, like a new process."""
        self.source = self._kit.plugin_class(self._config)
        if isinstance(self.source, RangedSource):
            self.source.open(self._spark)
        return self

    def frame(self, start: Offset, end: Offset) -> DataFrame:
        """Return a range. Its offsets are serialized first, like in the offset log."""
        start, end = (json.loads(json.dumps(offset)) for offset in (start, end))
        frame: DataFrame = self.source.read(self._spark, start, end)
        return frame

    def read(self, start: Offset, end: Offset) -> list[Record]:
        """Return the records of a range."""
        return _list_records(self.frame(start, end))

    def await_end(self, start: Offset) -> Offset:
        """Return the end of the next batch. An idle source may wait before it polls again."""
        deadline = time.monotonic() + _POLL_SECONDS
        while _same(end := self.source.latest(start, None), start) and time.monotonic() < deadline:
            time.sleep(0.1)
        return dict(end)

    def list_offsets(self) -> list[Offset]:
        """Return the offsets between batches of one record, including the first and the last."""
        offsets = [self.source.initial()]
        while not _same(end := self.source.latest(offsets[-1], 1), offsets[-1]) and len(offsets) < _MAX_BATCHES:
            offsets.append(end)
        return offsets

    def list_schemas(self) -> Iterator[StructType]:
        """Yield the schema, and check that it is the same for empty batches."""
        if isinstance(self.source, NativeSource):
            yield self.source.stream(self._spark).schema
            return
        start, end = self.source.initial(), self.source.latest(self.source.initial(), None)
        empty, full = (self.frame(start, offset) for offset in (start, end))
        assert full.schema == empty.schema
        yield full.schema

    def read_available(self) -> list[Record]:
        """Return the records that the next run with `--available-now` reads."""
        self.restart()
        return self._read_stream() if isinstance(self.source, NativeSource) else self._read_ranges()

    def find_error(self, work: Callable[[], object]) -> HeadraceError | None:
        """Return the error of ``work`` as the source explains it; None if it succeeds. Unexplained errors are raised."""
        try:
            work()
        except AssertionError:
            raise
        except Exception as error:
            explained: HeadraceError | None = error if isinstance(error, HeadraceError) else self.source.explain(error)
            if explained is None:
                raise
            return explained
        return None

    def interrupt(self) -> None:
        """Start a run that dies at its first record without a commit."""
        self.restart()
        if isinstance(self.source, RangedSource):
            self.source.prepare_for_trigger_available_now()
            start = self.source.initial()
            self.frame(start, self.source.latest(start, None)).take(1)
            return

        def die(frame: DataFrame, _: int) -> None:
            frame.take(1)
            raise RuntimeError("the kit interrupts the reader")

        with suppress(Exception):
            self._run_stream(die)

    def _read_ranges(self) -> list[Record]:
        self.source.prepare_for_trigger_available_now()
        start = self.source.initial() if self._offset is None else self._offset
        records: list[Record] = []
        for _ in range(_MAX_BATCHES):
            end = self.source.latest(start, None)
            if self_ended := _same(start, end):
                break
            records += self.read(start, end)
            self.source.commit(end)
            start = end
        self.has_ended, self._offset = self_ended, json.loads(json.dumps(start))
        return records

    def _read_stream(self) -> list[Record]:
        records: list[Record] = []

        def take(frame: DataFrame, _: int) -> None:
            records.extend(_list_records(frame))

        self.has_ended = self._run_stream(take)
        return records

    def _run_stream(self, take: Callable[[DataFrame, int], None]) -> bool:
        """Return whether the stream terminated."""
        writer = self.source.stream(self._spark).writeStream.foreachBatch(take)
        query = writer.option("checkpointLocation", str(self._checkpoint)).trigger(availableNow=True).start()
        try:
            return bool(query.awaitTermination(120))
        finally:
            query.stop()


def _list_records(frame: DataFrame) -> list[Record]:
    rows = frame.selectExpr(
        "topic", "partition", "offset", "cast(key as binary) key", "cast(value as binary) value"
    ).collect()
    offsets = [(row.topic, row.partition, row.offset) for row in rows]
    assert all(part is not None for offset in offsets for part in offset), "a record lacks topic, partition or offset"
    assert len(set(offsets)) == len(offsets), "two records have the same offset"
    return sorted(Record(r.topic, r.partition, r.offset, _bytes(r.key), _bytes(r.value)) for r in rows)


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def _assert_texts(records: Sequence[Record], texts: Sequence[str]) -> None:
    """Check that each text is in one record and that each partition keeps the order."""
    found = [
        (record.partition, next((text for text in texts if f"<{text}>" in record.text), record.text))
        for record in records
    ]
    assert sorted(text for _, text in found) == sorted(texts)
    for partition in {partition for partition, _ in found}:
        order = [text for number, text in found if number == partition]
        assert order == sorted(order, key=texts.index), "records of a partition are out of order"


def _same(first: Offset, second: Offset) -> bool:
    """Return whether two offsets are equal as JSON, like in the engine."""
    return json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)
