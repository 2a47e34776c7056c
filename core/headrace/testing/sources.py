r"""What a source of records has to keep, as tests.

::

    class TestAcmeLog(SourceConformance):
        plugin_class = AcmeLog

        def config(self, folder):
            (folder / "log").touch()
            return {"path": str(folder / "log")}

        def add(self, folder, texts):
            with (folder / "log").open("a") as log:
                log.writelines(f"{text}\n" for text in texts)

The fixture ``headrace_spark``, a Spark session, is the author's or that of ``headrace.testing.spark``.
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

#: Column → the types that it may have; without the optional ones.
_COLUMNS = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int", "bigint"),
    "offset": ("int", "bigint"),
}
_OPTIONAL = {"headers": ("array<struct<key:string,value:binary>>",), "timestamp": ("timestamp",)}
#: More batches than any test makes: a stream that gives them does not end.
_MANY = 20
_REST_SECONDS = 5

_ranged = applies_if(lambda kit: issubclass(kit.plugin_class, RangedSource))


@dataclass(frozen=True, order=True)
class Record:
    """A record as a source gave it; ordered by its place."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None

    @property
    def text(self) -> str:
        """What it holds, for a look at it."""
        return (self.value or b"").decode(errors="replace")


class SourceConformance(PluginConformance):
    """Subclass it, and pytest collects what applies to ``plugin_class``: a source of records, ranged or native."""

    plugin_class: ClassVar[type[Source]]

    @abstractmethod
    def add(self, folder: Path, texts: Sequence[str]) -> None:
        """Adds a record for each text, one after the other, to what ``config(folder)`` names, which has none before.

        A record's value has its text in it, as UTF-8.
        """

    def cut(self, folder: Path, count: int) -> None:
        """Removes the ``count`` oldest records, as a retention does. Who has it is asked what becomes of them."""
        raise NotImplementedError("what is not there is not asked")

    @pytest.fixture
    def world(self, headrace_spark: SparkSession, tmp_path: Path) -> World:
        """What the source reads, and a stream that reads it."""
        return World(self, headrace_spark, tmp_path)

    def test_its_records_have_the_columns_that_headrace_reads(self, world: World) -> None:
        world.add("a", "b")
        for schema in world.list_schemas():
            types = {field.name: field.dataType.simpleString() for field in schema}
            assert not _COLUMNS.keys() - types.keys(), "columns are missing"
            known = {**_COLUMNS, **_OPTIONAL}
            assert not {name: kind for name, kind in types.items() if kind not in known.get(name, (kind,))}

    def test_a_source_without_records_gives_none(self, world: World) -> None:
        assert world.read_on() == []

    def test_every_record_comes_once_and_in_its_order(self, world: World) -> None:
        texts = ["first", "žlutý kůň", "third", "fourth", "last"]
        world.add(*texts)
        _assert_texts(world.read_on(), texts)

    def test_a_stream_that_is_started_again_reads_the_rest(self, world: World) -> None:
        world.add("a", "b", "c")
        first = world.read_on()
        assert world.read_on() == []
        world.add("d", "e")
        rest = world.read_on()
        assert not set(first) & set(rest), "some come twice"
        _assert_texts([*first, *rest], list("abcde"))

    def test_a_run_with_available_now_ends(self, world: World) -> None:
        world.add("a", "b")
        world.read_on()
        assert world.has_ended

    def test_a_reader_that_dies_in_mid_range_leaves_it_to_the_next(self, world: World) -> None:
        world.add(*"abcde")
        world.break_off()
        _assert_texts(world.read_on(), list("abcde"))

    @applies_if(lambda kit: kit.cut is not SourceConformance.cut)
    def test_records_that_are_gone_are_missed(self, world: World) -> None:
        world.add("a")
        world.read_on()
        world.add(*"bcde")
        self.cut(world.folder, 3)
        told = world.refusal(lambda: _assert_texts(world.read_on(), list("bcde")))
        assert told is None or "fix:" in str(told), "the error does not say what to do"

    @_ranged
    def test_every_offset_is_a_place_to_go_on_from(self, world: World) -> None:
        world.add(*"abcde")
        offsets = world.list_offsets()
        whole = world.read(offsets[0], offsets[-1])
        before: list[Record] = []
        for start, end in pairwise(offsets):
            assert sorted([*before, *world.read(start, offsets[-1])]) == whole
            before += world.read(start, end)

    @_ranged
    def test_a_range_is_the_same_records_for_ever(self, world: World) -> None:
        world.add("a", "b", "c")
        start, end = world.source.initial(), world.source.latest(world.source.initial(), None)
        planned = world.frame(start, end)
        world.add("d", "e")
        records = _list_records(planned)
        assert len(records) <= 3, "it has what came later"
        assert world.read(start, end) == records
        assert world.restart().read(start, end) == records

    @_ranged
    def test_a_limit_is_kept(self, world: World) -> None:
        world.add(*"abcdefg")
        for limit in (1, 2, 100):
            start = world.source.initial()
            records = world.read(start, world.source.latest(start, limit))
            assert len(records) <= limit

    @_ranged
    def test_its_end_never_runs_backwards(self, world: World) -> None:
        start = world.source.initial()
        world.add("a", "b", "c")
        first = world.source.latest(start, None)
        assert _same(world.source.latest(first, None), first), "there is nothing new"
        assert world.read(first, first) == []
        world.add("d")
        second = world.await_end(first)
        assert not _same(first, second), "there is something new"
        assert not _same(world.restart().source.latest(first, None), first), "it is there still"
        assert _same(world.restart().source.latest(second, None), second), "there is nothing new"

    @_ranged
    def test_offsets_are_what_json_can_hold(self, world: World) -> None:
        world.add("a", "b")
        for offset in world.list_offsets():
            assert json.loads(json.dumps(offset)) == offset

    @_ranged
    def test_what_is_done_may_be_told_twice(self, world: World) -> None:
        world.add("a", "b")
        start = world.source.initial()
        middle, end = world.source.latest(start, 1), world.source.latest(start, None)
        rest = world.read(middle, end)
        for source in (world.source, world.source, world.restart().source):
            source.commit(middle)
        assert world.read(middle, end) == rest


class World:
    """What a source reads, and a stream that goes on from where it was: as a process for each of its runs would."""

    def __init__(self, kit: SourceConformance, spark: SparkSession, folder: Path) -> None:
        self._kit, self._spark, self.folder = kit, spark, folder / "source"
        self._checkpoint = folder / "checkpoint"
        self.folder.mkdir()
        self._config = kit.config(self.folder)
        self._offset: Offset | None = None
        #: Whether the last run with `--available-now` came to an end.
        self.has_ended = True
        self.source: Any = None
        self.restart()

    def add(self, *texts: str) -> None:
        self._kit.add(self.folder, [f"<{text}>" for text in texts])

    def restart(self) -> World:
        """A new process: it knows nothing of before."""
        self.source = self._kit.plugin_class(self._config)
        if isinstance(self.source, RangedSource):
            self.source.open(self._spark)
        return self

    def frame(self, start: Offset, end: Offset) -> DataFrame:
        """A range, whose offsets were written down."""
        start, end = (json.loads(json.dumps(offset)) for offset in (start, end))
        frame: DataFrame = self.source.read(self._spark, start, end)
        return frame

    def read(self, start: Offset, end: Offset) -> list[Record]:
        return _list_records(self.frame(start, end))

    def await_end(self, start: Offset) -> Offset:
        """The end of the next batch; a source that had nothing may rest for a moment before it looks again."""
        deadline = time.monotonic() + _REST_SECONDS
        while _same(end := self.source.latest(start, None), start) and time.monotonic() < deadline:
            time.sleep(0.1)
        return dict(end)

    def list_offsets(self) -> list[Offset]:
        """Where batches of one record end, from the first to the last."""
        offsets = [self.source.initial()]
        while not _same(end := self.source.latest(offsets[-1], 1), offsets[-1]) and len(offsets) < _MANY:
            offsets.append(end)
        return offsets

    def list_schemas(self) -> Iterator[StructType]:
        """Of an empty batch and of one that is not, where there are batches."""
        if isinstance(self.source, NativeSource):
            yield self.source.stream(self._spark).schema
            return
        start, end = self.source.initial(), self.source.latest(self.source.initial(), None)
        empty, full = (self.frame(start, one) for one in (start, end))
        assert full.schema == empty.schema
        yield full.schema

    def read_on(self) -> list[Record]:
        """What a run with `--available-now` reads after the one before it."""
        self.restart()
        return self._read_stream() if isinstance(self.source, NativeSource) else self._read_ranges()

    def refusal(self, work: Callable[[], object]) -> HeadraceError | None:
        """What the source says instead of doing ``work``; None when it did it. What nobody explains is raised."""
        try:
            work()
        except AssertionError:
            raise
        except Exception as error:
            told: HeadraceError | None = error if isinstance(error, HeadraceError) else self.source.explain(error)
            if told is None:
                raise
            return told
        return None

    def break_off(self) -> None:
        """A run that dies at its first record: nobody notes how far it came."""
        self.restart()
        if isinstance(self.source, RangedSource):
            self.source.prepare_for_trigger_available_now()
            start = self.source.initial()
            self.frame(start, self.source.latest(start, None)).take(1)
            return

        def die(frame: DataFrame, _: int) -> None:
            frame.take(1)
            raise RuntimeError("the kit has the reader die")

        with suppress(Exception):
            self._run_stream(die)

    def _read_ranges(self) -> list[Record]:
        self.source.prepare_for_trigger_available_now()
        start = self.source.initial() if self._offset is None else self._offset
        records: list[Record] = []
        for _ in range(_MANY):
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
        """Whether it came to an end."""
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
    places = [(row.topic, row.partition, row.offset) for row in rows]
    assert all(part is not None for place in places for part in place), "a record does not say where it is from"
    assert len(set(places)) == len(places), "two records have the same place"
    return sorted(Record(r.topic, r.partition, r.offset, _bytes(r.key), _bytes(r.value)) for r in rows)


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def _assert_texts(records: Sequence[Record], texts: Sequence[str]) -> None:
    """Each text is in one record, and in a partition they come as they were added."""
    found = [
        (record.partition, next((text for text in texts if f"<{text}>" in record.text), record.text))
        for record in records
    ]
    assert sorted(text for _, text in found) == sorted(texts)
    for partition in {partition for partition, _ in found}:
        order = [text for one, text in found if one == partition]
        assert order == sorted(order, key=texts.index), "records of a partition are not in their order"


def _same(one: Offset, other: Offset) -> bool:
    """Whether two offsets are one, as the core sees it."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
