"""Test kit for transforms.

::

    class TestAcmeUpper(TransformConformance):
        plugin_class = AcmeUpper
        schema = "id int, name string"
        golden = (((1, "Arp"), (1, "ARP")), ((2, None), (2, None)))

        def config(self, folder):
            return {"columns": ["name"]}

The fixture ``headrace_spark``, a Spark session, comes from ``headrace.testing.spark`` or from your ``conftest.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from headrace.sdk import changes as C
from headrace.sdk.changes import Changes
from headrace.sdk.reject_reason import RejectReason
from headrace.sdk.transform import Transform
from headrace.spark.columns import quote_name
from headrace.testing._internal.claims import applies_if
from headrace.testing._internal.frames import make_frame
from headrace.testing.plugins import PluginConformance
from headrace.testing.tables import plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[Any, ...]

#: Operators of a plan that run outside the JVM.
PYTHON = re.compile(r"\w*(Python|InPandas|InArrow)\w*")
_COPIES = 3
#: Row number, which transforms do not see.
_NUMBER = "kit_row"

_maps_one_to_one = applies_if(lambda kit: not kit.plugin_class.multiplies)
_multiplies = applies_if(lambda kit: kit.plugin_class.multiplies)
_keeps_envelopes = applies_if(lambda kit: not (kit.plugin_class.flattens or kit.plugin_class.multiplies))
_hides = applies_if(lambda kit: kit.plugin_class.hides_values)


class TransformConformance(PluginConformance):
    """Tests of a transform. Subclass it, and pytest collects the tests that apply to ``plugin_class``."""

    plugin_class: ClassVar[type[Transform]]
    #: Columns of a row, in SQL, including all columns that the transform reads.
    schema: ClassVar[str]
    #: Rows and the expected results. The results of a transform that multiplies are not compared.
    golden: ClassVar[Sequence[tuple[Row, Row]]]
    #: Key columns.
    key: ClassVar[tuple[str, ...]] = ("id",)

    @pytest.fixture
    def harness(self, headrace_spark: SparkSession, tmp_path: Path) -> TransformHarness:
        """Return a harness that passes changes to the transform like the engine."""
        return TransformHarness(self, headrace_spark, self.config(tmp_path))

    @_maps_one_to_one
    def test_rows_become_the_golden_rows(self, harness: TransformHarness) -> None:
        expected = [after for _, after in self.golden]
        result = harness.apply(harness.rows())
        assert [harness.row_of(result, row) for row in harness.collect(result)] == expected
        own = harness.transform(harness.rows().frame)
        assert sorted(map(repr, map(_values, own.select(result.event_columns).collect()))) == sorted(
            map(repr, expected)
        )

    @_maps_one_to_one
    def test_images_and_keys_are_transformed_like_rows(self, harness: TransformHarness) -> None:
        result = harness.apply(harness.envelopes())
        assert result.envelope is not self.plugin_class.flattens
        indexes = [harness.names.index(name) for name in self.key]
        for row, (_, after) in zip(harness.collect(result), self.golden, strict=True):
            images = [row["before"], row["after"]] if result.envelope else [harness.row_of(result, row)]
            assert [_values(image) for image in images] == [after] * len(images)
            assert _values(row[C.KEY]) == tuple(after[index] for index in indexes), "the key differs from the row"

    @_multiplies
    def test_changes_of_a_row_have_their_own_keys_and_positions(self, harness: TransformHarness) -> None:
        changes = harness.envelopes(rejected=True)
        found = harness.collect(harness.apply(changes))
        rejected = [row for row in found if row[C.ERROR] is not None]
        rows = [row for row in found if row[C.ERROR] is None]
        assert len(rejected) == 1, "a rejected change stays one change"
        assert len(rows) > len(self.golden), "no row of `golden` becomes several changes"
        assert set(self.key) < set(rows[0][C.KEY].asDict()), "the key has no further column"
        for name in (C.KEY, C.POSITION):
            assert len({row[name] for row in rows}) == len(rows), f"two changes have the same {name}"

    @_keeps_envelopes
    def test_missing_image_stays_null(self, harness: TransformHarness) -> None:
        for image in C.IMAGES:
            result = harness.apply(harness.envelopes(without=image))
            assert [row[image] for row in harness.collect(result)] == [None] * len(self.golden)

    @_maps_one_to_one
    def test_rows_are_neither_lost_nor_duplicated(self, harness: TransformHarness) -> None:
        for changes in (harness.rows(_COPIES, rejected=True), harness.envelopes(_COPIES, rejected=True)):
            found = [row[C.POSITION] for row in harness.collect(harness.apply(changes))]
            assert found == [row[C.POSITION] for row in harness.collect(changes)]

    @_maps_one_to_one
    def test_metadata_columns_are_preserved(self, harness: TransformHarness) -> None:
        for changes in (harness.rows(rejected=True), harness.envelopes(rejected=True)):
            names = [name for name in changes.own_columns if name != C.KEY]
            before = changes.frame.select(names).collect()
            result = harness.apply(changes).frame
            assert not set(names) - set(result.columns), "columns are missing"
            assert sorted(map(repr, result.select(names).collect())) == sorted(map(repr, before))

    @_maps_one_to_one
    def test_table_without_the_columns_is_unchanged(self, harness: TransformHarness) -> None:
        changes = harness.rows(schema="some_other_column int", rows=[(1,), (None,)])
        result = harness.apply(changes)
        assert result.event_columns == ["some_other_column"]
        assert [harness.row_of(result, row) for row in harness.collect(result)] == [(1,), (None,)]

    @_maps_one_to_one
    def test_column_names_are_case_insensitive(self, harness: TransformHarness) -> None:
        changes = harness.rows()
        names = [name.upper() if name in harness.names else name for name in changes.frame.columns]
        result = harness.apply(Changes(changes.frame.toDF(*names), envelope=False, table=changes.table))
        assert [harness.row_of(result, row) for row in harness.collect(result)] == [after for _, after in self.golden]

    @_maps_one_to_one
    def test_reads_lists_all_columns_that_are_read(self, harness: TransformHarness) -> None:
        reads = {name.lower() for name in harness.transform.reads()}
        assert reads <= {name.lower() for name in harness.names}, "`schema` lacks columns that `reads` returns"
        expected = harness.columns(harness.rows())
        for name in harness.names:
            if name.lower() not in reads:
                other = harness.columns(harness.rows(without=name))
                differing = {column for column in expected if expected[column] != other.get(column)}
                assert differing <= {name}, f"the transform reads {name!r}, which `reads` does not return"

    def test_plan_runs_no_python(self, harness: TransformHarness) -> None:
        for changes in harness.inputs():
            plan = harness.explain(harness.apply(changes))
            assert not PYTHON.search(plan), plan

    @_maps_one_to_one
    def test_transform_is_deterministic(self, harness: TransformHarness) -> None:
        changes = harness.rows()
        first = harness.columns(changes)
        assert harness.columns(changes) == first
        harness.transform.begin_batch()
        assert harness.columns(changes) == first, "data that has not changed differs in the next batch"
        assert harness.restart().columns(changes) == first

    def test_secrets_do_not_appear_in_plans(self, harness: TransformHarness) -> None:
        for changes in harness.inputs():
            plan = harness.explain(harness.apply(changes))
            assert not any(secret in plan for _, secret in harness.transform.config.secrets()), plan

    @_hides
    def test_hidden_values_never_appear(self, harness: TransformHarness) -> None:
        for changes in (harness.rows(), harness.envelopes()):
            result, hidden = harness.apply(changes), harness.transform.hides(changes)
            assert hidden, "`hides` returns no column of `schema`"
            indexes = [index for index, name in enumerate(harness.names) if name in hidden]
            values = {str(before[index]) for before, _ in self.golden for index in indexes}
            values -= {"", "None"}
            shown = [harness.explain(result), *map(repr, harness.collect(result))]
            assert not [value for value in values for text in shown if value in text]


class TransformHarness:
    """Harness of a transform with changes of the golden rows."""

    def __init__(self, kit: TransformConformance, session: SparkSession, config: Mapping[str, Any]) -> None:
        self._kit, self._session, self._config = kit, session, config
        self.names = make_frame(session, kit.schema, []).columns
        self.restart()

    def restart(self) -> TransformHarness:
        """Create a new instance of the transform."""
        self.transform = self._kit.plugin_class(self._config)
        return self

    def apply(self, changes: Changes) -> Changes:
        """Apply the transform."""
        return self.transform.process(changes)

    def inputs(self) -> Sequence[Changes]:
        """Return the golden rows as changes, in each form that the transform reads."""
        if self._kit.plugin_class.multiplies:
            return [self.envelopes()]
        return [self.rows(), self.envelopes()]

    def rows(
        self,
        copies: int = 1,
        *,
        rejected: bool = False,
        schema: str | None = None,
        rows: Sequence[Row] | None = None,
        without: str | None = None,
    ) -> Changes:
        """Return rows as changes.

        ``rejected`` adds a dead letter, whose columns are null; ``without`` is a column that is null in all rows.
        """
        from pyspark.sql import functions as F

        rows = self._golden(copies) if rows is None else rows
        frame = self._make_rows(schema or self._kit.schema, rows, rejected=rejected)
        names = [name for name in frame.columns if name != _NUMBER]
        key = self._kit.key if schema is None else names[:1]
        if without is not None:
            frame = frame.withColumn(without, F.lit(None).cast(frame.schema[without].dataType))
        return self._make_changes(frame, names, key, envelope=False)

    def envelopes(self, copies: int = 1, *, rejected: bool = False, without: str | None = None) -> Changes:
        """Return envelopes with the row as both images. ``without`` is an image that is null."""
        from pyspark.sql import functions as F

        frame = self._make_rows(self._kit.schema, self._golden(copies), rejected=rejected)
        row = F.when(F.col(_NUMBER) >= 0, F.struct(*map(quote_name, self.names)))
        images = {name: F.when(F.lit(name != without), row).alias(name) for name in C.IMAGES}
        source = F.struct(F.lit("kit").alias("connector")).alias("source")
        frame = frame.select("*", F.lit("u").alias("op"), *images.values(), source)
        return self._make_changes(frame, ["op", *C.IMAGES, "source"], self._kit.key, envelope=True)

    def collect(self, changes: Changes) -> list[Any]:
        """Return the changes in order."""
        return sorted(changes.frame.collect(), key=lambda row: str(row[C.POSITION]))

    def row_of(self, changes: Changes, row: Any) -> Row:
        """Return the event columns of a row as plain values."""
        return tuple(plain(row[name]) for name in changes.event_columns)

    def columns(self, changes: Changes) -> dict[str, list[Any]]:
        """Return the values of each column of the result."""
        result = self.apply(changes)
        rows = self.collect(result)
        return {name: [plain(row[name]) for row in rows] for name in result.event_columns}

    def explain(self, changes: Changes) -> str:
        """Return the plan."""
        text: str = changes.frame._jdf.queryExecution().toString()  # noqa: SLF001 - PySpark only prints plans
        return text

    def _golden(self, copies: int) -> list[Row]:
        return [before for before, _ in self._kit.golden] * copies

    def _make_rows(self, schema: str, rows: Sequence[Row], *, rejected: bool) -> DataFrame:
        names = make_frame(self._session, schema, []).columns
        values: list[dict[str, Any]] = [
            {_NUMBER: n, **dict(zip(names, row, strict=True))} for n, row in enumerate(rows)
        ]
        return make_frame(self._session, f"{_NUMBER} int, {schema}", [*values, *([{_NUMBER: -1}] if rejected else [])])

    def _make_changes(self, frame: DataFrame, names: Sequence[str], key: Sequence[str], *, envelope: bool) -> Changes:
        from pyspark.sql import functions as F

        is_good = F.col(_NUMBER) >= 0
        own = {
            C.OP: F.lit("u"),
            C.DELETED: F.lit(False),
            C.KEY: F.when(is_good, F.struct(*map(quote_name, key))),
            C.POSITION: F.format_string("%010d", _NUMBER),
            C.COMMITTED: F.col(_NUMBER).cast("bigint"),
            C.ERROR: F.when(~is_good, RejectReason.UNDECODABLE),
            C.TOPIC: F.lit("kit.people"),
            C.PARTITION: F.lit(0),
            C.OFFSET: F.col(_NUMBER).cast("bigint"),
            C.FILE: F.lit(None).cast("string"),
            C.PLACE: F.col(_NUMBER).cast("string"),
            C.RAW: F.lit(b"{}"),
        }
        columns = [*map(F.col, map(quote_name, names)), *(column.alias(name) for name, column in own.items())]
        return Changes(frame.select(columns), envelope, "kit.people")


def _values(row: Any) -> Row:
    """Return the plain values of a row or a struct."""
    return tuple(map(plain, row))
