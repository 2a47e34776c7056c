"""Requirements of a connector, as tests.

::

    class TestOracle(ConnectorConformance):
        plugin_class = Oracle
        schema = "scn string, commit_scn string, ssn bigint"
        history = (
            {"scn": "90", "commit_scn": "100", "ssn": 0},
            {"scn": "80", "commit_scn": "101", "ssn": 0},
        )

The fixture ``headrace_spark``, a Spark session, comes from the author's tests or from ``headrace.testing.spark``.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from headrace.registry.plugin_registry import registry
from headrace.sdk.connector import Connector
from headrace.sdk.positions import position
from headrace.testing._internal.frames import make_frame
from headrace.testing.plugins import PluginConformance
from headrace.testing.transforms import PYTHON

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Source = Mapping[str, Any]

_ARRIVALS = 3


class ConnectorConformance(PluginConformance):
    """Tests of a connector. Subclass this class; pytest then collects the tests that apply to ``plugin_class``."""

    plugin_class: ClassVar[type[Connector]]
    #: The fields of source blocks, in SQL.
    schema: ClassVar[str]
    #: Source blocks in the order in which the database made the changes.
    history: ClassVar[Sequence[Source]]
    #: Fields of source blocks of other connectors.
    other_fields: ClassVar[Sequence[Collection[str]]] = ((), ("ts_ms", "db", "schema", "table"))

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {}

    @pytest.fixture
    def bench(self, headrace_spark: SparkSession) -> ConnectorBench:
        """Return a bench that computes positions of source blocks."""
        return ConnectorBench(self.plugin_class(), self.schema, headrace_spark)

    def test_connector_matches_only_its_own_fields(self, bench: ConnectorBench) -> None:
        assert self.plugin_class.matches(bench.fields)
        known = [one.fields for _, one in registry().all("connector") if one.order != self.plugin_class.order]
        for other in [*self.other_fields, *known]:
            assert not self.plugin_class.matches(other), other

    def test_fields_and_order_are_declared(self, bench: ConnectorBench) -> None:
        assert set(self.plugin_class.own_fields) <= set(self.plugin_class.fields)
        assert set(self.plugin_class.fields) & set(bench.fields)
        assert self.plugin_class.order

    def test_positions_sort_like_the_history(self, bench: ConnectorBench) -> None:
        generator = random.Random(7)  # noqa: S311 - the same order each time
        numbers = list(range(len(self.history)))
        for _ in range(_ARRIVALS):
            generator.shuffle(numbers)
            found = bench.positions([self.history[number] for number in numbers])
            assert len(set(found)) == len(found), "two changes have the same position"
            assert sorted(numbers, key=lambda number: found[numbers.index(number)]) == sorted(numbers)

    def test_positions_match_the_pattern(self, bench: ConnectorBench) -> None:
        assert re.compile(self.plugin_class.pattern).groups == 0
        # The epoch of a new table, and the log position without an offset.
        pattern = re.compile(f"0{self.plugin_class.pattern}")
        wrong = [found for found in bench.positions(self.history) if not pattern.fullmatch(found)]
        assert not wrong

    def test_position_is_never_null(self, bench: ConnectorBench) -> None:
        assert bench.positions([dict.fromkeys(bench.fields)]) != [None]

    def test_changes_are_not_older_than_their_snapshot(self, bench: ConnectorBench) -> None:
        for started, found in zip(bench.snapshot_starts(self.history), bench.positions(self.history), strict=True):
            assert started <= found

    def test_plan_runs_no_python(self, bench: ConnectorBench) -> None:
        plan = str(bench.frame(self.history)._jdf.queryExecution())  # noqa: SLF001 - PySpark prints it
        assert not PYTHON.search(plan), plan


class ConnectorBench:
    """Computes positions of source blocks with a connector."""

    def __init__(self, connector: Connector, schema: str, session: SparkSession) -> None:
        self._connector, self._schema, self._session = connector, schema, session
        self.fields: list[str] = make_frame(session, schema, []).columns

    def frame(self, blocks: Sequence[Source]) -> DataFrame:
        """Return the blocks' positions, without the record's offset, and the positions at which their snapshots began."""
        from pyspark.sql import functions as F

        rows = [{"n": number, "source": block} for number, block in enumerate(blocks)]
        frame = make_frame(self._session, f"n int, source struct<{self._schema}>", rows)
        source = F.col("source")
        fields = [name for name in self._connector.fields if name in self.fields]
        parts = self._connector.log_position({name: source.getField(name) for name in fields})
        start = self._connector.snapshot_start(parts)
        empty = F.lit("")
        return frame.select(
            "n", position(*parts, place=empty).alias("at"), position(*start, place=empty).alias("start")
        )

    def positions(self, blocks: Sequence[Source]) -> list[str]:
        """Return the blocks' positions."""
        return [row["at"] for row in sorted(self.frame(blocks).collect(), key=lambda row: row["n"])]

    def snapshot_starts(self, blocks: Sequence[Source]) -> list[str]:
        """Return the positions at which the blocks' snapshots began."""
        return [row["start"] for row in sorted(self.frame(blocks).collect(), key=lambda row: row["n"])]
