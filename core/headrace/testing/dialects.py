"""What a dialect has to keep, as tests.

::

    class TestActions(DialectConformance):
        plugin_class = Actions
        schema = "action string, seq bigint, row struct<id int, name string>"
        history = (
            ({"action": "insert", "seq": 1, "row": {"id": 1, "name": "Arp"}}, "c", {"id": 1, "name": "Arp"}),
            ({"action": "delete", "seq": 2, "row": {"id": 1}}, "d", {"id": 1}),
        )
        malformed = ({"action": "vacuum", "seq": 3},)

        def config(self, folder):
            return {}

The fixture ``headrace_spark``, a Spark session, is the author's or that of ``headrace.testing.spark``.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from headrace.sdk import changes as C, events as E
from headrace.sdk.changes import Changes
from headrace.sdk.dialect import Dialect
from headrace.sdk.events import Events
from headrace.sdk.reject_reason import RejectReason
from headrace.testing._internal.claims import applies_if
from headrace.testing._internal.frames import make_frame
from headrace.testing.plugins import PluginConformance
from headrace.testing.tables import plain
from headrace.testing.transforms import PYTHON

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Event = Mapping[str, Any] | None

_TOPIC = "kit.people"
_ARRIVALS = 3
#: headrace's own columns of every change.
_COLUMNS = {
    C.OP: "string",
    C.DELETED: "boolean",
    C.POSITION: "string",
    C.COMMITTED: "bigint",
    C.ERROR: "string",
    C.TOPIC: "string",
    C.PARTITION: "int",
    C.OFFSET: "bigint",
    C.FILE: "string",
    C.PLACE: "string",
    C.RAW: "binary",
}

_orders = applies_if(lambda kit: kit.has_order)


class DialectConformance(PluginConformance):
    """Subclass it, and pytest collects what applies to ``plugin_class``."""

    plugin_class: ClassVar[type[Dialect]]
    #: The fields of events, in SQL.
    schema: ClassVar[str]
    #: Events in the order in which the database made the changes, each with its op, if it says one, and what is known of its row.
    history: ClassVar[Sequence[tuple[Mapping[str, Any], str | None, Mapping[str, Any]]]]
    #: Events of the shape that mean nothing.
    malformed: ClassVar[Sequence[Mapping[str, Any]]] = ()
    #: The key's columns, as a rule of ``tables:`` names them.
    key: ClassVar[tuple[str, ...]] = ("id",)
    #: Fields of events, in SQL, that are not of this shape.
    other_shapes: ClassVar[Sequence[str]] = ("id int, name string", "other int")
    #: Whether events say in which order the database made the changes; False where that is where they lie.
    has_order: ClassVar[bool] = True

    @pytest.fixture
    def bench(self, headrace_spark: SparkSession, tmp_path: Path) -> Bench:
        """Events as the engine gives them, and what the dialect makes of them."""
        return Bench(self, self.plugin_class(self.config(tmp_path)), headrace_spark)

    def test_it_knows_its_own_shape_alone(self, bench: Bench) -> None:
        assert self.plugin_class.matches(bench.schema)
        for other in self.other_shapes:
            assert not self.plugin_class.matches(bench.parse(other)), other

    def test_events_become_changes(self, bench: Bench) -> None:
        for (_, op, row), found in zip(self.history, bench.collect(*bench.events), strict=True):
            assert (found[C.OP], found[C.DELETED], found[C.ERROR]) == (op, op == "d", None)
            images = [found[name] for name in ("after", "before") if name in found and found[name] is not None] or [
                found
            ]
            assert {name: images[0][name] for name in row} == dict(row)

    def test_changes_have_headraces_columns(self, bench: Bench) -> None:
        frame = bench.changes(bench.frame(*bench.events)).frame
        types = {field.name: field.dataType.simpleString() for field in frame.schema}
        assert {name: types.get(name) for name in _COLUMNS} == _COLUMNS
        for (_, _, row), found in zip(self.history, bench.collect(*bench.events), strict=True):
            assert {name: found[C.KEY][name] for name in self.key} == {name: row[name] for name in self.key}

    @_orders
    def test_positions_sort_as_history_did_however_it_arrives(self, bench: Bench) -> None:
        chance = random.Random(7)  # noqa: S311 - the same order each time
        numbers = list(range(len(self.history)))
        for _ in range(_ARRIVALS):
            chance.shuffle(numbers)
            found = bench.collect(*[bench.events[number] for number in numbers])
            positions = [change[C.POSITION] for change in found]
            assert all(isinstance(position, str) for position in positions)
            assert len(set(positions)) == len(positions), "two changes have the same position"
            assert sorted(numbers, key=lambda number: positions[numbers.index(number)]) == sorted(numbers)

    def test_what_means_nothing_is_a_dead_letter_alone(self, bench: Bench) -> None:
        events = [*bench.events, *self.malformed, *bench.events]
        found = bench.collect(*events)
        assert [change[C.RAW] for change in found] == [bench.raw(event) for event in events]
        wrong = range(len(bench.events), len(bench.events) + len(self.malformed))
        assert [place for place, change in enumerate(found) if change[C.ERROR]] == list(wrong)

    def test_what_could_not_be_decoded_stays_a_dead_letter(self, bench: Bench) -> None:
        found = bench.collect(None, *bench.events, error=RejectReason.UNDECODABLE)
        assert [change[C.ERROR] for change in found] == [RejectReason.UNDECODABLE, *[None] * len(bench.events)]
        assert found[0][C.RAW] == bench.raw(None)

    def test_a_tombstone_is_no_change(self, bench: Bench) -> None:
        assert len(bench.collect(*bench.events, None)) == len(bench.events)

    def test_it_reads_what_it_asks_for(self, bench: Bench) -> None:
        wanted = bench.dialect.read_schema(bench.schema, key=self.key, whole_before=True)
        assert bench.collect(*bench.events, wanted=wanted) == bench.collect(*bench.events)

    def test_it_stays_in_the_jvm(self, bench: Bench) -> None:
        plan = str(bench.changes(bench.frame(*bench.events)).frame._jdf.queryExecution())  # noqa: SLF001 - PySpark prints it
        assert not PYTHON.search(plan), plan


class Bench:
    """Events of one topic in one partition, and the dialect."""

    def __init__(self, kit: DialectConformance, dialect: Dialect, session: SparkSession) -> None:
        self._kit, self.dialect, self._session = kit, dialect, session
        self.events = [event for event, _, _ in kit.history]
        self.schema = self.parse(kit.schema)

    def parse(self, schema: str) -> StructType:
        return make_frame(self._session, schema, []).schema

    def raw(self, event: Event) -> bytes:
        """The bytes of an event: what is kept of it when it means nothing."""
        return repr(event).encode()

    def frame(self, *events: Event, error: str | None = None, wanted: StructType | None = None) -> DataFrame:
        """Events as they lie in the source. ``error``: of those that are None, which are tombstones without one."""
        schema = f"{E.VALUE} struct<{self._kit.schema}>, {E.PARTITION} int, {E.OFFSET} bigint, {E.PLACE} string"
        rows = [
            {
                E.VALUE: event,
                E.PARTITION: 0,
                E.OFFSET: number,
                E.PLACE: f"{number:010d}",
                E.RAW: self.raw(event),
                E.ERROR: error if event is None else None,
            }
            for number, event in enumerate(events)
        ]
        frame = make_frame(self._session, f"{schema}, {E.FILE} string, {E.ERROR} string, {E.RAW} binary", rows)
        return frame if wanted is None else frame.withColumn(E.VALUE, frame[E.VALUE].cast(wanted))

    def changes(self, frame: DataFrame) -> Changes:
        events = Events(_TOPIC, frame.schema[E.VALUE].dataType, lambda session, wanted: frame)  # type: ignore[arg-type]  # a struct
        return self.dialect.changes(events, frame, self._kit.key)

    def collect(self, *events: Event, **how: Any) -> list[dict[str, Any]]:
        """The changes as plain values, as they lie in the source."""
        rows = self.changes(self.frame(*events, **how)).frame.collect()
        return [plain(row) for row in sorted(rows, key=lambda row: row[C.OFFSET])]
