"""Transforms of the columns and the rows of changes, on static frames."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from tests.support.tiers import nightly_after

from headrace.errors import ConfigError, DataError
from headrace.sdk.changes import (
    DELETED,
    DETAIL,
    ERROR,
    HEADERS,
    KEY,
    OFFSET,
    OP,
    TIMESTAMP,
    TOPIC,
    UNAVAILABLE,
    Changes,
)
from headrace.sdk.transform import Transform
from headrace.testing._internal.frames import make_frame
from headrace_transforms import Cast, Compute, Drop, Filter, Flatten, Insert, Keep, Mask, Rename, Timestamp, Unwrap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

OWN = f"{KEY} struct<id int>, {OP} string, {DELETED} boolean, {ERROR} string, {DETAIL} string, {TOPIC} string, {OFFSET} bigint"
ROW = "struct<id int, name string, country string>"


def frame_of(spark: SparkSession, schema: str, *rows: tuple[Any, ...]) -> DataFrame:
    """Return rows that Spark reads without a job. A struct is a tuple."""
    kind = make_frame(spark, schema, []).schema
    return make_frame(spark, schema, [name_fields(row, kind) for row in rows])


def name_fields(value: Any, kind: Any) -> Any:
    if not isinstance(value, tuple):
        return value
    return {field.name: name_fields(item, field.dataType) for field, item in zip(kind, value, strict=True)}


def flat(spark: SparkSession, columns: str, *rows: tuple[Any, ...], ops: str = "") -> Changes:
    """Return flat rows. The first column is the key; ``ops``: operations, by default updates."""
    data = [
        (*row, (row[0],), op, op == "d", None, None, "shop.people", n)
        for n, (row, op) in enumerate(zip(rows, ops or "u" * len(rows), strict=True))
    ]
    return Changes(frame_of(spark, f"{columns}, {OWN}", *data), envelope=False, table="people")


def envelopes(spark: SparkSession, *images: tuple[Any, Any, str]) -> Changes:
    data = [
        (before, after, op, ((after or before)[0],), op, op == "d", None, None, "shop.people", n)
        for n, (before, after, op) in enumerate(images)
    ]
    return Changes(
        frame_of(spark, f"before {ROW}, after {ROW}, op string, {OWN}", *data), envelope=True, table="people"
    )


def rows(changes: Changes, *columns: str) -> list[tuple[Any, ...]]:
    """Return the rows in record order, with the event's columns or with the given ones."""
    from headrace.spark.columns import quote_name

    names = [quote_name(c) if c in changes.frame.columns else c for c in [OFFSET, *(columns or changes.event_columns)]]
    return [tuple(row)[1:] for row in sorted(changes.frame.select(*names).collect(), key=lambda row: row[0])]


class TestCast:
    def test_value_that_does_not_fit_is_a_dead_letter_without_the_value(self, spark: SparkSession) -> None:
        values = [(1, "1.5"), (2, "a secret"), (3, "999"), (4, None), (5, "1e-400000000")]
        changes = flat(spark, "id int, price string", *values, ops="cuddc")
        result = Cast(columns={"price": "decimal(3,1)"}).process(changes)
        reject = "untransformable", "the column `price` does not fit its type decimal(3,1)"
        assert [(str(p), e, d) for p, e, d in rows(result, "price", ERROR, DETAIL)] == [
            ("1.5", None, None),
            ("None", *reject),
            ("None", None, None),  # a delete removes its row
            ("None", None, None),
            ("None", *reject),
        ]

    def test_type_that_no_value_has(self, spark: SparkSession) -> None:
        with pytest.raises(DataError, match="'day' is int, which Spark does not cast to date") as raised:
            Cast(columns={"day": "date"}).process(flat(spark, "id int, day int", (1, -5000)))
        assert "`compute: {columns: {day: date_from_unix_date(day)}}`" in str(raised.value)

    def test_plain_frame_fails(self, spark: SparkSession) -> None:
        frame = spark.createDataFrame([("300",)], "size string")
        with pytest.raises(Exception, match="the column `size` does not fit its type tinyint"):
            Cast(columns={"size": "int8"})(frame).collect()

    def test_row_before_the_change_may_not_fit(self, spark: SparkSession) -> None:
        changes = envelopes(spark, ((1, "bad", ""), (1, "7", ""), "u"), (None, (2, "bad", ""), "c"))
        result = Cast(columns={"name": "int"}).process(changes)
        assert rows(result, "before.name", "after.name", ERROR) == [
            (None, 7, None),
            (None, None, "untransformable"),
        ]


class TestFilter:
    CHANGES = ((1, "CH"), (2, "DE"), (3, "DE"), (4, "DE"), (5, None), (6, "CH"))

    def test_row_that_leaves_the_condition_is_deleted(self, spark: SparkSession) -> None:
        changes = flat(spark, "id int, country string", *self.CHANGES, ops="ucudru")
        result = Filter(condition="country = 'CH'").process(changes)
        assert rows(result, "id", OP, DELETED) == [(1, "u", False), (3, "d", True), (4, "d", True), (6, "u", False)]

    def test_row_without_an_operation_may_be_an_update(self, spark: SparkSession) -> None:
        """It is left out if it has no key, because it then changes no other row."""
        from pyspark.sql import functions as F

        changes = flat(spark, "id int, country string", *self.CHANGES[:2])
        frame = changes.frame.withColumn(OP, F.lit(None).cast("string"))
        keep = Filter(condition="country = 'CH'")
        kept = rows(keep.process(replace(changes, frame=frame)), "id", OP, DELETED)
        assert kept == [(1, None, False), (2, "d", True)]
        assert rows(keep.process(replace(changes, frame=frame.drop(KEY))), "id", OP, DELETED) == [(1, None, False)]

    def test_row_that_leaves_the_condition_may_stay(self, spark: SparkSession) -> None:
        changes = flat(spark, "id int, country string", *self.CHANGES, ops="ucudru")
        result = Filter(condition="country = 'CH'", updates="drop").process(changes)
        assert rows(result, "id", OP) == [(1, "u"), (4, "d"), (6, "u")]

    @pytest.mark.parametrize("updates", ["delete", "drop"])
    def test_deletes_that_unwrap_keeps_as_rows_are_applied(self, spark: SparkSession, updates: str) -> None:
        old, new = (1, None, None), (2, "Arp", "DE")
        changes = envelopes(spark, (old, None, "d"), (None, new, "c"), (None, new, "u"))
        unwrapped = Unwrap({"delete.tombstone.handling.mode": "rewrite"}).process(changes)
        kept = rows(Filter(condition="country = 'CH'", updates=updates).process(unwrapped), "id", "__deleted", DELETED)
        assert kept == [(1, "true", False), *([(2, "false", True)] if updates == "delete" else [])]

    def test_when_alone_leaves_out_the_selected_rows(self, spark: SparkSession) -> None:
        """A condition that is null selects nothing, as a predicate of Kafka Connect that does not match."""
        changes = flat(spark, "id int, country string", *self.CHANGES, ops="cccccc")
        assert rows(Filter(when="country = 'DE'").process(changes), "id") == [(1,), (5,), (6,)]
        both = Filter(when="country = 'DE'", condition="id > 3")
        assert rows(both.process(changes), "id") == [(1,), (4,), (5,), (6,)]

    def test_envelope(self, spark: SparkSession) -> None:
        old, new = (1, "Arp", "CH"), (1, "Arp", "FR")
        changes = envelopes(spark, (None, old, "c"), (old, new, "u"), (new, None, "d"), (None, new, "r"))
        result = Filter(condition="country = 'CH'").process(changes)
        assert rows(result, "op", "after.country", DELETED) == [
            ("c", "CH", False),
            ("d", None, True),
            ("d", None, True),
        ]

    def test_dead_letters_stay(self, spark: SparkSession) -> None:
        from pyspark.sql import functions as F

        changes = flat(spark, "id int, country string", (1, None))
        changes = Changes(changes.frame.withColumn(ERROR, F.lit("undecodable")), envelope=False)
        assert rows(Filter(condition="country = 'CH'").process(changes), "id", ERROR, DELETED) == [
            (1, "undecodable", False)
        ]

    def test_headers_and_topics(self, spark: SparkSession) -> None:
        frame = frame_of(
            spark,
            f"id int, {HEADERS} array<struct<key string, value binary>>, {TOPIC} string",
            *((1, [{"key": "test", "value": b"x"}], "a.b"), (2, [], "a.b"), (3, None, "a.c")),
        )
        changes = Changes(frame, envelope=False)
        has_header = Filter(when=f"exists({HEADERS}, h -> h.key = 'test')")
        by_topic = Filter(condition=f"{TOPIC} RLIKE '^a[.]b$'")
        assert [r.id for r in has_header.process(changes).frame.collect()] == [2, 3]
        assert [r.id for r in by_topic.process(changes).frame.collect()] == [1, 2]


class TestWhen:
    def test_other_rows_stay_as_they_are(self, spark: SparkSession) -> None:
        changes = flat(spark, "id int, size int, country string", (1, 7, "CH"), (2, 8, "DE"), (3, 9, None))
        renamed = Rename({"columns": {"size": "length"}, "when": "country = 'CH'"}).process(changes)
        assert renamed.event_columns == ["id", "length", "country", "size"]
        assert rows(renamed) == [(1, 7, "CH", None), (2, None, "DE", 8), (3, None, None, 9)]
        cast = Cast({"columns": {"size": "string"}, "when": "country = 'CH'"}).process(changes)
        assert rows(cast, "size") == [("7",), ("8",), ("9",)]

    def test_each_row_image_has_its_own_condition(self, spark: SparkSession) -> None:
        changes = envelopes(spark, ((1, "Arp", "DE"), (1, "Arp", "CH"), "u"), (None, (2, "Taeuber", "DE"), "c"))
        result = Compute({"columns": {"name": "upper(name)"}, "when": "country = 'CH'"}).process(changes)
        assert rows(result, "before.name", "after.name") == [("Arp", "ARP"), (None, "Taeuber")]

    def test_mask_applies_where_the_condition_is_unknown(self, spark: SparkSession) -> None:
        changes = flat(
            spark, "id int, name string, country string", (1, "Arp", "CH"), (2, "Höch", "DE"), (3, "x", None)
        )
        mask = {"columns": {"name": {"replacement": "?"}}}
        assert rows(Mask({**mask, "when": "country = 'CH'"}).process(changes), "name") == [("?",), ("Höch",), ("?",)]
        assert rows(Mask({**mask, "when": "no_such_column = 1"}).process(changes), "name") == [("?",)] * 3

    def test_key_column_needs_a_condition_over_the_key(self, spark: SparkSession) -> None:
        changes = flat(spark, "id int, country string", (1, "CH"), (2, "DE"))
        result = Compute({"columns": {"id": "id + 100"}, "when": "id = 2"}).process(changes)
        assert rows(result, "id", f"{KEY}.id") == [(1, 1), (102, 102)]
        with pytest.raises(DataError, match="its `when` reads columns that a delete does not have"):
            Compute({"columns": {"id": "id + 100"}, "when": "country = 'CH'"}).process(changes)

    def test_value_of_an_unselected_row_is_not_rejected(self, spark: SparkSession) -> None:
        changes = flat(spark, "id int, size string", (1, "x"), (2, "y"))
        result = Cast({"columns": {"size": "int"}, "when": "id = 1"}).process(changes)
        assert rows(result, "size", ERROR) == [(None, "untransformable"), ("y", None)]

    def test_row_after_the_change_decides_on_dead_letters(self, spark: SparkSession) -> None:
        changes = envelopes(spark, ((1, "x", "DE"), (1, "x", "CH"), "u"), ((1, "x", "CH"), (1, "x", "DE"), "u"))
        result = Cast({"columns": {"name": "int"}, "when": "country = 'CH'"}).process(changes)
        assert rows(result, "after.name", ERROR) == [(None, "untransformable"), ("x", None)]

    def test_condition_may_read_columns_beside_a_key_column(self, spark: SparkSession) -> None:
        changes = flat(spark, "id int, name string, country string", (1, "Arp", "CH"), (2, "Höch", "DE"))
        named = Compute({"columns": {"label": "concat(id, name)"}, "when": "country = 'CH'"}).process(changes)
        assert rows(named, "label") == [("1Arp",), (None,)]
        kept = Keep({"columns": ["id", "name"], "when": "country = 'CH'"}).process(changes)
        assert rows(kept) == [(1, "Arp", None), (2, "Höch", "DE")]

    def test_key_column_cannot_be_renamed_in_some_rows(self, spark: SparkSession) -> None:
        with pytest.raises(DataError, match="all rows have the same key columns"):
            Rename({"columns": {"id": "number"}, "when": "id = 1"}).process(flat(spark, "id int", (1,)))

    def test_copy_of_a_row_image_has_the_names_of_its_row(self, spark: SparkSession) -> None:
        images = [((n, "Arp", "CH"), (n, "Arp", "DE"), "u") for n in (1, 2)]
        changes = Unwrap({"add.fields": "before"}).process(envelopes(spark, *images))
        renamed = Rename({"columns": {"name": "nom"}, "when": "id = 1"}).process(changes)
        assert [row[0].asDict() for row in rows(renamed, "__before")] == [
            {"id": 1, "nom": "Arp", "country": "CH", "name": None},
            {"id": 2, "nom": None, "country": "CH", "name": "Arp"},
        ]

    def test_mask_must_hide_the_column_before_and_after_a_rename_of_some_rows(self, spark: SparkSession) -> None:
        changes = flat(spark, "id int, email string", (1, "a@x"), (2, "b@x"))
        changes = replace(changes, tags={"pii": frozenset({"email"})})
        renamed = Rename({"columns": {"email": "mail"}, "when": "id > 1"}).process(changes)
        assert renamed.tags == {"pii": {"email", "mail"}}
        assert rows(renamed) == [(1, None, "a@x"), (2, "b@x", None)]
        for after in (renamed, Drop({"columns": ["email"]}).process(renamed)):
            with pytest.raises(DataError, match="some rows have the values of 'email' in 'mail'"):
                Mask({"columns": {"email": {"nullify": True}}}).process(after)
        both = Mask({"columns": {"email": {"nullify": True}, "mail": {"nullify": True}}}).process(renamed)
        assert rows(both) == [(1, None, None), (2, None, None)]

    def test_statement_of_several_rows_is_masked_with_any_of_them(self, spark: SparkSession) -> None:
        frame = frame_of(
            spark,
            f"after struct<id int, country string>, source struct<query string>, {OFFSET} bigint",
            ((1, "DE"), ("UPDATE …",), 0),
        )
        mask = Mask({"columns": {"id": {"nullify": True}}, "when": "country = 'CH'"})
        assert rows(mask.process(Changes(frame, envelope=True))) == [((1, "DE"), (None,))]

    def test_types_without_a_common_type(self, spark: SparkSession) -> None:
        changes = flat(spark, "id int, size boolean", (1, True))
        with pytest.raises(DataError, match="the column 'size' is boolean in some records and int in others"):
            Cast({"columns": {"size": "int"}, "when": "id = 1"}).process(changes)

    def test_tables(self, spark: SparkSession) -> None:
        changes = flat(spark, "id int, name string", (1, "Arp"))
        assert Drop({"columns": ["name"], "tables": "artists"}).process(changes) is changes
        assert Drop({"columns": ["name"], "tables": "p*"}).process(changes).event_columns == ["id"]


class TestExpressions:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("rand() > 0.5", "calls rand, which is not a function of the row"),
            ("input_file_name( ) = ''", "calls input_file_name"),
            ("id < max(id)", "calls max, which needs other rows than its own"),
            ("row_number() OVER (ORDER BY id) = 1", "calls row_number, which needs other rows than its own"),
            ("explode(array(id)) = 1", "calls explode, which needs other rows than its own"),
            ("id = (SELECT 1)", "uses ScalarSubquery"),
            ("birth > current_date", "which is not a function of the row"),
            ("name RLIKE '(['", "it does not compile"),
            ("name = ", "is not a SQL expression"),
            ("length(id, name) = 1", "is not an expression over the row"),
            ("*", "reads columns without their names"),
            ("to_json(struct(*)) = ''", "reads columns without their names"),
            ("size(array(address.*)) > 0", "reads columns without their names"),
            ("IDENTIFIER('na' || 'me') = ''", "reads columns without their names"),
            ("_HEADRACE_all IS NULL", "_HEADRACE_all, which is no column of the row"),
            ("birth < 'today'", "gives another value when a batch is repeated"),
            ("to_date('now') = birth", "gives another value when a batch is repeated"),
            ("aes_encrypt(name, '0000111122223333') = ''", "gives another value when a batch is repeated"),
            ("id", "is a value of the type int, and a condition is true or false"),
            ("to_binary (name, 'hex') IS NULL", "fails the batch for one invalid value: write try_to_binary"),
            ("from_json(name, 'id INT', map('mode', 'FAILFAST')).id = 1", "fails the batch for one invalid value"),
        ],
    )
    def test_more_than_the_row(self, spark: SparkSession, text: str, message: str) -> None:
        changes = flat(spark, "id int, name string, birth date, address struct<city string>", (1, "Arp", None, None))
        with pytest.raises(ConfigError, match=message):
            Filter(condition=text).process(changes)

    def test_names_in_lambdas_are_columns_unless_they_are_arguments(self, spark: SparkSession) -> None:
        changes = flat(spark, "id int, name string, tags array<string>", (1, "Arp", ["a"]))
        text = "transform(filter(tags, (T, n) -> n < id), t -> concat(T, ':', aggregate(tags, '', (a, b) -> b), name))"
        compute = Compute(columns={"copy": text})
        assert set(compute.reads()) == {"tags", "id", "name"}
        assert rows(compute.process(changes), "copy") == [(["a:aArp"],)]
        with pytest.raises(DataError, match="'copy' is computed from 'name'"):
            Mask(columns={"name": {"nullify": True}}).process(compute.process(changes))
        encrypted = Compute(columns={"copy": "hex(aes_encrypt(name, '0000111122223333', 'ECB'))"}).process(changes)
        assert rows(encrypted, "copy") == rows(encrypted, "copy")

    def test_syntax_error_is_found_by_check(self, spark: SparkSession) -> None:
        for transform in (Compute(columns={"a": "b +"}), Keep({"columns": ["a"], "when": "b +"})):
            with pytest.raises(ConfigError, match="is not a SQL expression"):
                transform.check(spark)

    def test_columns_are_those_of_the_row_before_the_transform(self, spark: SparkSession) -> None:
        changes = flat(spark, "id int, `a b` int", (1, 10))
        result = Compute(columns={"a b": "`a b` + 1", "c": "`A B` * 2", "topic": TOPIC}).process(changes)
        assert result.event_columns == ["id", "a b", "c", "topic"]
        assert rows(result) == [(1, 11, 20, "shop.people")]

    def test_bytes_of_the_record_are_no_column(self, spark: SparkSession) -> None:
        with pytest.raises(ConfigError, match="_headrace_key"):
            Compute(columns={"copy": KEY}).process(flat(spark, "id int", (1,)))

    def test_key_column(self, spark: SparkSession) -> None:
        changes = flat(spark, "id int, name string", (1, "Arp"))
        with pytest.raises(ConfigError, match="a key column is computed from key columns alone"):
            Compute(columns={"id": "length(name)"}).process(changes)

    def test_unavailable_values(self, spark: SparkSession) -> None:
        """A value computed from unavailable values alone is unavailable; from others, too, it cannot be computed."""
        frame = frame_of(
            spark,
            f"id int, doc string, name string, {UNAVAILABLE} struct<doc boolean>, {OFFSET} bigint, {ERROR} string",
            *((1, None, "x", (True,), 0, None), (2, "doc", "y", (False,), 1, None)),
        )
        changes = Changes(frame, envelope=False)
        alone = Compute(columns={"size": "length(doc)"}).process(changes)
        assert rows(alone, f"{UNAVAILABLE}.size", ERROR) == [(True, None), (False, None)]
        mixed = Compute(columns={"both": "concat(doc, name)"}).process(changes)
        assert rows(mixed, "both", ERROR) == [(None, "untransformable"), ("docy", None)]
        assert rows(Filter(condition="length(doc) > 1").process(changes), "id", ERROR) == [
            (1, "untransformable"),
            (2, None),
        ]


def without_docs(spark: SparkSession, *, envelope: bool) -> Changes:
    """Return updates of which all but the third omit ``doc``."""
    from pyspark.sql import functions as F

    data = ((1, True, None), (2, False, None), (3, False, "raw"), (4, None, None))
    changes = flat(spark, "id int, active boolean, doc string", *data)
    frame = changes.frame.withColumn(UNAVAILABLE, F.struct(F.col("doc").isNull().alias("doc")))
    if not envelope:
        return replace(changes, frame=frame)
    row = F.struct("id", "active", "doc")
    # Without REPLICA IDENTITY FULL, the row before a change has its key alone.
    before = F.struct("id", F.lit(None).cast("boolean").alias("active"), F.lit(None).cast("string").alias("doc"))
    own = [name for name in frame.columns if name.startswith("_headrace_")]
    return replace(
        changes,
        envelope=True,
        frame=frame.select(before.alias("before"), row.alias("after"), F.lit("u").alias("op"), *own),
    )


def docs(changes: Changes) -> list[tuple[Any, ...]]:
    """Return the value of ``doc``, whether it is unavailable, and the error of each row."""
    from pyspark.sql import functions as F

    row = "after." if changes.envelope else ""
    flags = (
        getattr(changes.frame.schema[UNAVAILABLE].dataType, "names", []) if UNAVAILABLE in changes.own_columns else []
    )
    frame = changes.frame.withColumn("flag", F.col(f"{UNAVAILABLE}.doc") if "doc" in flags else F.lit(False))
    names = frame.select("after.*").columns if changes.envelope else frame.columns
    doc = F.expr(f"{row}doc") if "doc" in names else F.lit(None)
    return [tuple(r) for r in frame.orderBy(OFFSET).select(doc, F.coalesce("flag", F.lit(False)), ERROR).collect()]


KEPT, REJECTED = (None, True, None), (None, True, "untransformable")


@pytest.mark.parametrize("envelope", nightly_after(1, [True, False]), ids=["envelope", "flat"])
class TestUnavailableValuesAndConditions:
    @pytest.mark.nightly
    @pytest.mark.parametrize(
        "condition",
        nightly_after(
            2,
            ["doc IS NOT NULL", "coalesce(doc, '') <> ''", "NOT doc <=> 'x'", "doc LIKE '%raw%'", "id = 3 OR doc = ''"],
        ),
    )
    def test_condition_that_reads_an_unavailable_value_is_unknown(
        self, spark: SparkSession, condition: str, envelope: bool
    ) -> None:
        """Null stands for the value: a condition that is not null may be wrong."""
        changes = without_docs(spark, envelope=envelope)
        for transform in (
            Filter(condition=condition),
            Filter(when=f"NOT ({condition})"),
            Drop({"columns": ["active"], "when": condition}),
        ):
            result = transform.process(changes)
            assert docs(result) == [REJECTED, REJECTED, ("raw", False, None), REJECTED]
            assert {row[0] for row in rows(result, OP)} == {"u"}
        mask = Mask({"columns": {"active": {"replacement": "?"}}, "when": f"NOT ({condition})"})
        active = "after.active" if envelope else "active"
        assert rows(mask.process(changes), active) == [
            ("?",),
            ("?",),
            ("false",),
            (None,),
        ]  # the last one is null itself

    @pytest.mark.nightly
    @pytest.mark.timeout(120)  # A plan that grows with the power of its transforms does not end.
    def test_plan_grows_with_the_number_of_transforms(self, spark: SparkSession, envelope: bool) -> None:
        changes = without_docs(spark, envelope=envelope)
        changes = replace(changes, frame=changes.frame.repartition(1))
        for number in range(3):
            compute = Compute({"columns": {f"next{number}": "id + 1"}, "when": f"id = {number}"})
            changes = Filter(condition=f"doc <> '{number}'").process(compute.process(changes))
        plan = changes.frame.where(f"{ERROR} IS NOT NULL")._jdf.queryExecution().optimizedPlan()
        assert len(plan.toString()) < 40_000

    @pytest.mark.parametrize(
        ("transform", "selected", "available"),
        [
            (Compute({"columns": {"doc": "'gone'"}, "when": "NOT active"}), ("gone", False, None), "gone"),
            (Drop({"columns": ["doc"], "when": "NOT active"}), (None, False, None), None),
            (Keep({"columns": ["doc", "active"], "when": "NOT active"}), KEPT, "raw"),
            # The stored value may be that of the other branch.
            (Compute({"columns": {"doc": "upper(doc)"}, "when": "NOT active"}), REJECTED, "RAW"),
            (Cast({"columns": {"doc": "string"}, "when": "NOT active"}), REJECTED, "raw"),
            (Rename({"columns": {"doc": "text"}, "when": "NOT active"}), (None, False, "untransformable"), None),
        ],
    )
    def test_unselected_rows_keep_their_stored_values(
        self, spark: SparkSession, transform: Transform, selected: Any, available: Any, envelope: bool
    ) -> None:
        result = docs(transform.process(without_docs(spark, envelope=envelope)))
        assert result == [KEPT, selected, (available, False, None), KEPT]

    @pytest.mark.parametrize(
        ("rule", "hidden"),
        [
            ({"replacement": "hidden"}, "hidden"),
            ({"replacement": "hidden", "keep_type": True}, "hidden"),
            ({"characters": 3}, "***"),
            ({"nullify": True}, None),
            ({"empty": True}, ""),
        ],
    )
    def test_mask_replaces_the_stored_value(
        self, spark: SparkSession, rule: dict[str, Any], hidden: str | None, envelope: bool
    ) -> None:
        """The stored value was written when the condition was false."""
        mask = Mask({"columns": {"doc": rule}, "when": "NOT active"})
        changes = without_docs(spark, envelope=envelope)
        assert docs(mask.process(changes)) == [KEPT, *[(hidden, False, None)] * 3]

    def test_mask_that_needs_the_value_rejects(self, spark: SparkSession, envelope: bool) -> None:
        changes = without_docs(spark, envelope=envelope)
        mask = {"columns": {"doc": {"truncate": 1}}}
        assert docs(Mask({**mask, "when": "NOT active"}).process(changes)) == [
            KEPT,
            REJECTED,
            ("r", False, None),
            REJECTED,
        ]
        # Without a condition, the stored value is masked.
        assert docs(Mask(mask).process(changes)) == [KEPT, KEPT, ("r", False, None), KEPT]


class TestMasksOfCopies:
    @pytest.mark.parametrize(
        "copying",
        [
            Compute(columns={"copy": "lower(name)"}),
            Compute({"columns": {"copy": "name"}, "when": "id > 0"}),
            Compute(columns={"country": "name"}),
        ],
    )
    def test_column_computed_from_a_masked_one_is_refused(self, spark: SparkSession, copying: Transform) -> None:
        mask = Mask(columns={"name": {"replacement": "?"}})
        for changes in (
            flat(spark, "id int, name string, country string", (1, "Arp", "CH")),
            envelopes(spark, (None, (1, "Arp", "CH"), "c")),
        ):
            copied = Rename(columns={"id": "number"}).process(copying.process(changes))
            for after in (copied, Drop(columns=["name"]).process(copied)):
                with pytest.raises(DataError, match="is computed from 'name', which is masked only later"):
                    mask.process(after)
            assert "?" in str(rows(copying.process(mask.process(changes))))

    def test_copy_that_is_replaced_in_some_rows_is_refused(self, spark: SparkSession) -> None:
        changes = flat(spark, "id int, email string, phone string", (1, "raw", "1"), (2, "raw", "2"))
        copied = Compute(columns={"x": "email"}).process(changes)
        replaced = Compute({"columns": {"x": "phone"}, "when": "id = 2"}).process(copied)
        with pytest.raises(DataError, match="'x' is computed from 'email', which is masked only later"):
            Mask(columns={"email": {"nullify": True}}).process(replaced)

    def test_masked_copy_is_accepted(self, spark: SparkSession) -> None:
        copied = Compute(columns={"copy": "lower(name)"}).process(flat(spark, "id int, name string", (1, "Arp")))
        masked = Mask(columns={name: {"replacement": "?"} for name in ("name", "copy")}).process(copied)
        assert rows(masked) == [(1, "?", "?")]

    def test_fields_of_a_masked_struct(self, spark: SparkSession) -> None:
        flattened = Flatten().process(flat(spark, "id int, address struct<city string>", (1, ("Bern",))))
        with pytest.raises(DataError, match=r"'address\.city' is computed from 'address'"):
            Mask(columns={"address": {"nullify": True}}).process(flattened)


class TestMasksOfImages:
    """A row image that `unwrap` adds to the row has the columns of a mask."""

    EMAIL: ClassVar[dict[str, Any]] = {"columns": {"email": {"replacement": "?"}}}

    def unwrapped(self, spark: SparkSession, fields: str) -> Changes:
        row = "struct<id int, email string, address struct<city string>>"
        frame = frame_of(
            spark,
            f"before {row}, after {row}, op string, source struct<lsn bigint, query string>, {OWN}",
            ((1, "old", ("Bern",)), (1, "new", ("Chur",)), "u", (7, "UPDATE"), (1,), "u", False, None, None, "t", 0),
        )
        return Unwrap({"add.fields": fields}).process(Changes(frame, envelope=True, table="people"))

    @pytest.mark.parametrize(
        "flatten", [Flatten(delimiter="_"), Flatten(columns=["__before", "__source"], delimiter="_")]
    )
    def test_fields_of_an_image_are_masked_after_flatten(self, spark: SparkSession, flatten: Flatten) -> None:
        masked = Mask(self.EMAIL).process(flatten.process(self.unwrapped(spark, "before,source")))
        columns = ["__before_id", "email", "__before_email", "__before_address_city", "__source_lsn", "__source_query"]
        assert rows(masked, *columns) == [(1, "?", "?", "Bern", 7, None)]
        nested = "address_city" if "address_city" in masked.event_columns else "address"
        if nested == "address":
            with pytest.raises(DataError, match="'__before_address_city' is computed from 'address'"):
                Mask(columns={nested: {"nullify": True}}).process(masked)
        else:
            city = Mask(columns={nested: {"nullify": True}}).process(masked)
            assert rows(city, "address_city", "__before_address_city") == [(None, None)]

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ("before", "__before.email"),
            ("before", "to_json(__before)"),
            ("before.email", "upper(__before_email)"),
            ("source", "__source.query"),
            ("query", "__query"),
        ],
    )
    def test_expression_over_an_image_or_a_statement_is_refused(
        self, spark: SparkSession, fields: str, text: str
    ) -> None:
        copied = Compute(columns={"was": text}).process(self.unwrapped(spark, fields))
        with pytest.raises(DataError, match=r"'was' is computed from '.*', which is masked only later"):
            Mask(self.EMAIL).process(copied)
        for fine in (Mask(self.EMAIL).process(self.unwrapped(spark, fields)), Drop(columns=["was"]).process(copied)):
            Mask(self.EMAIL).process(Compute(columns={"id2": "id"}).process(fine))

    def test_fields_of_a_computed_struct_are_refused(self, spark: SparkSession) -> None:
        changes = flat(spark, "id int, profile_json string", (1, '{"email": "raw"}'))
        parsed = Compute(columns={"profile": "from_json(profile_json, 'email string')"}).process(changes)
        flattened = Flatten(columns=["profile"]).process(parsed)
        with pytest.raises(DataError, match=r"'profile\.email' is computed from 'profile_json'"):
            Mask(columns={"profile_json": {"nullify": True}}).process(flattened)

    def test_masked_copy_is_no_copy_of_columns_masked_later(self, spark: SparkSession) -> None:
        changes = flat(spark, "id int, first string, last string", (1, "Jean", "Arp"))
        named = Compute(columns={"name": "concat(first, last)"}).process(changes)
        first, second = (Mask(columns={name: {"replacement": "?"}}) for name in ("name", "first"))
        assert rows(second.process(first.process(named)), "first", "name") == [("?", "?")]
        with pytest.raises(DataError, match="'name' is computed from 'first'"):
            second.process(named)

    def test_values_of_the_row_before_are_masked_in_every_row(self, spark: SparkSession) -> None:
        """The condition over the row before needs columns that a flat row does not have."""
        mask = Mask({**self.EMAIL, "when": "email = 'other'"})
        masked = mask.process(self.unwrapped(spark, "before.email,after.email:now"))
        assert rows(masked, "email", "__now", "__before_email") == [("new", "new", "?")]


class TestColumns:
    def test_names_that_collide(self, spark: SparkSession) -> None:
        changes = flat(spark, "id int, a struct<b int>, a_b int", (1, (1,), 2))
        with pytest.raises(DataError, match="two columns would be named 'a_b'"):
            Flatten(delimiter="_").process(changes)
        with pytest.raises(DataError, match="already has a column 'A_B'"):
            Insert({"topic.field": "A_B"}).process(changes)

    def test_key_column_cannot_be_dropped_and_is_kept(self, spark: SparkSession) -> None:
        changes = envelopes(spark, (None, (1, "Arp", "CH"), "c"))
        with pytest.raises(DataError, match="'id' is part of the key"):
            Drop(columns=["ID"]).process(changes)
        assert rows(Keep(columns=["name"]).process(changes), "after", KEY) == [((1, "Arp"), (1,))]

    def test_place_of_the_record(self, spark: SparkSession) -> None:
        options = {"topic.field": "t", "offset.field": "o!", "static.field": "s", "static.value": "1"}
        changes = envelopes(spark, (None, (1, "Arp", "CH"), "c"))
        assert rows(Insert(options).process(changes), "after") == [((1, "Arp", "CH", "1", "shop.people", 0),)]
        with pytest.raises(DataError, match="the records have no timestamp"):
            Insert({"timestamp.field": "at"}).process(changes)
        assert TIMESTAMP not in changes.own_columns

    def test_copy_of_a_row_image_gets_no_column(self, spark: SparkSession) -> None:
        changes = envelopes(spark, ((1, "Arp", "CH"), (1, "Arp", "DE"), "u"))
        inserted = Insert({"topic.field": "t"}).process(Unwrap({"add.fields": "before"}).process(changes))
        assert rows(inserted) == [(1, "Arp", "DE", (1, "Arp", "CH"), "shop.people")]

    def test_headers_of_the_record(self, spark: SparkSession) -> None:
        """The first header of a name counts, as in Debezium; a record without it has null."""
        from pyspark.sql import functions as F

        header = F.struct(F.lit("trace").alias("key"), F.lit(b"t1").alias("value"))
        other = F.struct(F.lit("trace").alias("key"), F.lit(b"t2").alias("value"))
        changes = envelopes(spark, (None, (1, "Arp", "CH"), "c"))
        changes = replace(changes, frame=changes.frame.withColumn(HEADERS, F.array(header, other)))
        insert = Insert(headers=["trace", "none"], fields=["trace_id", "none"])
        assert rows(insert.process(changes), "after") == [((1, "Arp", "CH", "t1", None),)]
        with pytest.raises(DataError, match="the records have no headers for the column 'trace_id'"):
            insert.process(envelopes(spark, (None, (1, "Arp", "CH"), "c")))

    def test_local_times(self, spark: SparkSession) -> None:
        """The documented counterpart of TimezoneConverter keeps the type of a local time."""
        changes = flat(spark, "id int, at timestamp_ntz", (1, dt.datetime.fromisoformat("2026-07-01T10:00")), (2, None))
        text = "convert_timezone('UTC', 'Europe/Zurich', at)"
        result = Compute(columns={"at": text}).process(changes)
        assert rows(result, "at") == [(dt.datetime.fromisoformat("2026-07-01T12:00"),), (None,)]
        assert result.frame.schema["at"].dataType.simpleString() == "timestamp_ntz"

    def test_masks_that_keep_the_type(self, spark: SparkSession) -> None:
        changes = flat(
            spark, "id int, size int, name string, tags array<string>", (1, 7, "Arp", ["x"]), (2, None, None, None)
        )
        empty = Mask(columns={name: {"empty": True} for name in ("size", "name", "tags")}).process(changes)
        assert rows(empty) == [(1, 0, "", []), (2, None, None, None)]
        replaced = Mask(columns={"size": {"replacement": "-1", "keep_type": True}}).process(changes)
        assert rows(replaced, "size") == [(-1,), (None,)]
        assert replaced.frame.schema["size"].dataType.simpleString() == "int"

    def test_replacement_that_is_no_value_of_the_type(self, spark: SparkSession) -> None:
        changes = flat(spark, "id int, size int, data binary", (1, 2, b""))
        for rule in ({"size": {"replacement": "x", "keep_type": True}}, {"data": {"empty": True}}):
            with pytest.raises(DataError, match="there is no such"):
                Mask(columns=rule).process(changes)


class TestTimestamp:
    INSTANT = dt.datetime(2023, 11, 14, 22, 13, 20)  # noqa: DTZ001 - a wall clock time

    @pytest.mark.parametrize(
        ("kind", "value", "options", "expected"),
        [
            ("string", "14.11.2023 22:13", {"target.type": "unix", "format": "dd.MM.yyyy HH:mm"}, 1_699_999_980_000),
            (
                "string",
                "2023-11-15 00:13:20 +02:00",
                {"target.type": "unix", "format": "yyyy-MM-dd HH:mm:ss XXX", "unix.precision": "seconds"},
                1_700_000_000,
            ),
            ("bigint", 1_700_000_000_000, {"target.type": "Date"}, dt.date(2023, 11, 14)),
            ("bigint", -1, {"target.type": "Date"}, dt.date(1969, 12, 31)),
            ("bigint", 1_700_000_000_123_456_789, {"target.type": "Time", "unix.precision": "nanoseconds"}, 80_000_123),
            ("int", 1_700_000_000, {"target.type": "unix", "unix.precision": "seconds"}, 1_700_000_000),
            ("date", dt.date(2023, 11, 14), {"target.type": "string", "format": "yyyy/MM/dd HH"}, "2023/11/14 00"),
            (
                "timestamp_ntz",
                INSTANT,
                {"target.type": "unix", "unix.precision": "microseconds"},
                1_700_000_000_000_000,
            ),
        ],
    )
    @pytest.mark.parametrize("zone", nightly_after(1, ["America/New_York", "UTC"]))
    def test_conversion_in_utc(
        self, spark: SparkSession, kind: str, value: Any, options: dict[str, Any], expected: Any, zone: str
    ) -> None:
        session = spark.newSession()
        session.conf.set("spark.sql.session.timeZone", zone)
        frame: DataFrame = session.createDataFrame([(value,)], f"at {kind}")
        assert Timestamp({"field": "at", **options})(frame).first() == (expected,)

    def test_text_in_another_format_is_a_dead_letter(self, spark: SparkSession) -> None:
        changes = flat(spark, "id int, at string", (1, "2023"), (2, "yesterday"), (3, "+999999999"), (4, ""), (5, None))
        options = {"field": "at", "target.type": "Date", "format": "yyyy"}
        reject = (None, "untransformable")
        assert rows(Timestamp(options).process(changes), "at", ERROR) == [
            (dt.date(2023, 1, 1), None),
            *(reject, reject, reject),
            (None, None),
        ]

    @pytest.mark.parametrize(
        ("kind", "values", "options"),
        [
            # PostgreSQL's infinity in microseconds, read as milliseconds.
            (
                "bigint",
                {9223372036825200000: None, 9223372036825200: None, -(2**63): None, -1: -1},
                {"unix.precision": "milliseconds"},
            ),
            ("bigint", {9223372036855: None, 1_700_000_000: 1_700_000_000}, {"unix.precision": "seconds"}),
            (
                "date",
                {dt.date(9999, 12, 31): None, dt.date(2020, 1, 1): 1_577_836_800 * 10**9},
                {"unix.precision": "nanoseconds"},
            ),
        ],
    )
    def test_number_out_of_range_is_a_dead_letter(
        self, spark: SparkSession, kind: str, values: dict[Any, Any], options: dict[str, str]
    ) -> None:
        changes = flat(spark, f"id int, at {kind}", *enumerate(values))
        result = Timestamp({"field": "at", "target.type": "unix", **options}).process(changes)
        expected = [(value, "untransformable" if value is None else None) for value in values.values()]
        assert rows(result, "at", ERROR) == expected

    def test_hour_that_the_time_zone_lacks(self, spark: SparkSession) -> None:
        session = spark.newSession()
        session.conf.set("spark.sql.session.timeZone", "Europe/Zurich")
        options = {"field": "at", "target.type": "string", "format": "yyyy-MM-dd 'at' HH:mm:ss, XXX \"E\""}
        frame = make_frame(session, "at bigint", [{"at": 1774751400000}, {"at": None}])
        found = [row.at for row in Timestamp(options)(frame).collect()]
        assert found == ['2026-03-29 at 02:30:00, Z "Sun"', None]

    def test_pattern_that_spark_rejects_is_found_by_check(self, spark: SparkSession) -> None:
        with pytest.raises(ConfigError, match="`format` 'yyyy#': "):
            Timestamp({"field": "at", "target.type": "Date", "format": "yyyy#"}).check(spark)
        options = {"field": "at", "target.type": "Date", "format": "E, d MMM yyyy"}
        with pytest.raises(DataError, match="Spark reads no strings with the letter 'E'"):
            Timestamp(options).process(flat(spark, "id int, at string", (1, "x")))

    def test_text_without_a_format(self, spark: SparkSession) -> None:
        with pytest.raises(DataError, match="set `format`"):
            Timestamp({"field": "at", "target.type": "Date"}).process(flat(spark, "id int, at string", (1, "x")))


class TestUnwrapHeaders:
    def test_added_headers_become_columns(self, spark: SparkSession) -> None:
        changes = envelopes(spark, (None, (1, "Arp", "CH"), "c"))
        unwrap = Unwrap({"add.fields": "op", "add.headers": "op,op:what", "add.headers.prefix": "__"})
        assert unwrap.process(changes).event_columns == ["id", "name", "country", "__op", "__what"]

    @pytest.mark.parametrize("listed", ['["name", "id"]', '{"schema": {}, "payload": ["name", "id"]}'])
    def test_columns_listed_in_a_header_are_null(self, spark: SparkSession, listed: str) -> None:
        from pyspark.sql import functions as F

        changes = envelopes(spark, (None, (1, "Arp", "CH"), "c"), (None, (2, "Höch", "DE"), "c"))
        header = F.struct(F.lit("drop").alias("key"), F.lit(listed).cast("binary").alias("value"))
        headers = F.when(F.col(OFFSET) == 0, F.array(header)).otherwise(
            F.array().cast("array<struct<key:string,value:binary>>")
        )
        changes = Changes(changes.frame.withColumn(HEADERS, headers), envelope=True)
        result = Unwrap({"drop.fields.header.name": "drop"}).process(changes)
        assert rows(result) == [(1, None, "CH"), (2, "Höch", "DE")]
