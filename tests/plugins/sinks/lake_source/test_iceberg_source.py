"""Iceberg tables as a source: copies in other tables equal the source after each batch."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import pipelines
from tests.support.lake_source import SilverCatalog, copy_tables, read_copy
from tests.support.pages import find_block

from headrace import ConfigError, HeadraceError, Pipeline
from headrace_sinks.iceberg import IcebergSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
#: Values of one row.
ONE = "(1, 'one', timestamp '2026-02-28 12:30:00.123456', map('a', 1, 'b', null))"


@pytest.fixture
def silver(spark: SparkSession, tmp_path: Path) -> SilverCatalog:
    return SilverCatalog(spark, tmp_path)


@pytest.mark.parametrize("mode", ["merge-on-read", pytest.param("copy-on-write", marks=pytest.mark.nightly)])
def test_copies_equal_the_table_after_each_batch(
    silver: SilverCatalog, spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    silver.create(mode=mode)
    silver.sql(f"insert into {{t}}.orders values {ONE}, (2, 'two', null, null), (3, null, null, null)")
    pipeline = silver.copy(tmp_path, *pipelines.TABLE_SINKS)

    def run() -> set[int | None]:
        """Return the number of applied rows in each sink."""
        summary = pipeline.run(spark)
        for sink in pipelines.TABLE_SINKS:
            assert read_copy(pipeline, spark, sink=sink) == silver.rows()
        return {table.applied for table in summary.tables}

    assert run() == {3}
    silver.sql(
        "insert into {t}.orders values (4, 'four', null, null)", "insert into {t}.orders values (5, null, null, null)"
    )
    assert run() == {2}
    silver.sql(
        "update {t}.orders set at = timestamp '2026-02-28 12:30:00.123457' where id = 1",
        "delete from {t}.orders where id = 2",
        "insert into {t}.orders values (2, 'again', null, map('b', 2, 'a', 1))",
        "delete from {t}.orders where id = 3",
    )
    assert run() == {3}
    silver.rewrite()
    assert run() <= {0}
    silver.sql(
        "alter table {t}.orders add column city string", "insert into {t}.orders values (6, 'six', null, null, 'Brno')"
    )
    assert run() == {1}
    silver.sql("insert overwrite {t}.orders values (7, 'seven', null, null, null)")
    assert run() == {6}
    silver.roll_back(silver.snapshots()[0])
    assert run() == {4}
    silver.sql("insert into {t}.orders values (8, 'eight', null, null, null)", "delete from {t}.orders where id = 1")
    assert run() == {2}
    assert run() == set()


def test_rows_without_a_key_are_appended_once_although_the_run_crashes(
    silver: SilverCatalog, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silver.create()
    silver.sql(f"insert into {{t}}.orders values {ONE}, {ONE}")
    rules = [{"source": "silver.orders", "target": "gold.orders"}]
    sinks = [{"iceberg": {"warehouse": str(tmp_path / "gold"), "mode": "append"}}]
    pipeline = silver.copy(tmp_path, tables=rules, sinks=sinks)
    write = IcebergSink.write

    def crash(*arguments: object) -> None:
        write(*arguments)  # type: ignore[arg-type]
        raise RuntimeError("the machine stops")

    with monkeypatch.context() as patch:
        patch.setattr(IcebergSink, "write", crash)
        with pytest.raises(HeadraceError, match="the machine stops"):
            pipeline.run(spark)
    silver.sql(f"insert into {{t}}.orders values {ONE}")
    pipeline.run(spark)
    assert read_copy(pipeline, spark) == silver.rows()
    assert len(silver.rows()) == 3

    rewritten = silver.copy(
        tmp_path / "upsert", tables=rules, sinks=[{"iceberg": {"warehouse": "gold", "mode": "upsert"}}]
    )
    with pytest.raises(HeadraceError, match=r"key") as error:
        rewritten.run(spark)
    assert error.value.fix


def test_expired_version_sets_the_table_aside_until_it_is_reloaded(
    silver: SilverCatalog, spark: SparkSession, tmp_path: Path
) -> None:
    silver.create()
    silver.sql("insert into {t}.orders values (1, 'one', null, null), (2, 'two', null, null), (3, 'three', null, null)")
    pipeline = silver.copy(tmp_path)
    pipeline.run(spark)
    first = silver.snapshots()[-1]
    silver.rewrite()
    silver.expire()
    silver.sql("insert into {t}.orders values (4, 'four', null, null)")
    pipeline.run(spark)  # The rewrite has the rows of the version that expired.
    assert read_copy(pipeline, spark) == silver.rows()
    second = silver.snapshots()[-1]
    assert first != second
    silver.sql("delete from {t}.orders where id = 1", "update {t}.orders set name = 'zwei' where id = 2")
    silver.expire()
    with pytest.raises(HeadraceError) as error:
        pipeline.run(spark)
    assert f"the version {second} has expired" in str(error.value)
    assert "on.expired.version: reload" in str(error.value.fix)
    assert "silver.orders" in str(error.value.where)
    reloading = silver.copy(tmp_path, options={"on.expired.version": "reload"})
    reloading.run(spark)
    assert read_copy(reloading, spark) == silver.rows()
    assert [row["id"] for row in silver.rows()] == [2, 3, 4]


def test_batches_have_a_limited_number_of_versions(silver: SilverCatalog, spark: SparkSession, tmp_path: Path) -> None:
    silver.create()
    pipeline = silver.copy(tmp_path, options={"batch.max.versions": 1})
    assert pipeline.run(spark).batches == 0
    silver.sql("insert into {t}.orders values (1, 'one', null, null)")
    pipeline.run(spark)
    silver.sql(*[f"insert into {{t}}.orders values ({number}, null, null, null)" for number in (2, 3, 4)])
    assert pipeline.run(spark).batches == 3
    assert read_copy(pipeline, spark) == silver.rows()
    # The rows that the table had have the renamed column, too.
    silver.sql(
        "alter table {t}.orders rename column name to title", "insert into {t}.orders values (5, 'five', null, null)"
    )
    pipeline.run(spark)
    titles = {row["id"]: row["title"] for row in read_copy(pipeline, spark)}
    assert titles == {row["id"]: row["title"] for row in silver.rows()}
    assert (titles[1], titles[5]) == ("one", "five")


def test_table_of_headrace_is_copied_without_its_own_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Bronze to silver by one pipeline, silver to gold by another, with a second catalog."""
    catalog = SilverCatalog(spark, tmp_path)
    catalog.create("events")
    catalog.sql("insert into {t}.events values (1, 'one', null, null), (2, 'two', null, null)")
    rules = [{"source": "silver.events", "key": ["id"], "target": "silver.orders"}]
    first = catalog.copy(tmp_path / "first", tables=rules, name="first")
    lake = tmp_path / "first" / "lake" / "iceberg"
    second = copy_tables(tmp_path / "second", {"iceberg": {"warehouse": str(lake), "tables": "silver.orders"}})
    for statement in ("delete from {t}.events where id = 1", "update {t}.events set name = 'zwei' where id = 2"):
        first.run(spark)
        second.run(spark)
        assert read_copy(second, spark) == catalog.rows("events")
        catalog.sql(statement)
    changes = second.read("gold.orders", spark=spark, own_columns=True)
    assert sorted(changes.columns) == ["_headrace_position", "at", "id", "name", "tags"]


def test_wrong_options_are_errors_with_a_fix(silver: SilverCatalog, spark: SparkSession, tmp_path: Path) -> None:
    silver.create()
    silver.sql("insert into {t}.orders values (1, 'one', null, null)")

    def fail(**changed: object) -> str:
        with pytest.raises(HeadraceError) as error:
            silver.copy(tmp_path, **changed).run(spark)
        assert error.value.fix
        return str(error.value)

    assert "there is no table 'silver.order'" in (text := fail(options={"tables": ["silver.order"]}))
    assert "did you mean 'silver.orders'" in text
    assert "no table matches 'bronze.*'" in fail(options={"tables": ["bronze.*"]})
    assert "`exclude` leaves no table" in fail(options={"exclude": ["silver.*"]})
    same = {
        "sinks": [{"iceberg": {"warehouse": str(silver.folder)}}],
        "tables": [{"source": "silver.orders", "key": ["id"]}],
    }
    for tables in (["silver.orders"], ["silver.*"]):
        assert "each row would return without an end" in fail(options={"tables": tables}, **same)
    assert "no such key column: 'nr'" in fail(
        tables=[{"source": "silver.orders", "key": ["nr"], "target": "gold.orders"}]
    )


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_histories(silver: SilverCatalog, spark: SparkSession, tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    silver.create(mode=choose.choice(["merge-on-read", "copy-on-write"]))
    silver.sql("insert into {t}.orders values (0, 'zero', null, null)")
    pipeline = silver.copy(tmp_path)
    steps = (
        "insert into {t}.orders values (ID, 'new', null, map('n', N))",
        "update {t}.orders set name = concat(coalesce(name, ''), 'N') where id % 3 = N % 3",
        "delete from {t}.orders where id % 7 = N",
        "insert overwrite {t}.orders select * from {t}.orders",
        "rewrite",
    )
    for batch in range(8):
        for number in range(choose.randint(0, 3)):
            step = choose.choice(steps)
            if step == "rewrite":
                silver.rewrite()
            else:
                silver.sql(step.replace("ID", str(10 * batch + number + 1)).replace("N", str(choose.randint(0, 6))))
        pipeline.run(spark)
        assert read_copy(pipeline, spark) == silver.rows()


def test_pipeline_of_the_page_copies_tables_to_two_formats(spark: SparkSession, tmp_path: Path) -> None:
    catalog = SilverCatalog(spark, tmp_path)
    catalog.sql(
        "create table {c}.shop.orders (id int, name string) using iceberg",
        "create table {c}.shop.dim_city (id int, name string) using iceberg",
        "insert into {c}.shop.orders values (1, 'one'), (2, 'two')",
        "insert into {c}.shop.dim_city values (1, 'Brno')",
    )
    text = find_block("docs/lake-tables.md", "yaml", "name: gold")
    text = text.replace("lake/silver", str(catalog.folder)).replace("lake/", f"{tmp_path}/lake/")
    if not pipelines.HAS_HUDI:
        text = text.replace("hudi:", "delta:")
    (tmp_path / "pipeline.yaml").write_text(text, encoding="utf-8")
    pipeline = Pipeline.from_file(tmp_path / "pipeline.yaml")
    pipeline.run(spark)
    catalog.sql("delete from {c}.shop.orders where id = 1")
    pipeline.run(spark)
    for sink in (None, "archive"):
        assert read_copy(pipeline, spark, sink=sink) == [{"id": 2, "name": "two"}]
        assert pipelines.rows(pipeline, spark, "gold.shop.dim_city", key="id", sink=sink) == [{"id": 1, "name": "Brno"}]


def test_place_of_the_tables_is_required() -> None:
    with pytest.raises(ConfigError, match="set either `warehouse:`"):
        pipelines.pipeline(Path("x"), source={"iceberg": {"tables": ["silver.orders"]}})
