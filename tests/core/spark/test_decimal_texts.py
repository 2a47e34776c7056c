"""Queries of views: a text with an extreme number is no DECIMAL, and a batch ends."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from headrace import ConfigError
from headrace.spark.decimal_texts import limit_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: Query over the relation t → its rows. The texts of t are 1.255 and 1e-400000000.
QUERIES: dict[str, list[tuple[Any, ...]]] = {
    "SELECT id, CAST(s AS DECIMAL(10,2)) FROM t": [(1, "1.26"), (2, "None")],
    "SELECT id, try_cast( trim(s) AS dec(10,2) ) x FROM t WHERE CAST(s AS numeric(10,2)) > 1": [(1, "1.26")],
    "WITH w AS (SELECT id, decimal(s) AS x FROM t) SELECT x, max(id) FROM w GROUP BY x": [("1", 1), ("None", 2)],
    "SELECT CAST(s AS DECIMAL(5,1)), count(*) FROM t GROUP BY cast(s AS DECIMAL(5,1)) HAVING count(*) = 1 ORDER BY 1": [
        ("1.3", 1),
        ("None", 1),
    ],
    "SELECT (SELECT max(CAST(s AS DECIMAL(9,3))) FROM t) + CAST(n AS DECIMAL(9,3)), n FROM t WHERE id = 1": [
        ("3.755", 2.5)
    ],
    "SELECT id FROM t WHERE id IN (SELECT id FROM t WHERE CAST(s AS DECIMAL(9)) = 1)": [(1,)],
    # A number and a truth value have no exponents, and stay.
    "SELECT CAST(n AS DECIMAL(9,3)), CAST(b AS DECIMAL(9,3)) FROM t WHERE id = 1": [("2.500", "1.000")],
    "SELECT CAST(s AS DECIMAL(9,3)) FROM t UNION ALL SELECT CAST(s AS DECIMAL(9,3)) FROM (SELECT b AS s FROM t WHERE id = 1)": [
        ("1.000",),
        ("1.255",),
        ("None",),
    ],
}


@pytest.mark.parametrize("sql", QUERIES)
def test_extreme_number_in_a_text_is_null(spark: SparkSession, sql: str) -> None:
    values = "VALUES (1, '1.255', 2.5D, true), (2, '1e-400000000', 2.5D, true)"
    # The relation has a cast of its own at a place where the query may have one.
    rows = spark.sql(f"SELECT id, s, n, b, CAST(id || '' AS DECIMAL(3)) AS d FROM {values} AS v(id, s, n, b)")
    rows.createOrReplaceTempView("t")
    try:
        found = limit_query(spark, sql)
        assert found.columns == spark.sql(sql).columns
        cells = [tuple(str(v) if v is None or isinstance(v, Decimal) else v for v in row) for row in found.collect()]
        assert sorted(cells, key=repr) == sorted(QUERIES[sql], key=repr)
    finally:
        spark.catalog.dropTempView("t")


def test_refuse_a_conversion_without_a_cast(spark: SparkSession) -> None:
    """Spark converts the text itself: the SQL has no place for a limit."""
    sql = "SELECT CAST(1 AS DECIMAL), make_timestamp(2026, 1, 1, 0, 0, '1e-400000000')"
    with pytest.raises(ConfigError, match="needs a text as a DECIMAL\n  fix: write CAST"):
        limit_query(spark, sql)
