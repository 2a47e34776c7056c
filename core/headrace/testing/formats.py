"""Test kit for formats of single records.

::

    class TestAcmeCsv(FormatConformance):
        plugin_class = AcmeCsv
        golden = ((b"1,Arp", {"id": 1, "name": "Arp"}), (b"2,", {"id": 2, "name": None}))
        malformed = (b"no number,Klee",)

        def config(self, folder):
            return {"columns": "id int, name string"}

The fixture ``headrace_spark``, a Spark session, comes from ``headrace.testing.spark`` or from your ``conftest.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from headrace.engine.read.record_decoder import RecordDecoder
from headrace.sdk import events as E
from headrace.sdk.events import Events
from headrace.sdk.format import Format
from headrace.sdk.schema_log import SchemaLog
from headrace.sdk.source import SourceContext
from headrace.testing.plugins import PluginConformance
from headrace.testing.records import Records
from headrace.testing.tables import plain
from headrace.testing.transforms import PYTHON

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_TOPIC = "kit.people"


@dataclass(frozen=True)
class Decoded:
    """Result of decoding one record."""

    row: Mapping[str, Any] | None
    error: str | None
    raw: bytes | None


class FormatConformance(PluginConformance):
    """Tests of a format. Subclass it, and pytest collects the tests of ``plugin_class``."""

    plugin_class: ClassVar[type[Format]]
    #: Records and their expected rows.
    golden: ClassVar[Sequence[tuple[bytes, Mapping[str, Any]]]]
    #: Records that the format cannot decode.
    malformed: ClassVar[Sequence[bytes]]

    @pytest.fixture
    def harness(self, headrace_spark: SparkSession, tmp_path: Path) -> FormatHarness:
        """Return a harness that decodes batches of one topic."""
        return FormatHarness(self.plugin_class(self.config(tmp_path)), headrace_spark)

    def test_records_become_rows(self, harness: FormatHarness) -> None:
        values = [value for value, _ in self.golden]
        assert harness.decode(*values) == [Decoded(_fill(row, harness), None, value) for value, row in self.golden]

    def test_record_decodes_the_same_in_any_batch(self, harness: FormatHarness) -> None:
        values = [value for value, _ in self.golden]
        together = harness.decode(*values)
        assert harness.decode(*reversed(values)) == together[::-1]
        assert [record for value in (values[0], values[-1]) for record in harness.decode(value)] == [
            together[0],
            together[-1],
        ]

    def test_undecodable_record_becomes_one_dead_letter(self, harness: FormatHarness) -> None:
        good = [value for value, _ in self.golden]
        found = harness.decode(*good, *self.malformed, *good)
        assert [record.raw for record in found] == [*good, *self.malformed, *good], "a dead letter keeps its bytes"
        malformed = range(len(good), len(good) + len(self.malformed))
        assert [index for index, record in enumerate(found) if record.error] == list(malformed)

    def test_tombstone_yields_neither_row_nor_error(self, harness: FormatHarness) -> None:
        value, _ = self.golden[0]
        assert harness.decode(value, None)[1] == Decoded(None, None, None)

    def test_unrequested_columns_are_not_decoded(self, harness: FormatHarness) -> None:
        values = [value for value, _ in self.golden]
        complete = harness.decode(*values)
        for name in harness.schema.names:
            found = harness.decode(*values, wanted=name)
            assert [record.row for record in found] == [
                {name: record.row[name]} for record in complete if record.row is not None
            ]

    def test_schema_is_kept_after_a_batch_without_rows(self, harness: FormatHarness) -> None:
        harness.decode(*[value for value, _ in self.golden])
        schema = harness.schema
        harness.decode(None)
        assert harness.schema == schema
        harness.decode(*self.malformed)
        assert harness.schema == schema

    def test_plan_runs_no_python(self, harness: FormatHarness) -> None:
        harness.decode(*[value for value, _ in self.golden])
        assert not PYTHON.search(harness.plan), harness.plan


class FormatHarness:
    """Harness of a format that decodes batches of one topic like the engine and keeps its schemas like a run."""

    def __init__(self, plugin: Format, session: SparkSession) -> None:
        self._plugin, self._session = plugin, session
        self._schemas = SchemaLog()
        #: Schema of the last batch that had one.
        self.schema: StructType
        self.plan = ""

    def decode(self, *values: bytes | None, wanted: str | None = None) -> list[Decoded]:
        """Decode a batch in order. ``wanted``: the only column that the pipeline needs."""
        from pyspark.sql.types import StructType

        source = Records(_TOPIC, *values)
        context = SourceContext(self._session, self._schemas)
        decoder = RecordDecoder(self._plugin)
        events = decoder.decode(
            context, {_TOPIC: lambda session: source.read(session, source.initial(), source.latest({}, None))}
        )
        if not events:
            return []
        self.schema = events[0].schema
        schema = self.schema if wanted is None else StructType([self.schema[wanted]])
        return self._load(events[0], schema)

    def _load(self, events: Events, schema: StructType) -> list[Decoded]:
        frame = events.load(self._session, schema)
        self.plan = str(frame._jdf.queryExecution())  # noqa: SLF001 - PySpark only prints plans
        rows = sorted(frame.select(E.VALUE, E.ERROR, E.RAW, E.OFFSET).collect(), key=lambda row: row[E.OFFSET])
        return [Decoded(plain(row[E.VALUE]), row[E.ERROR], plain(row[E.RAW])) for row in rows]


def _fill(row: Mapping[str, Any], harness: FormatHarness) -> Mapping[str, Any]:
    """Return the row with null for missing columns."""
    return {**dict.fromkeys(harness.schema.names), **row}
