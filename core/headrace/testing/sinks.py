"""Test kit for sinks.

Subclass ``SinkConformance``::

    class TestAcmeSink(SinkConformance):
        plugin_class = AcmeSink

        def config(self, folder):
            return {"path": str(folder)}

Pytest collects tests of every capability that ``AcmeSink.capabilities`` claims, and tests that the others are rejected.
The fixture ``headrace_spark``, a Spark session, comes from ``headrace.testing.spark`` or from your ``conftest.py``.
"""

from __future__ import annotations

import pickle
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Thread
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.routing import Routes
from headrace.engine.write.table_plan import check_capabilities
from headrace.errors import ConfigError, DataError, NoSuchTableError
from headrace.sdk.changes import POSITION
from headrace.sdk.sink import Sink
from headrace.sdk.transform import Transform
from headrace.spark.sessions import Sessions
from headrace.testing._internal.claims import claims, lacks
from headrace.testing._internal.environment import EnvironmentTests
from headrace.testing._internal.fault_injection import InterruptionConformance
from headrace.testing._internal.histories import HistoryConformance
from headrace.testing._internal.older_checkpoints import OlderCheckpointTests
from headrace.testing._internal.values import ValueConformance
from headrace.testing.plugins import PluginConformance
from headrace.testing.tables import Target, put, remove

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.sdk.changes import Changes

_PEOPLE = "id int, name string"


class SinkConformance(
    PluginConformance,
    HistoryConformance,
    InterruptionConformance,
    OlderCheckpointTests,
    EnvironmentTests,
    ValueConformance,
):
    """Tests of a sink. Subclass it, and pytest collects the tests that apply to ``plugin_class``."""

    plugin_class: ClassVar[type[Sink]]
    #: Rows of a large batch: more than the thousand that some libraries sample.
    many: ClassVar[int] = 1001

    @pytest.fixture(scope="class")
    @classmethod
    def session(cls, headrace_spark: SparkSession) -> SparkSession:
        """Return a clone of the caller's session, like the engine passes it to a sink."""
        return Sessions(headrace_spark, cls.plugin_class.sql_conf).of("kit")

    @pytest.fixture
    def sink(self, tmp_path: Path) -> Sink:
        """Return a sink with its own folder."""
        return self.plugin_class(self.config(tmp_path))

    @pytest.fixture
    def target(self, sink: Sink, session: SparkSession) -> Target:
        """Return a table that does not exist yet."""
        return Target(sink, session)

    # The plugin

    def test_pickled_sink_finds_the_table(self, target: Target) -> None:
        target.write(_PEOPLE, put(1, 1, "a"))
        copy = pickle.loads(pickle.dumps(target.sink))  # noqa: S301 - our own data
        assert type(copy) is self.plugin_class
        assert copy.config == target.sink.config
        assert replace(target, sink=copy).rows() == [{"id": 1, "name": "a"}]

    def test_session_of_the_caller_is_unchanged(self, sink: Sink, headrace_spark: SparkSession) -> None:
        # A separate session, because views of other tests in a shared one would hide those of this test.
        target = Target(sink, Sessions(headrace_spark, sink.sql_conf).of("alone"))

        def views(session: SparkSession) -> list[str]:
            return sorted(map(str, session.sql("SHOW VIEWS IN spark_catalog.default").where("isTemporary").collect()))

        def state() -> object:
            settings = sorted((row["key"], row["value"]) for row in headrace_spark.sql("SET").collect())
            catalog = headrace_spark.catalog.currentCatalog()
            return settings, views(headrace_spark), views(target.session), catalog

        def list_cached() -> set[int]:
            return set(headrace_spark.sparkContext._jsc.getPersistentRDDs())  # noqa: SLF001 - PySpark has no public API

        before, cached_before = state(), list_cached()
        target.write(_PEOPLE, put(1, 1, "a"))
        target.write(_PEOPLE, put(2, 2, "b"))
        assert state() == before
        # Fewer are fine: Java's garbage collector may release those of other tests.
        assert list_cached() <= cached_before

    def test_write_uses_the_session_of_the_rows(self, target: Target, headrace_spark: SparkSession) -> None:
        for batch in range(2):
            rows = target.frame(_PEOPLE, put(batch, 1, str(batch)))
            headrace_spark.createDataFrame([], "id int")  # makes this session the active one of the thread
            target.apply(rows)
        assert target.rows()[-1] == {"id": 1, "name": "1"}

    # Writing and reading

    def test_missing_table_is_reported(self, target: Target) -> None:
        error = target.refusal(target.rows)
        assert isinstance(error, NoSuchTableError), (
            f"read_back of a missing table must raise NoSuchTableError, not {error!r}"
        )
        assert target.name in str(error)

    def test_first_write_creates_the_table(self, target: Target) -> None:
        result = target.write(_PEOPLE, put(1, 1, "a"), put(2, 2, "b"))
        assert target.rows() == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
        assert result.upserted in (None, 2)
        assert result.bytes is None or result.bytes > 0
        assert not result.skipped
        if target.mode == "upsert":
            assert POSITION in target.sink.read_back(target.session, target.table).columns

    def test_append_keeps_every_row(self, target: Target) -> None:
        names = [f"{number:05}" for number in range(self.many)]
        target.write(_PEOPLE, *[put(1, 1, name) for name in names], mode="append")
        target.write(_PEOPLE, put(2, 1, "last"), mode="append")
        assert [row["name"] for row in target.rows()] == [*names, "last"]

    def test_empty_batch_changes_nothing(self, target: Target) -> None:
        target.write(_PEOPLE)
        target.write(_PEOPLE, put(1, 1, "a"))
        target.write(_PEOPLE)
        assert target.rows() == [{"id": 1, "name": "a"}]

    def test_failed_write_changes_nothing(self, target: Target) -> None:
        from pyspark.sql import functions as F

        target.write(_PEOPLE, put(1, 1, "a"))
        # One of several tasks fails at its last row.
        good = target.frame(_PEOPLE, *[put(number, number, "b") for number in range(2, 10)]).repartition(4, "id")
        bad = good.withColumn("name", F.expr("if(id = 9, raise_error('raised by the kit'), name)"))
        with pytest.raises(Exception, match="raised by the kit"):
            target.apply(bad)
        assert target.rows() == [{"id": 1, "name": "a"}]
        target.apply(good)
        assert [row["id"] for row in target.rows()] == list(range(1, 10))

    def test_batches_of_two_pipelines_are_independent(self, target: Target) -> None:
        # The numbers of a view's refreshes are times in milliseconds.
        other = replace(target, pipeline=uuid.uuid4().hex, batch=1_790_000_000_000)
        target.write(_PEOPLE, put(1, 1, "a"))
        other.write(_PEOPLE, put(2, 2, "b"))
        other.write_again(_PEOPLE, put(2, 2, "b"))
        assert [row["id"] for row in target.rows()] == [1, 2]

    def test_replay_does_not_replace_its_batch(self, target: Target) -> None:
        # The id of a replay extends the checkpoint's id, and its batch number equals the batch of its dead letters.
        replay = replace(target, pipeline=f"{target.pipeline}/replay/1764000000000000000")
        target.write(_PEOPLE, put(1, 1, "a"))
        replay.write(_PEOPLE, put(2, 2, "b"))
        assert [row["id"] for row in target.rows()] == [1, 2]
        target.write_again(_PEOPLE, put(1, 1, "a"))
        replay.write_again(_PEOPLE, put(2, 2, "b"))
        assert [row["id"] for row in target.rows()] == [1, 2]

    def test_two_tables_are_written_concurrently(self, sink: Sink, headrace_spark: SparkSession) -> None:
        clones, barrier = Sessions(headrace_spark, sink.sql_conf), Barrier(2)
        # Tables of one pipeline with the same name in two schemas.
        targets = [
            Target(sink, clones.of(schema), name=f"{schema}.people", pipeline="kit") for schema in ("kit", "tik")
        ]

        def write(target: Target) -> None:
            with suppress(BrokenBarrierError):
                for row in put(1, 1, "a"), put(2, 2, target.name):
                    barrier.wait(timeout=60)
                    try:
                        target.write(_PEOPLE, row)
                    except BaseException:
                        barrier.abort()  # stop the other thread
                        raise

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(write, targets))
        for target in targets:
            assert target.rows() == [{"id": 1, "name": "a"}, {"id": 2, "name": target.name}]

    @claims("single_pass")
    def test_input_is_read_once(self, target: Target) -> None:
        from pyspark.sql import functions as F

        evaluations = target.session.sparkContext.accumulator(0)

        def count(value: str) -> str:
            evaluations.add(1)
            return value

        for batch in range(3):
            rows = target.frame(_PEOPLE, put(batch, 1, "a"), put(batch, 2, "b"))
            name = F.udf(lambda value: count(value))("name")  # noqa: PLW0108 - Spark 4.1 rejects a function with types
            target.apply(rows.withColumn("name", name))
            assert evaluations.value == 2 * (batch + 1)

    @claims("single_pass")
    def test_observations_count_the_written_rows(self, target: Target) -> None:
        from pyspark.sql import Observation, functions as F

        for batch in range(2):
            observation, counts = Observation(), dict[str, Any]()
            rows = target.frame(_PEOPLE, put(batch, 1, "a"), put(batch, 2, "b"))
            target.apply(rows.observe(observation, F.count(F.lit(1)).alias("rows")))
            # Rows that no action reads are never counted, so the wait is limited.
            waiter = Thread(target=lambda read=observation, into=counts: into.update(read.get), daemon=True)
            waiter.start()
            waiter.join(timeout=10)
            assert counts == {"rows": 2}

    # One row per key

    @claims("upsert")
    def test_upsert_keeps_one_row_per_key(self, target: Target) -> None:
        target.write(_PEOPLE, put(1, 1, "a"), put(2, 2, "b"))
        result = target.write(_PEOPLE, put(3, 1, "A"), put(4, 3, "c"), put(5, 2, None))
        assert target.rows() == [{"id": 1, "name": "A"}, {"id": 2, "name": None}, {"id": 3, "name": "c"}]
        assert result.upserted in (None, 3)

    @claims("upsert")
    def test_late_row_is_ignored(self, target: Target) -> None:
        target.write(_PEOPLE, put(9, 1, "new"), put(1, 2, "b"))
        result = target.write(_PEOPLE, put(8, 1, "late"), put(2, 2, "B"))
        assert target.rows() == [{"id": 1, "name": "new"}, {"id": 2, "name": "B"}]
        assert result.upserted in (None, 1)
        target.write(_PEOPLE, put(7, 1, "later still"), put(3, 2, "B3"))
        assert target.rows() == [{"id": 1, "name": "new"}, {"id": 2, "name": "B3"}]

    @claims("upsert")
    def test_repeated_row_changes_nothing(self, target: Target) -> None:
        rows = [put(1, 1, "a"), put(2, 2, "b")]
        target.write(_PEOPLE, *rows)
        target.write(_PEOPLE, *rows)
        assert target.rows() == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]

    @claims("upsert")
    def test_rewriting_a_batch_changes_nothing(self, target: Target) -> None:
        target.write(_PEOPLE, put(1, 1, "a"), put(2, 2, "b"))
        rows = [put(3, 1, "A"), put(4, 3, "c")]
        target.write(_PEOPLE, *rows)
        before = target.rows()
        target.write_again(_PEOPLE, *rows)
        assert target.rows() == before

    @claims("exactly_once")
    def test_reappending_a_batch_changes_nothing(self, target: Target) -> None:
        rows = [put(1, 1, "a"), put(2, 1, "b")]
        target.write(_PEOPLE, *rows, mode="append")
        target.write_again(_PEOPLE, *rows, mode="append")
        assert [row["name"] for row in target.rows()] == ["a", "b"]
        other = replace(target, pipeline=uuid.uuid4().hex)
        other.write(_PEOPLE, put(3, 1, "c"), mode="append")
        target.write_again(_PEOPLE, *rows, mode="append")
        assert [row["name"] for row in target.rows()] == ["a", "b", "c"]

    @claims("upsert")
    def test_composite_key_identifies_rows(self, target: Target) -> None:
        target = replace(target, key=("id", "part"))
        schema = "id int, part string, name string"
        target.write(schema, put(1, 1, "x", "a"), put(2, 1, "y", "b"), put(3, 2, "x", "c"))
        target.write(schema, put(4, 1, "y", "B"), put(5, 2, "y", "d"))
        assert [row["name"] for row in target.rows()] == ["a", "B", "c", "d"]

    @claims("upsert")
    def test_composite_key_of_many_types_identifies_rows(self, target: Target) -> None:
        types: dict[str, tuple[Any, Any]] = {
            "bigint": (1, 2**62),
            "string": ("", "ž ,:/"),
            "date": (date(1970, 1, 1), date(2024, 2, 29)),
            "timestamp": (datetime(2020, 1, 1), datetime(2020, 1, 1, 0, 0, 0, 1)),  # noqa: DTZ001 - PySpark's timestamps are naive
            "decimal(20,2)": (Decimal("1.10"), Decimal("123456789012345678.01")),
            "boolean": (False, True),
            "binary": (b"\x00\xff", b"\x00"),
        }
        key = tuple(f"k{number}" for number in range(len(types)))
        schema = ", ".join(f"{name} {sql_type}" for name, sql_type in zip(key, types, strict=True)) + ", name string"
        # Keys that differ from the first in one column each, and one that differs from another only in case.
        first = [value for value, _ in types.values()]
        keys = [first, *([*first[:n], other, *first[n + 1 :]] for n, (_, other) in enumerate(types.values()))]
        keys.append([value.upper() if isinstance(value, str) else value for value in keys[2]])
        target = replace(target, key=key)
        target.write(schema, *[put(1, *values, f"a{number}") for number, values in enumerate(keys)])
        target.write(schema, *[put(2, *values, f"b{number}") for number, values in enumerate(keys)])
        assert sorted(row["name"] for row in target.rows()) == [f"b{number}" for number in range(len(keys))]

    @claims("upsert")
    @pytest.mark.parametrize(
        ("sql_type", "first", "second"),
        [
            ("timestamp", datetime(2020, 1, 1), datetime(2020, 1, 1, 0, 0, 0, 1)),  # noqa: DTZ001 - PySpark's timestamps are naive
            ("decimal(10,2)", Decimal("1.10"), Decimal("1.11")),
            ("binary", b"\x00\x01", b"\x00\xff"),
            ("date", date(1, 1, 1), date(2024, 2, 29)),
        ],
        ids=["timestamp", "decimal", "binary", "date"],
    )
    def test_single_column_key_of_each_type_identifies_rows(
        self, target: Target, sql_type: str, first: Any, second: Any
    ) -> None:
        schema = f"id {sql_type}, name string"
        target.write(schema, put(1, first, "a"), put(2, second, "b"))
        target.write(schema, put(3, first, "A"))
        assert target.rows() == [{"id": first, "name": "A"}, {"id": second, "name": "b"}]

    # Deletes

    @claims("upsert", "delete")
    def test_delete_removes_the_row(self, target: Target) -> None:
        target.write(_PEOPLE, put(1, 1, "a"), put(2, 2, "b"), put(3, 3, "c"))
        target.write(_PEOPLE, remove(4, 1, None), remove(5, 9, None), put(6, 2, "B"))
        assert target.rows() == [{"id": 2, "name": "B"}, {"id": 3, "name": "c"}]
        target.write(_PEOPLE, put(7, 1, "again"))
        assert target.rows()[0] == {"id": 1, "name": "again"}

    @claims("upsert", "delete")
    def test_late_delete_is_ignored(self, target: Target) -> None:
        target.write(_PEOPLE, put(9, 1, "new"), put(1, 2, "b"))
        target.write(_PEOPLE, remove(8, 1, None), remove(2, 2, None))
        assert target.rows() == [{"id": 1, "name": "new"}]

    @claims("upsert", "delete")
    def test_delete_before_the_first_row_creates_no_row(self, target: Target) -> None:
        target.write(_PEOPLE, remove(1, 1, None), put(2, 2, "b"))
        assert target.rows() == [{"id": 2, "name": "b"}]
        only = Target(target.sink, target.session)
        only.write(_PEOPLE, remove(1, 1, None))
        only.write(_PEOPLE, put(2, 2, "b"))
        assert only.rows() == [{"id": 2, "name": "b"}]

    # Capabilities that are not claimed

    @lacks("upsert")
    def test_mode_upsert_is_rejected(self, tmp_path: Path) -> None:
        sink = self.plugin_class({**self.config(tmp_path), "mode": "upsert"})
        with pytest.raises(ConfigError, match=sink.name):
            check_capabilities(_plan(sink))

    @lacks("delete")
    def test_deletes_are_rejected(self, sink: Sink) -> None:
        with pytest.raises(ConfigError, match=sink.name):
            check_capabilities(_plan(sink, _RemovesRows()))

    @lacks("time_travel")
    def test_time_travel_is_rejected(self, target: Target) -> None:
        target.write(_PEOPLE, put(1, 1, "a"))
        assert isinstance(target.refusal(lambda: target.rows("2020-01-01 00:00:00")), ConfigError)

    @lacks("schema_evolution")
    def test_new_column_is_rejected(self, target: Target) -> None:
        target.write(_PEOPLE, put(1, 1, "a"))
        error = target.refusal(lambda: target.write(f"{_PEOPLE}, born int", put(2, 2, "b", 1886)))
        assert isinstance(error, DataError)
        assert "'born'" in str(error)
        assert target.rows() == [{"id": 1, "name": "a"}]


class _RemovesRows(Transform):
    """A transform that makes deletes remove rows."""

    name = "removes_rows"
    api_version = 1
    deletes_rows = True

    def apply(self, changes: Changes) -> Changes:
        return changes


def _plan(sink: Sink, *transforms: Transform) -> Plan:
    source: Any = None  # never read
    return Plan("kit", source, (sink,), "", Routes([]), (), tuple(transforms))
