"""Test kit for dialects.

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

The fixture ``headrace_spark``, a Spark session, comes from ``headrace.testing.spark`` or from your ``conftest.py``.
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
#: headrace's metadata columns of every change.
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
    """Tests of a dialect. Subclass it, and pytest collects the tests that apply to ``plugin_class``."""

    plugin_class: ClassVar[type[Dialect]]
    #: Schema of an event's value, in SQL.
    schema: ClassVar[str]
    #: Events in commit order, each with its expected op (None if it has none) and the known values of its row.
    history: ClassVar[Sequence[tuple[Mapping[str, Any], str | None, Mapping[str, Any]]]]
    #: Events with a matching schema and an invalid content.
    malformed: ClassVar[Sequence[Mapping[str, Any]]] = ()
    #: Key columns, as in a rule of ``tables:``.
    key: ClassVar[tuple[str, ...]] = ("id",)
    #: Schemas, in SQL, that the dialect does not match.
    other_shapes: ClassVar[Sequence[str]] = ("id int, name string", "other int")
    #: Whether events contain the commit order. False if only their offsets define it.
    has_order: ClassVar[bool] = True

    @pytest.fixture
    def harness(self, headrace_spark: SparkSession, tmp_path: Path) -> DialectHarness:
        """Return a harness that passes events to the dialect like the engine."""
        return DialectHarness(self, self.plugin_class(self.config(tmp_path)), headrace_spark)

    def test_dialect_matches_only_its_own_schema(self, harness: DialectHarness) -> None:
        assert self.plugin_class.matches(harness.schema)
        for other in self.other_shapes:
            assert not self.plugin_class.matches(harness.parse(other)), other

    def test_events_become_changes(self, harness: DialectHarness) -> None:
        for (_, op, row), found in zip(self.history, harness.collect(*harness.events), strict=True):
            assert (found[C.OP], found[C.DELETED], found[C.ERROR]) == (op, op == "d", None)
            images = [found[name] for name in ("after", "before") if name in found and found[name] is not None] or [
                found
            ]
            assert {name: images[0][name] for name in row} == dict(row)

    def test_changes_have_the_metadata_columns(self, harness: DialectHarness) -> None:
        frame = harness.changes(harness.frame(*harness.events)).frame
        types = {field.name: field.dataType.simpleString() for field in frame.schema}
        assert {name: types.get(name) for name in _COLUMNS} == _COLUMNS
        for (_, _, row), found in zip(self.history, harness.collect(*harness.events), strict=True):
            assert {name: found[C.KEY][name] for name in self.key} == {name: row[name] for name in self.key}

    @_orders
    def test_positions_sort_in_commit_order(self, harness: DialectHarness) -> None:
        rng = random.Random(7)  # noqa: S311 - a fixed order
        numbers = list(range(len(self.history)))
        for _ in range(_ARRIVALS):
            rng.shuffle(numbers)
            found = harness.collect(*[harness.events[number] for number in numbers])
            positions = [change[C.POSITION] for change in found]
            assert all(isinstance(position, str) for position in positions)
            assert len(set(positions)) == len(positions), "two changes have the same position"
            assert sorted(numbers, key=lambda number: positions[numbers.index(number)]) == sorted(numbers)

    def test_malformed_event_becomes_one_dead_letter(self, harness: DialectHarness) -> None:
        events = [*harness.events, *self.malformed, *harness.events]
        found = harness.collect(*events)
        assert [change[C.RAW] for change in found] == [harness.raw(event) for event in events]
        malformed = range(len(harness.events), len(harness.events) + len(self.malformed))
        assert [index for index, change in enumerate(found) if change[C.ERROR]] == list(malformed)

    def test_undecodable_record_stays_a_dead_letter(self, harness: DialectHarness) -> None:
        found = harness.collect(None, *harness.events, error=RejectReason.UNDECODABLE)
        assert [change[C.ERROR] for change in found] == [RejectReason.UNDECODABLE, *[None] * len(harness.events)]
        assert found[0][C.RAW] == harness.raw(None)

    def test_tombstone_is_not_a_change(self, harness: DialectHarness) -> None:
        assert len(harness.collect(*harness.events, None)) == len(harness.events)

    def test_read_schema_contains_all_required_fields(self, harness: DialectHarness) -> None:
        wanted = harness.dialect.read_schema(harness.schema, key=self.key, with_row_before=True)
        assert harness.collect(*harness.events, wanted=wanted) == harness.collect(*harness.events)

    def test_plan_runs_no_python(self, harness: DialectHarness) -> None:
        plan = str(harness.changes(harness.frame(*harness.events)).frame._jdf.queryExecution())  # noqa: SLF001 - PySpark only prints plans
        assert not PYTHON.search(plan), plan


class DialectHarness:
    """Harness of a dialect with events of one topic and partition."""

    def __init__(self, kit: DialectConformance, dialect: Dialect, session: SparkSession) -> None:
        self._kit, self.dialect, self._session = kit, dialect, session
        self.events = [event for event, _, _ in kit.history]
        self.schema = self.parse(kit.schema)

    def parse(self, schema: str) -> StructType:
        """Parse a schema in SQL."""
        return make_frame(self._session, schema, []).schema

    def raw(self, event: Event) -> bytes:
        """Return the raw bytes of an event, which its dead letter contains."""
        return repr(event).encode()

    def frame(self, *events: Event, error: str | None = None, wanted: StructType | None = None) -> DataFrame:
        """Return events in source order. None is a tombstone, or a record with ``error``."""
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
        """Return the dialect's changes."""
        events = Events(_TOPIC, frame.schema[E.VALUE].dataType, lambda session, wanted: frame)  # type: ignore[arg-type]  # a struct
        return self.dialect.changes(events, frame, self._kit.key)

    def collect(self, *events: Event, **options: Any) -> list[dict[str, Any]]:
        """Return the changes as plain values in source order."""
        rows = self.changes(self.frame(*events, **options)).frame.collect()
        return [plain(row) for row in sorted(rows, key=lambda row: row[C.OFFSET])]
