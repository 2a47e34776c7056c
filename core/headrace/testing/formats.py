"""What a format of single records has to keep, as tests.

::

    class TestAcmeCsv(FormatConformance):
        plugin_class = AcmeCsv
        golden = ((b"1,Arp", {"id": 1, "name": "Arp"}), (b"2,", {"id": 2, "name": None}))
        malformed = (b"no number,Klee",)

        def config(self, folder):
            return {"columns": "id int, name string"}

The fixture ``headrace_spark``, a Spark session, is the author's or that of ``headrace.testing.spark``.
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
    """What became of a record."""

    row: Mapping[str, Any] | None
    error: str | None
    raw: bytes | None


class FormatConformance(PluginConformance):
    """Subclass it, and pytest collects the tests of ``plugin_class``."""

    plugin_class: ClassVar[type[Format]]
    #: A record, and the row that it is.
    golden: ClassVar[Sequence[tuple[bytes, Mapping[str, Any]]]]
    #: Records that cannot be read.
    malformed: ClassVar[Sequence[bytes]]

    @pytest.fixture
    def bench(self, headrace_spark: SparkSession, tmp_path: Path) -> Bench:
        """Batches of records, and what a run knows of their topic."""
        return Bench(self.plugin_class(self.config(tmp_path)), headrace_spark)

    def test_records_become_rows(self, bench: Bench) -> None:
        values = [value for value, _ in self.golden]
        assert bench.decode(*values) == [Decoded(_fill(row, bench), None, value) for value, row in self.golden]

    def test_a_record_is_read_alike_in_any_company(self, bench: Bench) -> None:
        values = [value for value, _ in self.golden]
        together = bench.decode(*values)
        assert bench.decode(*reversed(values)) == together[::-1]
        assert [one for value in (values[0], values[-1]) for one in bench.decode(value)] == [together[0], together[-1]]

    def test_what_cannot_be_read_is_a_dead_letter_alone(self, bench: Bench) -> None:
        good = [value for value, _ in self.golden]
        found = bench.decode(*good, *self.malformed, *good)
        assert [one.raw for one in found] == [*good, *self.malformed, *good], "a dead letter keeps its bytes"
        places = range(len(good), len(good) + len(self.malformed))
        assert [place for place, one in enumerate(found) if one.error] == list(places)

    def test_a_tombstone_is_no_row_and_no_error(self, bench: Bench) -> None:
        value, _ = self.golden[0]
        assert bench.decode(value, None)[1] == Decoded(None, None, None)

    def test_what_is_not_wanted_is_not_read(self, bench: Bench) -> None:
        values = [value for value, _ in self.golden]
        whole = bench.decode(*values)
        for name in bench.schema.names:
            found = bench.decode(*values, wanted=name)
            assert [one.row for one in found] == [{name: one.row[name]} for one in whole if one.row is not None]

    def test_its_schema_outlasts_a_batch_that_says_nothing(self, bench: Bench) -> None:
        bench.decode(*[value for value, _ in self.golden])
        schema = bench.schema
        bench.decode(None)
        assert bench.schema == schema
        bench.decode(*self.malformed)
        assert bench.schema == schema

    def test_it_stays_in_the_jvm(self, bench: Bench) -> None:
        bench.decode(*[value for value, _ in self.golden])
        assert not PYTHON.search(bench.plan), bench.plan


class Bench:
    """Decodes batches of one topic as the engine does, and remembers of it what a run remembers."""

    def __init__(self, plugin: Format, session: SparkSession) -> None:
        self._plugin, self._session = plugin, session
        self._schemas = SchemaLog()
        #: Of the last batch that had a schema.
        self.schema: StructType
        self.plan = ""

    def decode(self, *values: bytes | None, wanted: str | None = None) -> list[Decoded]:
        """A batch, in its order. ``wanted``: the one column that a pipeline needs."""
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
        self.plan = str(frame._jdf.queryExecution())  # noqa: SLF001 - PySpark prints it
        rows = sorted(frame.select(E.VALUE, E.ERROR, E.RAW, E.OFFSET).collect(), key=lambda row: row[E.OFFSET])
        return [Decoded(plain(row[E.VALUE]), row[E.ERROR], plain(row[E.RAW])) for row in rows]


def _fill(row: Mapping[str, Any], bench: Bench) -> Mapping[str, Any]:
    """With null for the columns that others have."""
    return {**dict.fromkeys(bench.schema.names), **row}
