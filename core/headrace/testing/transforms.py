"""What a transform has to keep, as tests.

::

    class TestAcmeUpper(TransformConformance):
        plugin_class = AcmeUpper
        schema = "id int, name string"
        golden = (((1, "Arp"), (1, "ARP")), ((2, None), (2, None)))

        def config(self, folder):
            return {"columns": ["name"]}

The fixture ``headrace_spark``, a Spark session, is the author's or that of ``headrace.testing.spark``.
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

#: What of a plan runs outside the JVM.
PYTHON = re.compile(r"\w*(Python|InPandas|InArrow)\w*")
_COPIES = 3
#: Counts the rows; not in what a transform is given.
_NUMBER = "kit_row"

_keeps_envelopes = applies_if(lambda kit: not kit.plugin_class.flattens)
_hides = applies_if(lambda kit: kit.plugin_class.hides_values)


class TransformConformance(PluginConformance):
    """Subclass it, and pytest collects what applies to ``plugin_class``."""

    plugin_class: ClassVar[type[Transform]]
    #: The columns of a row, in SQL; the transform finds what it reads among them.
    schema: ClassVar[str]
    #: A row, and what becomes of it.
    golden: ClassVar[Sequence[tuple[Row, Row]]]
    #: Which of the columns are the key.
    key: ClassVar[tuple[str, ...]] = ("id",)

    @pytest.fixture
    def bench(self, headrace_spark: SparkSession, tmp_path: Path) -> Bench:
        """Changes as the engine gives them, and what the transform makes of them."""
        return Bench(self, headrace_spark, self.config(tmp_path))

    def test_rows_become_what_they_should(self, bench: Bench) -> None:
        expected = [after for _, after in self.golden]
        result = bench.apply(bench.rows())
        assert [bench.row_of(result, row) for row in bench.collect(result)] == expected
        own = bench.transform(bench.rows().frame)
        assert sorted(map(repr, map(_values, own.select(result.event_columns).collect()))) == sorted(
            map(repr, expected)
        )

    def test_images_and_keys_become_what_rows_do(self, bench: Bench) -> None:
        result = bench.apply(bench.envelopes())
        assert result.envelope is not self.plugin_class.flattens
        places = [bench.names.index(name) for name in self.key]
        for row, (_, after) in zip(bench.collect(result), self.golden, strict=True):
            images = [row["before"], row["after"]] if result.envelope else [bench.row_of(result, row)]
            assert [_values(image) for image in images] == [after] * len(images)
            assert _values(row[C.KEY]) == tuple(after[place] for place in places), "the key is not what the row's is"

    @_keeps_envelopes
    def test_an_image_that_is_not_there_stays_away(self, bench: Bench) -> None:
        for image in C.IMAGES:
            result = bench.apply(bench.envelopes(without=image))
            assert [row[image] for row in bench.collect(result)] == [None] * len(self.golden)

    def test_no_row_is_lost_or_doubled(self, bench: Bench) -> None:
        for changes in (bench.rows(_COPIES, rejected=True), bench.envelopes(_COPIES, rejected=True)):
            found = [row[C.POSITION] for row in bench.collect(bench.apply(changes))]
            assert found == [row[C.POSITION] for row in bench.collect(changes)]

    def test_headraces_own_columns_travel_along(self, bench: Bench) -> None:
        for changes in (bench.rows(rejected=True), bench.envelopes(rejected=True)):
            names = [name for name in changes.own_columns if name != C.KEY]
            before = changes.frame.select(names).collect()
            result = bench.apply(changes).frame
            assert not set(names) - set(result.columns), "columns are missing"
            assert sorted(map(repr, result.select(names).collect())) == sorted(map(repr, before))

    def test_a_table_without_its_columns_is_left_alone(self, bench: Bench) -> None:
        changes = bench.rows(schema="some_other_column int", rows=[(1,), (None,)])
        result = bench.apply(changes)
        assert result.event_columns == ["some_other_column"]
        assert [bench.row_of(result, row) for row in bench.collect(result)] == [(1,), (None,)]

    def test_columns_are_found_in_any_case(self, bench: Bench) -> None:
        changes = bench.rows()
        names = [name.upper() if name in bench.names else name for name in changes.frame.columns]
        result = bench.apply(Changes(changes.frame.toDF(*names), envelope=False, table=changes.table))
        assert [bench.row_of(result, row) for row in bench.collect(result)] == [after for _, after in self.golden]

    def test_it_reads_what_it_says(self, bench: Bench) -> None:
        reads = {name.lower() for name in bench.transform.reads()}
        assert reads <= {name.lower() for name in bench.names}, "`schema` lacks what it says that it reads"
        usual = bench.columns(bench.rows())
        for name in bench.names:
            if name.lower() not in reads:
                other = bench.columns(bench.rows(without=name))
                differing = {column for column in usual if usual[column] != other.get(column)}
                assert differing <= {name}, f"it reads {name!r}, and `reads` does not say so"

    def test_it_stays_in_the_jvm(self, bench: Bench) -> None:
        for changes in (bench.rows(), bench.envelopes()):
            plan = bench.explain(bench.apply(changes))
            assert not PYTHON.search(plan), plan

    def test_it_does_the_same_each_time(self, bench: Bench) -> None:
        changes = bench.rows()
        first = bench.columns(changes)
        assert bench.columns(changes) == first
        assert bench.restart().columns(changes) == first

    def test_its_secrets_are_in_no_plan(self, bench: Bench) -> None:
        for changes in (bench.rows(), bench.envelopes()):
            plan = bench.explain(bench.apply(changes))
            assert not any(secret in plan for _, secret in bench.transform.config.secrets()), plan

    @_hides
    def test_what_it_hides_is_seen_nowhere(self, bench: Bench) -> None:
        for changes in (bench.rows(), bench.envelopes()):
            result, hidden = bench.apply(changes), bench.transform.hides(changes)
            assert hidden, "`hides` names no column of `schema`"
            places = [place for place, name in enumerate(bench.names) if name in hidden]
            values = {str(before[place]) for before, _ in self.golden for place in places}
            values -= {"", "None"}
            shown = [bench.explain(result), *map(repr, bench.collect(result))]
            assert not [value for value in values for text in shown if value in text]


class Bench:
    """Changes of the golden rows, and the transform."""

    def __init__(self, kit: TransformConformance, session: SparkSession, config: Mapping[str, Any]) -> None:
        self._kit, self._session, self._config = kit, session, config
        self.names = make_frame(session, kit.schema, []).columns
        self.restart()

    def restart(self) -> Bench:
        """A transform that knows nothing of before."""
        self.transform = self._kit.plugin_class(self._config)
        return self

    def apply(self, changes: Changes) -> Changes:
        return self.transform.apply(changes)

    def rows(
        self,
        copies: int = 1,
        *,
        rejected: bool = False,
        schema: str | None = None,
        rows: Sequence[Row] | None = None,
        without: str | None = None,
    ) -> Changes:
        """Rows. ``rejected``: and one that is a dead letter, all null; ``without``: a column that is null in each."""
        from pyspark.sql import functions as F

        rows = self._golden(copies) if rows is None else rows
        frame = self._make_rows(schema or self._kit.schema, rows, rejected=rejected)
        names = [name for name in frame.columns if name != _NUMBER]
        key = self._kit.key if schema is None else names[:1]
        if without is not None:
            frame = frame.withColumn(without, F.lit(None).cast(frame.schema[without].dataType))
        return self._make_changes(frame, names, key, envelope=False)

    def envelopes(self, copies: int = 1, *, rejected: bool = False, without: str | None = None) -> Changes:
        """Envelopes whose images are both the row. ``without``: an image that is null."""
        from pyspark.sql import functions as F

        frame = self._make_rows(self._kit.schema, self._golden(copies), rejected=rejected)
        row = F.when(F.col(_NUMBER) >= 0, F.struct(*map(quote_name, self.names)))
        images = {name: F.when(F.lit(name != without), row).alias(name) for name in C.IMAGES}
        source = F.struct(F.lit("kit").alias("connector")).alias("source")
        frame = frame.select("*", F.lit("u").alias("op"), *images.values(), source)
        return self._make_changes(frame, ["op", *C.IMAGES, "source"], self._kit.key, envelope=True)

    def collect(self, changes: Changes) -> list[Any]:
        """The changes in their order."""
        return sorted(changes.frame.collect(), key=lambda row: str(row[C.POSITION]))

    def row_of(self, changes: Changes, row: Any) -> Row:
        return tuple(plain(row[name]) for name in changes.event_columns)

    def columns(self, changes: Changes) -> dict[str, list[Any]]:
        """Column → its values, of what the transform gives."""
        result = self.apply(changes)
        rows = self.collect(result)
        return {name: [plain(row[name]) for row in rows] for name in result.event_columns}

    def explain(self, changes: Changes) -> str:
        text: str = changes.frame._jdf.queryExecution().toString()  # noqa: SLF001 - PySpark prints it
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
    """A row, or a struct in one."""
    return tuple(map(plain, row))
