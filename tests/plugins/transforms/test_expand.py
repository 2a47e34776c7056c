"""Text columns with JSON, on static frames and in a pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.plugins.transforms.test_row_transforms import envelopes, flat, rows
from tests.plugins.transforms.test_transform_pipelines import event, pipeline_of, write_events
from tests.support.pages import find_block
from tests.support.pipelines import rows as table_rows

from headrace.errors import ConfigError, DataError
from headrace.sdk.changes import DETAIL, ERROR, Changes
from headrace.testing.transforms import TransformConformance
from headrace_transforms import Expand, Mask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

TEXT = "id int, items string"


class TestExpandKit(TransformConformance):
    plugin_class = Expand
    schema = "id int, items string, address string"
    golden = (
        ((1, '[{"sku": "pen"}]', '{"city": "Bern", "more": 1}'), (1, [{"sku": "pen"}], {"city": "Bern"})),
        ((2, None, "null"), (2, None, None)),
    )

    def config(self, folder: Path) -> dict[str, Any]:
        return {"columns": {"items": "ARRAY<STRUCT<sku: STRING>>", "address": "city STRING"}}


class TestGivenTypes:
    def expand(self, spark: SparkSession, kind: str, *texts: str | None) -> list[tuple[Any, ...]]:
        changes = flat(spark, TEXT, *[(n, text) for n, text in enumerate(texts)])
        return rows(Expand(columns={"items": kind}).process(changes), "items", ERROR, DETAIL)

    def test_text_that_is_not_one_document_is_a_dead_letter(self, spark: SparkSession) -> None:
        texts = ["no secret", "", '{"a": 1', '{"a": 1} {"a": 2}', '{"a": 1},"value":{"a": 2}', '{"a": 1}],[1']
        reason = "the column `items` is not valid JSON, or not a single JSON document"
        assert self.expand(spark, "a INT", '{"a": 1}', *texts) == [
            ((1,), None, None),
            *[(None, "untransformable", reason)] * len(texts),
        ]

    def test_value_of_another_type_is_a_dead_letter_with_its_place(self, spark: SparkSession) -> None:
        found = self.expand(spark, "a INT, b STRUCT<c: DATE>", '{"a": "secret"}', '{"b": {"c": "secret"}}', "[1]", "7")
        assert [(error, detail) for _, error, detail in found] == [
            ("untransformable", "the field `items.a` does not fit its type int"),
            ("untransformable", "the field `items.b.c` does not fit its type date"),
            ("untransformable", "the field `items` does not fit its type struct"),
            ("untransformable", "the field `items` does not fit its type struct"),
        ]

    def test_numbers_are_never_rounded_or_infinite(self, spark: SparkSession) -> None:
        """An extreme exponent would also keep Spark busy for hours."""
        texts = ['{"d": 1.255}', '{"d": 1e400000000}', '{"f": 1e400}', '{"n": 9223372036854775808}', '{"n": 1.5}']
        found = self.expand(spark, "d DECIMAL(10,2), f DOUBLE, n BIGINT", '{"d": 1.25, "f": 1e300}', *texts)
        assert str(found[0][0]["d"]) == "1.25"
        assert [error for _, error, _ in found] == [None, *["untransformable"] * len(texts)]

    def test_null_and_empty_values(self, spark: SparkSession) -> None:
        found = self.expand(spark, "ARRAY<INT>", None, "null", "[]", "[null, 1]")
        assert found == [(None, None, None), (None, None, None), ([], None, None), ([None, 1], None, None)]

    def test_row_before_the_change_may_not_fit(self, spark: SparkSession) -> None:
        changes = envelopes(spark, ((1, "bad", ""), (1, "[7]", ""), "u"), ((2, "[8]", ""), None, "d"))
        result = Expand(columns={"name": "ARRAY<INT>"}).process(changes)
        assert rows(result, "before.name", "after.name", ERROR) == [(None, [7], None), ([8], None, None)]

    def test_key_columns_and_other_types_are_refused(self, spark: SparkSession) -> None:
        changes = flat(spark, "id int, size int", (1, 2))
        with pytest.raises(DataError, match="'id' is part of the key"):
            Expand(columns=["id"]).process(changes)
        with pytest.raises(DataError, match="'size' is int, and JSON is text"):
            Expand(columns=["size"]).process(changes)
        with pytest.raises(ConfigError, match="`columns`: 'NUMMER' is not a type of Spark SQL"):
            Expand(columns={"items": "NUMMER"}).check(spark)


class TestInferredTypes:
    def test_plain_frame(self, spark: SparkSession) -> None:
        frame = spark.createDataFrame([(1, '[{"sku": "pen", "n": 2}]'), (2, '[{"price": 1.5}]'), (3, None)], TEXT)
        result = Expand(columns=["items"])(frame)
        assert result.schema["items"].dataType.simpleString() == "array<struct<n:bigint,price:double,sku:string>>"
        assert [row["items"] for row in result.orderBy("id").collect()] == [
            [(2, None, "pen")],
            [(None, 1.5, None)],
            None,
        ]

    def test_types_are_kept_and_new_fields_are_added(self, spark: SparkSession, tmp_path: Path) -> None:
        """Also in a new run: a type that a later value contradicts is not inferred again."""
        topic = "shop.public.orders"
        documented = yaml.safe_load(find_block("docs/transforms.md", "yaml", "expand: {columns: [address]}"))[
            "transforms"
        ]
        run = pipeline_of(tmp_path, [*documented])
        nothing = {"address": "null", "items": '[{"sku": "pen"}]'}
        write_events(tmp_path, topic, 0, event("c", 1, id=1, **nothing))
        run.check(spark)
        run.run(spark)
        assert table_rows(run, spark, "shop.orders", "id") == [{"id": 1, "items": [{"sku": "pen", "quantity": None}]}]
        first = event("c", 2, id=2, address='{"city": "Bern", "zip": 3000}', items="[]")
        write_events(tmp_path, topic, 1, first, event("c", 3, id=3, address="Bern 3000", items=None))
        run.run(spark)
        wider = event("c", 4, id=4, address='{"city": "Chur", "canton": "GR"}', items=None)
        contradicting = event("c", 5, id=5, address='{"city": "Chur", "zip": "secret"}', items=None)
        write_events(tmp_path, topic, 3, wider, contradicting)
        pipeline_of(tmp_path, documented).run(spark)
        orders = table_rows(run, spark, "shop.orders", "id")
        assert {row["id"]: row["address"] for row in orders} == {
            1: None,
            2: {"city": "Bern", "zip": 3000, "canton": None},
            4: {"city": "Chur", "zip": None, "canton": "GR"},
        }
        dead = run.read("dead_letters", spark=spark).orderBy("offset").collect()
        assert [row["error"] for row in dead] == [
            "the column `address` is not valid JSON, or not a single JSON document",
            "the field `address.zip` does not fit its type bigint",
        ]

    @pytest.mark.parametrize("types", [{"items": "sku STRING"}, ["items"]])
    def test_copies_of_row_images(self, spark: SparkSession, types: Any) -> None:
        pen, cap = '{"sku": "pen"}', '{"sku": "cap"}'
        frame = spark.sql(
            f"SELECT * FROM VALUES (1, '{pen}', named_struct('id', 1, 'items', '{cap}')), (2, '{pen}', NULL) t(id, items, old)"
        )
        changes = Changes(frame, envelope=False, origins={"old": ("before",)})
        result = Mask(columns={"items.sku": {"characters": 2}}).apply(Expand(columns=types).apply(changes))
        first, second = (row.asDict(recursive=True) for row in result.frame.orderBy("id").collect())
        assert first == {"id": 1, "items": {"sku": "**"}, "old": {"id": 1, "items": {"sku": "**"}}}
        assert second["old"] is None

    @pytest.mark.nightly
    def test_values_of_another_kind_are_dead_letters(self, spark: SparkSession, tmp_path: Path) -> None:
        """Before the first JSON value, and beside new fields, which the other records keep."""
        topic, run = "shop.public.orders", pipeline_of(tmp_path, [{"unwrap": {}}, {"expand": {"columns": ["address"]}}])
        malformed = [event("c", 1, id=1, address="N/A"), event("c", 2, id=2, address='{"zip": 3')]
        write_events(tmp_path, topic, 0, *malformed, event("c", 3, id=3, address=None))
        run.run(spark)
        write_events(tmp_path, topic, 3, event("c", 4, id=4, address='{"zip": 3000}'))
        run.run(spark)
        wider = event("c", 5, id=5, address='{"zip": 3000, "old": [{"zip": 1}]}')
        write_events(tmp_path, topic, 4, wider, *[event("c", 5 + n, id=5 + n, address=f"{n}") for n in (1, 2)])
        run.run(spark)
        nested = event("c", 8, id=8, address='{"zip": 3000, "old": [{"zip": 2, "city": "Bern"}]}')
        write_events(tmp_path, topic, 7, nested, event("c", 9, id=9, address='{"old": [7]}'))
        run.run(spark)
        assert {row["id"]: row["address"] for row in table_rows(run, spark, "shop.orders", "id")} == {
            3: None,
            4: {"zip": 3000, "old": None},
            5: {"zip": 3000, "old": [{"zip": 1, "city": None}]},
            8: {"zip": 3000, "old": [{"zip": 2, "city": "Bern"}]},
        }
        dead = run.read("dead_letters", spark=spark).orderBy("offset").collect()
        assert [row["offset"] for row in dead] == [0, 1, 5, 6, 8]
        assert {row["reason"] for row in dead} == {"untransformable"}

    @pytest.mark.nightly
    def test_fields_are_unknown_until_the_first_batch(self, spark: SparkSession, tmp_path: Path) -> None:
        write_events(tmp_path, "shop.public.orders", 0, event("c", 1, id=1, address='{"city": "Bern", "zip": 3000}'))
        later: list[Any] = [{"compute": {"columns": {"place": "address.city"}}}, {"flatten": {"delimiter": "_"}}]
        transforms: list[Any] = [{"unwrap": {}}, {"expand": {"columns": ["address"]}}, *later]
        masks = {"address_city": {"characters": 2}, "place": {"nullify": True}}
        run = pipeline_of(tmp_path, [*transforms, {"mask": {"columns": {**masks, "address_zipp": {"nullify": True}}}}])
        with pytest.raises(ConfigError, match="no table has the column 'address_zipp'"):
            run.run(spark)
        run = pipeline_of(tmp_path, [*transforms, {"mask": {"columns": masks}}])
        run.run(spark)
        assert table_rows(run, spark, "shop.orders", "id") == [
            {"id": 1, "address_city": "**", "address_zip": 3000, "place": None}
        ]
