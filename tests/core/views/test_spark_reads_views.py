"""SQL that headrace prints for views: Spark accepts it, and computes what DuckDB computes in the random histories."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.support.view_shapes import SHAPES, SHOP
from tests.support.view_world import Row, ViewWorld, build_statements, name_relations

from headrace.views.view_dialect import parse_query, print_sql
from headrace.views.view_query import ViewQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROW = r"""
SELECT 5 AS i, CAST(NULL AS INT) AS z, 2.5D AS d, 1.25BD AS n, 'Ab c' AS t, true AS b, DATE'2024-02-29' AS da,
  TIMESTAMP'2024-02-29 13:14:15.678' AS ts, array(3, 1, 2) AS arr, map('k', 1) AS m,
  named_struct('a', named_struct('c', 3, 'd', array(named_struct('e', 4)))) AS s, '{"a": [1, 2]}' AS js
"""
#: Expressions that sqlglot changes in its own dialects, or that have a syntax of their own.
EXPRESSIONS = r"""
date_sub(da, 3) | datediff(da, '2024-01-01') | months_between(ts, da) | trunc(da, 'MM') | date_format(ts, 'yyyy HH')
to_date('29/02/2024', 'dd/MM/yyyy') | to_timestamp('2024 02', 'yyyy MM') | unix_timestamp(ts) | extract(HOUR FROM ts)
date_part('day', ts) | window(ts, '1 hour').start | ts - INTERVAL 1 DAY 2 HOURS | timestampadd(HOUR, 2, ts)
da + INTERVAL '1-2' YEAR TO MONTH | CAST('x' AS INT) | TRY_CAST('7' AS INT) | CAST(n AS DECIMAL(20, 4)) | i / 2 | i DIV 2
pmod(-7, 3) | - -i | i & 3 | i <=> z | NOT i <=> z | i IS DISTINCT FROM z | i == 5 | !b | i NOT IN (1, 2) | t ILIKE 'a%'
t RLIKE r'^A.*\s' | t LIKE ANY ('x%', 'A%') | t || '-' || i | concat(t, z) | nvl2(z, i, 9) | CASE i WHEN 5 THEN 'a' END
substring(t FROM 2 FOR 2) | substr(t, -2) | trim(LEADING FROM '  x') | rpad(t, 10) | position('b' IN t) | locate('b', t, 1)
split(t, ' ')[0] | 1.5D | 3L | 'it\'s' | 'a' 'b' | "dq 'x'" | '\u0041\n\t\\' | arr[1] | array(1, 2)[0] | element_at(m, 'k')
m['k'] | s.a.d[0].e | transform(arr, (x, k) -> x * k) | aggregate(arr, 0, (a, x) -> a + x) | struct(i AS q, t).q | hash(i, t)
from_json(js, 'a ARRAY<INT>').a[1] | overlay(t PLACING 'x' FROM 1 FOR 1) | lag(i, 1, 0) OVER (PARTITION BY t ORDER BY i)
first(z, true) OVER (PARTITION BY t ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) | decode(i, 5, 'five', 'other')
"""
#: Shapes with joins, nulls and subqueries that the engines plan differently.
SHAPES_IN_BOTH = (
    *("anti_join", "except", "exists_over_a_left_join", "full_join_of_totals", "inner_and_right_join", "common_tables"),
    *(
        "nested_subqueries",
        "not_in_pairs",
        "not_in_star",
        "not_in_subquery",
        "pairs_not_in_star",
        "rank_of_totals",
        "subquery_in_having",
    ),
    *("two_window_functions", "window_over_full_join"),
)


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Iterator[dict[str, list[Row]]]:
    """Return rows of relations that Spark has as views: stored rows, changed rows, and both."""
    random, made = Random(7), {}
    for table, columns in SHOP.items():
        stored, queue, wide = (name_relations(suffix)[table] for suffix in ("_now", "_queue", "_wide"))
        for name, count in ((stored, 6), (queue, 3)):
            made[name] = [(key, *random.choices([None, 0, 1, 2], k=len(columns) - 1)) for key in range(count)]
            frame = spark.createDataFrame(made[name], ", ".join(f"{column} INT" for column in columns))
            frame.createOrReplaceTempView(name)
        spark.sql(f"SELECT * FROM {stored} UNION ALL SELECT * FROM {queue}").createOrReplaceTempView(wide)
    yield made
    for suffix in ("_now", "_queue", "_wide"):
        for name in name_relations(suffix).values():
            spark.catalog.dropTempView(name)


def test_printed_expressions_have_the_same_values(spark: SparkSession) -> None:
    expressions = [part.strip() for part in EXPRESSIONS.replace("\n", " | ").split(" | ") if part.strip()]
    columns = ", ".join(f"{expression} AS x{number}" for number, expression in enumerate(expressions))
    sql = f"SELECT {columns} FROM ({ROW})"
    (expected,), (row,) = spark.sql(sql).collect(), spark.sql(print_sql(parse_query(sql))).collect()
    assert dict(zip(expressions, row, strict=True)) == dict(zip(expressions, expected, strict=True))


def test_spark_accepts_touched_keys_of_each_shape(spark: SparkSession, tables: dict[str, list[Row]]) -> None:
    wide, queues = name_relations("_wide"), name_relations("_queue")
    for sql, key in SHAPES.values():
        query = ViewQuery.parse(sql, key)
        for table in query.tables:
            assert spark.sql(query.touched_keys_sql(table, wide, queues[table])).columns == list(key)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES_IN_BOTH)
def test_spark_computes_the_keys_and_rows_of_duckdb(
    spark: SparkSession, tables: dict[str, list[Row]], shape: str
) -> None:
    query, statements, world = ViewQuery.parse(*SHAPES[shape]), build_statements(shape), ViewWorld(shape)
    stored, wide, queues = (name_relations(suffix) for suffix in ("_now", "_wide", "_queue"))
    for table in query.tables:
        for suffix in ("_now", "_queue"):
            world._load(table, suffix, tables[name_relations(suffix)[table]])
    for table in query.tables:
        touched = spark.sql(query.touched_keys_sql(table, wide, queues[table]))
        keys = set(world._run(statements.touched_keys[table]))
        assert {tuple(row) for row in touched.collect()} == keys
        touched.createOrReplaceTempView("touched")
        rows = spark.sql(query.touched_rows_sql(stored, "touched"))
        assert sorted(map(repr, map(tuple, rows.collect()))) == sorted(map(repr, world._compute_touched(keys)))
    spark.catalog.dropTempView("touched")
